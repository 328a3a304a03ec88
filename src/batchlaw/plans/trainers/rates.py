"""The planned rates as a trainer would run them: warmup, plateau and one of its own decays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.schedule.phases import Phases

# Decays from 1 at x = 0 to 0 at x = 1, as trainers define them. The last one is Megatron-LM's
# "exponential": one half-life, shifted and scaled; it is not the paper's.
SHAPES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "linear": lambda x: 1.0 - x,
    "cosine": lambda x: 0.5 * (1.0 + np.cos(np.pi * x)),
    "1-sqrt": lambda x: 1.0 - np.sqrt(x),
    "shifted exponential": lambda x: 2.0 * 0.5**x - 1.0,
}


@dataclass(frozen=True)
class Match:
    """The decay of a trainer that is closest to the plan's, and its largest departure.

    Attributes
    ----------
    shape
        The closest decay.
    departure
        Largest distance from the plan's rates, as a share of the peak.
    step
        The step of the largest distance.
    shapes
        The decays that this trainer supports.
    """

    shape: str
    departure: float
    step: int
    shapes: tuple[str, ...]

    def __str__(self) -> str:
        if self.departure < 1e-9:
            return "equal to the plan's"
        return f"up to {self.departure:.2%} of the peak away from the plan's (step {self.step})"


def trainer_rates(
    phases: Phases,
    shape: str,
    positions: IntArray,
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


def closest_shape(
    rates: FloatArray, shapes: Sequence[str], run: Callable[[str], FloatArray]
) -> Match:
    """The trainer's decay that is closest to the rates; ``run`` gives the rates of a decay."""
    matches = []
    for shape in shapes:
        distance = np.abs(run(shape) - rates) / rates.max()
        step = int(np.argmax(distance)) + 1
        matches.append(Match(shape, float(distance.max()), step, tuple(shapes)))
    return min(matches, key=lambda match: match.departure)
