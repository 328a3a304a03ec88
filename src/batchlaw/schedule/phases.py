"""The phases of a learning-rate schedule, and the schedule as a trainer would run it.

Trainers know a warmup, a plateau and a decay shape, and count them in updates or in samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray

# Decays from 1 at x = 0 to 0 at x = 1, as trainers define them. "exponential" is Megatron-LM's,
# half a life long, shifted and scaled; it is not the paper's.
SHAPES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "linear": lambda x: 1.0 - x,
    "cosine": lambda x: 0.5 * (1.0 + np.cos(np.pi * x)),
    "1-sqrt": lambda x: 1.0 - np.sqrt(x),
    "exponential": lambda x: 2.0 * 0.5**x - 1.0,
}


@dataclass(frozen=True)
class Phases:
    """Warmup up to step ``warmup``, the peak up to step ``stable``, then the decay."""

    first: float
    peak: float
    final: float
    warmup: int
    stable: int
    steps: int

    @property
    def decays(self) -> bool:
        return self.stable < self.steps


def find_phases(rates: ArrayLike) -> Phases:
    """First and last step at the peak rate; without warmup the first is step 1."""
    gamma = checks.vector("rates", rates)
    peak = float(gamma.max())
    if peak == 0.0:
        raise ValueError("rates must not be zero at every step")
    at_peak = np.flatnonzero(gamma >= peak * (1.0 - 1e-13))
    return Phases(
        first=float(gamma[0]),
        peak=peak,
        final=float(gamma[-1]),
        warmup=int(at_peak[0]) + 1,
        stable=int(at_peak[-1]) + 1,
        steps=int(gamma.size),
    )


def trainer_rates(
    phases: Phases,
    shape: str,
    positions: NDArray[np.int64],
    *,
    warmup: int,
    decay: tuple[int, int],
    start: float,
) -> FloatArray:
    """Rates at ``positions`` (updates or samples counted) of a trainer's schedule.

    Linear from ``start`` at 0 to the peak at ``warmup``; the peak; then from ``decay[0]`` the
    ``shape`` down to the final rate at ``decay[1]``.
    """
    ramp = start + (phases.peak - start) * positions / max(warmup, 1)
    if not phases.decays:
        return np.where(positions < warmup, ramp, phases.peak)
    x = np.clip((positions - decay[0]) / (decay[1] - decay[0]), 0.0, 1.0)
    down = phases.final + (phases.peak - phases.final) * SHAPES[shape](x)
    return np.where(positions < warmup, ramp, down)


@dataclass(frozen=True)
class Match:
    """The closest shape, and its largest departure from the plan's rates."""

    shape: str
    departure: float
    step: int

    def __str__(self) -> str:
        if self.departure < 1e-9:
            return "equal to the plan's"
        return f"up to {self.departure:.2%} of the peak away from the plan's (step {self.step})"


def closest_shape(
    rates: FloatArray, shapes: Sequence[str], run: Callable[[str], FloatArray]
) -> Match:
    """Which of the trainer's shapes, run by ``run``, comes closest to the rates."""
    matches = []
    for shape in shapes:
        apart = np.abs(run(shape) - rates) / rates.max()
        matches.append(Match(shape, float(apart.max()), int(np.argmax(apart)) + 1))
    return min(matches, key=lambda match: match.departure)
