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
from batchlaw.risk.over_datasets import remaining
from batchlaw.risk.sample_spectrum import largest_sample_eigenvalue
from batchlaw.risk.stability import growth

# Datasets rarer than one in this many are left out of an average: it would not settle with them.
RAREST = 1e4
# Error from single samples above which a result carries a note.
NOTED_ERROR = 0.1
# Norms over which growth is averaged.
NORMS = 48
# N times the variance of a dataset's N sum |z|^4/(sum |z|^2)^2, over the squared variance of
# |z|^2/E|z|^2; this value is that of one direction.
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
    """Logarithm of the largest growth over consecutive steps of a sample with |z|^2 = ``norm``.

    Its residual is multiplied by 1 - m x, x = gamma r/N, at a step that weights it by m, of
    mean 1 and variance (N - 1) rho: second moments grow by (1 - x)^2 + (N - 1) rho x^2.
    """
    x = gamma * norm / N
    logs = np.log((1.0 - x) ** 2 + (N - 1) * rho * x * x)
    sums = np.cumsum(np.insert(logs, 0, 0.0, axis=-1), axis=-1)
    largest = (sums - np.minimum.accumulate(sums, axis=-1)).max(axis=-1)
    return np.asarray(np.minimum(largest, 2.0 * LOG_OVERFLOW))


def rotation_error(problem: Problem, gamma: FloatArray, rho: FloatArray, N: int) -> FloatArray:
    """Estimated relative error of each schedule's fluctuation from rotating at every step.

    With v the variance of |z|^2/E|z|^2, a dataset's fourth moment has a relative variance of
    about w = 6 v^2/N. A share d more of it multiplies the fluctuation by about exp(sigma d), whose
    mean over datasets is exp(sigma^2 w/2). If the residuals come from the iterate itself, sigma
    is sum_t gamma^2 rho tr(Sigma^2); if they are label noise it is at most G/(1 - G), with G
    the gain of the noise that it feeds back at the largest gamma rho (``stability.growth``).
    Of the two the smaller holds for label noise, and the first for the rest, in the shares of the
    label noise and of the bias that is left after a quarter of the run.
    """
    square = float(problem.multiplicity @ problem.eigenvalues**2)
    variance = FOURTH_MOMENT * (2.0 * square / problem.trace**2) ** 2 / N
    lasting = (gamma**2 * rho).sum(axis=-1) * square
    stationary = np.array([_feedback(problem, gamma, row) for row in rho])
    left = remaining(problem, gamma[: gamma.size // 4])
    bias = float((problem.multiplicity * problem.eigenvalues * problem.target_energy) @ left**2)
    level = problem.noise_variance + bias
    share = problem.noise_variance / level if level > 0.0 else 1.0
    gain = share * np.minimum(stationary, lasting) ** 2 + (1.0 - share) * lasting**2
    return np.asarray(np.expm1(np.minimum(gain * variance, LOG_OVERFLOW)))


def _feedback(problem: Problem, gamma: FloatArray, rho: FloatArray) -> float:
    """G/(1 - G) at the step with the largest gamma rho; infinite where noise feeds on itself."""
    step = int((gamma * rho).argmax())
    if rho[step] <= 0.0 or gamma[step] <= 0.0:
        return 0.0
    gain = growth(problem, float(gamma[step]), 1.0 / float(rho[step]))
    return gain / (1.0 - gain) if gain < 1.0 else np.inf


def unstable_share(problem: Problem, gamma: FloatArray, N: int) -> float:
    """Estimated probability of a dataset on which GD ends further from u* than it began.

    That is where the largest eigenvalue nu of Sigma_hat has prod_t |1 - gamma_t nu| > 1. It is
    taken as (edge/(1 + 1/sqrt N)^2) chi^2_N/N, exact for one direction, with the tail of
    chi^2 by its saddle point, exp(-(N/2)(s - 1 - log s))/((s - 1) sqrt(pi N)).
    """

    def grows(nu: float) -> bool:
        return bool(np.log(np.abs(1.0 - gamma * nu) + np.finfo(float).tiny).sum() > 0.0)

    low = high = 2.0 / float(gamma.max())
    while not grows(high):
        high *= 2.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if grows(middle) else (middle, high)
    center = largest_sample_eigenvalue(problem, N) / (1.0 + 1.0 / np.sqrt(N)) ** 2
    s = high / center
    if s <= 1.0:
        return 1.0
    log_tail = -0.5 * N * (s - 1.0 - np.log(s)) - np.log((s - 1.0) * np.sqrt(np.pi * N))
    return float(np.exp(min(log_tail, 0.0)))
