"""Kill a command after some of its cells, and run it again."""

import os
import subprocess
import sys

from batchlaw.jobs.store import Store

# Workers import this file too, so that the prelude's changes reach them.
DRIVER = """
import os
import signal
import sys

from batchlaw.faces.cli import main
from batchlaw.jobs.store import Store

{prelude}

put = Store.put_many


def put_and_die(store, outcomes):
    put(store, outcomes)
    if len(store) == int(os.environ["LAST_ROW"]):
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    Store.put_many = put_and_die
    sys.exit(main(sys.argv[1:]))
"""


def run_command(folder, arguments, *, last_row=0, prelude=""):
    """Run a command in its own process, which kills itself once ``last_row`` rows are stored."""
    folder.mkdir(exist_ok=True)
    script = folder.parent / "driver.py"
    script.write_text(DRIVER.format(prelude=prelude))
    return subprocess.run(
        [sys.executable, str(script), *arguments, "--output-dir", str(folder)],
        env=os.environ | {"LAST_ROW": str(last_row)},
        capture_output=True,
        text=True,
        timeout=300,
    )


def rows(file):
    with Store(file) as store:
        return {row.key: row for row in store.rows()}
