"""What a schedule loses when its spectrum comes from a pilot sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw.batches.allocation import allocate
from batchlaw.from_data.estimated_spectrum import estimate_spectrum
from batchlaw.influences.weights import influence

METHODS = ("corrected", "plug-in")


@dataclass(frozen=True, eq=False)
class Regret:
    """Efficiency of plug-in schedules for one number of pilot samples.

    Attributes
    ----------
    samples : int
        Pilot samples.
    efficiency : (R,) array
        min sum kappa/B over the plug-in schedule's, one a pilot; 1 is the oracle.
    """

    samples: int
    efficiency: FloatArray

    @property
    def mean(self) -> float:
        return float(self.efficiency.mean())

    @property
    def error(self) -> float:
        """Standard error of the mean over pilots."""
        return float(self.efficiency.std(ddof=1) / np.sqrt(self.efficiency.size))

    @property
    def worst(self) -> float:
        return float(self.efficiency.min())


def plug_in_regret(
    eigenvalues: ArrayLike,
    rates: ArrayLike,
    budget: int,
    samples: Sequence[int] = (8, 16, 32, 64, 128, 256, 512),
    *,
    method: str = "corrected",
    pilots: int = 50,
    seed: int = 0,
) -> list[Regret]:
    """Efficiency of schedules made from Gaussian pilots of a known spectrum.

    Parameters
    ----------
    eigenvalues : (M,) array
        The truth, mu_j.
    rates, budget
        Of the run; batches are real numbers of at least 1.
    samples
        Numbers of pilot samples.
    method
        "corrected" eigenvalues (``estimate_spectrum``), or "plug-in": the sample's own.
    """
    mu = checks.vector("eigenvalues", eigenvalues, positive=True)
    checks.choice("method", method, METHODS)
    pilots = checks.count("pilots", pilots, minimum=2)
    seed = checks.count("seed", seed, minimum=0)
    kappa = influence(mu, rates)
    best = _noise(kappa, kappa, budget)
    curve = []
    for n in samples:
        n = checks.count("samples", n, minimum=2)
        streams = np.random.SeedSequence((seed, n)).spawn(pilots)
        found = [_plugged(mu, rates, n, method, np.random.default_rng(s)) for s in streams]
        curve.append(Regret(n, np.array([best / _noise(kappa, k, budget) for k in found])))
    return curve


def _plugged(
    mu: FloatArray, rates: ArrayLike, n: int, method: str, rng: np.random.Generator
) -> FloatArray:
    features = rng.standard_normal((n, mu.size)) * np.sqrt(mu)
    spectrum = estimate_spectrum(features)
    if method == "plug-in":
        return influence(spectrum.sample_eigenvalues, rates)
    return influence(spectrum, rates)


def _noise(truth: FloatArray, believed: FloatArray, budget: int) -> float:
    return float((truth / allocate(believed, budget, method="continuous")).sum())
