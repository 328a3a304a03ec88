"""How long a block of the benchmark takes, and what of it fits the hours."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from batchlaw.evidence.study.blocks import Block
from batchlaw.evidence.study.cells import needs_pilot
from batchlaw.evidence.study.groups import Group
from batchlaw.evidence.study.schedules import SIZES
from batchlaw.evidence.study.timing import SPECTRUM_BATCH, SPECTRUM_STEPS
from batchlaw.jobs.workers import Workers
from batchlaw.schedule.observation import POINTS

# Timed: updates of each run, and the larger batch.
TIMED_UPDATES, TIMED_BATCH = 40, 16
# Differences between compared schedules need this many seeds.
FEWEST_SEEDS = 3


@dataclass(frozen=True)
class StepCost:
    """Core seconds of an update with one sample, of each more sample, and of an observation."""

    update: float
    sample: float
    observation: float

    def run(self, updates: int, samples: float) -> float:
        return self.update * updates + self.sample * samples + self.observation * POINTS


def measured(group: Group) -> StepCost:
    """From short runs at one sample and at more; the first loads the data and the libraries."""
    from batchlaw.evidence.study.models import observe, train_plain

    def seconds(batch: int) -> float:
        batches = np.full(TIMED_UPDATES, batch, dtype=np.int64)
        rates = np.full(TIMED_UPDATES, group.peaks[0])
        start = time.process_time()
        train_plain(group.task, group.optimizer, rates, batches, seed=1)
        return (time.process_time() - start) / TIMED_UPDATES

    seconds(1)
    single, larger = seconds(1), seconds(TIMED_BATCH)
    sample = max(larger - single, 0.0) / (TIMED_BATCH - 1)
    start = time.process_time()
    observe(group.task)
    observation = time.process_time() - start
    return StepCost(max(single - sample, 0.0), sample, observation)


def core_seconds(block: Block, cost_of: Callable[[Group], StepCost]) -> float:
    """Of all runs and pilots of a block. Schedules that turn out to coincide are counted twice."""
    total = 0.0
    for group in block.groups:
        cost, even = cost_of(group), group.steps * group.mean_batch
        for name in (*group.schedules, *group.few):
            samples = SIZES.get(name, 1.0) * even
            total += group.seeds_of(name) * cost.run(group.steps, samples) * len(group.peaks)
        if needs_pilot(group):
            spectrum = SPECTRUM_STEPS["transformer"] * (SPECTRUM_BATCH * cost.sample + cost.update)
            total += len(group.peaks) * (cost.run(group.steps, even) + spectrum)
    return total


@dataclass(frozen=True)
class Fitted:
    """A block as it fits, with its core seconds."""

    block: Block
    seconds: float


def fitted(
    blocks: Sequence[Block], hours: float, workers: Workers
) -> tuple[list[Fitted], list[str]]:
    """The blocks that fit, in order, with fewer seeds where that makes them fit; and the others."""
    kinds = {(g.task, g.optimizer): g for block in blocks for g in block.groups}
    times = dict(zip(kinds, workers.pool.map(measured, kinds.values()), strict=True))
    left = hours * 3600.0 * workers.capacity()
    kept: list[Fitted] = []
    dropped: list[str] = []
    for block in blocks:
        options = [
            block.with_seeds(n) for n in range(block.seeds, min(block.seeds, FEWEST_SEEDS) - 1, -1)
        ]
        costs = [core_seconds(one, lambda g: times[g.task, g.optimizer]) for one in options]
        fits = [k for k, seconds in enumerate(costs) if seconds <= left]
        if fits:
            kept.append(Fitted(options[fits[0]], costs[fits[0]]))
            left -= costs[fits[0]]
        else:
            dropped.append(block.name)
    return kept, dropped
