"""Cells to compute, a driver to kill and a cluster to use, for the tests of sweeps."""

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
# Everything ends by then, however slow the machine.
LIMIT = 300.0

# Runs cells that log themselves, without NumPy and Numba: a start takes little. Arguments: the
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

execution.TASK = 0.004
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
    """A light cell; one below zero is refused."""
    return {"root": math.sqrt(checks.real("k", cell["k"], at_least=0.0))}


def put(store, cell, result, seconds=0.0, status=DONE):
    """One row."""
    store.put_many([Outcome(cell, result, status, seconds)])


def dies_once(cell):
    """The cell with a marker kills its worker the first time it is computed."""
    if "marker" in cell and not Path(cell["marker"]).exists():
        Path(cell["marker"]).write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    return root(cell)


def environment(**more):
    path = os.pathsep.join([str(SOURCE), str(TESTS)])
    return {**os.environ, "PYTHONPATH": path, **more}


def command(*arguments, before="", **options):
    """``batchlaw sweep`` in a process of its own, after some code."""
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
    """Output, errors and exit code of a process that ends by itself."""
    try:
        out, error = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
        process.wait()
    return out, error, process.returncode


def until(condition, what):
    """Look again and again until it holds; fail when it takes too long."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(0.02)


def children(pid):
    """Processes that any thread of a process started."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            found += [int(word) for word in path.read_text().split()]
    return found


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def cluster(folder, workers):
    """The address of a Dask scheduler with workers, all of them processes of their own."""
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
    # More threads than a cell may have: the sweep itself must see to that.
    variables = environment(OPENBLAS_NUM_THREADS="2")
    process = subprocess.Popen(arguments, env=variables, **quiet)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
