r"""The mean field's average over sample covariances by drawing them, where their tails decide.

The contour of ``sample_spectrum`` has the mean resolvent to order 1/N. Where GD has fitted every
direction, what is left of the bias, exp(-2 G nu) at a total rate G, is carried by the rare
datasets whose smallest eigenvalues nu are far below their mean, and no order in 1/N reaches them.
Then Sigma_hat is drawn, in M x M form (Bartlett's triangle of a Wishart matrix), and the
recursion of ``mean_field`` is run on each draw, with its own mean squared residual V.

Draws come from a mixture: Sigma itself, and for each direction j the Sigma whose mu_j is
reduced to mu_j/(1 + x_j), x_j = 4 G mu_j/N, which is the law of the datasets that carry
exp(-2 G nu_j). The density of component j relative to Sigma's is

    r_j = (1 + x_j)^(N/2) exp(-(N/2) x_j (Sigma_hat)_jj/mu_j),

and a draw weighs 1/sum_j p_j r_j, at most 1/p_0; their mean, 1, serves as a control. Tilts along
axes find the rare datasets where eigenvalues are apart; where several are nearly equal the small
eigenvalue may point anywhere between, and the average is low by more than its standard errors
once these are large: see ``dataset_average.UNKNOWN_DRAWN``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw._base.kernels.mean_field import spectrum_moments
from batchlaw.model.problem import Problem

# Share of the draws that come from Sigma itself.
PLAIN_SHARE = 0.3
# Multiplications spent on all draws, about a second a schedule, and bounds on the number of draws.
WORK = 3e9
FEWEST, MOST = 400, 12_000
# Directions beyond which no spectrum is drawn.
MAX_DIRECTIONS = 64
SEED = 2026
# An eigenvalue decomposition of an M x M matrix costs about this many times M^3.
EIGEN_COST = 25.0


@dataclass(frozen=True, eq=False)
class DrawnParts:
    """Means over draws, each (S, K, 3) for bias, variance, fluctuation, and standard errors.

    ``excess_error`` is that of their sum.
    """

    mean: FloatArray
    error: FloatArray
    excess_error: FloatArray


def draws_allowed(problem: Problem, steps: int) -> int:
    """Number of spectra that ``WORK`` pays for, for one schedule; 0 where they are too few.

    Also 0 where multiplicities are not whole: nodes that stand for an average are no directions.
    """
    M = float(problem.multiplicity.sum())
    if M > MAX_DIRECTIONS or (problem.multiplicity % 1.0).any():
        return 0
    draws = int(WORK / (EIGEN_COST * M**3 + 2.0 * steps * M * (M + 4.0)))
    return min(draws, MOST) if draws >= FEWEST else 0


def average_over_spectra(
    problem: Problem,
    rates: FloatArray,
    rho: FloatArray,
    samples: int,
    draws: int,
    *,
    trajectory: bool = False,
) -> DrawnParts:
    """Bias, variance and fluctuation averaged over ``draws`` sample covariances of N rows."""
    problem = problem.expanded()
    mu, energy = problem.eigenvalues, problem.target_energy
    shape = (rho.shape[0], rates.size + 1 if trajectory else 1, 4)
    # Sums of w, w^2, w v, w^2 v and w^2 v^2 over draws; the last column of v is the excess.
    weights, square_weights = 0.0, 0.0
    first, cross, second = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    values = np.empty(shape)
    parts = np.empty((*shape[:2], 3))
    for weight, covariance in _spectra(problem, float(rates.sum()), samples, draws):
        nu, W = np.linalg.eigh(covariance)
        sigma, target = ((W.T * diagonal) @ W for diagonal in (mu, energy))
        spectrum_moments(
            np.maximum(nu, 0.0),
            sigma,
            target,
            problem.noise_variance,
            rates,
            rho,
            float(samples),
            parts,
        )
        parts[~rho.any(axis=1), :, 2] = 0.0  # full batches: all that is left is rounding
        values[:, :, :3], values[:, :, 3] = parts, parts.sum(axis=-1)
        weights += weight
        square_weights += weight**2
        first += weight * values
        cross += weight**2 * values
        second += weight**2 * values**2
    # The mean weight is known to be 1: a control, with its best coefficient.
    scatter = square_weights / draws - (weights / draws) ** 2
    shared = cross / draws - first * weights / draws**2
    slope = shared / scatter if scatter > 0.0 else np.zeros_like(shared)
    mean = first / draws - slope * (weights / draws - 1.0)
    spread = second / draws - (first / draws) ** 2 - slope * shared
    error = np.sqrt(np.maximum(spread, 0.0) / draws)
    # Squares that underflow have no error that could be computed.
    error[(mean > 0.0) & (second == 0.0)] = np.inf
    return DrawnParts(mean[:, :, :3], error[:, :, :3], error[:, :, 3])


def _spectra(
    problem: Problem, reach: float, N: int, draws: int
) -> Iterator[tuple[float, FloatArray]]:
    """Weights and sample covariances of the mixture, each component in proportion to its share."""
    mu = problem.eigenvalues
    x = 4.0 * reach * mu / N
    shares = _shares(problem, x, N)
    counts = np.floor(np.cumsum(shares) * draws + 0.5).astype(int)
    rng = np.random.default_rng(SEED)
    log_norms = 0.5 * N * np.log1p(x)
    for k in range(draws):
        component = int(np.searchsorted(counts, k, side="right"))
        scale = mu.copy()
        if component:
            scale[component - 1] /= 1.0 + x[component - 1]
        factor = np.sqrt(scale)[:, None] * _root(rng, mu.size, N)
        covariance = factor @ factor.T / N
        logs = log_norms - 0.5 * N * x * np.diagonal(covariance) / mu
        # Beyond exp(700) the weight is zero either way.
        density = shares[0] + shares[1:] @ np.exp(np.minimum(logs, 700.0))
        yield float(1.0 / density), covariance


def _shares(problem: Problem, x: FloatArray, N: int) -> FloatArray:
    """Shares of the components: Sigma itself, then each direction by what it leaves of the bias.

    Direction j has its own target and what leaks to it from stronger directions, (mu_j/mu_i)/N of
    theirs; the stronger directions also take a degree of freedom each.
    """
    mu, energy = problem.eigenvalues, problem.target_energy
    stronger = np.arange(mu.size)
    leaked = mu * np.append(0.0, np.cumsum(energy / mu)[:-1]) / N
    freedom = np.maximum(N - stronger, 1)
    left = mu * (energy + leaked) * (1.0 + x) ** (-0.5 * freedom)
    if not left.sum() > 0.0:
        return np.append(1.0, np.zeros_like(mu))
    return np.append(PLAIN_SHARE, (1.0 - PLAIN_SHARE) * left / left.sum())


def _root(rng: np.random.Generator, M: int, N: int) -> FloatArray:
    """A with A A^T a Wishart matrix of N degrees of freedom: Bartlett's triangle if N >= M."""
    if N < M:
        return rng.standard_normal((M, N))
    A = np.tril(rng.standard_normal((M, M)), -1)
    A[np.diag_indices(M)] = np.sqrt(rng.chisquare(N - np.arange(M)))
    return A
