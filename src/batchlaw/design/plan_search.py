"""Batches that minimise what a plan over a range of problems is judged by."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.design.plan_cases import CaseSlopes

# (logarithms of the cases' ratios) -> (objective, its slopes in them).
Judge = Callable[[FloatArray], tuple[float, FloatArray]]

# Width of the smooth maximum, in the logarithm of a ratio.
WIDTH = 0.003
# Batches are kept within this factor of the mean while searching.
LARGEST_FACTOR = 30.0
# Starts have no batch below this share of their largest.
SMALLEST_SHARE = 0.03
BISECTIONS = 40
# A trial batch that is smaller than the largest by more than this, in logarithms, is at its bound.
LOG_NEGLIGIBLE = -100.0


def worst(logs: FloatArray) -> tuple[float, FloatArray]:
    """Smooth maximum."""
    top = float(logs.max())
    weights = np.exp((logs - top) / WIDTH)
    return top + WIDTH * float(np.log(weights.sum())), weights / weights.sum()


def mean(logs: FloatArray) -> tuple[float, FloatArray]:
    return float(logs.mean()), np.full(logs.size, 1.0 / logs.size)


@dataclass(frozen=True, eq=False)
class Cells:
    """Batches that are constant within cells of rows, and sum to a budget within bounds.

    ``ends`` (C + 1,) are the last rows of the cells, from 0.
    """

    ends: IntArray
    counts: FloatArray
    budget: float
    low: float
    high: float

    @classmethod
    def of(
        cls, ends: IntArray, row_counts: FloatArray, budget: float, low: float, high: float
    ) -> Cells:
        average = budget / row_counts.sum()
        low, high = max(low, average / LARGEST_FACTOR), min(high, average * LARGEST_FACTOR)
        return cls(ends, np.add.reduceat(row_counts, ends[:-1]), budget, low, high)

    def batches(self, logs: FloatArray) -> FloatArray:
        """Per cell: exp(logs) up to a factor, clipped to the bounds."""
        weights = np.exp(np.maximum(logs - logs.max(), LOG_NEGLIGIBLE))
        small, large = self.low, self.high / float(weights.min())
        for _ in range(BISECTIONS):
            factor = math.sqrt(small * large)
            # Faster than np.clip on short arrays.
            sizes = np.minimum(np.maximum(factor * weights, self.low), self.high)
            below = self.counts @ sizes < self.budget
            small, large = (factor, large) if below else (small, factor)
        # Between two kinks the sum is linear: solve for the factor there.
        free = (factor * weights > self.low) & (factor * weights < self.high)
        if free.any():
            clipped = np.where(free, 0.0, np.clip(factor * weights, self.low, self.high))
            factor = (self.budget - self.counts @ clipped) / (self.counts[free] @ weights[free])
        return np.asarray(np.clip(factor * weights, self.low, self.high))

    def rows(self, sizes: FloatArray) -> FloatArray:
        return np.repeat(sizes, np.diff(self.ends))

    def slopes(self, sizes: FloatArray, row_slopes: FloatArray) -> FloatArray:
        """Slopes in the logs, from slopes in the batch of every row."""
        in_sizes = np.add.reduceat(row_slopes, self.ends[:-1])
        free = (sizes > self.low) & (sizes < self.high)
        spread = np.where(free, self.counts * sizes, 0.0)
        total = float(spread.sum())
        if total == 0.0:
            return np.zeros_like(sizes)
        level = float((in_sizes * sizes)[free].sum()) / total
        return np.where(free, in_sizes * sizes - level * spread, 0.0)


def minimise(
    cells: Cells,
    start: FloatArray,
    value_of: Callable[[FloatArray], tuple[float, FloatArray]],
    rounds: int,
    tolerance: float = 1e-7,
) -> tuple[FloatArray, float]:
    """Cell sizes and their value, by quasi-Newton descent in the logarithms from ``start``.

    ``value_of`` maps the batch of every row to a value and its slopes.
    """
    from scipy.optimize import minimize

    def objective(logs: FloatArray) -> tuple[float, FloatArray]:
        sizes = cells.batches(logs)
        value, slopes = value_of(cells.rows(sizes))
        return value, cells.slopes(sizes, slopes)

    options = {"maxiter": rounds, "ftol": tolerance, "gtol": tolerance}
    found = minimize(objective, np.log(start), jac=True, method="L-BFGS-B", options=options)
    return cells.batches(found.x), float(found.fun)


def judged(
    slopes: CaseSlopes, reference: FloatArray, judge: Judge
) -> Callable[[FloatArray], tuple[float, FloatArray]]:
    """The judge's value of batches by row, from the cases' log excess over a reference's."""

    def value_of(batches: FloatArray) -> tuple[float, FloatArray]:
        logs, in_rows = slopes.all(batches)
        value, weights = judge(logs - reference)
        return value, weights @ in_rows

    return value_of


def start_cells(cells: Cells, shape: FloatArray) -> FloatArray:
    """Cell sizes in proportion to a shape given for every row, within the bounds."""
    means = np.add.reduceat(shape, cells.ends[:-1]) / np.diff(cells.ends)
    return cells.batches(np.log(np.maximum(means, SMALLEST_SHARE * means.max())))
