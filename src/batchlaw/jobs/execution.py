"""Cells through an executor and into the store: bounded in flight, resumable, interruptible."""

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
# Tasks handed out for each worker: one at work, one waiting.
AHEAD = 2
# A task is as many cells as take about this many seconds, and at most so many; one that takes
# longer, because its cells are slower than those before, is cut short.
TASK, LARGEST, LONGEST = 0.5, 512, 2.0


class Interrupted(KeyboardInterrupt):
    """An interrupt after which all that was running has been stored."""


@dataclass
class Tally:
    """What one run did."""

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
    largest: int = LARGEST,
) -> Tally:
    """Compute the cells that the store does not have.

    Every result is on disk before it is counted. An interrupt, or the signal to terminate,
    lets what is running finish, stores it and raises ``Interrupted``; a second one gives up.

    Parameters
    ----------
    compute
        From a cell to its result; importable by name, so that any worker can call it. An
        InputError refuses the cell, any other error is a failure of the cell; both are stored.
    advance
        Called with the number of cells just stored.
    retry
        Statuses of stored cells that are computed again.
    largest
        Cells that one worker gets at a time, at most: 1 where some take much longer than others.
    """
    with _asked_to_stop() as stop:
        run = _Run(store, compute, workers, advance, largest, stop)
        return run.all(store.missing(cells, retry=retry))


@dataclass
class _Run:
    store: Store
    compute: Compute
    workers: Workers
    advance: Progress | None
    largest: int
    stop: threading.Event
    tally: Tally = field(default_factory=Tally)
    # Seconds of a cell, lately.
    each: float = TASK
    running: dict[Future[list[Outcome]], list[Cell]] = field(default_factory=dict)
    # Keys of what is running: a random design may draw a cell twice.
    at_work: set[str] = field(default_factory=set)
    # Of tasks that were cut short.
    left_over: deque[Cell] = field(default_factory=deque)

    def all(self, todo: Iterator[Cell]) -> Tally:
        try:
            todo = self._fresh(todo)
            while True:
                if not self.stop.is_set():
                    self._hand_out(todo)
                if not self.running:
                    break
                self._keep(wait(self.running, return_when=FIRST_COMPLETED).done)
        except BrokenExecutor:
            raise OSError("a worker died; run the same command again to continue") from None
        except CancelledError:
            raise OSError("the cluster is gone; run the same command again to continue") from None
        if self.stop.is_set():
            raise Interrupted
        return self.tally

    def _hand_out(self, todo: Iterator[Cell]) -> None:
        while len(self.running) < AHEAD * self.workers.capacity():
            again = [
                self.left_over.popleft() for _ in range(min(self._task_size(), len(self.left_over)))
            ]
            cells = again or list(islice(todo, self._task_size()))
            if not cells:
                return
            self._submit(cells)

    def _fresh(self, todo: Iterator[Cell]) -> Iterator[Cell]:
        for cell in todo:
            key = cell_key(cell)
            if key not in self.at_work:
                self.at_work.add(key)
                yield cell

    def _submit(self, cells: list[Cell]) -> None:
        self.running[self.workers.pool.submit(compute_cells, self.compute, cells)] = cells

    def _task_size(self) -> int:
        """From what cells took lately: results do not depend on it."""
        return max(1, min(self.largest, int(TASK / max(self.each, 1e-9))))

    def _keep(self, finished: Iterable[Future[list[Outcome]]]) -> None:
        for future in finished:
            cells = self.running.pop(future)
            outcomes = self._outcomes(future, cells)
            if outcomes:
                self.store.put_many(outcomes)
                self.at_work.difference_update(cell_key(outcome.cell) for outcome in outcomes)
                self.tally.add(outcomes)
                took = sum(outcome.seconds for outcome in outcomes) / len(outcomes)
                self.each = 0.5 * (self.each + took)
                if self.advance is not None:
                    self.advance(len(outcomes))
                self.left_over.extend(cells[len(outcomes) :])

    def _outcomes(self, future: Future[list[Outcome]], cells: list[Cell]) -> list[Outcome]:
        """What a task gave. One that took its workers down is tried again cell by cell, and
        a cell that does so alone has failed."""
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
def _asked_to_stop() -> Iterator[threading.Event]:
    """Set by the first interrupt; the second is one. Only the main thread hears of them."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def heard(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {kind: signal.signal(kind, heard) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def compute_cells(compute: Compute, cells: Sequence[Cell]) -> list[Outcome]:
    """One task, in a worker; a cell that is refused or fails is a result too, with its reason.

    The cells that there was time for: the first of them, and one at least.
    """
    outcomes: list[Outcome] = []
    begun = time.perf_counter()
    for cell in cells:
        start = time.perf_counter()
        if outcomes and start - begun > LONGEST:
            break
        status, result = _computed(compute, cell)
        outcomes.append(Outcome(cell, result, status, time.perf_counter() - start))
    return outcomes


def _computed(compute: Compute, cell: Cell) -> tuple[str, dict[str, Any]]:
    """A cell's status and its result, whatever goes wrong."""
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
