"""Run cells on an executor and store the results: bounded in flight, resumable, interruptible."""

from __future__ import annotations

import signal
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from batchlaw._base.errors import InputError
from batchlaw.jobs.store import DONE, FAILED, REFUSED, Cell, Outcome, Store, cell_key
from batchlaw.jobs.workers import Workers

Compute = Callable[[Cell], dict[str, Any]]
Progress = Callable[[int], None]
# Tasks in flight per worker: one running, one queued.
TASKS_PER_WORKER = 2
# A task gets as many cells as take about this long by recent timings, up to a maximum.
TASK_TARGET_S, MAX_TASK_CELLS = 0.5, 512
# A task that runs past this, because its cells are slower than recent ones, is cut short.
TASK_LIMIT_S = 2.0


class Interrupted(KeyboardInterrupt):
    """An interrupt, raised once all running cells have finished and been stored."""


@dataclass
class Tally:
    """Cells computed in one run, by status, and their total time."""

    done: int = 0
    refused: int = 0
    failed: int = 0
    seconds: float = 0.0

    @property
    def computed(self) -> int:
        return self.done + self.refused + self.failed

    def add(self, outcomes: Sequence[Outcome]) -> None:
        statuses = Counter(outcome.status for outcome in outcomes)
        seconds = sum(outcome.seconds for outcome in outcomes)
        self.join(Tally(statuses[DONE], statuses[REFUSED], statuses[FAILED], seconds))

    def join(self, other: Tally) -> None:
        self.done += other.done
        self.refused += other.refused
        self.failed += other.failed
        self.seconds += other.seconds


def execute(
    store: Store,
    cells: Iterable[Cell],
    compute: Compute,
    workers: Workers,
    *,
    advance: Progress | None = None,
    retry: Collection[str] = (),
    largest: int = MAX_TASK_CELLS,
) -> Tally:
    """Compute the cells that the store does not have.

    Every result is on disk before it is counted. After SIGINT or SIGTERM the running cells finish,
    are stored, and ``Interrupted`` is raised; a second signal stops at once.

    Parameters
    ----------
    compute
        Maps a cell to its result; importable by name, so that any worker can call it. An
        InputError means the cell is refused, any other error that it failed; both are stored.
    advance
        Called with the number of cells just stored.
    retry
        Statuses of stored cells to compute again.
    largest
        Maximum number of cells per task; 1 if some take much longer than others.
    """
    with _stop_on_signal() as stop:
        run = _Run(store, compute, workers, advance, largest, stop)
        return run.compute_all(store.missing(cells, retry=retry))


@dataclass
class _Run:
    store: Store
    compute: Compute
    workers: Workers
    advance: Progress | None
    largest: int
    stop: threading.Event
    tally: Tally = field(default_factory=Tally)
    # Running average.
    cell_seconds: float = TASK_TARGET_S
    running: dict[Future[list[Outcome]], list[Cell]] = field(default_factory=dict)
    # Keys of unfinished cells: a random design may draw a cell twice.
    pending: set[str] = field(default_factory=set)
    # From tasks that were cut short.
    leftover: deque[Cell] = field(default_factory=deque)

    def compute_all(self, todo: Iterator[Cell]) -> Tally:
        try:
            todo = self._without_duplicates(todo)
            while True:
                if not self.stop.is_set():
                    self._hand_out(todo)
                if not self.running:
                    break
                self._store_finished(wait(self.running, return_when=FIRST_COMPLETED).done)
        except BrokenExecutor:
            raise OSError("a worker died; run the same command again to continue") from None
        except CancelledError:
            raise OSError("lost the cluster; run the same command again to continue") from None
        if self.stop.is_set():
            raise Interrupted
        return self.tally

    def _hand_out(self, todo: Iterator[Cell]) -> None:
        while len(self.running) < TASKS_PER_WORKER * self.workers.capacity():
            leftover = [
                self.leftover.popleft() for _ in range(min(self._task_size(), len(self.leftover)))
            ]
            cells = leftover or list(islice(todo, self._task_size()))
            if not cells:
                return
            self._submit(cells)

    def _without_duplicates(self, todo: Iterator[Cell]) -> Iterator[Cell]:
        for cell in todo:
            key = cell_key(cell)
            if key not in self.pending:
                self.pending.add(key)
                yield cell

    def _submit(self, cells: list[Cell]) -> None:
        self.running[self.workers.pool.submit(compute_cells, self.compute, cells)] = cells

    def _task_size(self) -> int:
        """From recent timings; results do not depend on it."""
        return max(1, min(self.largest, int(TASK_TARGET_S / max(self.cell_seconds, 1e-9))))

    def _store_finished(self, finished: Iterable[Future[list[Outcome]]]) -> None:
        for future in finished:
            cells = self.running.pop(future)
            outcomes = self._outcomes(future, cells)
            if outcomes:
                self.store.put_many(outcomes)
                self.pending.difference_update(cell_key(outcome.cell) for outcome in outcomes)
                self.tally.add(outcomes)
                mean = sum(outcome.seconds for outcome in outcomes) / len(outcomes)
                self.cell_seconds = 0.5 * (self.cell_seconds + mean)
                if self.advance is not None:
                    self.advance(len(outcomes))
                self.leftover.extend(cells[len(outcomes) :])

    def _outcomes(self, future: Future[list[Outcome]], cells: list[Cell]) -> list[Outcome]:
        """Results of a task. One that killed its workers is retried cell by cell; a cell that
        kills them alone has failed."""
        error = future.exception()
        if error is None:
            return future.result()
        if not isinstance(error, self.workers.killed):
            raise error
        if len(cells) == 1:
            failure = {"reason": f"its workers died: {error}", "traceback": _traceback(error)}
            return [Outcome(cells[0], failure, FAILED, 0.0)]
        for cell in cells:
            self._submit([cell])
        return []


@contextmanager
def _stop_on_signal() -> Iterator[threading.Event]:
    """An event set by the first signal; the second raises. Signals reach the main thread only."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def on_signal(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {kind: signal.signal(kind, on_signal) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def compute_cells(compute: Compute, cells: Sequence[Cell]) -> list[Outcome]:
    """Run one task in a worker; a refused or failed cell is an outcome too, with its reason.

    Returns outcomes of the first cells only, at least one, if time runs out.
    """
    outcomes: list[Outcome] = []
    task_start = time.perf_counter()
    for cell in cells:
        start = time.perf_counter()
        if outcomes and start - task_start > TASK_LIMIT_S:
            break
        status, result = _status_and_result(compute, cell)
        outcomes.append(Outcome(cell, result, status, time.perf_counter() - start))
    return outcomes


def _status_and_result(compute: Compute, cell: Cell) -> tuple[str, dict[str, Any]]:
    """A cell's status and its result or reason; never raises an Exception."""
    try:
        return DONE, compute(cell)
    except InputError as error:
        return REFUSED, {"reason": str(error)}
    except Exception as error:
        kind, message = type(error).__name__, " ".join(str(error).split())
        reason = f"{kind}: {message}" if message else kind
        return FAILED, {"reason": reason, "traceback": _traceback(error)}


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))
