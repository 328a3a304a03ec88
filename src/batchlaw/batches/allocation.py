"""Batch sizes from influence: effective batch sizes, and three allocators.

All allocators minimise sum_t kappa_t / B_t for a given sum_t B_t. Ties go to the earliest
step.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import Batches, FloatArray, IntArray
from batchlaw.batches.stages import batch_limits, best_stages

METHODS = ("paper", "greedy", "continuous")
# The schedules of ``schedule_families``, in the paper's words.
FAMILIES = ("oracle", "constant", "early_large_late_small", "early_small_late_large")


def effective_batch(influence: ArrayLike, batches: Batches) -> float | FloatArray:
    """B_eff, the influence-weighted harmonic mean of the batch sizes (paper, section 3).

    1/B_eff = sum_t (kappa_t / B_t) / sum_t kappa_t. One number, or one for each schedule.
    """
    kappa = _shares(influence)
    sizes = checks.batches(batches, kappa.size, whole=False)
    return _one_or_many(1.0 / ((1.0 / sizes) @ kappa), batches)


def effective_fluctuation(
    influence: ArrayLike, batches: Batches, samples: int, *, replacement: bool = False
) -> float | FloatArray:
    """rho_eff, the influence-weighted mean of rho_t (paper, section 3).

    rho_t = (N - B_t)/(B_t (N - 1)) for batches without replacement from N = ``samples``
    and 1/B_t with replacement. One number, or one for each schedule.
    """
    kappa = _shares(influence)
    rho = fluctuation_factors(batches, kappa.size, samples, replacement=replacement)
    return _one_or_many(rho @ kappa, batches)


def fluctuation_factors(
    batches: Batches, steps: int, samples: int, *, replacement: bool = False
) -> FloatArray:
    """rho_t of every step, as a (schedules, steps) array."""
    N = checks.count("samples", samples, minimum=1 if replacement else 2)
    sizes = checks.batches(batches, steps, whole=False, maximum=None if replacement else N)
    return 1.0 / sizes if replacement else (N - sizes) / (sizes * (N - 1.0))


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
        "greedy": integers that minimise sum kappa_t / B_t exactly (up to rounding past budgets
        of 10^14), at a cost that does not grow with the budget. "continuous": the same
        problem over real numbers (clipped square roots, the KKT solution); returns floats.
        "paper": the rounding of appendix L (the minimum each, the rest in proportion to
        sqrt(kappa_t), largest remainders), which is not optimal; for reproduction.
    min_batch
        No batch below it.
    max_batch
        No batch above it.
    multiple_of
        Every batch is a multiple of it.
    stages
        At most so many constant stages (``stages.best_stages``, which also says how good the
        result is). The budget may then be underspent by less than ``multiple_of`` times the
        shortest stage.
    """
    kappa = checks.vector("influence", influence)
    checks.choice("method", method, METHODS)
    if stages is not None:
        if method == "paper":
            raise ValueError("stages need method greedy or continuous, got paper")
        whole = method == "greedy"
        limits = {"min_batch": min_batch, "max_batch": max_batch, "multiple_of": multiple_of}
        return best_stages(kappa, budget, stages, integer=whole, **limits).batches  # type: ignore[arg-type]
    low, high, unit = _limits(kappa.size, budget, min_batch, max_batch, multiple_of)
    budget = int(budget)
    if method == "continuous":
        if unit != 1:
            raise ValueError("multiple_of needs integer batches: method continuous returns floats")
        return _water_fill(np.sqrt(kappa), float(budget), float(low), float(high))
    units = budget // unit
    if method == "paper":
        return unit * _largest_remainder(np.sqrt(kappa), units, low, high)
    return unit * _greedy(kappa, units, low, high)


