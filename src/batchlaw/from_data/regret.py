"""What a schedule loses if its spectrum is estimated from a pilot sample."""

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
    """Efficiency of schedules from pilots of one size.

    Attributes
    ----------
    samples : int
        Samples per pilot.
    efficiency : (R,) array
        The smallest sum_t kappa_t/B_t over that of the pilot's schedule, one entry per pilot;
        1 for the square-root rule of the true spectrum.
    """

    samples: int
    efficiency: FloatArray

    @property
    def mean(self) -> float:
        """Mean efficiency over pilots."""
        return float(self.efficiency.mean())

    @property
    def error(self) -> float:
        """Standard error of the mean over pilots."""
        return float(self.efficiency.std(ddof=1) / np.sqrt(self.efficiency.size))

    @property
    def worst(self) -> float:
        """The lowest efficiency."""
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
    """Efficiency of schedules from Gaussian pilots of a known spectrum.

    Parameters
    ----------
    eigenvalues : (M,) array
        The true mu_j.
    rates : (T,) array
        gamma_t of the run.
    budget
        Samples of the run; batches are real numbers of at least 1.
    samples
        Pilot sizes, one ``Regret`` for each.
    method
        "corrected" eigenvalues (``estimate_spectrum``), or "plug-in": the sample's eigenvalues.
    pilots
        Pilots per size.
    seed
        Seed of the pilots.
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
        rngs = map(np.random.default_rng, streams)
        estimates = [_pilot_influence(mu, rates, n, method, rng) for rng in rngs]
        curve.append(Regret(n, np.array([best / _noise(kappa, k, budget) for k in estimates])))
    return curve


def _pilot_influence(
    mu: FloatArray, rates: ArrayLike, n: int, method: str, rng: np.random.Generator
) -> FloatArray:
    features = rng.standard_normal((n, mu.size)) * np.sqrt(mu)
    spectrum = estimate_spectrum(features)
    if method == "plug-in":
        return influence(spectrum.sample_eigenvalues, rates)
    return influence(spectrum, rates)


def _noise(kappa: FloatArray, estimate: FloatArray, budget: int) -> float:
    """sum_t kappa_t/B_t with batches allocated by an estimate of kappa."""
    return float((kappa / allocate(estimate, budget, method="continuous")).sum())
