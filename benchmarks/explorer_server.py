"""The explorer's server in a process of its own, and what it takes; for the other scripts."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class Server(NamedTuple):
    address: str
    pid: int

    def megabytes(self) -> float:
        """Memory that the process holds now (Linux)."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) / 1024


@contextmanager
def explorer() -> Iterator[Server]:
    """``batchlaw explore`` on a free port of loopback, ended on leaving."""
    command = [sys.executable, "-m", "batchlaw", "explore", "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield Server(process.stdout.readline().split()[0], process.pid)
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()
