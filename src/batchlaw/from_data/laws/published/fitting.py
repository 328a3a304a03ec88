"""Fits of a sum of terms to losses: robust, in logarithms, with positive parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray

# Where the Huber loss of log(measured) - log(predicted) turns from a square to a line.
HUBER_DELTA = 1e-3
# A predicted loss below this share of the measured one counts as this share: it has a logarithm.
LEAST_SHARE = 1e-6
# Amplitudes, as shares of one whose term alone is as large as the losses. The least is as good as
# none; the largest leaves room for a shape that moves.
LEAST_AMPLITUDE, LARGEST_AMPLITUDE = 1e-9, 1e9
# Step of the differences in the logarithm of a shape parameter.
LOG_STEP = 1e-6
MOST_EVALUATIONS = 200

Start = tuple[FloatArray, FloatArray]


@dataclass(frozen=True)
class Points:
    """Measured losses and what a law has to say about them.

    Attributes
    ----------
    losses : (n,) array
    terms
        Shape parameters -> (n, m) array: the loss is its product with m amplitudes >= 0.
    bounds : (k, 2) array
        Lowest and highest value of every shape parameter; all positive.
    """

    losses: FloatArray
    terms: Callable[[FloatArray], FloatArray]
    bounds: FloatArray

    def best_amplitudes(self, shape: FloatArray) -> Start:
        """Amplitudes that leave the least squares of relative errors, with their shape."""
        from scipy import optimize

        weighted = self.terms(shape) / self.losses[:, None]
        size = np.linalg.norm(weighted, axis=0)
        size[size == 0.0] = 1.0
        return optimize.nnls(weighted / size, np.ones(self.losses.size))[0] / size, shape

    def log_errors(self, predicted: FloatArray) -> FloatArray:
        return np.log(self.losses / np.maximum(predicted, LEAST_SHARE * self.losses))

    def objective(self, start: Start) -> float:
        amplitudes, shape = start
        return self.huber(self.log_errors(self.terms(shape) @ amplitudes))

    @staticmethod
    def huber(errors: FloatArray) -> float:
        """The sum of Huber losses."""
        size = np.abs(errors)
        line = HUBER_DELTA * (size - 0.5 * HUBER_DELTA)
        return float(np.where(size < HUBER_DELTA, 0.5 * size**2, line).sum())


def refine(points: Points, starts: Sequence[Start]) -> Start:
    """The best of the minima that are reached from these starts."""
    return min((least_huber(points, *start) for start in starts), key=points.objective)


def least_huber(points: Points, amplitudes: FloatArray, shape: FloatArray) -> Start:
    """The nearest minimum of the objective, in the logarithms of all parameters.

    Terms are linear in the amplitudes, so only the shape's columns of the Jacobian are differences.
    """
    from scipy import optimize

    count = amplitudes.size
    size = np.linalg.norm(points.terms(shape), axis=0)
    size[size == 0.0] = 1.0  # a gain of decays, where no rate falls
    scale = np.linalg.norm(points.losses) / size
    least, most = np.log(LEAST_AMPLITUDE * scale), np.log(LARGEST_AMPLITUDE * scale)
    low = np.concatenate([least, np.log(points.bounds[:, 0])])
    high = np.concatenate([most, np.log(points.bounds[:, 1])])

    def errors(x: FloatArray) -> FloatArray:
        return points.log_errors(points.terms(np.exp(x[count:])) @ np.exp(x[:count]))

    def jacobian(x: FloatArray) -> FloatArray:
        a = np.exp(x[:count])
        here = points.terms(np.exp(x[count:]))
        predicted = here @ a
        slopes = np.empty((predicted.size, x.size))
        slopes[:, :count] = here * a
        for j in range(count, x.size):
            moved = x[count:].copy()
            moved[j - count] += LOG_STEP
            slopes[:, j] = (points.terms(np.exp(moved)) @ a - predicted) / LOG_STEP
        return -slopes / np.maximum(predicted, LEAST_SHARE * points.losses)[:, None]

    start = np.concatenate([np.log(np.maximum(amplitudes, 1e3 * np.exp(least))), np.log(shape)])
    fit = optimize.least_squares(
        errors,
        np.clip(start, low + 1e-9, high - 1e-9),
        jac=jacobian,
        bounds=(low, high),
        loss="huber",
        f_scale=HUBER_DELTA,
        x_scale="jac",
        max_nfev=MOST_EVALUATIONS,
    )
    return np.exp(fit.x[:count]), np.exp(fit.x[count:])
