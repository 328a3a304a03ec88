"""Exponents of power laws: local slopes, their errors over draws, and whether they have settled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.risk.result import jackknife

# Points of a curve, and of one window inside its edges.
FEWEST, FEWEST_INSIDE = 6, 2
# Windows for the eye.
SHOWN = 7
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
        How far the slope moved from the window before to the last one, as far as the errors
        of the two do not explain it. A slope that goes on moving has not settled. The two
        never overlap: where the slope's own window is wider, they are the halves of the range.
    where, local
        Centres of the drift's windows and the slope in each, for the eye.
    """

    value: float
    error: float
    drift: float
    where: FloatArray
    local: FloatArray

    @property
    def slack(self) -> float:
        """What the slope may be off by: two standard errors and one more drift."""
        return SPREAD * self.error + self.drift

    @property
    def interval(self) -> tuple[float, float]:
        """The slope with its slack on either side."""
        return self.value - self.slack, self.value + self.slack

    def settled(self, tolerance: float) -> bool:
        """Whether neither error nor drift exceeds the tolerance."""
        return self.slack <= tolerance


def local_slope(x: FloatArray, y: FloatArray, at: float, width: float) -> FloatArray:
    """Slope of log y against log x by regression around log x = ``at``; y may be (R, K).

    Points weigh (1 - u^2), u their distance from ``at`` over half the width in log x.
    """
    log_x = np.log(x)
    weight = np.maximum(1.0 - ((log_x - at) / (0.5 * width)) ** 2, 0.0)
    centred = weight * (log_x - weight @ log_x / weight.sum())
    return np.asarray(np.log(y) @ centred / (centred @ log_x))


def fit_slope(x: ArrayLike, y: ArrayLike, *, width: float | None = None) -> Slope:
    """The exponent of a curve at its largest x, with what may be wrong about it.

    Slopes are local regressions in windows ``width`` wide in log x (half of the range unless
    said). Several rows of y are draws: their mean is fitted, the error is a jackknife over
    them, also of the drift.

    Parameters
    ----------
    x : (K,) array
        Positive and increasing.
    y : (K,) or (R, K) array
        Positive; one row a draw.
    """
    points = checks.vector("x", x, positive=True)
    if points.size < FEWEST or (np.diff(points) <= 0.0).any():
        raise InputError("x", f"must be at least {FEWEST} increasing numbers", f"{points.size}")
    curves = np.atleast_2d(np.asarray(y, dtype=np.float64))
    if curves.shape[-1] != points.size or not (curves > 0.0).all():
        raise InputError("y", f"must be positive, one for each of {points.size} x")
    low, high = np.log(points[[0, -1]])
    half = 0.5 * (high - low)
    width = half if width is None else checks.real("width", width, above=0.0)
    narrow = min(width, half)
    # Centres of the slope's window, and of the two that are compared for drift.
    last, after, before = high - 0.5 * width, high - 0.5 * narrow, high - 1.5 * narrow
    mean = curves.mean(axis=0)
    moved = _slope_of(points, mean, after, narrow) - _slope_of(points, mean, before, narrow)
    error = drift_error = 0.0
    if curves.shape[0] > 1:
        left_out = (curves.sum(axis=0) - curves) / (curves.shape[0] - 1)
        error = float(jackknife(local_slope(points, left_out, last, width)))
        later = local_slope(points, left_out, after, narrow)
        drift_error = float(jackknife(later - local_slope(points, left_out, before, narrow)))
    centres = np.linspace(low + 0.5 * narrow, after, SHOWN)
    return Slope(
        _slope_of(points, mean, last, width),
        error,
        max(abs(moved) - SPREAD * drift_error, 0.0),
        np.exp(centres),
        np.array([_slope_of(points, mean, at, narrow) for at in centres]),
    )


def _slope_of(x: FloatArray, y: FloatArray, at: float, width: float) -> float:
    inside = np.abs(np.log(x) - at) < 0.5 * width
    if inside.sum() < FEWEST_INSIDE:
        raise InputError(
            "width", f"needs at least {FEWEST_INSIDE} points", f"{inside.sum()}", subject="a window"
        )
    return float(local_slope(x, y, at, width))
