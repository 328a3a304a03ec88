"""How long a block of the benchmark takes, and what of it fits the hours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.evidence.study.blocks import Block, scheduled
from batchlaw.evidence.study.cells import needs_pilot, pilot_cells
from batchlaw.evidence.study.groups import Group
from batchlaw.evidence.study.schedules import SIZES
from batchlaw.evidence.study.timing import (
    SPECTRUM_BATCH,
    SPECTRUM_STEPS,
    StepCost,
    step_cost,
)
from batchlaw.jobs.store import FAILED, Store
from batchlaw.jobs.workers import Workers

# Differences between compared schedules need this many seeds.
FEWEST_SEEDS = 3


def core_seconds(
    block: Block, cost_of: Callable[[Group], StepCost], store: Store | None
) -> FloatArray:
    """Of all runs of a block that are not stored, by seed; its pilots count for the first.

    Where a pilot is to come, all runs of its group count, and schedules that turn out to coincide
    count twice.
    """
    seconds = np.zeros(block.seeds)
    for group in block.groups:
        cost, even = cost_of(group), group.steps * group.mean_batch
        pilots = _missing_pilots(group, store)
        spectrum = cost.updates(1, SPECTRUM_BATCH) * SPECTRUM_STEPS["transformer"]
        seconds[0] += pilots * (cost.updates(group.steps, even) + spectrum)
        if store is not None and not pilots:
            for one in scheduled(replace(block, groups=(group,)), store):
                of_run = cost.run(one.schedule.batches.size, float(one.schedule.batches.sum()))
                for seed, cell in one.cells():
                    seconds[seed] += of_run * (store.status(cell) in (None, FAILED))
        else:
            for name in (*group.schedules, *group.few):
                of_run = cost.run(group.steps, SIZES.get(name, 1.0) * even)
                seconds[: group.seeds_of(name)] += of_run * len(group.peaks)
    return seconds


def _missing_pilots(group: Group, store: Store | None) -> int:
    if store is None:
        return len(group.peaks) * needs_pilot(group)
    return sum(1 for _ in store.missing(pilot_cells([group]), retry=(FAILED,)))


@dataclass(frozen=True)
class Fitted:
    """A block as it fits, with the core seconds that are left to spend."""

    block: Block
    seconds: float


def fitted(
    blocks: Sequence[Block], hours: float, workers: Workers, store: Store | None
) -> tuple[list[Fitted], list[str]]:
    """The blocks that fit, in order, with fewer seeds where that makes them fit; and the others.

    What is stored costs nothing, so that a block keeps the seeds it has.
    """
    kinds = {(g.task, g.optimizer): g for block in blocks for g in block.groups}
    times = dict(zip(kinds, workers.pool.map(step_cost, kinds.values()), strict=True))
    left = hours * 3600.0 * workers.capacity()
    kept: list[Fitted] = []
    dropped: list[str] = []
    for block in blocks:
        by_seed = core_seconds(block, lambda g: times[g.task, g.optimizer], store)
        fits = [
            seeds
            for seeds in range(block.seeds, min(block.seeds, FEWEST_SEEDS) - 1, -1)
            if by_seed[:seeds].sum() <= left
        ]
        if fits:
            seconds = float(by_seed[: fits[0]].sum())
            kept.append(Fitted(block.with_seeds(fits[0]), seconds))
            left -= seconds
        else:
            dropped.append(block.name)
    return kept, dropped
