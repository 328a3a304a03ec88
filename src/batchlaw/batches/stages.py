"""Batch schedules of at most K constant stages, with a lower bound on any such schedule.

A stage of n_s steps with influence mass K_s and batches of B_s adds K_s/B_s to the objective
and spends n_s B_s samples. Without bounds the best sizes for given stages are
B_s ~ sqrt(K_s/n_s), the objective is (sum_s sqrt(n_s K_s))^2 / budget, and dynamic
programming over the boundaries is exact. With bounds, multiples or integers, a price l per
sample separates the stages: the minimum over stages of sum_s min_B K_s/B + l n_s B, minus l
times the budget, is a lower bound for every l, and the best l suggests good boundaries.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import InputError
from batchlaw._base.kernels import stages as kernels
from batchlaw.batches.limits import Limits

# Every step is a candidate boundary up to this many steps and this value of stages x steps^2
# (0.1 s per price); beyond that about CELLS candidates are chosen.
EXACT_STEPS, EXACT_WORK = 3000, 5e8
CELLS = 1200
# If there are at most this many ways to choose the boundaries, all are tried.
ENUMERATED_CHOICES = 2000
# Branch-and-bound nodes for the sizes of a trial choice of boundaries, and of the final one.
TRIAL_NODES, FINAL_NODES = 2_000, 200_000
# Relative precision of the dual and of the search for better boundaries.
PRECISION = 1e-10
# The search ends after this many passes, or when a pass gains less than MIN_GAIN or less than
# MIN_GAIN_SHARE of the boundary loss.
PASSES, MIN_GAIN, MIN_GAIN_SHARE = 40, 1e-8, 1e-3
# The search starts from this many of the dual's choices, and sizes this many stages in all.
STARTS, SEARCH_WORK = 4, 200_000
# Jumps of a boundary are halved down to this, then shrink by one where every step is tried.
SHORT_JUMP = 16
# Influence below this share of the largest counts as zero: it is worth no sample of 2^53.
NEGLIGIBLE_SHARE = 1e-60
# Stand-ins for "no bound", such that squares and products with lengths stay finite.
NO_LOW, NO_HIGH = 1e-120, 1e120


@dataclass(frozen=True, eq=False)
class Staged:
    """A schedule of constant stages, its objective, and bounds on it.

    Attributes
    ----------
    batches : (T,) array
        Integers, or floats for a continuous schedule.
    ends, sizes : (S,) arrays
        The last step of each stage (1-based, inclusive) and its batch size.
    objective
        sum_t kappa_t / B_t.
    lower_bound
        No schedule with at most K stages under the same constraints has a smaller objective,
        for any boundaries (the Lagrangian dual value, up to rounding).
    square_root
        (sum_t sqrt(kappa_t))^2 / budget, that of the square-root rule, the optimum without any
        constraint.
    gap
        objective / square_root - 1.
    spent
        sum_t B_t.
    boundary_loss
        Relative increase of the dual value when boundaries are restricted to the candidates, a
        bound on the loss by that restriction. 0 if every step is a candidate.
    """

    batches: NDArray[np.int64] | FloatArray
    ends: IntArray
    sizes: NDArray[np.int64] | FloatArray
    objective: float
    lower_bound: float
    square_root: float
    gap: float
    spent: float
    boundary_loss: float


def best_stages(
    influence: ArrayLike,
    budget: int,
    limits: Limits,
    *,
    integer: bool = True,
) -> Staged:
    """The best batch schedule of at most ``limits.stages`` constant stages.

    Real batch sizes are exactly optimal if no bound is active. Otherwise the schedule is the
    best one found, and ``lower_bound`` tells how far it may be from the optimum. Integers leave
    less than ``multiple_of`` times the shortest stage still below ``max_batch`` unspent.

    Parameters
    ----------
    influence : (T,) array
        kappa_t, zeros allowed. If all are zero, the schedule is constant.
    budget
        At most this many samples in all.
    limits
        Constraints on every batch, and K, the largest number of stages.
    integer
        Whether batches are integers.
    """
    kappa = checks.vector("influence", influence)
    count = min(checks.count("stages", limits.stages), kappa.size)
    if not integer and limits.multiple_of != 1:
        raise InputError("multiple_of", "needs integer batches", "integer=False")
    low, high, unit, total = limits.units(kappa.size, budget)
    peak = float(kappa.max())
    units = float(total // unit) if integer else float(total)
    task = _Task.of(kappa / peak if peak > 0.0 else kappa, units, low, high, integer)
    if peak == 0.0 or count == 1:  # a single stage, whose objective is its own bound
        ends, dual, loss = np.array([kappa.size]), math.inf, 0.0
    else:
        ends, dual, loss = _solve(task, count)
    sizes = task.sizes(ends)
    bound = dual * peak / unit if peak > 0.0 else 0.0
    return _result(kappa, total, ends, sizes, unit, integer, bound, loss)


def sizes_of_stages(influence: ArrayLike, ends: IntArray, budget: int, limits: Limits) -> IntArray:
    """Whole batches (T,) with the least sum kappa_t / B_t for stages that end after ``ends``.

    Parameters
    ----------
    influence : (T,) array
        kappa_t, not all zero.
    ends
        The last step of each stage, 1-based.
    budget
        At most this many samples in all.
    limits
        Constraints on every batch.
    """
    kappa = checks.vector("influence", influence)
    low, high, unit, total = limits.units(kappa.size, budget)
    task = _Task.of(kappa / kappa.max(), float(total // unit), low, high, True)
    sizes = (unit * task.sizes(ends)).astype(np.int64)
    return np.repeat(sizes, np.diff(ends, prepend=0))


def _result(
    kappa: FloatArray,
    budget: int,
    ends: IntArray,
    sizes: FloatArray,
    unit: int,
    integer: bool,
    bound: float,
    loss: float,
) -> Staged:
    """The schedule in samples; neighbouring stages of equal size are merged."""
    is_last = np.append(np.diff(sizes) != 0.0, True)
    ends, merged = ends[is_last], sizes[is_last] * unit
    lengths = np.diff(ends, prepend=0)
    values = merged.astype(np.int64) if integer else merged
    batches = np.repeat(values, lengths)
    objective = float((kappa / batches).sum())
    root = float(np.sqrt(kappa).sum())
    square_root = root * (root / budget)
    return Staged(
        batches=batches,
        ends=ends,
        sizes=values,
        objective=objective,
        # Both may be equal, and rounding must not reverse their order.
        lower_bound=min(bound, objective),
        square_root=square_root,
        gap=objective / square_root - 1.0 if square_root > 0.0 else 0.0,
        spent=(lengths * values).sum().item(),
        boundary_loss=loss,
    )


@dataclass(frozen=True, eq=False)
class _Task:
    """The constraints in units of ``multiple_of``, and influence relative to its maximum."""

    kappa: FloatArray
    sums: FloatArray
    budget: float
    low: float
    high: float
    whole: bool

    @classmethod
    def of(cls, kappa: FloatArray, budget: float, low: int, high: int, whole: bool) -> _Task:
        kappa = np.where(kappa < NEGLIGIBLE_SHARE, 0.0, kappa)
        return cls(kappa, kernels.two_part_sums(kappa), budget, float(low), float(high), whole)

    def stages(self, ends: IntArray) -> tuple[FloatArray, FloatArray]:
        """Mass and length of the stages that end after the steps ``ends``."""
        mass, length = np.empty(ends.size), np.empty(ends.size)
        kernels.stages_between(self.sums, ends, mass, length)
        return mass, length

    def sizes(self, ends: IntArray) -> FloatArray:
        mass, length = self.stages(ends)
        sizes = kernels.stage_sizes(
            mass, length, self.budget, self.low, self.high, self.whole, FINAL_NODES
        )
        return np.asarray(sizes)

    def objective(self, ends: IntArray) -> float:
        objective = kernels.stages_objective(
            self.sums, ends, self.budget, self.low, self.high, self.whole, TRIAL_NODES
        )
        return float(objective)


@dataclass(frozen=True, eq=False)
class _Boundaries:
    """Dynamic programming over candidate boundaries, at a price per sample."""

    task: _Task
    candidates: IntArray
    count: int

    @property
    def complete(self) -> bool:
        return self.candidates.size == self.task.kappa.size + 1

    def _rules(self, lam: float, bounded: bool) -> tuple[float, float, float, float, bool]:
        task = self.task
        spare = task.budget - task.low * task.kappa.size
        if bounded:
            return lam, task.low, task.high, spare, task.whole
        return lam, NO_LOW, NO_HIGH, NO_HIGH, False

    def _costs(self, cut: FloatArray, rules: tuple[float, float, float, float, bool]) -> FloatArray:
        sums = np.ascontiguousarray(self.task.sums[:, self.candidates])
        count = min(self.count, self.candidates.size - 1)
        costs = kernels.stage_costs(sums, self.candidates.astype(np.float64), cut, count, *rules)
        return np.asarray(costs)

    def _steps(self, rules: tuple[float, float, float, float, bool]) -> FloatArray:
        """The cost of each cell if its steps are priced one by one."""
        lam, low, high, spare, whole = rules
        most = min(low + spare, high)
        return np.asarray(
            kernels.priced_steps(self.task.kappa, self.candidates, lam, low, most, whole)
        )

    def priced(self, lam: float, bounded: bool = True) -> tuple[float, IntArray]:
        """The least priced cost, and the ends of the stages that reach it."""
        rules = self._rules(lam, bounded)
        if self.count >= self.task.kappa.size:
            return float(self._steps(rules).sum()), np.arange(1, self.task.kappa.size + 1)
        costs = self._costs(np.full(self.candidates.size - 1, np.inf), rules)
        sums = np.ascontiguousarray(self.task.sums[:, self.candidates])
        chosen = kernels.stage_boundaries(costs, sums, self.candidates.astype(np.float64), *rules)
        return float(costs[-1, -1]), self.candidates[chosen]

    def relaxed(self, lam: float, bounded: bool = True) -> float:
        """A lower bound on the priced cost of at most K stages with any boundaries.

        F(n, K) is concave and homogeneous, so a stage costs at least as much as its parts
        priced separately: its whole cells, and the pieces of cells at its ends. The pieces of a
        cell cost at least its steps priced one by one. A cell of one step cannot be split.
        """
        rules = self._rules(lam, bounded)
        steps = self._steps(rules)
        if self.count >= self.candidates.size - 1:
            return float(steps.sum())
        cut = np.where(np.diff(self.candidates) > 1, steps, np.inf)
        return float(self._costs(cut, rules)[-1, -1])


def _solve(task: _Task, count: int) -> tuple[IntArray, float, float]:
    """Ends of good stages, the dual value, and a bound on the loss by the candidates."""
    grid = _Boundaries(task, _candidates(task.kappa, count), count)
    cost, ends = grid.priced(1.0, bounded=False)
    root = cost / 2.0  # sum_s sqrt(n_s K_s)
    mass, length = task.stages(ends)
    real = np.sqrt(mass / length) * (task.budget / root)
    if not task.whole and real.min() >= task.low and real.max() <= task.high:
        dual, loss = root**2 / task.budget, 0.0
        if not grid.complete:
            relaxed_root = grid.relaxed(1.0, bounded=False) / 2.0
            dual, loss = relaxed_root**2 / task.budget, (root / relaxed_root) ** 2 - 1.0
            ends = _improve(task, ends, loss)
        return ends, dual, loss
    dual, lam, tried = _maximise_dual(grid, (root / task.budget) ** 2)
    loss = 0.0
    if not grid.complete:
        restricted, dual = dual, _relaxed_dual(grid, dual, lam)
        loss = restricted / dual - 1.0 if dual > 0.0 else math.inf
    if grid.complete and math.comb(task.kappa.size - 1, count - 1) <= ENUMERATED_CHOICES:
        return min(_all_ends(task.kappa.size, count), key=task.objective), dual, loss
    distinct = {choice.tobytes(): choice for choice in tried}.values()
    # With active bounds the priced stages may be few; the unbounded ones leave more to move.
    starts = [ends, *sorted(distinct, key=task.objective)[:STARTS]]
    improved = (_improve(task, start, loss) for start in starts)
    return min(improved, key=task.objective), dual, loss


def _maximise_dual(grid: _Boundaries, lam: float) -> tuple[float, float, list[IntArray]]:
    """The best dual value, its price, and the ends of all stages tried.

    The dual is concave: each priced optimum gives a line above it, cost + lam (spent - budget).
    Two lines of opposite slope bracket the maximum; the next price is where they intersect.
    """
    budget = grid.task.budget
    best, best_lam = -math.inf, lam
    tried: list[IntArray] = []
    rising: tuple[float, float] | None = None  # cost and slope of the last rising line
    falling: tuple[float, float] | None = None
    step = 0.0
    for _ in range(60):
        priced, ends = grid.priced(lam)
        slope = _priced_spend(grid.task, ends, lam) - budget
        tried.append(ends)
        if priced - lam * budget > best:
            best, best_lam = priced - lam * budget, lam
        line = (priced - lam * budget - lam * slope, slope)
        if slope > 0.0:
            rising = line
        else:
            falling = line
        if slope == 0.0 or lam * budget < PRECISION * best:
            break
        if rising is None or falling is None:
            step = max(2.0 * step, 3.0 * abs(math.log1p(slope / budget)), 1e-4)
            lam *= math.exp(math.copysign(step, slope))
            continue
        lam = (falling[0] - rising[0]) / (rising[1] - falling[1])
        if rising[0] + lam * rising[1] <= best * (1.0 + PRECISION):
            break
    return best, best_lam, tried


def _relaxed_dual(grid: _Boundaries, restricted: float, lam: float) -> float:
    """The dual value for any boundaries, starting from the best price for the candidates.

    If no bound is active, the best price falls in proportion to the dual value, so the first
    step is right; any price gives a valid bound, and 0 is always valid.
    """
    best = grid.relaxed(lam) - lam * grid.task.budget
    fall = max(best / restricted, 0.25)
    for _ in range(20):
        lam *= fall
        value = grid.relaxed(lam) - lam * grid.task.budget
        if value <= best:
            break
        best = value
    return min(max(best, 0.0), restricted)


def _priced_spend(task: _Task, ends: IntArray, lam: float) -> float:
    """Samples that the priced optimum of these stages spends."""
    mass, length = task.stages(ends)
    most = np.minimum(task.low + (task.budget - task.low * task.kappa.size) / length, task.high)
    size = np.sqrt(mass / (lam * length))
    if not task.whole:
        return float(length @ np.clip(size, task.low, most))
    below = np.clip(np.floor(size), task.low, np.floor(most))
    above = np.minimum(below + 1.0, np.floor(most))
    worth_it = mass / below - mass / above > lam * length * (above - below)
    return float(length @ np.where(worth_it, above, below))


def _improve(task: _Task, ends: IntArray, loss: float) -> IntArray:
    """Move one boundary at a time, by shrinking jumps, while the objective falls."""
    longest = int(np.diff(ends, prepend=0).max())
    improved = kernels.improve_ends(
        task.sums,
        ends,
        (task.budget, task.low, task.high, task.whole, TRIAL_NODES),
        1 << longest.bit_length() - 1,
        SHORT_JUMP if task.kappa.size <= EXACT_STEPS else 1,
        SEARCH_WORK // ends.size,
        PASSES,
        PRECISION,
        max(MIN_GAIN, MIN_GAIN_SHARE * loss),
    )
    return np.asarray(improved)


def _all_ends(steps: int, count: int) -> Iterator[IntArray]:
    for inner in itertools.combinations(range(1, steps), count - 1):
        yield np.array([*inner, steps])


def _candidates(kappa: FloatArray, count: int) -> IntArray:
    """Every step, or about CELLS boundaries spread by influence, by steps and by its changes."""
    T = kappa.size
    if T <= EXACT_STEPS and (count >= T or count * T**2 <= EXACT_WORK):
        return np.arange(T + 1)
    weight = np.sqrt(kappa)
    # Steep changes need more boundaries; 1e-20 ignores changes of negligible influence.
    change = np.abs(np.diff(np.log(kappa + 1e-20), prepend=math.log(kappa[0] + 1e-20)))
    measures = [weight, np.ones(T)] + ([change] if change.any() else [])
    share = np.sum([np.cumsum(measure) / measure.sum() for measure in measures], axis=0)
    level, width = np.linspace(0.0, share[-1], CELLS, endpoint=False, retstep=True)
    inner = np.searchsorted(share, level[1:]) + 1
    # A step that fills a cell on its own gets a boundary on both sides.
    alone = np.flatnonzero(np.diff(share, prepend=0.0) >= width)
    return np.unique(np.concatenate([[0], np.minimum(inner, T), alone, [T]]))
