"""What a log with gaps, restarts and missing numbers is taken to say, or why it is refused."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.from_data.logs.table import Row, Table, refusal

# Shares of the updates that may lie between two logged values, and before the first or after the
# last one.
LARGEST_GAP, LARGEST_END = 0.1, 0.05
# Share of the losses that may be NaN or infinite.
LARGEST_DROPPED = 0.1
FEWEST_LOSSES = 3
MOST_UPDATES = 10**7
# A spike: this many robust standard deviations, and this share, above the median of so many
# neighbours on either side.
SPIKE_DEVIATIONS, SPIKE_SHARE, SPIKE_NEIGHBOURS = 6.0, 0.02, 5


@dataclass(frozen=True)
class Entry:
    """A row with its step; ``number`` counts the rows of the log."""

    number: int
    step: int
    row: Row


def entries(path: Path, table: Table, step: str, watched: Iterable[str]) -> list[Entry]:
    """The rows that have a step. A row with a watched column must not have a wrong one."""
    watched = tuple(watched)
    found = []
    for number, row in enumerate(table.rows, start=1):
        value = row.get(step)
        if value is None:
            continue
        if isinstance(value, float) and value.is_integer() and 0 <= value <= MOST_UPDATES:
            found.append(Entry(number, int(value), row))
        elif any(name in row for name in watched):
            needed = f"must have whole steps from 0 to {MOST_UPDATES}"
            raise refusal(path, needed, f"{value!r} in row {number}")
    return found


def last_branch(found: list[Entry], watched: Iterable[str]) -> tuple[list[Entry], int]:
    """The entries that no restart replaces, and the number of restarts.

    Where the step of a watched column falls, the run went back to a checkpoint: what was logged
    before, at that step or a later one, is of a branch that was abandoned.
    """
    watched = tuple(watched)
    kept: list[Entry] = []
    latest: dict[str, int] = {}
    restarts = 0
    for entry in found:
        here = [name for name in watched if name in entry.row]
        if any(entry.step < latest.get(name, 0) for name in here):
            restarts += 1
            kept = [earlier for earlier in kept if earlier.step < entry.step]
            latest = {name: e.step for e in kept for name in watched if name in e.row}
        kept.append(entry)
        latest |= dict.fromkeys(here, entry.step)
    return kept, restarts


def series(path: Path, kept: Iterable[Entry], name: str) -> dict[int, float]:
    """The values of a column by their steps, in order; the last value of a step stands."""
    values: dict[int, float] = {}
    for entry in kept:
        value = entry.row.get(name)
        if isinstance(value, str):
            needed = f"must have numbers in column {name}"
            raise refusal(path, needed, f"{value[:40]!r} in row {entry.number}")
        if value is not None:
            values[entry.step] = value
    return dict(sorted(values.items()))


def finite_losses(
    path: Path, name: str, values: Mapping[int, float]
) -> tuple[IntArray, FloatArray]:
    """Steps and losses without those that are NaN or infinite."""
    steps = np.array(list(values), dtype=np.int64)
    losses = np.array(list(values.values()), dtype=np.float64)
    finite = np.isfinite(losses)
    needed = f"must have at least {FEWEST_LOSSES} finite losses in column {name}"
    if steps.size < FEWEST_LOSSES:
        raise refusal(path, needed, f"{steps.size}")
    if not finite[-1]:
        got = f"{losses[-1]} after step {steps[-1]}"
        raise refusal(path, f"must end with a finite loss in column {name}", got)
    dropped = int(steps.size - finite.sum())
    if dropped > LARGEST_DROPPED * steps.size:
        limit = f"at most {LARGEST_DROPPED:.0%} of the losses in column {name}"
        raise refusal(path, f"must have NaN or infinity as {limit}", f"{dropped} of {steps.size}")
    if finite.sum() < FEWEST_LOSSES:
        raise refusal(path, needed, f"{finite.sum()}")
    return steps[finite], losses[finite]


def spikes(losses: FloatArray) -> int:
    """How many losses are far above the median of their neighbours."""
    half = np.minimum(np.arange(losses.size), np.arange(losses.size)[::-1])
    middle = losses.copy()
    # Windows are symmetric, shorter near the ends: a curve that only falls is its own median.
    for width in range(1, SPIKE_NEIGHBOURS + 1):
        windows = np.lib.stride_tricks.sliding_window_view(losses, min(2 * width + 1, losses.size))
        centres = np.flatnonzero(np.minimum(half, SPIKE_NEIGHBOURS) == width)
        middle[centres] = np.median(windows[centres - width], axis=1)
    above = losses - middle
    deviation = 1.4826 * float(np.median(np.abs(above - np.median(above))))
    limit = np.maximum(SPIKE_DEVIATIONS * deviation, SPIKE_SHARE * np.abs(middle))
    return int((above > limit).sum())


def rates_of_all(
    path: Path, name: str, values: Mapping[int, float], updates: int
) -> tuple[FloatArray, int, int]:
    """The rate of every update, and how many are interpolated and extrapolated.

    Between logged steps on a straight line; before the first and after the last on the line
    through the two nearest, but not below zero.
    """
    points, logged = _finite(path, name, values)
    if (logged < 0.0).any():
        raise refusal(path, f"must have no rate below zero in column {name}", f"{logged.min():g}")
    if points.size < 2:
        needed = f"must have at least two rates in column {name}, or have them given"
        raise refusal(path, needed, f"{points.size}", hint="rates = one for every update")
    _refuse_gaps(path, name, points, updates, "rates")
    t = np.arange(1, updates + 1)
    rates = np.interp(t, points, logged)
    for outside, near, next_ in ((t < points[0], 0, 1), (t > points[-1], -1, -2)):
        slope = (logged[near] - logged[next_]) / (points[near] - points[next_])
        line = logged[near] + slope * (t[outside] - points[near])
        rates[outside] = np.maximum(line, 0.0)
    extrapolated = int(((t < points[0]) | (t > points[-1])).sum())
    between = updates - extrapolated - int((points > 0).sum())
    return rates, between, extrapolated


def batches_of_all(path: Path, name: str, values: Mapping[int, float], updates: int) -> FloatArray:
    """The batch of every update: it stands from where it is logged until the next."""
    points, logged = _finite(path, name, values)
    if not points.size:
        raise refusal(path, f"must have batches in column {name}", "none")
    if (logged <= 0.0).any():
        raise refusal(path, f"must have positive batches in column {name}", f"{logged.min():g}")
    if (logged != logged[0]).any():
        _refuse_gaps(path, name, points, updates, "batch")
    latest = np.searchsorted(points, np.arange(1, updates + 1), side="right") - 1
    return np.asarray(logged[np.maximum(latest, 0)])


def _finite(path: Path, name: str, values: Mapping[int, float]) -> tuple[IntArray, FloatArray]:
    """Steps and values; a value that is NaN counts as not logged."""
    there = {step: value for step, value in values.items() if not math.isnan(value)}
    if math.inf in map(abs, there.values()):
        raise refusal(path, f"must have finite numbers in column {name}", "infinity")
    return np.array(list(there), dtype=np.int64), np.array(list(there.values()))


def _refuse_gaps(path: Path, name: str, points: IntArray, updates: int, argument: str) -> None:
    """Refuse too many updates in a row without a logged value."""
    bounds = [0, *points.tolist(), updates + 1]
    for k, (before, after) in enumerate(pairwise(bounds)):
        at_an_end = k in (0, len(bounds) - 2)
        limit = LARGEST_END if at_an_end else LARGEST_GAP
        missing = after - before - 1
        if missing > limit * updates:
            where = f"updates {before + 1} to {after - 1}, of {updates}"
            kind = "before the first or after the last value" if at_an_end else "between two values"
            needed = f"must have no gap of over {limit:.0%} of the run {kind} in column {name}"
            raise refusal(path, needed, where, hint=f"give {argument} as one number per update")
