"""``batchlaw study --block``: blocks of the benchmark of batch schedules."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from batchlaw._base import checks
from batchlaw._base.errors import InputError
from batchlaw._base.files import OutputDirectory
from batchlaw.datasets import blocks as made_blocks
from batchlaw.evidence.study.block_hours import fitted
from batchlaw.evidence.study.blocks import BLOCKS, Block, block_cells
from batchlaw.evidence.study.cells import Cell, pilot_cells, run_cell
from batchlaw.evidence.study.plan import versions
from batchlaw.evidence.study.publish import publish, unfinished
from batchlaw.evidence.sweep.timing import described
from batchlaw.faces.cli.progress import progress_bars
from batchlaw.jobs.execution import execute
from batchlaw.jobs.store import FAILED, Store
from batchlaw.jobs.workers import Workers, worker_processes

# Not the store of the study: its results.csv has every run stored there.
STORE = "blocks.sqlite"
ALL = "all"


def make_blocks(
    names: Sequence[str],
    output: OutputDirectory,
    hours: float,
    count: int,
    *,
    estimate: bool,
    again: bool,
) -> int:
    """Train what is not stored, block after block; the exit code is 1 if one was not written.

    ``hours`` may be infinite: no limit.
    """
    asked = _asked(names, again)
    if not asked:
        return 0
    file = output.path / STORE
    with opened(file, read_only=estimate) as store, worker_processes(count) as workers:
        _say("timing a few steps of every kind of run")
        kept, dropped = fitted(asked, hours, workers, store)
        for one in kept:
            trimmed = "" if one.block.seeds == BLOCKS[one.block.name].seeds else ", fewer seeds"
            _say(f"{one.block.name}: about {described(one.seconds / count)}{trimmed}")
        for name in dropped:
            _say(f"dropped, it does not fit in {hours:g} hours: {name}")
        if not kept:
            raise InputError("hours", "must be enough for one block", f"{hours:g}")
        if estimate or store is None:
            return 0
        with progress_bars(plain=True) as stage:
            reasons = {
                one.block.name: _make(one.block, store, workers, stage, output) for one in kept
            }
    for name, reason in reasons.items():
        if reason:
            _say(f"{name} was not written: {reason}")
    return 1 if any(reasons.values()) else 0


@contextmanager
def opened(file: Path, *, read_only: bool) -> Iterator[Store | None]:
    """A store; None where it may only be read and does not exist."""
    if read_only and not file.exists():
        yield None
        return
    with Store(file, read_only=read_only) as store:
        yield store


def _asked(names: Sequence[str], again: bool) -> list[Block]:
    """The named blocks in their order, without those that batchlaw comes with."""
    for name in names:
        checks.choice("block", name, (*BLOCKS, ALL))
    chosen = [block for name, block in BLOCKS.items() if name in names or ALL in names]
    there = set() if again else set(made_blocks())
    for block in chosen:
        if block.name in there:
            _say(f"{block.name} comes with batchlaw and is not made again without --again")
    return [block for block in chosen if block.name not in there]


def _make(block: Block, store: Store, workers: Workers, stage: Any, output: OutputDirectory) -> str:
    """Why a block was not written; empty if it was."""
    rounds: dict[str, Callable[[], list[Cell]]] = {
        "pilots": lambda: pilot_cells(list(block.groups)),
        "runs": lambda: block_cells(block, store),
    }
    for title, cells in rounds.items():
        todo = list(store.missing(cells(), retry=(FAILED,)))
        advance = stage(f"{block.name}, {title}", len(todo)) if stage else None
        execute(store, todo, run_cell, workers, advance=advance, retry=(FAILED,), largest=1)
    reason = unfinished(block, store)
    if reason:
        return reason
    folder = output.path / block.name
    written = publish(block, store, folder, versions(), BLOCKS[block.name])
    print(f"{len(written)} files in {folder}")
    return ""


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
