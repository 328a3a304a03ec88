r"""What single samples do to an average over datasets: outliers, and fourth moments that vary.

The mean field rotates the samples anew at every step. On a real dataset they stay, so a sample
with a large norm is noisy at every step. Two measures of what that neglects: how much
samples with large norms grow, and, to second order, what the spread of the dataset's fourth
moment does to the whole fluctuation.
"""

from __future__ import annotations

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.model.norm_tail import saddle_norm_tail
from batchlaw.model.problem import Problem
from batchlaw.risk.contour_solution import LOG_OVERFLOW

# Datasets rarer than one in this many are left out of an average: it would not settle with them.
RAREST = 1e4
# Error from single samples above which a result carries a note.
NOTED_ERROR = 0.1
# Norms over which growth is averaged.
NORMS = 48
# Variance of N sum |z|^4/(sum |z|^2)^2 over that of |z|^2/E|z|^2, squared: 6 for one direction.
FOURTH_MOMENT = 6.0


def outlier_error(problem: Problem, gamma: FloatArray, rho: FloatArray, N: int) -> FloatArray:
    """Estimated relative error of each schedule's fluctuation from samples with large norms.

    The growth of a sample's squared residual beyond 1, averaged over its norm up to one that
    a dataset in ten thousand has. Beyond that the plain expectation may still diverge: growth is
    a power of the norm, with an exponent that rises with the steps.
    """
    norms, log_tail = saddle_norm_tail(problem, NORMS)
    met = log_tail > -np.log(RAREST * N)
    excess = np.array([np.expm1(_log_growth(r, gamma, rho, N)) for r in norms[met]])
    return np.asarray(np.maximum(-np.trapezoid(excess, np.exp(log_tail[met]), axis=0), 0.0))


def _log_growth(norm: float, gamma: FloatArray, rho: FloatArray, N: int) -> FloatArray:
    """Logarithm of the largest growth over consecutive steps of a sample with this |z|^2 = r.

    Its residual is multiplied by 1 - m x, x = gamma r/N, at a step that weights it by m, of
    mean 1 and variance (N - 1) rho: second moments grow by (1 - x)^2 + (N - 1) rho x^2.
    """
    x = gamma * norm / N
    growth = np.log((1.0 - x) ** 2 + (N - 1) * rho * x * x)
    sums = np.cumsum(np.insert(growth, 0, 0.0, axis=-1), axis=-1)
    largest = (sums - np.minimum.accumulate(sums, axis=-1)).max(axis=-1)
    return np.asarray(np.minimum(largest, 2.0 * LOG_OVERFLOW))


def rotation_error(
    problem: Problem, gamma: FloatArray, rho: FloatArray, N: int, bias: float
) -> FloatArray:
    """Estimated relative error of each schedule's fluctuation from rotating at every step.

    With v the variance of |z|^2/E|z|^2, a dataset's fourth moment has a relative variance of
    about 6 v^2/N. A share d more of it multiplies the fluctuation by 1 + sigma d + ..., with
    sigma = sum_t gamma^2 rho tr(Sigma^2) where the residuals come from the iterate itself,
    and the stationary gain gamma rho tr(Sigma)/2 where they are label noise. On average
    the neglected second order is half of sigma^2 times that variance.
    """
    square = float(problem.multiplicity @ problem.eigenvalues**2)
    variance = 2.0 * square / problem.trace**2
    lasting = (gamma**2 * rho).sum(axis=-1) * square
    stationary = 0.5 * (gamma * rho).max(axis=-1) * problem.trace
    level = problem.noise_variance + bias
    share = problem.noise_variance / level if level > 0.0 else 1.0
    gain = share * stationary**2 + (1.0 - share) * lasting**2
    return np.asarray(0.5 * FOURTH_MOMENT * variance**2 / N * gain)
