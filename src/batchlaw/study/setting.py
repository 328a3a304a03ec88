"""What the study runs: tasks, grids of rates, seeds, and the order in which groups matter."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from batchlaw import _check
from batchlaw.study.schedules import RATES, SCHEDULES

OPTIMIZERS = ("sgd", "momentum", "adamw")
# Repetitions in one cell of a regression: a seed is a block of them.
REPETITIONS = 200


@dataclass(frozen=True)
class Task:
    """Something to train, and where its good rates are.

    ``peaks`` are the middles of the grids for ``OPTIMIZERS``.
    """

    name: str
    kind: str
    peaks: tuple[float, float, float]
    steps: int
    mean_batch: int = 8


REGRESSION, MODEL = "regression", "model"
TASKS = {
    task.name: task
    for task in (
        Task("digits-features", REGRESSION, (2.0, 0.2, 0.08), 400),
        Task("digits", REGRESSION, (2.0, 0.2, 0.08), 400),
        Task("diabetes", REGRESSION, (0.25, 0.025, 0.04), 400),
        Task("breast_cancer", REGRESSION, (2.0, 0.2, 0.16), 400),
        Task("wine", REGRESSION, (2.0, 0.2, 0.08), 400),
        Task("logistic", MODEL, (0.4, 0.04, 0.04), 400),
        Task("mlp", MODEL, (0.4, 0.04, 0.02), 400),
        Task("transformer", MODEL, (0.25, 0.1, 0.004), 800),
    )
}


@dataclass(frozen=True)
class Group:
    """One comparison: a task, an optimizer and rates; all schedules at all peaks and seeds."""

    task: str
    optimizer: str
    rates: str
    peaks: tuple[float, ...]
    seeds: int
    steps: int
    mean_batch: int
    repetitions: int = 1
    schedules: tuple[str, ...] = SCHEDULES

    @property
    def name(self) -> str:
        return f"{self.task}, {self.optimizer}, {self.rates}"


def grid(middle: float, count: int) -> tuple[float, ...]:
    """So many peaks around the middle, each twice the one before."""
    return tuple(middle * 2.0**k for k in range(-(count // 2), (count + 1) // 2))


def make_group(name: str, optimizer: str, rates: str, peaks: int, seeds: int) -> Group:
    """A group of the default sizes."""
    task = TASKS[_check.choice("task", name, tuple(TASKS))]
    middle = task.peaks[OPTIMIZERS.index(optimizer)]
    runs = REPETITIONS if task.kind == REGRESSION else 1
    return Group(
        name, optimizer, rates, grid(middle, peaks), seeds, task.steps, task.mean_batch, runs
    )


def full_groups() -> list[Group]:
    """The default study, what matters most first; what does not fit the hours is dropped."""
    regressions = [name for name, task in TASKS.items() if task.kind == REGRESSION]
    groups = [make_group(name, "sgd", "wsd", 4, 10) for name in regressions]
    groups += [make_group("transformer", "adamw", "wsd", 3, 8)]
    for optimizer, rates in itertools.product(OPTIMIZERS, RATES):
        groups += [make_group(name, optimizer, rates, 4, 12) for name in ("logistic", "mlp")]
    groups += [make_group("transformer", "adamw", "wsd-linear", 3, 8)]
    for name in ("digits", "digits-features", "diabetes"):
        groups += [
            make_group(name, optimizer, rates, 4, 10)
            for optimizer, rates in itertools.product(OPTIMIZERS, RATES)
            if (optimizer, rates) != ("sgd", "wsd")
        ]
    groups += [make_group("transformer", "adamw", "cosine", 3, 8)]
    return groups + [make_group("transformer", name, "wsd", 3, 5) for name in ("momentum", "sgd")]


def quick_groups() -> list[Group]:
    """A few groups of short runs: that all works, not what is true."""
    groups = [
        make_group("digits", "sgd", "wsd", 2, 5),
        make_group("diabetes", "adamw", "wsd-linear", 1, 5),
        make_group("mlp", "momentum", "wsd", 2, 4),
        make_group("logistic", "adamw", "cosine", 2, 4),
    ]
    short = [replace(group, steps=200, repetitions=min(group.repetitions, 100)) for group in groups]
    text = make_group("transformer", "adamw", "wsd", 1, 2)
    return [*short, replace(text, steps=60, mean_batch=4, peaks=(0.004,))]


def chosen(
    groups: Sequence[Group],
    tasks: Sequence[str] | None,
    optimizers: Sequence[str] | None,
) -> list[Group]:
    """The groups of the named tasks and optimizers."""
    for name in tasks or ():
        _check.choice("task", name, tuple(TASKS))
    for name in optimizers or ():
        _check.choice("optimizer", name, OPTIMIZERS)
    kept = [
        group
        for group in groups
        if (not tasks or group.task in tasks) and (not optimizers or group.optimizer in optimizers)
    ]
    if not kept:
        raise ValueError("task and optimizer must leave something to run, got none at this size")
    return kept


def left_out(groups: Sequence[Group]) -> list[str]:
    """Comparisons that could be made and are not among the groups, a line a task."""
    made = {(group.task, group.optimizer, group.rates) for group in groups}
    pairs = list(itertools.product(OPTIMIZERS, RATES))
    lines = []
    for task in TASKS:
        missing = [pair for pair in pairs if (task, *pair) not in made]
        named = "all" if len(missing) == len(pairs) else "; ".join(map(", ".join, missing))
        lines += [f"{task}: {named}"] if missing else []
    return lines
