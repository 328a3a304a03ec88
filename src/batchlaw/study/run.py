"""Cells in processes of one thread each, into the store as they finish."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from multiprocessing import connection

from batchlaw.study.cells import Cell, run_cell
from batchlaw.sweep.store import Store

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
# Cells handed out ahead of the workers, for each of them.
AHEAD = 2

# A result or None, the reason where there is none, and seconds.
Outcome = tuple[dict[str, object] | None, str, float]


@dataclass(frozen=True)
class Workers:
    """Processes that compute cells."""

    pool: ProcessPoolExecutor
    count: int


def run_cells(
    store: Store,
    cells: Iterable[Cell],
    workers: Workers,
    advance: Callable[[int], None] | None = None,
) -> int:
    """Compute the cells that the store does not have; returns how many.

    Every result is on disk before the next is waited for, and an interrupt stores what has
    finished.
    """
    todo = iter(list(store.missing(cells)))
    running: dict[Future[Outcome], Cell] = {}
    done = 0

    def keep(finished: Iterable[Future[Outcome]]) -> int:
        count = 0
        for future in finished:
            _put(store, running.pop(future), future.result())
            count += 1
        return count

    try:
        while True:
            for cell in islice(todo, AHEAD * workers.count - len(running)):
                running[workers.pool.submit(work, cell)] = cell
            if not running:
                return done
            ready = keep(wait(running, return_when=FIRST_COMPLETED).done)
            done += ready
            if advance is not None:
                advance(ready)
    except KeyboardInterrupt:
        keep([future for future in running if future.done() and not future.cancelled()])
        raise
    except BrokenProcessPool:
        raise OSError("a worker of the study died; run it again to continue") from None


@contextmanager
def worker_pool(count: int) -> Iterator[Workers]:
    """Fresh processes with one thread each.

    An error or an interrupt ends those still at work; they end with this process, too.
    """
    before = {name: os.environ.get(name) for name in THREADS}
    # Read when a process loads its libraries, which is before any code of ours runs there.
    os.environ.update(dict.fromkeys(THREADS, "1"))
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), initializer=_worker)
    try:
        yield Workers(pool, count)
        pool.shutdown()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        raise
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def work(cell: Cell) -> Outcome:
    """One cell in a worker; a run that fails is a result too, with its reason."""
    start = time.perf_counter()
    try:
        result: dict[str, object] | None = run_cell(cell)
        reason = ""
    except (ArithmeticError, RuntimeError, ValueError) as error:
        result, reason = None, " ".join(str(error).split())
    return result, reason, time.perf_counter() - start


def _put(store: Store, cell: Cell, outcome: Outcome) -> None:
    result, reason, seconds = outcome
    if result is None:
        store.put_failure(cell, reason, seconds)
    else:
        store.put(cell, result, seconds)


def _worker() -> None:
    # An interrupt at the terminal reaches the workers too; the study's own process ends them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _end_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
