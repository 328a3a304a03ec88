"""Batch sizes from influence: ``allocate``, and the four schedules that the paper compares.

All allocators minimise sum_t kappa_t / B_t for a given sum_t B_t.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import InputError, arg
from batchlaw.batches.limits import Limits
from batchlaw.batches.sharing import greedy, largest_remainder, water_fill
from batchlaw.batches.stages import best_stages

METHODS = ("paper", "greedy", "continuous")
# The schedules of ``schedule_families``, with the paper's names.
FAMILIES = ("oracle", "constant", "early_large_late_small", "early_small_late_large")


def allocate(
    influence: ArrayLike,
    budget: int,
    *,
    method: str = "greedy",
    min_batch: int = 1,
    max_batch: int | None = None,
    multiple_of: int = 1,
    stages: int | None = None,
) -> IntArray | FloatArray:
    """Share ``budget`` samples among the updates, B_t ~ sqrt(kappa_t) (paper, section 3.2).

    Parameters
    ----------
    influence : (T,) array
        kappa_t, zeros allowed.
    budget
        sum_t B_t: N for one pass, D_grad for data reuse.
    method
        "greedy": integers that minimise sum kappa_t / B_t exactly (up to rounding for budgets
        above 10^14), at a cost that does not grow with the budget. "continuous": the same
        problem over real numbers (clipped square roots, the KKT solution); returns floats.
        "paper": the rounding of appendix L (the minimum for each step, the rest in proportion
        to sqrt(kappa_t), largest remainders), which is not optimal; for reproduction.
    min_batch
        The smallest batch allowed.
    max_batch
        The largest batch allowed.
    multiple_of
        Every batch is a multiple of this.
    stages
        The largest number of constant stages (``stages.best_stages``, which also bounds the
        distance from the optimum). The budget may then be underspent by less than
        ``multiple_of`` times the shortest stage.
    """
    kappa = checks.vector("influence", influence)
    checks.choice("method", method, METHODS)
    limits = Limits(min_batch, max_batch, multiple_of, stages)
    if stages is not None:
        if method == "paper":
            raise InputError("stages", f"need {arg('method')} greedy or continuous", "paper")
        return best_stages(kappa, budget, limits, integer=method == "greedy").batches
    low, high, unit, budget = limits.units_in_full(kappa.size, budget)
    if method == "continuous":
        if unit != 1:
            raise InputError(
                "multiple_of", "needs integer batches: method continuous returns floats"
            )
        return water_fill(np.sqrt(kappa), float(budget), float(low), float(high))
    units = budget // unit
    if method == "paper":
        return unit * largest_remainder(np.sqrt(kappa), units, low, high)
    return unit * greedy(kappa, units, low, high)


def schedule_families(
    influence: ArrayLike, budget: int, *, max_batch: int | None = None
) -> dict[str, IntArray]:
    """The four schedules that the paper compares, with the paper's rounding (appendix L).

    ``oracle`` follows sqrt(kappa_t), ``constant`` 1, ``early_large_late_small`` T - t + 1
    and ``early_small_late_large`` t. If the budget is not a multiple of the steps, the extra
    samples of ``constant`` go to the earliest steps.
    """
    kappa = checks.vector("influence", influence)
    t = np.arange(1, kappa.size + 1, dtype=np.float64)
    shapes = (kappa, np.ones_like(t), t[::-1] ** 2, t**2)
    return {
        name: np.asarray(allocate(shape, budget, method="paper", max_batch=max_batch), np.int64)
        for name, shape in zip(FAMILIES, shapes, strict=True)
    }
