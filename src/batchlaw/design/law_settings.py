"""How many updates, and at which peak rate, by a law of training runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.batches.limits import Limits
from batchlaw.from_data.laws.training_law import TrainingLaw

# The updates are tried up to this factor from the given ones; so many numbers of them, and of peak
# rates; then the space between two is halved this many times around the best.
FACTOR, TRIED, HALVINGS = 2.0, 9, 2
# Runs whose largest and smallest peak, or batch, are closer than this show one.
SEVERAL = 1.2


@dataclass(frozen=True, eq=False)
class Setting:
    """A number of updates and a peak rate, each with a constant batch.

    Attributes
    ----------
    rates : (T,) array
        The given shape of the rates over this many updates, with this peak.
    batch
        Samples over updates.
    loss
        Predicted final loss.
    change
        Low end, value and high end of its difference to the given setting's.
    """

    rates: FloatArray
    batch: float
    loss: float
    change: tuple[float, float, float]

    @property
    def steps(self) -> int:
        return int(self.rates.size)

    @property
    def peak(self) -> float:
        return float(self.rates.max())


def several_batches(law: TrainingLaw) -> bool:
    """Whether the runs have several batch sizes."""
    return law.seen.largest_batch > SEVERAL * law.seen.smallest_batch


def reshaped(gamma: FloatArray, steps: int, peak: float) -> FloatArray:
    """Rates of the same shape over another number of updates, with another peak."""
    if steps == gamma.size:
        rates = gamma
    else:
        places = (np.arange(steps) + 0.5) / steps
        rates = np.interp(places, (np.arange(gamma.size) + 0.5) / gamma.size, gamma)
    return np.asarray(rates * (peak / rates.max()))


def law_settings(
    law: TrainingLaw,
    gamma: FloatArray,
    samples: int,
    limits: Limits,
    *,
    steps: bool,
    peak: bool,
) -> list[Setting]:
    """Predicted losses over numbers of updates, peak rates, or both, by number of updates.

    Mean batches and peak rates stay within those of the runs. Where both are free, each number of
    updates is given with its best peak.

    Parameters
    ----------
    law : TrainingLaw
        What predicts the loss.
    gamma : (T,) array
        The given rates, whose shape is kept.
    samples
        What every setting spends.
    limits
        Constraints on the batches, which the number of updates must let be met.
    steps, peak
        What is free.
    """
    counts = _counts(law, gamma, samples, limits) if steps else None
    peaks = _peaks(law) if peak else None
    given = gamma.size, float(gamma.max())

    def rates_of(a: float, b: float) -> FloatArray:
        count = given[0] if counts is None else counts.at(a)
        return reshaped(gamma, count, given[1] if peaks is None else peaks.at(b))

    def loss_of(a: float, b: float) -> float:
        rates = rates_of(a, b)
        return float(law.curve(rates, samples / rates.size, [rates.size])[0])

    losses = _search(loss_of, counts is not None, peaks is not None)
    chosen: dict[float, tuple[float, float]] = {}
    for (a, b), loss in losses.items():
        own = a if counts is not None else b
        if own not in chosen or loss < losses[chosen[own]]:
            chosen[own] = a, b
    settings = {}
    for best in chosen.values():
        rates, loss = rates_of(*best), losses[best]
        batch, reference = samples / rates.size, (gamma, samples / gamma.size)
        change, low, high = law.difference((rates, batch), reference)
        settings[rates.size, rates.max()] = Setting(rates, batch, loss, (low, change, high))
    return [settings[key] for key in sorted(settings)]


@dataclass(frozen=True)
class _Counts:
    """Numbers of updates from ``low`` at 0 to ``high`` at 1."""

    low: float
    high: float

    def at(self, place: float) -> int:
        return max(round(float(self.low * (self.high / self.low) ** place)), 1)


@dataclass(frozen=True)
class _Peaks:
    """Peak rates from ``low`` at 0 to ``high`` at 1."""

    low: float
    high: float

    def at(self, place: float) -> float:
        return float(self.low * (self.high / self.low) ** place)


def _counts(law: TrainingLaw, gamma: FloatArray, samples: int, limits: Limits) -> _Counts:
    """The updates that may be tried."""
    seen = law.seen
    if not several_batches(law):
        needed = "needs a law of runs with several batch sizes"
        raise InputError("choose_steps", needed, f"{seen.largest_batch:g} alone")
    unit = limits.multiple_of
    smallest = max(seen.smallest_batch, -(-limits.min_batch // unit) * unit)
    largest = seen.largest_batch
    if limits.max_batch is not None:
        largest = min(largest, limits.max_batch // unit * unit)
    low = max(gamma.size / FACTOR, samples / max(largest, 1e-9))
    high = min(gamma.size * FACTOR, samples / smallest)
    low, high = float(np.ceil(low - 1e-9)), float(np.floor(high + 1e-9))
    if low > high:
        raise InputError(
            "choose_steps",
            f"needs a number of updates within a factor of {FACTOR:g} of {gamma.size} whose mean "
            f"batch is allowed and among those of the runs, {seen.smallest_batch:g} to "
            f"{seen.largest_batch:g}",
            f"a mean of {samples / gamma.size:.3g}",
        )
    return _Counts(low, high)


def _peaks(law: TrainingLaw) -> _Peaks:
    low, high = law.seen.lowest_peak, law.seen.highest_peak
    if high < SEVERAL * low:
        raise InputError(
            "choose_peak", "needs a law of runs with several peak rates", f"{high:g} alone"
        )
    return _Peaks(low, high)


def _search(
    loss_of: Callable[[float, float], float], steps: bool, peak: bool
) -> dict[tuple[float, float], float]:
    """Losses on a grid over the free ones of two places in 0..1, finer around the best."""
    grid = np.linspace(0.0, 1.0, TRIED).tolist()
    losses: dict[tuple[float, float], float] = {}

    def add(first: Sequence[float], second: Sequence[float]) -> None:
        for place in itertools.product(first, second):
            if place not in losses:
                losses[place] = loss_of(*place)

    add(grid if steps else [0.0], grid if peak else [0.0])
    space = 1.0 / (TRIED - 1)
    for _ in range(HALVINGS):
        space /= 2.0
        a, b = min(losses, key=lambda place: losses[place])
        near = [[x for x in (c - space, c, c + space) if 0.0 <= x <= 1.0] for c in (a, b)]
        add(near[0] if steps else [0.0], near[1] if peak else [0.0])
    return losses
