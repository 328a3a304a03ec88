"""The benchmark of batch schedules, in blocks that are made one after the other.

Every block compares schedules at equal samples and one peak rate, with many seeds, and has constant
batches of other sizes and random schedules, to fit and to test laws on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from batchlaw.batches.rules import Schedule
from batchlaw.evidence.study.cells import Cell, planned_schedules, training_cell
from batchlaw.evidence.study.groups import TASKS, Group
from batchlaw.evidence.study.schedules import (
    BOLD_STAGES,
    CONSTANT,
    EARLY,
    LATE,
    LI_BU_XU,
    ORACLE,
    PLAN,
    RAMP,
    RANDOM,
    RATE,
    SEESAW,
    SIZES,
)
from batchlaw.jobs.store import Store

COMPARED = (CONSTANT, PLAN, ORACLE, RATE, EARLY, RAMP, LATE, SEESAW, LI_BU_XU, BOLD_STAGES)
FEWER = (CONSTANT, EARLY, LATE, RAMP, BOLD_STAGES)
RULES_ONLY = (CONSTANT, PLAN, EARLY, RATE, LATE)
UNCOMPARED = (*SIZES, *RANDOM)
DECAYING = ("wsd-linear", "wsd", "cosine")
UNCOMPARED_SEEDS = 2
# For the larger model, whose runs take too long for all sizes and random schedules.
HALF_AND_DOUBLE = ("constant x1/2", "constant x2")


@dataclass(frozen=True)
class Block:
    """A part of the benchmark, with what it is about in one line."""

    name: str
    summary: str
    groups: tuple[Group, ...]

    def with_seeds(self, seeds: int) -> Block:
        """At most this many seeds for every schedule."""
        groups = tuple(replace(group, seeds=min(seeds, group.seeds)) for group in self.groups)
        return replace(self, groups=groups)

    @property
    def seeds(self) -> int:
        return max(group.seeds for group in self.groups)


def _groups(
    task: str,
    optimizer: str,
    shapes: tuple[str, ...],
    compared: tuple[str, ...],
    seeds: int,
    few: tuple[str, ...] = UNCOMPARED,
) -> tuple[Group, ...]:
    sizes = TASKS[task].steps, TASKS[task].mean_batch, 1
    peaks = TASKS[task].peaks(optimizer)
    return tuple(
        Group(task, optimizer, shape, peaks, seeds, *sizes, compared, few, UNCOMPARED_SEEDS)
        for shape in shapes
    )


BLOCKS = {
    block.name: block
    for block in (
        Block(
            "small-adamw",
            "69 000 parameters, AdamW with beta2 0.999, three decaying rates",
            _groups("text", "adamw", DECAYING, COMPARED, 5),
        ),
        Block(
            "small-adamw-0.95",
            "69 000 parameters, AdamW with beta2 0.95, three decaying rates",
            _groups("text", "adamw-0.95", DECAYING, COMPARED, 5),
        ),
        Block(
            "small-flat",
            "69 000 parameters, AdamW with beta2 0.999, a constant rate and one drop by ten",
            _groups("text", "adamw", ("constant", "drop"), FEWER, 5),
        ),
        Block(
            "large-adamw",
            "820 000 parameters, AdamW with beta2 0.999, two decaying rates",
            _groups("text-large", "adamw", DECAYING[:2], (*RULES_ONLY, RAMP), 3, HALF_AND_DOUBLE),
        ),
        Block(
            "small-momentum",
            "69 000 parameters, SGD with momentum, three decaying rates",
            _groups("text", "momentum", DECAYING, (*RULES_ONLY, ORACLE), 5, tuple(SIZES)),
        ),
    )
}


@dataclass(frozen=True)
class Scheduled:
    """One schedule of a group at one peak: its names, and its rates and batches."""

    group: Group
    peak: float
    name: str
    also: tuple[str, ...]
    schedule: Schedule

    def cells(self) -> Iterator[tuple[int, Cell]]:
        """The seeds, and the run of each."""
        for seed in range(self.group.seeds_of(self.name)):
            yield (
                seed,
                training_cell(self.group, self.name, self.peak, seed, self.schedule.batches),
            )


def scheduled(block: Block, store: Store) -> list[Scheduled]:
    """Every schedule of a block once, under the first of its names; pilots must be stored."""
    found: list[Scheduled] = []
    for group in block.groups:
        for peak in group.peaks:
            distinct: list[Scheduled] = []
            for name, schedule in planned_schedules(group, peak, store).items():
                same = [k for k, other in enumerate(distinct) if _same(other.schedule, schedule)]
                if same:
                    other = distinct[same[0]]
                    distinct[same[0]] = replace(other, also=(*other.also, name))
                else:
                    distinct.append(Scheduled(group, peak, name, (), schedule))
            found += distinct
    return found


def block_cells(block: Block, store: Store) -> list[Cell]:
    """All runs of a block, by seed, so that a block cut short has complete seeds."""
    cells = [pair for one in scheduled(block, store) for pair in one.cells()]
    return [cell for _, cell in sorted(cells, key=lambda pair: pair[0])]


def _same(one: Schedule, other: Schedule) -> bool:
    return np.array_equal(one.batches, other.batches) and np.array_equal(one.rates, other.rates)
