"""How long a study takes, from timed steps, and which groups fit the hours."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from batchlaw.evidence.study.cells import needs_pilot, pilot_cell, run_cell
from batchlaw.evidence.study.groups import Group
from batchlaw.evidence.study.schedules import CONSTANT, REFERENCE
from batchlaw.jobs.workers import Workers

# Steps of two timed runs: the difference in time is due to the steps alone.
SHORT_RUN, LONG_RUN = 10, 60
# Measured cost of a pilot's spectrum, in training steps at this batch size.
SPECTRUM_STEPS = {"transformer": 4_000, "mlp": 10_000, "logistic": 6_000}
SPECTRUM_BATCH = 8
# Overhead of a cell besides its steps, and of starting the workers.
CELL_OVERHEAD_S, STARTUP_S = 0.04, 15.0
# Cost of a reference run, in runs of the other schedules: it has four times the samples, but a
# lower cost per sample.
REFERENCE_RUNS = {"transformer": 3.5}
# Cost of the exact prediction, once per schedule and peak, in steps of a regression's R runs.
EXACT_STEPS = {"digits-features": 14_000, "digits": 5_000}


@dataclass(frozen=True)
class Cost:
    """Core seconds and cells of a group."""

    group: Group
    seconds_per_step: float

    @property
    def references(self) -> int:
        """Runs of the reference at one peak."""
        return self.group.seeds_of(REFERENCE) if REFERENCE in self.group.few else 0

    @property
    def cells(self) -> int:
        group = self.group
        runs = group.seeds * len(group.schedules) + self.references
        return len(group.peaks) * (needs_pilot(group) + runs)

    @property
    def seconds(self) -> float:
        group = self.group
        long = REFERENCE_RUNS.get(group.task, 1.0)
        steps = group.steps * (group.seeds * len(group.schedules) + long * self.references)
        if needs_pilot(group):
            spectrum = SPECTRUM_STEPS.get(group.task, 0) * SPECTRUM_BATCH / group.mean_batch
            steps += group.steps + spectrum
        if group.optimizer == "sgd":
            steps += len(group.schedules) * EXACT_STEPS.get(group.task, 0)
        return self.seconds_per_step * steps * len(group.peaks) + CELL_OVERHEAD_S * self.cells


def measured_costs(groups: Sequence[Group], workers: Workers) -> list[Cost]:
    """Costs of the groups, from short runs of every task with every optimizer."""
    kinds = {(group.task, group.optimizer): group for group in reversed(groups)}
    times = workers.pool.map(seconds_per_step, kinds.values())
    by_kind = dict(zip(kinds, times, strict=True))
    return [Cost(group, by_kind[group.task, group.optimizer]) for group in groups]


def seconds_per_step(group: Group) -> float:
    """Seconds per step at a constant batch. The first run loads the data and the libraries.

    Processor time, not wall-clock time: the current load says little about the next hours.
    """
    times = []
    for steps in (SHORT_RUN, SHORT_RUN, LONG_RUN):
        cell = pilot_cell(replace(group, steps=steps), group.peaks[0])
        start = time.process_time()
        run_cell({**cell, "schedule": CONSTANT, "seed": 1})
        times.append(time.process_time() - start)
    return max(times[2] - times[1], 1e-6) / (LONG_RUN - SHORT_RUN)


def within(costs: Sequence[Cost], hours: float, workers: int) -> tuple[list[Cost], list[Cost]]:
    """The groups that fit, in order of importance, and those that were dropped."""
    left = hours * 3600.0 * workers
    kept: list[Cost] = []
    dropped: list[Cost] = []
    for cost in costs:
        fits = cost.seconds <= left
        (kept if fits else dropped).append(cost)
        left -= cost.seconds if fits else 0.0
    return kept, dropped
