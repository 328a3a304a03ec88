"""Batches that minimise Adam's excess: stationary points from several starts, no certificate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.batches.limits import Limits
from batchlaw.batches.rules import KeepsRates, rules_of
from batchlaw.batches.sharing import greedy
from batchlaw.batches.stages import best_stages, sizes_of_stages
from batchlaw.design.plan_search import Cells, minimise, start_cells
from batchlaw.design.sensitivity import adam_slopes
from batchlaw.model.problem import Problem
from batchlaw.risk.adam_bases import SOLVERS
from batchlaw.schedule.adam import Adam

# Descent from every start, and from the best point once its stages are fixed.
ROUNDS = 300
# Relative changes of the excess and slopes of its logarithm at which the descent stops.
TOLERANCE = 1e-13
# Exchanges of one unit that are tried in one round, and rounds of them, at most.
MOST_TRIED, EXCHANGE_ROUNDS = 400, 200
# Relative changes of the excess below this are rounding.
ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class Stationary:
    """What the search found.

    Attributes
    ----------
    real, whole : (T,) arrays
        The best real batches, and whole ones near them.
    excess
        Of the real batches.
    residual
        By how much the excess would change, to first order and relative to itself, if a mean
        batch of samples moved from the step that loses least to the one that gains most.
    optima
        Excess of the real optimum from every start.
    """

    real: FloatArray
    whole: IntArray
    excess: float
    residual: float
    optima: tuple[float, ...]


def adam_optimum(
    problem: Problem, gamma: FloatArray, budget: int, rule: Adam, limits: Limits
) -> Stationary:
    """The best schedule found from the rules that people use, free or in stages."""
    search = _Search(problem, gamma, budget, rule, limits)
    real, residual, optima = search.real()
    return Stationary(real, search.whole(real), search.values([real])[0], residual, optima)


class _Search:
    def __init__(
        self, problem: Problem, gamma: FloatArray, budget: int, rule: Adam, limits: Limits
    ) -> None:
        self.problem, self.gamma, self.rule = problem, gamma, rule
        self.limits = limits
        units = limits.units if limits.stages is not None else limits.units_in_full
        self.low, self.high, self.unit, self.budget = units(gamma.size, budget)
        self.moments = SOLVERS[rule.basis].moments
        shapes = [named.shape(gamma) for named in rules_of(KeepsRates).values()]
        shapes.append(np.maximum(gamma / gamma.max(), 1e-3) ** 0.5)
        self.shapes = [np.maximum(shape, 1e-3 * shape.max()) for shape in shapes]

    def cells(self, ends: IntArray) -> Cells:
        low, high = float(self.low * self.unit), float(self.high * self.unit)
        high = min(high, self.budget - low * (self.gamma.size - 1))
        counts = np.diff(ends).astype(np.float64)
        return Cells(ends, counts, float(self.budget), low, max(high, low))

    def log_excess(self, batches: FloatArray) -> tuple[float, FloatArray]:
        excess, slopes = adam_slopes(self.problem, self.gamma, batches, self.rule)
        if not (math.isfinite(excess) and excess > 0.0):
            return 700.0, np.zeros_like(batches)
        return math.log(excess), -slopes.sum(axis=0) / (batches**2 * excess)

    def values(self, schedules: Sequence[FloatArray | IntArray]) -> FloatArray:
        sizes = np.stack(schedules).astype(np.float64)
        values = self.moments(self.problem, self.gamma, sizes, self.rule, spread=False).sum(axis=-1)
        return np.where(np.isfinite(values), values, np.inf)

    def real(self) -> tuple[FloatArray, float, tuple[float, ...]]:
        """Real batches, their residual, and the excess reached from every start."""
        free = self.cells(np.arange(self.gamma.size + 1))
        found = []
        for shape in self.shapes:
            start = start_cells(free, shape)
            sizes, _ = self._descend(free, start)
            if self.limits.stages is None:
                found.append((sizes, free))
                continue
            staged = best_stages(
                sizes**2, math.ceil(sizes.sum()) + sizes.size,
                Limits(stages=self.limits.stages), integer=False,
            )  # fmt: skip
            cells = self.cells(np.append(0, staged.ends))
            found.append((self._descend(cells, start_cells(cells, sizes))[0], cells))
        schedules = [cells.rows(sizes) for sizes, cells in found]
        values = self.values(schedules)
        best = int(values.argmin())
        return schedules[best], self._residual(*found[best]), tuple(values.tolist())

    def _descend(self, cells: Cells, start: FloatArray) -> tuple[FloatArray, float]:
        return minimise(cells, start, self.log_excess, ROUNDS, TOLERANCE)

    def _residual(self, sizes: FloatArray, cells: Cells) -> float:
        _, slopes = self.log_excess(cells.rows(sizes))
        gain = -np.add.reduceat(slopes, cells.ends[:-1]) / cells.counts
        below = sizes < cells.high * (1.0 - 1e-12)
        above = sizes > cells.low * (1.0 + 1e-12)
        if not (below.any() and above.any()):
            return 0.0
        spread = float(gain[below].max() - gain[above].min())
        return max(spread, 0.0) * self.budget / self.gamma.size

    def whole(self, real: FloatArray) -> IntArray:
        """The best of the rounded optimum and the rounded rules, after exchanges of one unit."""
        shapes = [real, *self.shapes]
        if self.limits.stages is not None:
            ends = np.append(np.flatnonzero(np.diff(real)) + 1, real.size)
            staged = [
                sizes_of_stages(shape**2, np.asarray(cuts), self.budget, self.limits)
                for shape, cuts in ((real, ends), (np.ones_like(real), [real.size]))
            ]
            return staged[int(self.values(staged).argmin())]
        units = self.budget // self.unit
        candidates = [greedy(shape**2, units, self.low, self.high) for shape in shapes]
        values = self.values([self.unit * sizes for sizes in candidates])
        order = np.argsort(values, kind="stable")[:2]
        improved = [self._exchanged(candidates[k], float(values[k])) for k in order]
        return self.unit * min(improved, key=lambda pair: pair[1])[0]

    def _exchanged(self, units: IntArray, value: float) -> tuple[IntArray, float]:
        """Move one unit between two steps for as long as some tried exchange improves."""
        for _ in range(EXCHANGE_ROUNDS):
            trials = self._exchanges(units)
            if not trials:
                break
            values = self.values([self.unit * trial for trial in trials])
            best = int(values.argmin())
            if not values[best] < value * (1.0 - ROUNDING):
                break
            units, value = trials[best], float(values[best])
        return units, value

    def _exchanges(self, units: IntArray) -> list[IntArray]:
        """All exchanges, or those that the slopes favour where there are too many."""
        givers, takers = np.flatnonzero(units > self.low), np.flatnonzero(units < self.high)
        if givers.size * takers.size > MOST_TRIED:
            sizes = (self.unit * units).astype(np.float64)
            gain = -self.log_excess(sizes)[1]
            few = math.isqrt(MOST_TRIED)
            givers = givers[np.argsort(gain[givers], kind="stable")[:few]]
            takers = takers[np.argsort(-gain[takers], kind="stable")[:few]]
        trials = []
        for i in givers:
            for j in takers[takers != i]:
                trial = units.copy()
                trial[i] -= 1
                trial[j] += 1
                trials.append(trial)
        return trials
