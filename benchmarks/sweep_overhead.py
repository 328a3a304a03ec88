"""The overhead of a sweep per cell, and the speed-up from a second core.

.venv/bin/python benchmarks/sweep_overhead.py

Overhead: cells that compute nothing, through every kind of worker, into a store on this disk, so
that all of the time is overhead. Also: finding that a cell is already stored, exporting it, and its
size. Speed-up: the same exact cells (one pass, M = 64, 4096 steps) with one process and with two,
alternating, with processes that are already running.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from batchlaw.evidence.sweep.cell import solve
from batchlaw.evidence.sweep.tidy import export
from batchlaw.faces.cli.table import text_table
from batchlaw.jobs.dask_workers import dask_workers
from batchlaw.jobs.execution import execute
from batchlaw.jobs.store import Store
from batchlaw.jobs.workers import Workers, worker_processes, worker_threads

CELLS = 20_000
ROUNDS = 5
EXACT = 64
fresh = itertools.count()


def nothing(cell: Mapping[str, Any]) -> dict[str, float]:
    """As many numbers as a real cell gives."""
    names = ("b_eff", "total", "irreducible", "approximation", "bias", "variance")
    return dict.fromkeys(names, 0.1234567890123456 * cell["k"])


def cells(count: int) -> Iterator[dict[str, Any]]:
    for k in range(count):
        yield {"sweep": 1, "problem": "sketch", "a": 2.0, "m": 64, "steps": 64, "k": k}


def exact_cells(count: int) -> Iterator[dict[str, Any]]:
    """Cells that never repeat, so that none is already stored."""
    for _ in range(count):
        sigma = 1.0 + 1e-6 * next(fresh)
        yield {"sweep": 1, "problem": "sketch", "steps": 4096, "sigma": sigma}


def overhead(folder: Path, workers: Workers) -> float:
    """Milliseconds per cell, once the workers are running."""
    with Store(folder / f"{next(fresh)}.sqlite") as store:
        execute(store, [{"k": -k} for k in range(1, 9)], nothing, workers)
        start = time.perf_counter()
        execute(store, cells(CELLS), nothing, workers)
        return 1e3 * (time.perf_counter() - start) / CELLS


def stored(folder: Path, workers: Workers) -> list[tuple[str, str]]:
    """The cost of a cell that is already stored."""
    path = folder / "stored.sqlite"
    with Store(path) as store:
        execute(store, cells(CELLS), nothing, workers)
    with Store(path) as store:
        start = time.perf_counter()
        assert not any(True for _ in store.missing(cells(CELLS)))
        lookup = time.perf_counter() - start
        start = time.perf_counter()
        export(store, lambda: cells(CELLS), folder / "stored.csv", "")
        exported = time.perf_counter() - start
    return [
        ("found in the store", f"{1e6 * lookup / CELLS:.0f} us"),
        ("exported as CSV", f"{1e6 * exported / CELLS:.0f} us"),
        ("in the store", f"{path.stat().st_size / CELLS:.0f} bytes"),
        ("in the CSV file", f"{(folder / 'stored.csv').stat().st_size / CELLS:.0f} bytes"),
    ]


def exact_seconds(folder: Path, workers: Workers) -> float:
    with Store(folder / f"{next(fresh)}.sqlite") as store:
        start = time.perf_counter()
        tally = execute(store, exact_cells(EXACT), solve, workers)
        assert tally.done == EXACT
        return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        rows = []
        with worker_threads(1) as thread:
            rows.append(("1 thread", median(overhead(folder, thread) for _ in range(ROUNDS))))
            prices = stored(folder, thread)
        with worker_processes(1) as one, worker_processes(2) as two:
            rows.append(("1 process", median(overhead(folder, one) for _ in range(ROUNDS))))
            rows.append(("2 processes", median(overhead(folder, two) for _ in range(ROUNDS))))
            for workers in (one, two):
                exact_seconds(folder, workers)
            pairs = [(exact_seconds(folder, one), exact_seconds(folder, two)) for _ in range(9)]
        with dask_workers("local", 2) as cluster:
            rows.append(("Dask, 2 workers", median(overhead(folder, cluster) for _ in range(3))))
    lines = [(kind, f"{milliseconds:.3f} ms") for kind, milliseconds in rows]
    print(text_table(("overhead of a cell", "median"), lines))
    print()
    print(text_table(("a stored cell", ""), prices))
    ratio = median(alone / both for alone, both in pairs)
    cell_ms = 1e3 * median(alone for alone, _ in pairs) / EXACT
    print(f"\nexact cells of {cell_ms:.1f} ms: 2 processes are {ratio:.2f} times as fast as 1")


if __name__ == "__main__":
    main()
