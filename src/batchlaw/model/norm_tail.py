r"""The tail of ||z||^2 for a Gaussian sample z, far beyond what can be drawn.

With K(s) = log E exp(s ||z||^2) = -(1/2) sum_j n_j log(1 - 2 s mu_j), for any 0 < l < 1/(2 mu_1),

    P(||z||^2 > r) = 1/(2 pi i) \int exp(K(s) - s r)/s ds      along a path through l,

and for l < 0 the same integral is minus P(||z||^2 <= r). At the saddle point, K'(l) = r, the
integrand does not oscillate, so the relative error is that of rounding even at 10^-300.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw.model.problem import Problem

# The path is a parabola in v, on which the integrand falls at least like exp(-v^2/3); the
# trapezoidal rule then errs by less than 1e-6, and by rounding alone away from the mean.
STEP, LONGEST = 0.08, 10.4
# Distance of the path from the pole at s = 0, in units of 1/sqrt(K''(0)), and its largest share of
# the distance to the singularity at 1/(2 mu_1), which nodes of small multiplicity bring nearer.
CLEARANCE, LARGEST_SHARE = 0.5, 0.7


def log_norm_tail(problem: Problem, norms: ArrayLike) -> FloatArray:
    """log P(||z||^2 > r) of one sample, for every r > 0 in ``norms``."""
    r = checks.vector("norms", norms, positive=True)
    present = problem.multiplicity > 0.0
    mu, n = problem.eigenvalues[present], problem.multiplicity[present]
    saddle = _saddle_points(mu, n, r)
    nearest = min(CLEARANCE / math.sqrt(2.0 * float(n @ mu**2)), LARGEST_SHARE / (2.0 * mu[0]))
    point = np.where(saddle >= 0.0, np.maximum(saddle, nearest), np.minimum(saddle, -nearest))
    log_side = np.array([_log_integral(mu, n, *at) for at in zip(r, point, strict=True)])
    with np.errstate(divide="ignore", over="ignore"):
        # Rounding may leave a lower tail just above 1.
        upper = np.log1p(-np.minimum(np.exp(log_side), 1.0))
    return np.where(point > 0.0, log_side, upper)


def log_largest_norm_tail(problem: Problem, samples: float, norms: ArrayLike) -> FloatArray:
    """log P(max_i ||z_i||^2 > r) of N = ``samples`` samples, for every r in ``norms``."""
    single = log_norm_tail(problem, norms)
    with np.errstate(divide="ignore"):
        # log(1 - (1 - p)^N), which is log(N p) where N p is below rounding.
        none = samples * np.log1p(-np.exp(single))
        exact = np.log(-np.expm1(none))
    return np.where(none < -1e-300, exact, math.log(samples) + single)


def saddle_norm_tail(problem: Problem, count: int) -> tuple[FloatArray, FloatArray]:
    """Norms above the mean, and log P(||z||^2 > r) by the saddle point's first term alone.

    exp(K(l) - l r)/(l sqrt(2 pi K''(l))): one to three times the tail where multiplicities are
    whole, for the cost of a few sums. The norms follow from a grid of l.
    """
    present = problem.multiplicity > 0.0
    mu, n = problem.eigenvalues[present], problem.multiplicity[present]
    point = (1.0 - np.geomspace(1e-3, 1.0, count + 1)[-2::-1]) / (2.0 * mu[0])
    left = 1.0 - 2.0 * np.multiply.outer(point, mu)
    r = (mu / left) @ n
    spread = point * np.sqrt(4.0 * np.pi * ((mu / left) ** 2 @ n))
    log_tail = -0.5 * np.log(left) @ n - point * r - np.log(spread)
    return r, np.minimum(log_tail, np.log(0.5))


def _saddle_points(mu: FloatArray, n: FloatArray, r: FloatArray) -> FloatArray:
    """l with K'(l) = sum_j n_j mu_j/(1 - 2 l mu_j) = r, by bisection of t = 1 - 2 l mu_1 > 0."""
    share = mu / mu[0]
    low = np.full(r.size, 1e-300)
    high = 1.0 + n.sum() * mu[0] / r  # K'(l) <= n.sum() mu_1 / t

    def slope(t: FloatArray) -> FloatArray:
        # 1 - 2 l mu_j, without cancellation where t is tiny.
        left = 1.0 - share + np.multiply.outer(t, share)
        return np.asarray((mu / left) @ n)

    for _ in range(80):
        middle = np.sqrt(low * high)
        too_large = slope(middle) > r
        low, high = np.where(too_large, middle, low), np.where(too_large, high, middle)
    return np.asarray((1.0 - np.sqrt(low * high)) / (2.0 * mu[0]))


def _log_integral(mu: FloatArray, n: FloatArray, r: float, point: float) -> float:
    """log of the integral through ``point``, in absolute value, along the steepest descent."""
    ratio = mu / (1.0 - 2.0 * point * mu)
    curvature, third = 2.0 * float(n @ ratio**2), 8.0 * float(n @ ratio**3)
    width = 1.0 / math.sqrt(curvature)
    bend = third / (6.0 * curvature) * width**2
    v = np.arange(0.0, LONGEST, STEP)
    shift = 1j * width * v + bend * v * v
    # K(s) - K(l), from the ratio of the factors, which does not cancel.
    growth = -0.5 * np.log1p(-2.0 * np.multiply.outer(shift, ratio)) @ n - shift * r
    integrand = (np.exp(growth) * (1j * width + 2.0 * bend * v) / (1j * (point + shift))).real
    integrand[0] *= 0.5
    peak = -0.5 * float(n @ np.log1p(-2.0 * point * mu)) - point * r
    return peak + math.log(abs(float(integrand.sum())) * STEP / math.pi)
