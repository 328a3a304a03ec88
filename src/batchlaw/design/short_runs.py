"""Short training runs that could be made next: a catalogue around a target run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.batches.limits import Limits

# Lengths and peaks as shares of the target's.
LENGTHS = (1 / 8, 1 / 4, 1 / 2)
PEAKS = (1.0, 0.5)
# Batches as multiples of the target's mean: constant ones, and first and second half of a run.
SIZES = (1.0, 0.5, 2.0, 0.25, 4.0)
CHANGES = ((2.0, 0.5), (2.0, 0.25), (4.0, 0.25))
# The warmup has as many updates as the target's, but at most this share of a short run.
MOST_WARMUP = 0.25
FEWEST_UPDATES = 8
TARGET = "target"
# Rates after the warmup as shares of the peak, x from 0 to 1.
SHAPES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "constant": np.ones_like,
    "late decay": lambda x: np.minimum(1.0, 5.0 * (1.0 - x)),
    "linear": lambda x: 1.0 - x,
    "sharp drop": lambda x: np.where(x < 0.6, 1.0, 0.1),
}


@dataclass(frozen=True, eq=False)
class ShortRun:
    """A training run that could be made.

    Attributes
    ----------
    shape
        Of the rates: "target" has the target run's in fewer updates; or one of "constant",
        "late decay", "linear" and "sharp drop".
    peak
        The largest rate.
    first, second
        The batch in the first and the second half of the updates.
    relative : (steps,) array
        Rates over the peak.
    """

    shape: str
    peak: float
    first: int
    second: int
    relative: FloatArray

    @property
    def steps(self) -> int:
        return int(self.relative.size)

    @property
    def samples(self) -> int:
        half = self.steps // 2
        return self.first * half + self.second * (self.steps - half)

    @property
    def rates(self) -> FloatArray:
        return self.peak * self.relative

    @property
    def batches(self) -> IntArray:
        return np.where(np.arange(self.steps) < self.steps // 2, self.first, self.second)

    @property
    def batch(self) -> str:
        """The batch in words: "64", or "128 then 32"."""
        change = self.first != self.second
        return f"{self.first} then {self.second}" if change else f"{self.first}"

    def row(self, name: str) -> dict[str, str | int | float]:
        """The run in plain values; ``file`` has its rates and batches."""
        return {
            "name": name,
            "steps": self.steps,
            "peak": self.peak,
            "rates": self.shape,
            "batch": self.batch,
            "samples": self.samples,
            "file": f"{name}.csv",
        }


def catalogue(rates: FloatArray, budget: int, limits: Limits, shortest: int) -> list[ShortRun]:
    """Every short run of at least ``shortest`` updates whose batches are within the limits."""
    mean, peak, warm = budget / rates.size, float(rates.max()), _warmup(rates)
    shapes = {TARGET: _own_shape(rates, warm)} | SHAPES
    found = []
    for length in LENGTHS:
        steps = round(length * rates.size)
        if steps < max(shortest, FEWEST_UPDATES):
            continue
        found += [
            ShortRun(name, share * peak, first, second, relative)
            for name, relative in _distinct(shapes, steps, min(warm, int(MOST_WARMUP * steps)))
            for share in PEAKS
            for first, second in _sizes(mean, limits)
        ]
    return found


def _distinct(
    shapes: Mapping[str, Callable[[FloatArray], FloatArray]], steps: int, warm: int
) -> list[tuple[str, FloatArray]]:
    """Rates over the peak by shape; the target's own may be one of the others."""
    found: list[tuple[str, FloatArray]] = []
    for name, shape in shapes.items():
        relative = _with_warmup(shape, steps, warm)
        if not any(np.allclose(relative, other, atol=0.02) for _, other in found):
            found.append((name, relative))
    return found


def _sizes(mean: float, limits: Limits) -> list[tuple[int, int]]:
    """Batches of both halves, whole and within the limits, without repetition."""
    pairs: list[tuple[float, float]] = [(size, size) for size in SIZES]
    pairs += [pair for high, low in CHANGES for pair in ((high, low), (low, high))]
    unit = limits.multiple_of
    lowest = -(-limits.min_batch // unit) * unit
    highest = np.inf if limits.max_batch is None else limits.max_batch

    def whole(share: float) -> int:
        return max(round(mean * share / unit) * unit, lowest)

    found = dict.fromkeys((whole(first), whole(second)) for first, second in pairs)
    return [pair for pair in found if max(pair) <= highest]


def _warmup(rates: FloatArray) -> int:
    """Updates before the rate is at its peak for the first time."""
    return int(np.argmax(rates >= rates.max() * (1.0 - 1e-9)))


def _own_shape(rates: FloatArray, warm: int) -> Callable[[FloatArray], FloatArray]:
    after = rates[warm:] / rates.max()
    places = np.linspace(0.0, 1.0, after.size)
    return lambda x: np.interp(x, places, after)


def _with_warmup(shape: Callable[[FloatArray], FloatArray], steps: int, warm: int) -> FloatArray:
    t = np.arange(steps)
    x = np.clip((t - warm) / max(steps - 1 - warm, 1), 0.0, 1.0)
    return np.asarray(np.where(t < warm, (t + 1) / (warm + 1), shape(x)))
