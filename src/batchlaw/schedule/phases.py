"""The phases of a learning-rate schedule as trainers define them: warmup, plateau, decay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.errors import InputError


@dataclass(frozen=True)
class Phases:
    """Warmup until step ``warmup``, peak rate until step ``stable``, then decay."""

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
    """Find the first and last step at the peak rate; without warmup the first is step 1."""
    gamma = checks.vector("rates", rates)
    peak = float(gamma.max())
    if peak == 0.0:
        raise InputError("rates", "must not be zero at every step")
    at_peak = np.flatnonzero(gamma >= peak * (1.0 - 1e-13))
    return Phases(
        first=float(gamma[0]),
        peak=peak,
        final=float(gamma[-1]),
        warmup=int(at_peak[0]) + 1,
        stable=int(at_peak[-1]) + 1,
        steps=int(gamma.size),
    )
