"""Least squares with nonnegative coefficients, by an active set."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from batchlaw._base.checks import FloatArray

# Gradients below this share of the largest are rounding.
TOLERANCE = 1e-9


def nonnegative_least_squares(design: FloatArray, values: FloatArray) -> FloatArray:
    """The x >= 0 that minimises |design x - values|; no column is zero.

    Coefficients enter one by one, the one with the steepest descent first; those that the
    refit would make negative leave on the way (Lawson and Hanson's method).
    """
    # Columns of length one: the gradient of a short one is no rounding.
    length = np.linalg.norm(design, axis=0)
    design = design / length
    gram, slope = design.T @ design, design.T @ values
    x = np.zeros(design.shape[1])
    free = np.zeros(x.size, dtype=bool)
    for _ in range(3 * x.size):
        descent = np.where(free, -np.inf, slope - gram @ x)
        entering = int(np.argmax(descent))
        if descent[entering] <= TOLERANCE * np.abs(slope).max():
            break
        free[entering] = True
        x = _refit(gram, slope, x, free)
    return np.asarray(x / length)


def _refit(
    gram: FloatArray, slope: FloatArray, x: FloatArray, free: NDArray[np.bool_]
) -> FloatArray:
    """Solve for the free coefficients; ``free`` loses those that reach zero first."""
    while True:
        goal = np.zeros_like(x)
        block = gram[np.ix_(free, free)]
        # A trace of the diagonal keeps columns that are all but alike apart.
        block[np.diag_indices_from(block)] *= 1.0 + 1e-12
        goal[free] = np.linalg.solve(block, slope[free])
        blocked = free & (goal <= 0.0)
        if not blocked.any():
            return goal
        step = float(np.min(x[blocked] / (x[blocked] - goal[blocked])))
        x = x + step * (goal - x)
        free &= x > 1e-14 * x.max()
        x = np.where(free, x, 0.0)
