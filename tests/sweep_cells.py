"""For the tests of sweeps: cells to compute, a driver to kill and a cluster to use."""

import math
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import batchlaw
from batchlaw._base import checks
from batchlaw.jobs.store import DONE, Outcome
from paths import TESTS

SOURCE = Path(batchlaw.__file__).parents[1]
# Long enough for any process to end, even on a slow machine.
TIMEOUT_S = 300.0

# Runs cells that log themselves, without NumPy and Numba so that it starts fast. Arguments: the
# package's folder, the file of results, the number of cells.
DRIVER = """
import sys, types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
package = types.ModuleType("batchlaw")
package.__path__ = [sys.argv[1]]
sys.modules["batchlaw"] = package
from batchlaw.jobs import execution
from batchlaw.jobs.store import Store
from batchlaw.jobs.workers import Workers
import logged_cells

execution.TASK_TARGET_S = 0.004
print("start", flush=True)
with Store(sys.argv[2]) as store, ThreadPoolExecutor(2) as pool:
    cells = logged_cells.cells(int(sys.argv[3]))
    execution.execute(store, cells, logged_cells.logged, Workers(pool, lambda: 2),
                    advance=lambda n: print(n, flush=True))
"""
LOGGED = """
import os, time

def cells(count):
    return ({"k": k, "rate": k / 7} for k in range(count))

def logged(cell):
    time.sleep(0.0005)
    line = os.open(os.environ["CELL_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(line, b"%d\\n" % cell["k"])
    os.close(line)
    if cell["k"] % 50 == 7:
        raise ValueError("seven")
    return {"total": cell["rate"] ** 0.5, "total_se": 1 / (3 + cell["k"])}
"""


def root(cell):
    """A cheap cell; a negative ``k`` is refused."""
    return {"root": math.sqrt(checks.real("k", cell["k"], at_least=0.0))}


def put(store, cell, result, seconds=0.0, status=DONE):
    """Store one row."""
    store.put_many([Outcome(cell, result, status, seconds)])


def dies_once(cell):
    """A cell with a marker kills its worker the first time it is computed."""
    if "marker" in cell and not Path(cell["marker"]).exists():
        Path(cell["marker"]).write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    return root(cell)


def environment(**variables):
    path = os.pathsep.join([str(SOURCE), str(TESTS)])
    return {**os.environ, "PYTHONPATH": path, **variables}


def command(*arguments, before="", **options):
    """``batchlaw sweep`` in its own process, after running the code ``before``."""
    code = (
        f"import sys; {before}\nfrom batchlaw.faces.cli import main\nif __name__ == '__main__':\n"
    )
    code += "    sys.exit(main(['sweep', *sys.argv[1:]]))"
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **{"env": environment(), **options},
    )


def finished(process):
    """Output, errors and exit code of a process, once it ends by itself."""
    try:
        out, error = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
        process.wait()
    return out, error, process.returncode


def until(condition, what):
    """Wait until the condition holds; fail after ``TIMEOUT_S``."""
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end, f"timed out waiting for {what}"
        time.sleep(0.02)


def children(pid):
    """Ids of the processes that any thread of a process started."""
    ids = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            ids += [int(word) for word in path.read_text().split()]
    return ids


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def cluster(folder, workers):
    """The address of a Dask scheduler with workers, each in its own process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    port = address.rpartition(":")[2]
    scheduler = ["scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"]
    worker = ["worker", address, "--no-nanny", "--nthreads", "1", "--no-dashboard"]
    worker += ["--host", "127.0.0.1", "--local-directory", str(folder)]
    with ExitStack() as stack:
        for arguments in (scheduler, *[worker] * workers):
            stack.enter_context(_running([sys.executable, "-m", "dask", *arguments]))
        yield address


@contextmanager
def _running(arguments):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    # More threads than a cell may use: the sweep itself must limit them.
    variables = environment(OPENBLAS_NUM_THREADS="2")
    process = subprocess.Popen(arguments, env=variables, **quiet)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
