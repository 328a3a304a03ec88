"""Exponents of curves whose smallest sizes still matter: the corrections are part of the fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.from_data.slopes import SPREAD, Slope, fit_slope
from batchlaw.risk.result import jackknife


def fit_corrected_slope(x: FloatArray, y: FloatArray, corrections: Sequence[FloatArray]) -> Slope:
    """The exponent e of log y = c + e log x + sum_k d_k correction_k, by least squares.

    With 1/x as a correction the fit covers, to first order, any fixed shift of x, such as
    M + 1/2 for M. The interval of e includes the freedom of the d_k: the error is a jackknife of
    the whole fit over the draws, and the drift is the difference between the fits without the
    largest third of the points and without the smallest third.

    Parameters
    ----------
    x : (K,) array
        Positive and increasing.
    y : (K,) or (R, K) array
        Positive; one row per draw.
    corrections
        (K,) each.
    """
    columns = np.stack([np.log(x), np.ones_like(x), *corrections], axis=1)
    curves = np.atleast_2d(y)
    mean = curves.mean(axis=0)
    third = x.size // 3
    everything, early, late = slice(None), slice(None, x.size - third), slice(third, None)

    def exponent(values: FloatArray, part: slice) -> FloatArray:
        return np.asarray(_coefficients(columns[part], values[..., part])[0])

    change = float(exponent(mean, late) - exponent(mean, early))
    error = drift_error = 0.0
    if curves.shape[0] > 1:
        left_out = (curves.sum(axis=0) - curves) / (curves.shape[0] - 1)
        error = float(jackknife(exponent(left_out, everything)))
        drift_error = float(jackknife(exponent(left_out, late) - exponent(left_out, early)))
    fitted = _coefficients(columns, mean)
    flat = fit_slope(x, mean / np.exp(columns[:, 2:] @ fitted[2:]))
    drift = max(abs(change) - SPREAD * drift_error, 0.0)
    return Slope(float(fitted[0]), error, drift, flat.where, flat.local)


def _coefficients(columns: FloatArray, y: FloatArray) -> FloatArray:
    """One row per column; for y of shape (R, K) one column per draw."""
    return np.asarray(np.linalg.lstsq(columns, np.log(y).T, rcond=None)[0], dtype=np.float64)
