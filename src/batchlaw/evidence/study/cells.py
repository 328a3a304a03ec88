"""Cells, which hold everything one result depends on as plain values, and their computation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from batchlaw._base.checks import IntArray
from batchlaw.evidence.study.data import population, python_sources
from batchlaw.evidence.study.groups import MODEL, TASKS, Group
from batchlaw.evidence.study.models import model_pilot, train_model
from batchlaw.evidence.study.regression import exact_noise, measure, pilot_spectrum, train
from batchlaw.evidence.study.schedules import (
    FROM_PILOT,
    RATES,
    REFERENCE,
    REFERENCE_SEEDS,
    batches_of,
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
    return _cell(group, PILOT, peak, PILOT_SEED, constant)


def pilot_cells(groups: list[Group]) -> list[Cell]:
    """Pilots of all groups, the longest first so that no worker is left with one at the end."""
    longest_first = sorted(
        filter(needs_pilot, groups), key=lambda group: group.task != "transformer"
    )
    return [pilot_cell(group, peak) for group in longest_first for peak in group.peaks]


def group_cells(group: Group, store: Store) -> Iterator[Cell]:
    """All runs of a group, ordered by seed, so that a study cut short has complete seeds.

    A peak whose pilot diverged uses the spectrum of the nearest peak whose pilot did not.
    """
    runs = []
    for peak in group.peaks:
        pilot = usable_pilot(group, peak, store) if needs_pilot(group) else None
        if needs_pilot(group) and pilot is None:
            continue
        rates = RATES[group.rates](group.steps, peak)
        spectrum = None if pilot is None else spectrum_of(pilot)
        for schedule in schedules_of(group):
            batches = batches_of(schedule, group.optimizer, rates, group.mean_batch, spectrum)
            runs.append((schedule, peak, batches))
    for seed in range(group.seeds):
        for schedule, peak, batches in runs:
            if schedule == REFERENCE and seed >= REFERENCE_SEEDS:
                continue
            yield _cell(group, schedule, peak, seed, batches)


def needs_pilot(group: Group) -> bool:
    """Whether one of its schedules follows the influence."""
    return any(name in FROM_PILOT for name in group.schedules)


def schedules_of(group: Group) -> tuple[str, ...]:
    """Models whose noise is predicted also run a reference with little noise.

    A regression measures its noise directly.
    """
    reference = TASKS[group.task].kind == MODEL and needs_pilot(group)
    return (*group.schedules, REFERENCE) if reference else group.schedules


def usable_pilot(group: Group, peak: float, store: Store) -> dict[str, Any] | None:
    for other in sorted(group.peaks, key=lambda p: (abs(np.log(p / peak)), p)):
        row = store.get(pilot_cell(group, other))
        if row is not None and row.status == DONE:
            return row.result
    return None


def run_cell(cell: Cell) -> dict[str, Any]:
    """The result of a cell, from the cell alone; Unstable where the run diverges."""
    name, optimizer, seed = cell["task"], cell["optimizer"], cell["seed"]
    rates = RATES[cell["rates"]](cell["steps"], cell["peak"])
    batches = np.array(cell["batches"], dtype=np.int64)
    if TASKS[name].kind == MODEL:
        run_model = model_pilot if cell["schedule"] == PILOT else train_model
        return run_model(name, optimizer, rates, batches, seed)
    data, runs = population(name), cell["repetitions"]
    if cell["schedule"] == PILOT:
        return pilot_spectrum(data, optimizer, rates, batches, seed, runs)
    weights, _ = train(data, optimizer, rates, batches, seed, runs)
    result = measure(data, weights)
    if optimizer == "sgd" and seed == 0:
        result["exact"] = exact_noise(data, rates, batches)
    return result


def _cell(group: Group, schedule: str, peak: float, seed: int, batches: IntArray) -> Cell:
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
        "data": python_sources().digest if group.task == "transformer" else group.task,
        "batches": batches.tolist(),
    }