def schedule_families(
    influence: ArrayLike, budget: int, *, max_batch: int | None = None
) -> dict[str, IntArray]:
    """The four schedules that the paper compares, with the paper's rounding (appendix L).

    ``oracle`` follows sqrt(kappa_t), ``constant`` 1, ``early_large_late_small`` T - t + 1
    and ``early_small_late_large`` t. Where the budget is not a multiple of the steps, the
    extra samples of ``constant`` go to the earliest.
    """
    kappa = checks.vector("influence", influence)
    t = np.arange(1, kappa.size + 1, dtype=np.float64)
    shapes = (kappa, np.ones_like(t), t[::-1] ** 2, t**2)
    return {
        name: np.asarray(allocate(shape, budget, method="paper", max_batch=max_batch), np.int64)
        for name, shape in zip(FAMILIES, shapes, strict=True)
    }


def _limits(
    steps: int, budget: int, min_batch: int, max_batch: int | None, multiple_of: int
) -> tuple[int, int, int]:
    """Bounds in units of ``multiple_of``, after checking that the budget can be spent in full."""
    budget = checks.count("budget", budget)
    if budget < steps:
        raise ValueError(
            f"budget must be at least one sample an update: {steps} updates need {steps}, "
            f"got {budget}"
        )
    low, high, unit, _ = batch_limits(steps, budget, min_batch, max_batch, multiple_of)
    if budget % unit:
        near = f"{budget // unit * unit} or {(budget // unit + 1) * unit}"
        raise ValueError(
            f"budget must be a multiple of multiple_of = {unit}, such as {near}, got {budget}"
        )
    return low, high, unit


def _water_fill(weights: FloatArray, budget: float, low: float, high: float) -> FloatArray:
    """B = clip(c weights, low, high) with sum B = budget: the KKT solution.

    sum_t clip(c w_t, low, high) grows piecewise linearly in c with bends at low/w and
    high/w, so c is found by sorting the bends and interpolating.
    """
    positive = weights > 0.0
    full = high * positive.sum() + low * (~positive).sum()
    if budget >= full:
        # Steps without influence matter to nobody: they share what the others cannot take.
        idle = (budget - high * positive.sum()) / max((~positive).sum(), 1)
        return np.where(positive, high, idle)
    w = np.sort(weights[positive])[::-1] / weights.max()
    suffix = np.append(np.cumsum(w[::-1])[::-1], 0.0)  # suffix[k] = w_k + ... + w_last
    bends = np.sort(np.concatenate([low / w, high / w]))
    at_high = np.searchsorted(-w, -high / bends, side="right")  # c w >= high
    above_low = np.searchsorted(-w, -low / bends, side="left")  # c w > low
    idle_total = low * (weights.size - w.size)
    totals = (
        high * at_high
        + bends * (suffix[at_high] - suffix[above_low])
        + low * (w.size - above_low)
        + idle_total
    )
    k = int(np.clip(np.searchsorted(totals, budget, side="right"), 1, bends.size - 1))
    # Between two bends the same steps are clipped; solve for c on that stretch.
    middle = math.sqrt(bends[k - 1]) * math.sqrt(bends[k])
    free = (middle * w > low) & (middle * w < high)
    fixed = high * (middle * w >= high).sum() + low * (middle * w <= low).sum() + idle_total
    c = (budget - fixed) / w[free].sum() if free.any() else bends[k - 1]
    filled = np.clip(c * (weights / weights.max()), low, high)
    return np.where(positive, filled, low)


def _largest_remainder(weights: FloatArray, budget: int, low: int, high: int) -> IntArray:
    """``low`` each, the rest in proportion to the weights, rounded down; then one more for
    each of the largest remainders. What would exceed ``high`` is shared out again."""
    # The negligible offset of appendix L, so that no weight is zero.
    shares = weights + 1e-15 * weights.max() if weights.max() > 0.0 else np.ones_like(weights)
    batches = np.full(weights.size, low, dtype=np.int64)
    while (left := budget - int(batches.sum())) > 0:
        open_ = batches < high
        quota = np.where(open_, left * (shares / shares[open_].sum()), 0.0)
        extra = np.floor(quota).astype(np.int64)
        # Past 2^45 samples or so the quotas are rounded, and their floors may sum to too much.
        short = left - int(extra.sum())
        order = np.argsort(-(quota - extra)[open_], kind="stable")
        chosen = np.flatnonzero(open_)[order[:short] if short >= 0 else order[short:]]
        extra[chosen] += 1 if short >= 0 else -1
        batches = np.minimum(batches + extra, high)
    return batches


