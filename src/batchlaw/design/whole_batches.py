"""Whole batch sizes near a real optimum: the greedy rule, then exchanges of one sample."""

from __future__ import annotations

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.batches.sharing import greedy
from batchlaw.design.descent import ROUNDING, Feasible
from batchlaw.design.variance_objective import Objective

# Steps^2 x directions up to which every exchange of one sample is tried: about ten seconds.
EXCHANGE_WORK = 1e9


def whole_batches(
    objective: Objective, slopes: FloatArray, feasible: Feasible, directions: int
) -> tuple[IntArray, bool]:
    """Whole batches, and whether every exchange of one sample was tried on them.

    ``slopes`` are those at the real optimum, ``directions`` what one evaluation costs per step.
    """
    limits = feasible.budget, feasible.low, feasible.high
    candidates = [greedy(w, *limits) for w in (slopes, np.ones(slopes.size))]
    # Where the variance of the first overflows, constant batches may still be finite.
    values = np.array([objective(batches.astype(np.float64))[0] for batches in candidates])
    batches = candidates[int(np.where(np.isfinite(values), values, np.inf).argmin())]
    if slopes.size**2 * directions > EXCHANGE_WORK:
        return batches, False
    return _exchange(objective, batches, feasible), True


def _exchange(objective: Objective, batches: IntArray, feasible: Feasible) -> IntArray:
    """Move one sample from step i to step j for as long as that lowers the variance.

    Var is linear in each x_t, so with x_i raised by d_i the slopes w_j' at the new point give
    the exact change for every j at once, w_i d_i - w_j' d_j. As no coefficient is negative,
    w_j' <= w_j + d_i min(w_i/x_j, w_j/x_i), which rules most steps i out beforehand.
    """
    sizes = batches.astype(np.float64)
    variance, w = objective(sizes)
    i = unchanged = 0
    while unchanged < sizes.size:
        unchanged += 1
        j = None
        if sizes[i] > feasible.low:
            j = _best_receiver(objective, sizes, variance, w, i, feasible.high)
        if j is not None:
            sizes[i] -= 1.0
            sizes[j] += 1.0
            variance, w = objective(sizes)
            unchanged = 0
        i = (i + 1) % sizes.size
    return sizes.astype(np.int64)


def _best_receiver(
    objective: Objective, sizes: FloatArray, variance: float, w: FloatArray, i: int, high: int
) -> int | None:
    """The step to which step i should give a sample, or None."""
    x = objective.shares(sizes)
    raised = objective.scale / (sizes[i] * (sizes[i] - 1.0))
    lowered = objective.scale / (sizes * (sizes + 1.0))
    can_take = sizes < high
    can_take[i] = False
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        slope_bound = w + raised * np.fmin(w[i] / x, w / x[i])
    if not (slope_bound * lowered > w[i] * raised)[can_take].any():
        return None
    without = sizes.copy()
    without[i] -= 1.0
    _, slopes = objective(without)
    change = np.where(can_take, w[i] * raised - slopes * lowered, np.inf)
    j = int(change.argmin())
    return j if change[j] < -ROUNDING * variance else None
