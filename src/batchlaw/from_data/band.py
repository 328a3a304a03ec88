r"""Influence estimated from features, with a confidence band.

The estimate is kappa_t at the corrected eigenvalues. The error of its logarithm over the
standard error has nearly the same distribution for all Gaussian data, so that distribution is
simulated with Gaussian samples of the estimated spectrum, each treated like the data. The
standard error itself comes from the data, to first order: kappa_t = gamma_t^2 tr f_t(Sigma) with
f_t(x) = x^2 prod_{s>t} (1 - gamma_s x)^2 moves by z_i^T f_t'(Sigma) z_i with a row z_i, so heavy
tails of the rows widen the band.

Bootstrapping the rows does not work: repeated rows spread the sample's eigenvalues further, and
the correction for the sample size does not account for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.from_data.estimated_spectrum import (
    RANK_TOLERANCE,
    EstimatedSpectrum,
    centred,
    check_features,
    decompose,
    population_spectrum,
)
from batchlaw.from_data.survival import KnotTable
from batchlaw.influences.weights import influence

# The fewest rows for a band.
MIN_ROWS = 8
# Largest number of features in total for which Gaussian samples are drawn; beyond it the band is
# normal.
MAX_DRAWN_SIZE = 2 * 10**7
# Standard errors are at least this share of the largest one over the knots.
MIN_ERROR_SHARE = 0.05


@dataclass(frozen=True, eq=False)
class InfluenceBand:
    """kappa_t and the resulting shape of the batches, with bands.

    Attributes
    ----------
    influence, lower, upper : (T,) arrays
        kappa_t and its band, which covers each step with probability ``level``.
    shape, shape_lower, shape_upper : (T,) arrays
        Batches over their mean, sqrt(kappa_t) / mean(sqrt(kappa)); the scale of kappa cancels.
    level : float
        Coverage of each step, not of all steps jointly.
    draws : int
        Gaussian samples that were simulated; 0 if the band is normal around the estimate.
    spectrum : EstimatedSpectrum
        The eigenvalues that the influence was computed from.
    """

    influence: FloatArray
    lower: FloatArray
    upper: FloatArray
    shape: FloatArray
    shape_lower: FloatArray
    shape_upper: FloatArray
    level: float
    draws: int
    spectrum: EstimatedSpectrum


@dataclass(frozen=True, eq=False)
class _Statistic:
    """(2, K) logarithms at the knots, influence first and then shape, with standard errors."""

    spectrum: EstimatedSpectrum
    log: FloatArray
    error: FloatArray


def influence_band(
    features: ArrayLike,
    rates: ArrayLike,
    *,
    level: float = 0.9,
    draws: int = 199,
    seed: int = 0,
    centre: bool = False,
    allow_constant: bool = False,
) -> InfluenceBand:
    """Influence of every update, estimated from (n, p) features, with a pointwise band.

    Parameters
    ----------
    features : (n, p) array
        At least 8 rows; n < p is allowed.
    rates : (T,) array
        Step sizes.
    level
        Probability that the band covers the truth at a step.
    draws
        Gaussian samples to simulate the error with; 0 for a normal band.
    centre, allow_constant
        As in ``estimate_spectrum``.
    """
    Z = check_features(features, fewest=MIN_ROWS, allow_constant=allow_constant)
    gamma = checks.vector("rates", rates)
    level = checks.real("level", level, above=0.0, at_most=0.999)
    draws = checks.count("draws", draws, minimum=0)
    rows, samples = centred(Z, centre)
    # kappa depends only on the products gamma mu, so rows and rates are scaled together.
    exponent = int(np.frexp(np.abs(rows).max())[1])
    scaled_gamma = np.ldexp(gamma, 2 * exponent)
    estimate = _estimate(np.ldexp(rows, -exponent), samples, Z.shape[1], scaled_gamma)
    spectrum = _rescaled(estimate.statistic.spectrum, 2 * exponent)
    kappa = influence(spectrum, gamma)
    if not kappa.any():
        raise InputError("rates", "must leave some influence, every kappa_t is zero")
    draws = 0 if Z.size > MAX_DRAWN_SIZE else draws
    low, high = _quantiles(estimate, level, draws, checks.count("seed", seed, minimum=0))
    low, high = estimate.table.widest(low, high, samples)
    spread = [estimate.table.everywhere(bound) for bound in (*low, *high)]
    root = np.sqrt(kappa)
    shape = root / root.mean()
    return InfluenceBand(
        kappa,
        kappa * np.exp(-spread[2]),
        kappa * np.exp(-spread[0]),
        shape,
        shape * np.exp(-spread[3]),
        shape * np.exp(-spread[1]),
        level,
        draws,
        spectrum,
    )


@dataclass(frozen=True, eq=False)
class _Estimate:
    statistic: _Statistic
    table: KnotTable


def _estimate(rows: FloatArray, samples: int, dim: int, gamma: FloatArray) -> _Estimate:
    nu, squares = decompose(rows, samples)
    table = KnotTable.of(gamma, 4.0 * float(nu[0]))
    return _Estimate(_statistic(nu, squares, samples, dim, table), table)


def _statistic(
    nu: FloatArray, squares: FloatArray, samples: int, dim: int, table: KnotTable
) -> _Statistic:
    """The estimate at the knots, and its standard error from the rows."""
    kept = nu > RANK_TOLERANCE * nu[0]
    kept[samples:] = False
    mu, multiplicity = population_spectrum(nu[kept], samples, dim)
    log = table.log_influence(mu, multiplicity)
    value, slope = table.values_and_slopes(nu[kept])
    moves = squares[:, kept] @ slope.T / value.sum(axis=1)
    both = np.stack([moves, table.shape_moves(log, moves)])
    error = both.std(axis=1, ddof=1) / np.sqrt(samples)
    # The first order nearly vanishes where the derivative in the leading eigenvalue changes sign.
    error = np.maximum(error, MIN_ERROR_SHARE * error.max(axis=1, keepdims=True))
    spectrum = EstimatedSpectrum(mu, multiplicity, nu[kept], samples, dim)
    return _Statistic(spectrum, np.stack([log, table.log_shape(log)]), error)


def _quantiles(
    estimate: _Estimate, level: float, draws: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """(2, K) bounds between which the error of each logarithm lies with probability ``level``."""
    data = estimate.statistic
    if not draws:
        z = NormalDist().inv_cdf(0.5 + 0.5 * level)
        return -z * data.error, z * data.error
    scale = np.sqrt(data.spectrum.each())
    samples, dim = data.spectrum.samples, data.spectrum.dim
    pivots = np.empty((draws, *data.log.shape))
    for draw, stream in enumerate(np.random.SeedSequence(seed).spawn(draws)):
        rows = np.random.default_rng(stream).standard_normal((samples, scale.size)) * scale
        drawn = _statistic(*decompose(rows, samples), samples, dim, estimate.table)
        pivots[draw] = (drawn.log - data.log) / drawn.error
    # Weibull's order statistics cover another draw of the pivot with exactly this probability.
    share = np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level])
    low, high = np.quantile(pivots, share, axis=0, method="weibull")
    return low * data.error, high * data.error


def _rescaled(spectrum: EstimatedSpectrum, exponent: int) -> EstimatedSpectrum:
    return EstimatedSpectrum(
        np.ldexp(spectrum.eigenvalues, exponent),
        spectrum.multiplicity,
        np.ldexp(spectrum.sample_eigenvalues, exponent),
        spectrum.samples,
        spectrum.dim,
    )
