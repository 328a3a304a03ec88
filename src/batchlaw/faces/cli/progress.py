"""Progress bars on a terminal, nothing in a pipe; and the work an earlier run left to do."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from batchlaw.jobs.store import FAILED, REFUSED, Cell, Store

# Between progress lines where stderr is not a terminal.
LINE_INTERVAL_S = 30.0


@contextmanager
def progress_bars(
    *, plain: bool = False
) -> Iterator[Callable[[str, int], Callable[[int], None]] | None]:
    """Yields ``stage(name, total) -> advance(count)``, or None if stderr is not a terminal.

    With ``plain`` a line is printed now and then instead: for long runs and the logs of jobs.
    """
    if not sys.stderr.isatty():
        yield _lines if plain else None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:

        def stage(name: str, total: int) -> Callable[[int], None]:
            task = bars.add_task(name, total=total, rate="")

            def advance(count: int) -> None:
                speed = bars.tasks[task].speed
                bars.update(task, advance=count, rate=f"{speed:.3g}/s" if speed else "")

            return advance

        yield stage


def _lines(name: str, total: int) -> Callable[[int], None]:
    start = last_line = time.monotonic()
    done = 0

    def advance(count: int) -> None:
        nonlocal done, last_line
        done += count
        now = time.monotonic()
        if now - last_line >= LINE_INTERVAL_S:
            last_line = now
            rate = done / (now - start)
            left = (total - done) / rate
            print(
                f"{done} of {total} {name}, {rate:.3g}/s, {left:.0f} s left",
                file=sys.stderr,
                flush=True,
            )

    return advance


def left_to_do(store: Store, cells: Sequence[Cell], name: str) -> int:
    """The number of cells without a result; if some have one, a line on stderr says so."""
    todo = sum(1 for _ in store.missing(cells, retry=(REFUSED, FAILED)))
    if todo < len(cells):
        print(
            f"{len(cells) - todo} of {len(cells)} {name} are stored; "
            f"remove {store.path.name} to measure them anew",
            file=sys.stderr,
            flush=True,
        )
    return todo
