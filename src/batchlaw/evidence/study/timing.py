"""How long a study takes, from timed steps, and which groups fit the hours."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from batchlaw.evidence.study import models, regression
from batchlaw.evidence.study.cells import needs_pilot
from batchlaw.evidence.study.data import population
from batchlaw.evidence.study.groups import MODEL, TASKS, Group
from batchlaw.evidence.study.schedules import REFERENCE
from batchlaw.jobs.workers import Workers
from batchlaw.schedule.observation import POINTS

# Updates of two timed runs: the difference in time is due to the updates alone.
SHORT_RUN, LONG_RUN = 10, 60
# Batches of timed runs.
SMALL_BATCH, LARGE_BATCH = 1, 16
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
class StepCost:
    """Core seconds of an update besides its samples, of a sample, and of an observation."""

    update: float
    sample: float
    observation: float

    def updates(self, count: int, samples: float) -> float:
        """Plain updates with so many samples in all."""
        return self.update * count + self.sample * samples

    def run(self, count: int, samples: float) -> float:
        """A run with its curves."""
        return self.updates(count, samples) + self.observation * POINTS


@dataclass(frozen=True)
class Cost:
    """Core seconds and cells of a group."""

    group: Group
    seconds_per_step: float
    seconds_per_observation: float = 0.0

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
        observations = POINTS * (group.seeds * len(group.schedules) + self.references)
        of_peak = self.seconds_per_step * steps + self.seconds_per_observation * observations
        return of_peak * len(group.peaks) + CELL_OVERHEAD_S * self.cells


def measured_costs(groups: Sequence[Group], workers: Workers) -> list[Cost]:
    """Costs of the groups, from short runs of every task with every optimizer."""
    kinds = {(group.task, group.optimizer): group for group in reversed(groups)}
    by_kind = dict(zip(kinds, workers.pool.map(step_cost, kinds.values()), strict=True))
    costs = []
    for group in groups:
        cost = by_kind[group.task, group.optimizer]
        costs.append(Cost(group, cost.updates(1, group.mean_batch), cost.observation))
    return costs


def step_cost(group: Group) -> StepCost:
    """From plain updates, with one sample and with more, and from one observation.

    A run has a fixed number of observations, so that they can't be timed with the updates. The
    first run loads the data and the libraries.
    """

    def per_update(batch: int) -> float:
        short = _seconds(lambda: _train(group, batch, SHORT_RUN))
        long = _seconds(lambda: _train(group, batch, LONG_RUN))
        return max(long - short, 1e-6) / (LONG_RUN - SHORT_RUN)

    _train(group, SMALL_BATCH, SHORT_RUN)
    single, larger = per_update(SMALL_BATCH), per_update(LARGE_BATCH)
    sample = max(larger - single, 0.0) / (LARGE_BATCH - SMALL_BATCH)
    observation = _seconds(lambda: _observe(group))
    return StepCost(max(single - SMALL_BATCH * sample, 0.0), sample, observation)


def _seconds(work: Callable[[], object]) -> float:
    """Processor time, not wall-clock time: the current load says little about the next hours."""
    start = time.process_time()
    work()
    return time.process_time() - start


def _train(group: Group, batch: int, updates: int) -> None:
    """Plain updates at a constant batch and rate, without observations."""
    rates, batches = np.full(updates, group.peaks[0]), np.full(updates, batch, dtype=np.int64)
    if TASKS[group.task].kind == MODEL:
        models.train_plain(group.task, group.optimizer, rates, batches, seed=1)
    else:
        data = population(group.task)
        regression.train(data, group.optimizer, rates, batches, 1, group.repetitions)


def _observe(group: Group) -> None:
    if TASKS[group.task].kind == MODEL:
        models.observe(group.task)
    else:
        data = population(group.task)
        regression.observe(data, np.zeros((group.repetitions, data.features.shape[1])))


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
