"""How long a block of the benchmark takes, and what of it fits the hours."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from batchlaw.evidence.study.blocks import Block
from batchlaw.evidence.study.cells import needs_pilot, run_cell, training_cell
from batchlaw.evidence.study.groups import Group
from batchlaw.evidence.study.schedules import CONSTANT, SIZES
from batchlaw.evidence.study.timing import SPECTRUM_BATCH, SPECTRUM_STEPS
from batchlaw.jobs.workers import Workers
from batchlaw.schedule.observation import POINTS, observed_updates

# Timed runs: batch and updates. Every update of a run this short is observed, about.
TIMED = ((1, 40), (1, 140), (16, 140))
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
    """From three short runs; the first loads the data and the libraries."""
    _timed(group, *TIMED[0])
    times = [_timed(group, batch, updates) for batch, updates in TIMED]
    (_, short), (_, long), (larger, _) = TIMED
    points = [observed_updates(updates).size for updates in (short, long)]
    # Both short runs are observed equally often.
    update = max(times[1] - times[0], 1e-6) / (long - short)
    sample = max(times[2] - times[1], 0.0) / ((larger - 1) * long)
    observation = max(times[0] - update * short, 0.0) / points[0]
    return StepCost(update, sample, observation)


def _timed(group: Group, batch: int, updates: int) -> float:
    short = replace(group, steps=updates)
    batches = np.full(updates, batch, dtype=np.int64)
    cell = training_cell(short, CONSTANT, group.peaks[0], 1, batches)
    start = time.process_time()
    run_cell(cell)
    return time.process_time() - start


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
        options = [block.with_seeds(n) for n in range(block.seeds, FEWEST_SEEDS - 1, -1)]
        costs = [core_seconds(one, lambda g: times[g.task, g.optimizer]) for one in options]
        fits = [k for k, seconds in enumerate(costs) if seconds <= left]
        if fits:
            kept.append(Fitted(options[fits[0]], costs[fits[0]]))
            left -= costs[fits[0]]
        else:
            dropped.append(block.name)
    return kept, dropped