def _greedy(kappa: FloatArray, budget: int, low: int, high: int) -> IntArray:
    """Integers that minimise sum kappa_t / B_t: every sample goes where it helps most.

    Raising a batch from b - 1 to b gains kappa/(b (b - 1)). Handing out samples in order
    of gain stops at some least gain l, where B_t(l) = floor((1 + sqrt(1 + 4 kappa_t/l))/2)
    within the bounds. Bisecting l costs O(T) a round, whatever the budget.
    """
    positive = kappa > 0.0
    idle = int((~positive).sum())
    batches = np.full(kappa.size, low, dtype=np.int64)
    most = high * int(positive.sum()) + low * idle
    if budget >= most:
        batches[positive] = high
        if idle:
            each, extra = divmod(budget - high * int(positive.sum()), idle)
            batches[~positive] = each + (np.arange(idle) < extra)
        return batches
    batches[positive] = _threshold(kappa[positive], budget - low * idle, low, high)
    return batches


def _threshold(kappa: FloatArray, budget: int, low: int, high: int) -> IntArray:
    def batches_at(log_gain: float) -> IntArray:
        ratio = np.exp(np.minimum(log_kappa - log_gain, 80.0))  # e^80 is far past any budget
        return np.clip((1.0 + np.sqrt(1.0 + 4.0 * ratio)) / 2.0, low, high).astype(np.int64)

    log_kappa = np.log(kappa)
    # Start from the real-valued solution: there kappa/B^2 is the same for all free steps.
    # No batch can take more than what the minimum of the others leaves.
    high = min(high, budget - low * (kappa.size - 1))
    real = _water_fill(np.sqrt(kappa), float(budget), float(low), float(high))
    guess = float(np.max(log_kappa - 2.0 * np.log(real)))
    width = 4.0
    while _total(batches_at(guess - width)) < budget:
        width *= 2.0
    more_at = guess - width
    width = 4.0
    while _total(batches_at(guess + width)) > budget:
        width *= 2.0
    less_at = guess + width
    less, more = batches_at(less_at), batches_at(more_at)
    while _total(less) < budget and int((more - less).max()) > 1:
        middle = 0.5 * (less_at + more_at)
        if middle in (less_at, more_at):
            break
        at = batches_at(middle)
        if _total(at) <= budget:
            less_at, less = middle, at
        else:
            more_at, more = middle, at
    return _spend(kappa, less, budget, high)


def _total(batches: IntArray) -> int:
    """Their sum; 2^62, more than any budget, where it would overflow."""
    return int(batches.sum()) if batches.sum(dtype=np.float64) < 2.0**62 else 2**62


def _spend(kappa: FloatArray, batches: IntArray, budget: int, high: int) -> IntArray:
    """Hand out the few samples that the threshold left, largest gain first."""
    batches = batches.copy()
    while (left := budget - int(batches.sum())) > 0:
        gain = np.where(batches < high, kappa / (batches * (batches + 1.0)), -1.0)
        order = np.argsort(-gain, kind="stable")[: min(left, int((batches < high).sum()))]
        batches[order] += 1
    return batches


def _shares(influence: ArrayLike) -> FloatArray:
    """kappa_t / sum kappa, without overflow on the way."""
    kappa = checks.vector("influence", influence)
    if not kappa.any():
        raise ValueError("influence must not be zero at every step (are the rates too small?)")
    kappa = kappa / kappa.max()
    return np.asarray(kappa / kappa.sum())


def _one_or_many(values: FloatArray, batches: Batches) -> float | FloatArray:
    return float(values[0]) if checks.is_single(batches) else values
