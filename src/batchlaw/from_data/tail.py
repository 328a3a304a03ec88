r"""A power-law exponent from data, with its window and interval.

For eigenvalues c i^-a the effective dimension e(q) = sum_j (mu_j/(mu_j + q))^2 is
C q^{-1/a} - 1/2 up to small terms, so the slope of log (e + 1/2) against log 1/q is 1/a. The
square keeps what is missing past the last direction small. A sample gives e(q) corrected for
its size: with m(z) as in ``spectrum``, q = 1/m(z), d(q) = sum_j mu_j/(mu_j + q) = n (1 + z m)
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

# Rows, and groups of rows that are left out in turn.
FEWEST = 16
GROUPS = 20
# The window begins where e(q) is 1, the leading direction resolved, and ends where d(q) is this
# share of n or of p: beyond it the sample, or the end of the spectrum, bends the curve.
FIRST, OF_SAMPLES, OF_DIM = 1.0, 0.5, 0.25
POINTS = 24
# Ratio of the window's ends that a slope needs.
SHORTEST = 4.0
# A power law is believed where the exponent is known to this share.
SETTLED = 0.25


@dataclass(frozen=True)
class Tail:
    """Exponent of eigenvalues i^-a in a window of the spectrum.

    Attributes
    ----------
    exponent
        a.
    interval
        Two jackknife standard errors over the rows and the drift on either side of 1/a.
    window
        Eigenvalues between which the slope was taken, largest first.
    ranks
        Effective dimensions d(q) at the two ends: about which eigenvalues those are.
    drift
        How far 1/a moved from the window before, as far as errors do not explain it.
    settled : bool
        Whether the interval is within a quarter of 1/a: a power law is a fair description.
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
    """The population's d(q) and e(q) from a sample's eigenvalues (those that are not zero).

    1/m(z) = q is solved for z below the smallest of the n eigenvalues.
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

    # The distance is between q/n and q; rounding must not leave it at an end.
    ends = np.log(q / n) - 1.0, np.log(q) + 1.0
    gap = np.exp(find_root(excess, ends, args=(q,)).x)
    m = mean_inverse(gap, 1)
    return n * (1.0 + (least - gap) * m), n * (1.0 - m**2 / mean_inverse(gap, 2))


def fit_tail(features: ArrayLike, *, centre: bool = False, allow_constant: bool = False) -> Tail:
    """The exponent at the end of the spectrum that a sample resolves (``fit.fit_slope``).

    The interval comes from leaving groups of rows out in turn, each fit corrected for the
    rows that it has.
    """
    Z = check_features(features, fewest=FEWEST, allow_constant=allow_constant)
    # Scale by a power of two, which is exact, so that squares neither overflow nor vanish.
    exponent = int(np.frexp(np.abs(Z).max())[1])
    rows, samples = centred(np.ldexp(Z, -exponent), centre)
    whole = spectrum_of(rows, samples)
    q = _window(whole, samples, Z.shape[1])
    slope = fit_slope(1.0 / q, _pseudo_values(rows, centre, q))
    if not slope.value > 0.0:
        raise InputError(
            "features", "needs an effective dimension that grows, it falls", subject="a power law"
        )
    low, high = slope.interval
    window = q[[q.size // 2, -1]]
    ends = effective_dimensions(whole, samples, window)[0]
    window = np.ldexp(window, 2 * exponent)
    return Tail(
        1.0 / slope.value,
        (1.0 / high, 1.0 / low if low > 0.0 else math.inf),
        (float(window[0]), float(window[-1])),
        (float(ends[0]), float(ends[-1])),
        slope.drift,
        slope.settled(SETTLED * slope.value),
    )


def _pseudo_values(rows: FloatArray, centre: bool, q: FloatArray) -> FloatArray:
    """Curves, one a group of rows, whose mean is the estimate and whose jackknife is the rows'."""
    count = min(GROUPS, rows.shape[0])
    groups = np.arange(rows.shape[0]) % count
    kept = [rows, *(rows[groups != group] for group in range(count))]
    whole, *left_out = (_curve(*centred(some, centre), q) for some in kept)
    curves = whole + (count - 1.0) * (np.mean(left_out, axis=0) - np.array(left_out))
    if not (curves > 0.0).all():
        raise InputError(
            "features", "must be more alike", hint="single rows decide the effective dimension"
        )
    return np.asarray(curves)


def _curve(rows: FloatArray, samples: int, q: FloatArray) -> FloatArray:
    return effective_dimensions(spectrum_of(rows, samples), samples, q)[1] + 0.5


def _window(eigenvalues: FloatArray, samples: int, dim: int) -> FloatArray:
    """Decreasing q, evenly spaced in the logarithm, over the window."""
    end = min(OF_SAMPLES * samples, OF_DIM * dim)
    q = float(eigenvalues.sum()) * np.geomspace(10.0, 1e-9, 400)
    d, e = effective_dimensions(eigenvalues, samples, q)
    first, last = (
        float(np.exp(np.interp(at, np.maximum.accumulate(x), np.log(q))))
        for at, x in ((FIRST, e), (end, d))
    )
    if e.max() < FIRST or d.max() < end or first < SHORTEST * last:
        raise InputError(
            "features",
            "needs a window of eigenvalues in which the effective dimension grows "
            f"from {FIRST:g} to {end:g} over a factor of {SHORTEST:g}",
            hint="take more samples, or the spectrum is flat",
            subject="a power law",
        )
    return np.geomspace(first, last, POINTS)
