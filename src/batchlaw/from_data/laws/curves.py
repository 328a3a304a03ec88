"""Training runs as a law sees them: relative rates and batches in rows, losses after a warmup."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import InputError
from batchlaw.from_data.laws.published.base import warmup
from batchlaw.from_data.run import Run

# Rows of the longest run; each stands for the same number of updates.
ROWS = 400
# Losses of one run that a fit looks at, evenly spread over those that count.
MOST_POINTS = 60
# Share of the longest run that is not fitted: no law of this family describes the first updates.
FIRST = 0.1
FEWEST_POINTS = 3


@dataclass(frozen=True)
class Scale:
    """What is measured relative to what: the units of a law.

    Attributes
    ----------
    peak
        The largest rate of the runs that were fitted.
    batch
        The geometric mean of their batches.
    span
        Updates of the longest of them.
    steps
        Updates of a row.
    """

    peak: float
    batch: float
    span: int
    steps: int

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Scale:
        span = max(int(run.steps[-1]) for run in runs)
        logs = [float(np.mean(np.log(run.batches))) for run in runs]
        peak = max(float(run.rates.max()) for run in runs)
        return cls(peak, float(np.exp(np.mean(logs))), span, max(1, round(span / ROWS)))


@dataclass(frozen=True)
class Rows:
    """One schedule in rows of ``scale.steps`` updates, and where its losses are.

    Attributes
    ----------
    rates : (R,) array
        Mean rate of a row over the scale's peak.
    noise : (R,) array
        The scale's batch over the batch, averaged.
    whole : (n,) array
        Full rows before each loss.
    part : (n,) array
        Share of the next row before it.
    """

    rates: FloatArray
    noise: FloatArray
    whole: IntArray
    part: FloatArray

    @classmethod
    def of(cls, rates: FloatArray, batches: FloatArray, steps: IntArray, scale: Scale) -> Rows:
        place = steps / scale.steps
        whole = np.floor(place + 1e-9).astype(np.int64)
        return cls(
            _means(rates / scale.peak, scale.steps),
            _means(scale.batch / batches, scale.steps),
            whole,
            np.maximum(place - whole, 0.0),
        )

    def read(self, cumulative: FloatArray) -> FloatArray:
        """A sum over rows, (R + 1,), at the losses: on a straight line within a row."""
        after = np.minimum(self.whole + 1, cumulative.size - 1)
        here = cumulative[self.whole]
        return np.asarray(here + self.part * (cumulative[after] - here))


@dataclass(frozen=True)
class Group:
    """Runs with one schedule, seeds averaged: what a fit sees of them.

    ``weight`` is that of each loss in the sum of squares: a run counts as much as another, however
    often it was measured.
    """

    rows: Rows
    steps: IntArray
    losses: FloatArray
    count: int
    run: Run

    @property
    def weight(self) -> float:
        return self.count / self.losses.size

    @property
    def tail(self) -> IntArray:
        """Indices of the last 30 % of the run: what a prediction is judged by."""
        return np.flatnonzero(self.steps >= 0.7 * self.steps[-1])


def groups(runs: Sequence[Run], scale: Scale) -> list[Group]:
    """One group for every schedule, without the first tenth (``FIRST``) of the longest run.

    Seeds whose losses were measured after different updates cannot be averaged: one group each.
    """
    first = FIRST * scale.span
    found: dict[tuple[bytes, bytes], list[tuple[FloatArray, Run]]] = {}
    places: dict[tuple[bytes, bytes], IntArray] = {}
    for run in runs:
        used = np.flatnonzero(run.steps >= max(first, warmup(run.rates), 1))
        if used.size < FEWEST_POINTS:
            need = (
                f"must each have at least {FEWEST_POINTS} losses after its warmup and after "
                f"update {first:.0f}, a tenth of the longest run"
            )
            raise InputError("runs", need, f"{used.size}")
        if used.size > MOST_POINTS:
            used = used[np.linspace(0, used.size - 1, MOST_POINTS).round().astype(int)]
        steps = run.steps[used]
        key = schedule_key(run), steps.tobytes()
        found.setdefault(key, []).append((run.losses[used], run))
        places[key] = steps
    return [
        Group(
            Rows.of(members[0][1].rates, members[0][1].batches, places[key], scale),
            places[key],
            np.mean([losses for losses, _ in members], axis=0),
            len(members),
            members[0][1],
        )
        for key, members in found.items()
    ]


def schedule_key(run: Run) -> bytes:
    """The same for runs with the same rates and batches, and short: runs may have 10^6 updates."""
    return hashlib.sha256(run.rates.tobytes() + run.batches.tobytes()).digest()


def _means(values: FloatArray, steps: int) -> FloatArray:
    """Means over rows of ``steps`` values; the last row repeats the last value to be full."""
    missing = -values.size % steps
    padded = np.concatenate([values, np.full(missing, values[-1])])
    return np.asarray(padded.reshape(-1, steps).mean(axis=1))
