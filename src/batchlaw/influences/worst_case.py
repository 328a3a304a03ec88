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

# Stop when the worst ratio and its lower bound are this close.
TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class RobustInfluence:
    """One influence that represents several candidates.

    Attributes
    ----------
    influence : (T,) array
        Allocating by it gives the schedule with the smallest worst ratio.
    worst_ratio
        That schedule's sum kappa/B over the candidate's optimum, for the worst candidate.
    lower_bound
        No schedule has a smaller worst ratio than this, the value of the dual problem.
    ratios : (K,) array
        The ratio for each candidate.
    weights : (K,) array
        The weight of each candidate in the mixture.
    """

    influence: FloatArray
    worst_ratio: float
    lower_bound: float
    ratios: FloatArray
    weights: FloatArray


def robust_influence(candidates: ArrayLike, rounds: int = 20_000) -> RobustInfluence:
    r"""Minimise over schedules the worst ratio to the square-root rule, over candidate influences.

    With F_k(B) = sum_t kappa_kt / B_t and F_k* = (sum_t sqrt(kappa_kt))^2 at a unit budget,
    min_B max_k F_k(B)/F_k* is convex in B. For weights w on the candidates the inner minimum
    is the square-root rule for sum_k w_k kappa_k / F_k*; its value, the dual function, is
    concave in w with the ratios as its gradient. Exponentiated gradient steps, lengthened on
    success and shortened on failure, raise it until it meets the worst ratio. (SciPy's SLSQP
    takes as long and ends 1e-5 away within the same tolerance, so exported plans would change.)

    Parameters
    ----------
    candidates : (K, T) array
        Influence under each spectrum considered possible.
    """
    kappa = np.atleast_2d(np.asarray(candidates, dtype=np.float64))
    if not np.isfinite(kappa).all() or (kappa < 0.0).any() or not kappa.any(axis=1).all():
        raise InputError("candidates", "must be finite, not negative, and not zero at every step")
    scaled = kappa / (np.sqrt(kappa).sum(axis=1) ** 2)[:, None]
    current = _best_for(scaled, np.zeros(kappa.shape[0]))
    best = current
    step = 1.0
    for _ in range(rounds):
        if best.worst_ratio - current.lower_bound < TOLERANCE:
            break
        spread = max(float(np.ptp(current.ratios)), np.finfo(float).tiny)
        move = step * (current.ratios - current.ratios.max()) / spread
        trial = _best_for(scaled, np.log(current.weights + 1e-300) + move)
        if trial.lower_bound >= current.lower_bound:
            current, step = trial, 1.5 * step
            best = min(best, current, key=lambda robust: robust.worst_ratio)
        else:
            step /= 3.0
    return replace(best, lower_bound=current.lower_bound)


def _best_for(scaled: FloatArray, log_weights: FloatArray) -> RobustInfluence:
    """The best schedule for these weights, its ratios, and their mean, the dual value."""
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    mixed = weights @ scaled
    root = np.sqrt(mixed)
    # A step without influence in any candidate costs nothing, however small its batch.
    ratios = scaled @ np.divide(root.sum(), root, out=np.zeros_like(root), where=root > 0.0)
    return RobustInfluence(mixed, float(ratios.max()), float(weights @ ratios), ratios, weights)


def power_law_candidates(rates: ArrayLike, law: PowerLaw) -> FloatArray:
    """``influence_proxy`` for every exponent of the law, as a (K, T) array."""
    gamma = checks.vector("rates", rates)
    scale = law.trace(float(gamma.max()))
    return np.array([influence_proxy(gamma, a, scale) for a in law.exponents().tolist()])
