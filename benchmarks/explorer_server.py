"""The explorer's server in its own process, and its memory; used by the other scripts."""

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
        """Resident memory of the process (Linux)."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) / 1024


@contextmanager
def explorer() -> Iterator[Server]:
    """Run ``batchlaw explore`` on a free loopback port, and stop it on exit."""
    command = [sys.executable, "-m", "batchlaw", "explore", "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield Server(process.stdout.readline().split()[0], process.pid)
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()
