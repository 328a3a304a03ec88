"""A schedule for an unknown spectrum: the best worst case over a range of exponents."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.influences.weights import influence_proxy
from batchlaw.model.spectrum import PowerLaw

# Stop when worst ratio and lower bound are this close.
TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class RobustInfluence:
    """One influence that stands for many.

    Attributes
    ----------
    influence : (T,) array
        Allocating by it gives the schedule whose worst ratio is smallest.
    worst_ratio
        Largest sum kappa/B over its own optimum among the candidates, for that schedule.
    lower_bound
        No schedule has a smaller worst ratio: the value of the dual problem.
    ratios : (K,) array
        The ratio for each candidate.
    weights : (K,) array
        How much each candidate counts.
    """

    influence: FloatArray
    worst_ratio: float
    lower_bound: float
    ratios: FloatArray
    weights: FloatArray


def robust_influence(candidates: ArrayLike, rounds: int = 20_000) -> RobustInfluence:
    r"""Minimise over schedules the worst ratio to the oracle, over candidate influences.

    With F_k(B) = sum_t kappa_kt / B_t and F_k* = (sum_t sqrt(kappa_kt))^2 at a unit budget,
    min_B max_k F_k(B)/F_k* is convex in B. For weights w on the candidates the inner minimum
    is the square-root rule for sum_k w_k kappa_k / F_k*; its value, the dual function, is
    concave in w with the ratios as its gradient. Exponentiated gradient steps, lengthened
    while they climb and shortened when not, raise it until it meets the worst ratio. (SciPy's
    SLSQP takes as long, and ends 1e-5 away within the same tolerance: exported plans would
    change.)

    Parameters
    ----------
    candidates : (K, T) array
        Influence under each spectrum that is thought possible.
    """
    kappa = np.atleast_2d(np.asarray(candidates, dtype=np.float64))
    if not np.isfinite(kappa).all() or (kappa < 0.0).any() or not kappa.any(axis=1).all():
        raise InputError(
            "candidates", "must be influences: finite, not negative, not all zero at every step"
        )
    scaled = kappa / (np.sqrt(kappa).sum(axis=1) ** 2)[:, None]
    here = _at(scaled, np.zeros(kappa.shape[0]))
    best = here
    step = 1.0
    for _ in range(rounds):
        if best.worst_ratio - here.lower_bound < TOLERANCE:
            break
        spread = max(float(np.ptp(here.ratios)), np.finfo(float).tiny)
        move = step * (here.ratios - here.ratios.max()) / spread
        there = _at(scaled, np.log(here.weights + 1e-300) + move)
        if there.lower_bound >= here.lower_bound:
            here, step = there, 1.5 * step
            best = min(best, here, key=lambda x: x.worst_ratio)
        else:
            step /= 3.0
    return replace(best, lower_bound=here.lower_bound)


def _at(scaled: FloatArray, log_weights: FloatArray) -> RobustInfluence:
    """The best schedule for some weights: its ratios, and the dual value they average to."""
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    mixed = weights @ scaled
    root = np.sqrt(mixed)
    # A step that matters to no candidate costs nothing however small its batch.
    ratios = scaled @ np.divide(root.sum(), root, out=np.zeros_like(root), where=root > 0.0)
    return RobustInfluence(mixed, float(ratios.max()), float(weights @ ratios), ratios, weights)


def power_law_candidates(rates: ArrayLike, law: PowerLaw) -> FloatArray:
    """``influence_proxy`` for every exponent of the law, as a (K, T) array."""
    gamma = checks.vector("rates", rates)
    scale = law.trace(float(gamma.max()))
    return np.array([influence_proxy(gamma, a, scale) for a in law.exponents().tolist()])
