"""A schedule for an unknown spectrum: the best worst case over a range of exponents."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw.influences.weights import influence_proxy

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
    while they climb and shortened when not, raise it until it meets the worst ratio.

    Parameters
    ----------
    candidates : (K, T) array
        Influence under each spectrum that is thought possible.
    """
    kappa = np.atleast_2d(np.asarray(candidates, dtype=np.float64))
    if not np.isfinite(kappa).all() or (kappa < 0.0).any() or not kappa.any(axis=1).all():
        raise ValueError("candidates must be influences: finite, not negative, not all zero")
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


def proxy_candidates(
    rates: ArrayLike, exponents: tuple[float, float], scale: float, points: int = 9
) -> FloatArray:
    """Influence under power laws with exponents a over a range, at one scale tr(Sigma)."""
    low = checks.real("exponents", exponents[0], above=1.0)
    high = checks.real("exponents", exponents[1], at_least=low)
    grid = np.linspace(low, high, checks.count("points", points, minimum=2))
    return np.array([influence_proxy(rates, a, scale) for a in grid])


def robust_proxy(
    rates: ArrayLike, exponents: tuple[float, float], scale: float, points: int = 9
) -> RobustInfluence:
    """``robust_influence`` over power laws with exponents in a range."""
    return robust_influence(proxy_candidates(rates, exponents, scale, points))
