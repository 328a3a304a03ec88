r"""Influence from data, with a band.

The estimate is kappa_t at the corrected eigenvalues. Its error on a log scale, over its
standard error, is nearly the same for all Gaussian data; so its law is learned from Gaussian
samples of the estimated spectrum, each of which is corrected and judged like the data. The
standard error itself is the data's own, to first order: kappa_t = gamma_t^2 tr f_t(Sigma) with
f_t(x) = x^2 prod_{s>t} (1 - gamma_s x)^2 moves by z_i^T f_t'(Sigma) z_i with a row z_i, and so
heavy tails of the rows widen the band.

Resampling the rows themselves does not work here: rows drawn twice spread the sample's
eigenvalues once more, and a correction for the sample size does not know of it.
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
    RANK,
    EstimatedSpectrum,
    centred,
    check_features,
    decompose,
    population_spectrum,
)
from batchlaw.from_data.survival import KnotTable
from batchlaw.influences.weights import influence

# Rows that a band needs.
FEWEST = 8
# Numbers in one Gaussian sample; a larger dataset has a normal band without draws.
LARGEST = 2 * 10**7


@dataclass(frozen=True, eq=False)
class InfluenceBand:
    """kappa_t with a band, and the shape of the batches that follows.

    Attributes
    ----------
    influence, lower, upper : (T,) arrays
        kappa_t; its band, which covers each step with probability ``level``.
    shape, shape_lower, shape_upper : (T,) arrays
        Batches over their mean, sqrt(kappa_t) over the mean of it; the level cancels.
    level : float
        Of each step, not of all together.
    draws : int
        Gaussian samples behind the band; 0 where it is normal around the estimate.
    spectrum : EstimatedSpectrum
        The eigenvalues behind the influence.
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
    """Logarithms at the knots, first influence then shape: (2, K), and standard errors."""

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
        Probability with which the band covers the truth at a step.
    draws
        Gaussian samples from which the law of the error is learned; 0 for a normal band.
    centre, allow_constant
        As for ``estimate_spectrum``.
    """
    Z = check_features(features, fewest=FEWEST, allow_constant=allow_constant)
    gamma = checks.vector("rates", rates)
    level = checks.real("level", level, above=0.0, at_most=0.999)
    draws = checks.count("draws", draws, minimum=0)
    rows, samples = centred(Z, centre)
    # kappa depends on the products gamma mu alone; see ``influence``.
    exponent = int(np.frexp(np.abs(rows).max())[1])
    found = _judge(np.ldexp(rows, -exponent), samples, Z.shape[1], np.ldexp(gamma, 2 * exponent))
    spectrum = _rescaled(found.statistic.spectrum, 2 * exponent)
    kappa = influence(spectrum, gamma)
    if not kappa.any():
        raise InputError("rates", "must leave some influence, every kappa_t is zero")
    draws = 0 if Z.size > LARGEST else draws
    low, high = _quantiles(found, level, draws, checks.count("seed", seed, minimum=0))
    low, high = found.table.widest(low, high, samples)
    spread = [found.table.everywhere(bound) for bound in (*low, *high)]
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
class _Found:
    statistic: _Statistic
    table: KnotTable


def _judge(rows: FloatArray, samples: int, dim: int, gamma: FloatArray) -> _Found:
    nu, squares = decompose(rows, samples)
    table = KnotTable.of(gamma, 4.0 * float(nu[0]))
    return _Found(_statistic(nu, squares, samples, dim, table), table)


def _statistic(
    nu: FloatArray, squares: FloatArray, samples: int, dim: int, table: KnotTable
) -> _Statistic:
    """The estimate at the knots, and its standard error from the rows."""
    kept = nu > RANK * nu[0]
    kept[samples:] = False
    mu, many = population_spectrum(nu[kept], samples, dim)
    log = table.log_influence(mu, many)
    value, slope = table.values_and_slopes(nu[kept])
    moves = squares[:, kept] @ slope.T / value.sum(axis=1)
    both = np.stack([moves, table.shape_moves(log, moves)])
    error = both.std(axis=1, ddof=1) / np.sqrt(samples)
    # Where the leading direction's share turns, the first order nearly vanishes.
    error = np.maximum(error, 0.05 * error.max(axis=1, keepdims=True))
    spectrum = EstimatedSpectrum(mu, many, nu[kept], samples, dim)
    return _Statistic(spectrum, np.stack([log, table.log_shape(log)]), error)


def _quantiles(found: _Found, level: float, draws: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Where the error of the two logarithms lies with probability ``level``: (2, K) each."""
    here = found.statistic
    if not draws:
        z = NormalDist().inv_cdf(0.5 + 0.5 * level)
        return -z * here.error, z * here.error
    mu = np.sqrt(here.spectrum.each())
    samples, dim = here.spectrum.samples, here.spectrum.dim
    pivots = np.empty((draws, *here.log.shape))
    for draw, stream in enumerate(np.random.SeedSequence(seed).spawn(draws)):
        rows = np.random.default_rng(stream).standard_normal((samples, mu.size)) * mu
        there = _statistic(*decompose(rows, samples), samples, dim, found.table)
        pivots[draw] = (there.log - here.log) / there.error
    # Order statistics that would cover at this level were the pivot's law known.
    share = np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level])
    low, high = np.quantile(pivots, share, axis=0, method="weibull")
    return low * here.error, high * here.error


def _rescaled(spectrum: EstimatedSpectrum, exponent: int) -> EstimatedSpectrum:
    return EstimatedSpectrum(
        np.ldexp(spectrum.eigenvalues, exponent),
        spectrum.multiplicity,
        np.ldexp(spectrum.sample_eigenvalues, exponent),
        spectrum.samples,
        spectrum.dim,
    )
