"""Cells, which hold everything one result depends on as plain values, and their computation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.batches.rules import ChangesRates, Schedule, rules_of
from batchlaw.evidence.study.data import population
from batchlaw.evidence.study.groups import MODEL, TASKS, Group
from batchlaw.evidence.study.models import TRANSFORMERS, data_of, model_pilot, train_model
from batchlaw.evidence.study.regression import exact_noise, pilot_spectrum, train_with_curves
from batchlaw.evidence.study.schedules import (
    FROM_PILOT,
    RATES,
    schedule_of,
    spectrum_of,
)
from batchlaw.jobs.store import DONE, Store

Cell = Mapping[str, Any]
# Raise it when the same cell would give another result.
VERSION = 1
PILOT, PILOT_SEED = "pilot", 1_000_003


def pilot_cell(group: Group, peak: float) -> Cell:
    """The run whose spectrum gives the influence at a peak rate."""
    constant = np.full(group.steps, group.mean_batch, dtype=np.int64)
    return training_cell(group, PILOT, peak, PILOT_SEED, constant)


def pilot_cells(groups: list[Group]) -> list[Cell]:
    """Pilots of all groups, the longest first so that no worker is left with one at the end."""
    longest_first = sorted(
        filter(needs_pilot, groups), key=lambda group: group.task not in TRANSFORMERS
    )
    return [pilot_cell(group, peak) for group in longest_first for peak in group.peaks]


def group_cells(group: Group, store: Store) -> Iterator[Cell]:
    """All runs of a group, ordered by seed, so that a study cut short has complete seeds.

    A peak whose pilot diverged uses the spectrum of the nearest peak whose pilot did not.
    """
    runs = [
        (name, peak, schedule.batches)
        for peak in group.peaks
        for name, schedule in planned_schedules(group, peak, store).items()
    ]
    for seed in range(group.seeds):
        for name, peak, batches in runs:
            if seed < group.seeds_of(name):
                yield training_cell(group, name, peak, seed, batches)


def planned_schedules(group: Group, peak: float, store: Store) -> dict[str, Schedule]:
    """Rates and batches of every schedule of a group; none where its pilots all diverged."""
    pilot = usable_pilot(group, peak, store) if needs_pilot(group) else None
    if needs_pilot(group) and pilot is None:
        return {}
    rates = RATES[group.rates](group.steps, peak)
    spectrum = None if pilot is None else spectrum_of(pilot)
    return {
        name: schedule_of(name, group.optimizer, rates, group.mean_batch, spectrum)
        for name in (*group.schedules, *group.few)
    }


def needs_pilot(group: Group) -> bool:
    """Whether one of its schedules follows the influence."""
    return any(name in FROM_PILOT for name in group.schedules)


def usable_pilot(group: Group, peak: float, store: Store) -> dict[str, Any] | None:
    for other in sorted(group.peaks, key=lambda p: (abs(np.log(p / peak)), p)):
        row = store.get(pilot_cell(group, other))
        if row is not None and row.status == DONE:
            return row.result
    return None


def run_cell(cell: Cell) -> dict[str, Any]:
    """The result of a cell, from the cell alone; Unstable where the run diverges."""
    name, optimizer, seed = cell["task"], cell["optimizer"], cell["seed"]
    rates = rates_of(cell)
    batches = np.array(cell["batches"], dtype=np.int64)
    if TASKS[name].kind == MODEL:
        run_model = model_pilot if cell["schedule"] == PILOT else train_model
        return run_model(name, optimizer, rates, batches, seed)
    data, runs = population(name), cell["repetitions"]
    if cell["schedule"] == PILOT:
        return pilot_spectrum(data, optimizer, rates, batches, seed, runs)
    result = train_with_curves(data, optimizer, rates, batches, seed, runs)
    if optimizer == "sgd" and seed == 0:
        result["exact"] = exact_noise(data, rates, batches)
    return result


def rates_of(cell: Cell) -> FloatArray:
    """The rates of a cell's run: those of its shape, or what its rule makes of them."""
    rates = RATES[cell["rates"]](cell["steps"], cell["peak"])
    rule = rules_of(ChangesRates).get(cell["schedule"])
    return rates if rule is None else rule.schedule(rates, rates.size * cell["mean_batch"]).rates


def training_cell(group: Group, schedule: str, peak: float, seed: int, batches: IntArray) -> Cell:
    """One run; ``batches`` are those of the schedule."""
    return {
        "study": VERSION,
        "task": group.task,
        "optimizer": group.optimizer,
        "rates": group.rates,
        "schedule": schedule,
        "peak": peak,
        "seed": seed,
        "steps": group.steps,
        "mean_batch": group.mean_batch,
        "repetitions": group.repetitions,
        "data": data_of(group.task),
        "batches": batches.tolist(),
    }
