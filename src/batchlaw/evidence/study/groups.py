"""What the study runs: tasks, grids of rates, seeds, and groups in order of importance."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from batchlaw._base import checks
from batchlaw._base.errors import InputError, arg
from batchlaw.evidence.study.schedules import (
    CONSTANT,
    FROM_PILOT,
    OPTIMIZERS,
    RATES,
    REFERENCE,
    REFERENCE_SEEDS,
    SCHEDULES,
    USUAL_RATES,
    adaptive,
    schedules_for,
)

# Those of the default study, in the order of the grids of a task.
USUAL_OPTIMIZERS = ("sgd", "momentum", "adamw")
# Repetitions per cell of a regression: one seed is a block of them.
REPETITIONS = 200


# The lowest peak rate of a grid, and the number of peaks, each twice the one before.
Grid = tuple[float, int]


@dataclass(frozen=True)
class Task:
    """Something to train, with a grid of rates for each of ``USUAL_OPTIMIZERS``."""

    name: str
    kind: str
    steps: int
    grids: tuple[Grid, Grid, Grid]
    mean_batch: int = 8

    def peaks(self, optimizer: str) -> tuple[float, ...]:
        usual = "adamw" if adaptive(optimizer) else optimizer
        lowest, count = self.grids[USUAL_OPTIMIZERS.index(usual)]
        return tuple(lowest * 2.0**k for k in range(count))


REGRESSION, MODEL = "regression", "model"
TASKS = {
    task.name: task
    for task in (
        Task("digits-features", REGRESSION, 400, ((1.0, 5), (0.1, 5), (0.04, 4))),
        Task("digits", REGRESSION, 400, ((0.5, 5), (0.05, 4), (0.02, 5))),
        Task("diabetes", REGRESSION, 400, ((0.0625, 7), (0.00625, 7), (0.01, 7))),
        Task("breast_cancer", REGRESSION, 400, ((0.5, 4), (0.05, 5), (0.04, 5))),
        Task("wine", REGRESSION, 400, ((0.5, 4), (0.025, 5), (0.02, 6))),
        Task("logistic", MODEL, 400, ((0.1, 4), (0.01, 4), (0.01, 5))),
        Task("mlp", MODEL, 400, ((0.1, 5), (0.01, 5), (0.005, 4))),
        Task("transformer", MODEL, 800, ((0.25, 3), (0.05, 3), (0.002, 3))),
        Task("text", MODEL, 3000, ((0.5, 1), (0.1, 1), (0.004, 1))),
        Task("text-large", MODEL, 3000, ((0.5, 1), (0.1, 1), (0.002, 1))),
    )
}
# Only blocks of the benchmark have the others.
STUDY_TASKS = tuple(name for name in TASKS if name not in ("text", "text-large"))


@dataclass(frozen=True)
class Group:
    """One comparison: a task, an optimizer and rates; all schedules at all peaks and seeds.

    The schedules in ``few`` run for the first ``few_seeds`` seeds only.
    """

    task: str
    optimizer: str
    rates: str
    peaks: tuple[float, ...]
    seeds: int
    steps: int
    mean_batch: int
    repetitions: int = 1
    schedules: tuple[str, ...] = SCHEDULES
    few: tuple[str, ...] = ()
    few_seeds: int = 0

    @property
    def name(self) -> str:
        return f"{self.task}, {self.optimizer}, {self.rates}"

    def seeds_of(self, schedule: str) -> int:
        return min(self.seeds, self.few_seeds) if schedule in self.few else self.seeds


def make_group(name: str, optimizer: str, rates: str, seeds: int) -> Group:
    """A group of the default sizes.

    Models also run the reference, from which their noise is measured; a regression measures its
    noise directly.
    """
    task = TASKS[checks.choice("task", name, tuple(TASKS))]
    peaks = task.peaks(checks.choice("optimizer", optimizer, OPTIMIZERS))
    runs = REPETITIONS if task.kind == REGRESSION else 1
    sizes = task.steps, task.mean_batch, runs
    few = (REFERENCE,) if task.kind == MODEL else ()
    return Group(
        name, optimizer, rates, peaks, seeds, *sizes, schedules_for(optimizer), few, REFERENCE_SEEDS
    )


def full_groups() -> list[Group]:
    """The default study, the most important groups first, since the last may not fit the hours."""
    regressions = [name for name, task in TASKS.items() if task.kind == REGRESSION]
    groups = [make_group(name, "sgd", "wsd", 8) for name in regressions]
    groups += [make_group("transformer", "adamw", "wsd", 8)]
    for optimizer, rates in itertools.product(USUAL_OPTIMIZERS, USUAL_RATES):
        groups += [make_group(name, optimizer, rates, 10) for name in ("logistic", "mlp")]
    groups += [make_group("transformer", "adamw", "wsd-linear", 8)]
    for name in ("digits", "digits-features", "diabetes"):
        groups += [
            make_group(name, optimizer, rates, 8)
            for optimizer, rates in itertools.product(USUAL_OPTIMIZERS, USUAL_RATES)
            if (optimizer, rates) != ("sgd", "wsd")
        ]
    groups += [make_group("transformer", "adamw", "cosine", 8)]
    return groups + [make_group("transformer", name, "wsd", 5) for name in ("momentum", "sgd")]


def quick_groups() -> list[Group]:
    """A few groups of short runs: a test that everything works, not evidence."""
    groups = [
        make_group("digits", "sgd", "wsd", 5),
        make_group("diabetes", "adamw", "wsd-linear", 5),
        make_group("mlp", "momentum", "wsd", 4),
        make_group("logistic", "adamw", "cosine", 4),
    ]
    short = [
        replace(g, steps=200, repetitions=min(g.repetitions, 100), peaks=g.peaks[1:3])
        for g in groups
    ]
    text = make_group("transformer", "adamw", "wsd", 2)
    return [*short, replace(text, steps=60, mean_batch=4, peaks=text.peaks[1:2])]


def chosen(
    groups: Sequence[Group],
    tasks: Sequence[str] | None,
    optimizers: Sequence[str] | None,
    schedules: Sequence[str] | None = None,
    rates: Sequence[str] | None = None,
) -> list[Group]:
    """The groups of the named tasks, optimizers and rates, with constant and the named schedules.

    Groups that the default study does not have are those of the transformer, made on request.
    """
    for name in tasks or ():
        checks.choice("task", name, STUDY_TASKS)
    for name in optimizers or ():
        checks.choice("optimizer", name, OPTIMIZERS)
    for name in schedules or ():
        checks.choice("schedule", name, SCHEDULES)
    for name in rates or ():
        checks.choice("rates", name, tuple(RATES))
    groups = [*groups, *_on_request(optimizers, rates)]
    kept = [
        group
        for group in groups
        if (not tasks or group.task in tasks)
        and (not optimizers or group.optimizer in optimizers)
        and (not rates or group.rates in rates)
    ]
    if not kept:
        raise InputError(
            "task",
            "must leave something to run",
            "none at this size",
            subject=f"{arg('task')} and {arg('optimizer')}",
        )
    if not schedules:
        return kept
    named = {CONSTANT, *schedules}
    # Without the influence there is no predicted noise to compare with.
    few = {REFERENCE} if named & set(FROM_PILOT) else set()
    return [
        replace(
            group,
            schedules=tuple(name for name in group.schedules if name in named),
            few=tuple(name for name in group.few if name in few),
        )
        for group in kept
    ]


def _on_request(optimizers: Sequence[str] | None, rates: Sequence[str] | None) -> list[Group]:
    """The transformer with an optimizer or rates that the default study does not have."""
    pairs = itertools.product(optimizers or ("adamw",), rates or USUAL_RATES)
    return [
        make_group("transformer", optimizer, shape, 8)
        for optimizer, shape in pairs
        if optimizer not in USUAL_OPTIMIZERS or shape not in USUAL_RATES
    ]


def left_out(groups: Sequence[Group]) -> list[str]:
    """Possible comparisons that are not among the groups, one line per task."""
    included = {(group.task, group.optimizer, group.rates) for group in groups}
    pairs = list(itertools.product(USUAL_OPTIMIZERS, USUAL_RATES))
    lines = []
    for task in STUDY_TASKS:
        missing = [pair for pair in pairs if (task, *pair) not in included]
        listed = "all" if len(missing) == len(pairs) else "; ".join(map(", ".join, missing))
        lines += [f"{task}: {listed}"] if missing else []
    return lines
