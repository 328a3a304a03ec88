"""The real batch sizes that minimise an objective under a fixed sum, and how far off they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.batches.sharing import water_fill
from batchlaw.design.variance_objective import Objective

# The descent stops at this KKT residual, or after this many rounds.
TARGET_RESIDUAL = 1e-10
MAX_ROUNDS = 5_000
MAX_DAMPING = 1e9
# A move is rejected where the slope at its end exceeds this share of minus the slope at its start.
OVERSHOOT = 0.9
# Relative changes of the objective below this are rounding.
ROUNDING = 1e-12
# Variances and slopes above this count as overflow: sums of them must stay finite.
OVERFLOW = 1e280


@dataclass(frozen=True)
class Feasible:
    """Schedules whose batches sum to ``budget``, each between ``low`` and ``high``."""

    budget: int
    low: int
    high: int

    def fill(self, weights: FloatArray) -> FloatArray:
        """Real batches in proportion to the weights, clipped to the bounds."""
        return water_fill(weights, float(self.budget), float(self.low), float(self.high))


@dataclass(frozen=True, eq=False)
class Point:
    """A schedule, its variance, and the slopes w_t there."""

    batches: FloatArray
    variance: float
    slopes: FloatArray

    @property
    def gain(self) -> FloatArray:
        """By how much one more sample at each step lowers the variance, w_t/B_t^2."""
        return self.slopes / self.batches**2

    def slope_along(self, move: FloatArray) -> float:
        """dVar along a move that keeps the sum.

        The mean gain is subtracted first: it cancels in the sum, and would cost digits.
        """
        moving = move != 0.0
        if not moving.any():
            return 0.0
        gain = self.gain[moving]
        return -float((gain - gain.mean()) @ move[moving])


def kkt_residual(batches: FloatArray, slopes: FloatArray, low: float, high: float) -> float:
    """Largest relative violation of the optimality conditions, zero at the optimum.

    One more sample at step t lowers the variance by about w_t/B_t^2. No step below ``high``
    may gain more than a step above ``low`` would lose.
    """
    gain = slopes / batches**2
    largest_gain = float(gain[batches < high].max(initial=0.0))
    smallest_loss = float(gain[batches > low].min(initial=np.inf))
    return max(1.0 - smallest_loss / largest_gain, 0.0) if largest_gain > 0.0 else 0.0


def starting_point(objective: Objective, steps: int, feasible: Feasible) -> Point | None:
    """The better of the constant schedule and the optimum to first order in the shares.

    None where the second moment overflows for both.
    """
    _, w = objective.of_shares(np.zeros(steps))
    schedules = feasible.fill(np.sqrt(w)), np.full(steps, feasible.budget / steps)
    points = [_evaluate(objective, batches) for batches in schedules]
    return min((p for p in points if p is not None), key=lambda p: p.variance, default=None)


def descend(objective: Objective, point: Point, feasible: Feasible) -> tuple[Point, int]:
    """The optimum over real batches, and the number of rounds to it.

    B <- clip(c (w B^p)^{1/(2+p)}) with the same sum. Every such move goes downhill:
    unclipped it is B_t (c' gain_t^{1/(2+p)} - 1), whose sign is that of the gain minus its
    water level. At p = 0 it is the optimum for fixed w, but it overshoots where w falls
    steeply in B. So the damping p is raised where the slope along the move changes sign, and
    otherwise set to where a straight line through the two slopes would have put the minimum.
    """
    low, high = feasible.low, feasible.high
    damping, rounds, lowest = 0.0, 0, point.variance
    residual = kkt_residual(point.batches, point.slopes, low, high)
    while residual > TARGET_RESIDUAL and rounds < MAX_ROUNDS and damping < MAX_DAMPING:
        rounds += 1
        moved = _evaluate(objective, feasible.fill(_damped_roots(point, damping)))
        tried, damping = damping, 2.0 * damping + 2.0
        if moved is None or moved.variance > lowest * (1.0 + ROUNDING):
            continue
        move = moved.batches - point.batches
        slope, end_slope = point.slope_along(move), moved.slope_along(move)
        new_residual = kkt_residual(moved.batches, moved.slopes, low, high)
        # Next to the optimum both slopes are rounding, and only the residual can decide.
        if end_slope > -OVERSHOOT * slope and new_residual >= residual:
            continue
        turn = slope / (slope - end_slope) if slope < min(end_slope, 0.0) else np.inf
        damping = max((2.0 + tried) / min(max(turn, 0.5), 1.5) - 2.0, 0.0)
        point, residual, lowest = moved, new_residual, min(lowest, moved.variance)
    return point, rounds


def _evaluate(objective: Objective, batches: FloatArray) -> Point | None:
    """The point, or None where the second moment overflows."""
    variance, slopes = objective(batches)
    finite = variance < OVERFLOW and float(slopes.max()) < OVERFLOW
    return Point(batches, variance, slopes) if finite else None


def _damped_roots(point: Point, damping: float) -> FloatArray:
    """(w B^p)^{1/(2+p)} up to a factor, by logarithms: B^p would overflow."""
    w = point.slopes
    if not w.any():
        return w
    logs = np.log(w, where=w > 0.0, out=np.full(w.size, -np.inf))
    logs = (logs + damping * np.log(point.batches)) / (2.0 + damping)
    return np.asarray(np.exp(logs - logs.max()))


def duality_gap(point: Point, budget: int, low: int, high: float) -> float:
    """By how much the tangent at a point falls, at most, over all feasible schedules.

    Var is convex and lies above its tangent, whose minimum fills the steps of largest gain.
    """
    T = point.batches.size
    left = np.maximum(budget - low * T - (high - low) * np.arange(T), 0.0)
    corner = np.empty(T)
    order = np.argsort(-point.gain, kind="stable")
    corner[order] = low + np.minimum(left, high - low)
    return max(-point.slope_along(corner - point.batches), 0.0)
