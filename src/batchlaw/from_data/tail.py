r"""The exponent of a power-law spectrum from data, with its window and interval.

For eigenvalues c i^-a the effective dimension e(q) = sum_j (mu_j/(mu_j + q))^2 is
C q^{-1/a} - 1/2 up to small terms, so the slope of log (e + 1/2) against log 1/q is 1/a. The
square keeps the part past the last direction small. A sample gives e(q) corrected for its
size: with m(z) as in ``estimated_spectrum``, q = 1/m(z), d(q) = sum_j mu_j/(mu_j + q) = n (1 + z m)
and, by differentiating, e(q) = n (1 - m^2/m').
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.from_data.estimated_spectrum import centred, check_features, spectrum_of
from batchlaw.from_data.slopes import fit_slope

# Fewest rows, and the number of groups of rows that the jackknife leaves out in turn.
MIN_ROWS = 16
GROUPS = 20
# The window starts where e(q) is 1, with the leading direction resolved, and ends where d(q) is
# this share of n or of p: beyond it the sample size, or the end of the spectrum, bends the curve.
WINDOW_START, SHARE_OF_SAMPLES, SHARE_OF_DIM = 1.0, 0.5, 0.25
WINDOW_POINTS = 24
# Smallest ratio of the window's ends.
MIN_WINDOW_RATIO = 4.0
# Largest relative error of the exponent at which a power law is accepted.
SETTLED_TOLERANCE = 0.25


@dataclass(frozen=True)
class Tail:
    """Exponent of eigenvalues i^-a in a window of the spectrum.

    Attributes
    ----------
    exponent
        a.
    interval
        From 1/a with two jackknife standard errors over the rows plus the drift to either side.
    window
        Eigenvalues between which the slope was fitted, largest first.
    ranks
        Effective dimensions d(q) at the two ends, about the ranks of those eigenvalues.
    drift
        Change of 1/a from the previous window, beyond what errors explain.
    settled : bool
        Whether the interval is within a quarter of 1/a, so that a power law describes the data.
    """

    exponent: float
    interval: tuple[float, float]
    window: tuple[float, float]
    ranks: tuple[float, float]
    drift: float
    settled: bool


def effective_dimensions(
    eigenvalues: FloatArray, samples: int, q: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The population's d(q) and e(q) from a sample's nonzero eigenvalues.

    Solves 1/m(z) = q for z below the smallest of the n eigenvalues.
    """
    from scipy.optimize.elementwise import find_root

    n, zeros = samples, samples - eigenvalues.size
    least = 0.0 if zeros else float(eigenvalues.min())

    def mean_inverse(gap: FloatArray, power: int) -> FloatArray:
        """m(z) at a distance from the smallest eigenvalue, and m'(z) for ``power`` 2."""
        inverse = (1.0 / (eigenvalues - least + gap[:, None])) ** power
        return np.asarray(inverse.sum(axis=1) + zeros / gap**power) / n

    def excess(log_gap: FloatArray, q: FloatArray) -> FloatArray:
        return np.log(q * mean_inverse(np.exp(log_gap), 1))

    # The root lies between q/n and q; the margin keeps rounding from putting it outside.
    ends = np.log(q / n) - 1.0, np.log(q) + 1.0
    gap = np.exp(find_root(excess, ends, args=(q,)).x)
    m = mean_inverse(gap, 1)
    return n * (1.0 + (least - gap) * m), n * (1.0 - m**2 / mean_inverse(gap, 2))


def fit_tail(features: ArrayLike, *, centre: bool = False, allow_constant: bool = False) -> Tail:
    """The exponent at the end of the spectrum that a sample resolves, by ``slopes.fit_slope``.

    The interval comes from leaving out groups of rows in turn, each fit corrected for its number
    of rows.

    Parameters
    ----------
    features : (n, p) array
        At least 16 rows, one per sample.
    centre, allow_constant
        As in ``estimate_spectrum``.
    """
    Z = check_features(features, fewest=MIN_ROWS, allow_constant=allow_constant)
    # Scaling by a power of two is exact; squares then neither overflow nor underflow.
    exponent = int(np.frexp(np.abs(Z).max())[1])
    rows, samples = centred(np.ldexp(Z, -exponent), centre)
    nu = spectrum_of(rows, samples)
    q = _window(nu, samples, Z.shape[1])
    slope = fit_slope(1.0 / q, _pseudo_values(rows, centre, q))
    if not slope.value > 0.0:
        raise InputError(
            "features", "needs an effective dimension that grows, it falls", subject="a power law"
        )
    low, high = slope.interval
    window = q[[q.size // 2, -1]]
    ends = effective_dimensions(nu, samples, window)[0]
    window = np.ldexp(window, 2 * exponent)
    return Tail(
        1.0 / slope.value,
        (1.0 / high, 1.0 / low if low > 0.0 else math.inf),
        (float(window[0]), float(window[-1])),
        (float(ends[0]), float(ends[-1])),
        slope.drift,
        slope.settled(SETTLED_TOLERANCE * slope.value),
    )


def _pseudo_values(rows: FloatArray, centre: bool, q: FloatArray) -> FloatArray:
    """Jackknife pseudo-values of the curve e(q) + 1/2, one row per group of rows left out."""
    count = min(GROUPS, rows.shape[0])
    groups = np.arange(rows.shape[0]) % count
    subsets = [rows, *(rows[groups != group] for group in range(count))]
    full, *left_out = (_curve(*centred(subset, centre), q) for subset in subsets)
    curves = full + (count - 1.0) * (np.mean(left_out, axis=0) - np.array(left_out))
    if not (curves > 0.0).all():
        raise InputError(
            "features", "must not be dominated by single rows", hint="the dimension depends on them"
        )
    return np.asarray(curves)


def _curve(rows: FloatArray, samples: int, q: FloatArray) -> FloatArray:
    return effective_dimensions(spectrum_of(rows, samples), samples, q)[1] + 0.5


def _window(eigenvalues: FloatArray, samples: int, dim: int) -> FloatArray:
    """Decreasing q over the window, evenly spaced in the logarithm."""
    end = min(SHARE_OF_SAMPLES * samples, SHARE_OF_DIM * dim)
    q = float(eigenvalues.sum()) * np.geomspace(10.0, 1e-9, 400)
    d, e = effective_dimensions(eigenvalues, samples, q)
    first, last = (
        float(np.exp(np.interp(level, np.maximum.accumulate(dimension), np.log(q))))
        for level, dimension in ((WINDOW_START, e), (end, d))
    )
    if e.max() < WINDOW_START or d.max() < end or first < MIN_WINDOW_RATIO * last:
        raise InputError(
            "features",
            "needs a window of eigenvalues in which the effective dimension grows "
            f"from {WINDOW_START:g} to {end:g} over a factor of {MIN_WINDOW_RATIO:g}",
            hint="take more samples, or the spectrum is flat",
            subject="a power law",
        )
    return np.geomspace(first, last, WINDOW_POINTS)
