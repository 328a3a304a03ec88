"""Exponents of power laws: local slopes, errors over draws, and whether a slope has settled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.risk.result import jackknife

# Fewest points of a curve, and strictly inside a window.
MIN_POINTS, MIN_POINTS_IN_WINDOW = 6, 2
# Windows of ``Slope.local``, which is for plots.
LOCAL_WINDOWS = 7
# Standard errors on either side of an interval.
SPREAD = 2.0


@dataclass(frozen=True, eq=False)
class Slope:
    """d log y / d log x at the largest x.

    Attributes
    ----------
    value
        Slope over the last window.
    error
        Jackknife standard error over the draws; 0 for one exact curve.
    drift
        Change of the slope from the previous window to the last, beyond what their errors
        explain. A slope that is still moving has not settled. The two windows never overlap:
        if ``value`` has a wider one, they are the halves of the range.
    where, local
        Centres of windows as wide as the drift's and the slope in each, for plots.
    """

    value: float
    error: float
    drift: float
    where: FloatArray
    local: FloatArray

    @property
    def slack(self) -> float:
        """Possible error of the slope: two standard errors plus one more drift."""
        return SPREAD * self.error + self.drift

    @property
    def interval(self) -> tuple[float, float]:
        """The slope with its slack on either side."""
        return self.value - self.slack, self.value + self.slack

    def settled(self, tolerance: float) -> bool:
        """Whether the slack is within the tolerance."""
        return self.slack <= tolerance


def local_slope(x: FloatArray, y: FloatArray, centre: float, width: float) -> FloatArray:
    """Slope of log y against log x by regression around log x = ``centre``; y may be (R, K).

    Points have weight 1 - u^2, u their distance from ``centre`` over half the width in log x.
    """
    log_x = np.log(x)
    weight = np.maximum(1.0 - ((log_x - centre) / (0.5 * width)) ** 2, 0.0)
    centred = weight * (log_x - weight @ log_x / weight.sum())
    return np.asarray(np.log(y) @ centred / (centred @ log_x))


def fit_slope(x: ArrayLike, y: ArrayLike, *, width: float | None = None) -> Slope:
    """The exponent of a curve at its largest x, with its error and drift.

    Slopes are local regressions. Several rows of y are draws: their mean is fitted, and the
    errors of slope and drift are jackknives over them.

    Parameters
    ----------
    x : (K,) array
        Positive and increasing.
    y : (K,) or (R, K) array
        Positive; one row per draw.
    width
        Width of the window in log x; half of the range if None.
    """
    points = checks.vector("x", x, positive=True)
    if points.size < MIN_POINTS or (np.diff(points) <= 0.0).any():
        raise InputError("x", f"must be at least {MIN_POINTS} increasing numbers", f"{points.size}")
    curves = np.atleast_2d(np.asarray(y, dtype=np.float64))
    if curves.shape[-1] != points.size or not (curves > 0.0).all():
        raise InputError("y", f"must be positive, one for each of {points.size} x")
    low, high = np.log(points[[0, -1]])
    half = 0.5 * (high - low)
    width = half if width is None else checks.real("width", width, above=0.0)
    narrow = min(width, half)
    # Centres of the window of the slope, and of the two that the drift compares.
    last, after, before = high - 0.5 * width, high - 0.5 * narrow, high - 1.5 * narrow
    mean = curves.mean(axis=0)
    change = _slope_of(points, mean, after, narrow) - _slope_of(points, mean, before, narrow)
    error = drift_error = 0.0
    if curves.shape[0] > 1:
        left_out = (curves.sum(axis=0) - curves) / (curves.shape[0] - 1)
        error = float(jackknife(local_slope(points, left_out, last, width)))
        later = local_slope(points, left_out, after, narrow)
        drift_error = float(jackknife(later - local_slope(points, left_out, before, narrow)))
    centres = np.linspace(low + 0.5 * narrow, after, LOCAL_WINDOWS)
    return Slope(
        _slope_of(points, mean, last, width),
        error,
        max(abs(change) - SPREAD * drift_error, 0.0),
        np.exp(centres),
        np.array([_slope_of(points, mean, centre, narrow) for centre in centres]),
    )


def _slope_of(x: FloatArray, y: FloatArray, centre: float, width: float) -> float:
    inside = np.abs(np.log(x) - centre) < 0.5 * width
    if inside.sum() < MIN_POINTS_IN_WINDOW:
        needed = f"needs at least {MIN_POINTS_IN_WINDOW} points"
        raise InputError("width", needed, f"{inside.sum()}", subject="a window")
    return float(local_slope(x, y, centre, width))
