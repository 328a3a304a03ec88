"""Three ways to distribute a budget over updates so that sum_t kappa_t / B_t is small.

Ties go to the earliest step.
"""

from __future__ import annotations

import math

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray


def water_fill(weights: FloatArray, budget: float, low: float, high: float) -> FloatArray:
    """B = clip(c weights, low, high) with sum B = budget: the KKT solution.

    sum_t clip(c w_t, low, high) is piecewise linear in c with kinks at low/w and high/w, so c
    is found by sorting the kinks and interpolating.
    """
    positive = weights > 0.0
    full = high * positive.sum() + low * (~positive).sum()
    if budget >= full:
        # Steps without influence share what the others cannot take.
        idle = (budget - high * positive.sum()) / max((~positive).sum(), 1)
        return np.where(positive, high, idle)
    w = np.sort(weights[positive])[::-1] / weights.max()
    suffix = np.append(np.cumsum(w[::-1])[::-1], 0.0)  # suffix[k] = w_k + ... + w_last
    kinks = np.sort(np.concatenate([low / w, high / w]))
    at_high = np.searchsorted(-w, -high / kinks, side="right")  # c w >= high
    above_low = np.searchsorted(-w, -low / kinks, side="left")  # c w > low
    idle_total = low * (weights.size - w.size)
    totals = (
        high * at_high
        + kinks * (suffix[at_high] - suffix[above_low])
        + low * (w.size - above_low)
        + idle_total
    )
    k = int(np.clip(np.searchsorted(totals, budget, side="right"), 1, kinks.size - 1))
    # Between two kinks the same steps are clipped: solve for c there.
    middle = math.sqrt(kinks[k - 1]) * math.sqrt(kinks[k])
    free = (middle * w > low) & (middle * w < high)
    fixed = high * (middle * w >= high).sum() + low * (middle * w <= low).sum() + idle_total
    c = (budget - fixed) / w[free].sum() if free.any() else kinks[k - 1]
    filled = np.clip(c * (weights / weights.max()), low, high)
    return np.where(positive, filled, low)


def largest_remainder(weights: FloatArray, budget: int, low: int, high: int) -> IntArray:
    """``low`` for each step and the rest in proportion to the weights, by largest remainders.

    What would exceed ``high`` is distributed again.
    """
    # The negligible offset of appendix L, so that no weight is zero.
    shares = weights + 1e-15 * weights.max() if weights.max() > 0.0 else np.ones_like(weights)
    batches = np.full(weights.size, low, dtype=np.int64)
    while (left := budget - int(batches.sum())) > 0:
        open_ = batches < high
        quota = np.where(open_, left * (shares / shares[open_].sum()), 0.0)
        extra = np.floor(quota).astype(np.int64)
        # Above about 2^45 samples the quotas are rounded, and their floors may sum to too much.
        short = left - int(extra.sum())
        order = np.argsort(-(quota - extra)[open_], kind="stable")
        chosen = np.flatnonzero(open_)[order[:short] if short >= 0 else order[short:]]
        extra[chosen] += 1 if short >= 0 else -1
        batches = np.minimum(batches + extra, high)
    return batches


def greedy(kappa: FloatArray, budget: int, low: int, high: int) -> IntArray:
    """Integers that minimise sum kappa_t / B_t: every sample goes where it helps most.

    Raising a batch from b - 1 to b gains kappa/(b (b - 1)). Handing out samples in order of
    gain stops at a threshold l, where B_t(l) = floor((1 + sqrt(1 + 4 kappa_t/l))/2) within the
    bounds. Bisection for l costs O(T) per round, whatever the budget.
    """
    positive = kappa > 0.0
    idle = int((~positive).sum())
    batches = np.full(kappa.size, low, dtype=np.int64)
    most = high * int(positive.sum()) + low * idle
    if budget >= most:
        batches[positive] = high
        if idle:
            quotient, extra = divmod(budget - high * int(positive.sum()), idle)
            batches[~positive] = quotient + (np.arange(idle) < extra)
        return batches
    batches[positive] = _threshold(kappa[positive], budget - low * idle, low, high)
    return batches


def _threshold(kappa: FloatArray, budget: int, low: int, high: int) -> IntArray:
    """``greedy`` for positive kappa, by bisection of the logarithm of the threshold gain."""

    def batches_at(log_gain: float) -> IntArray:
        ratio = np.exp(np.minimum(log_kappa - log_gain, 80.0))  # e^80 exceeds any budget
        return np.clip((1.0 + np.sqrt(1.0 + 4.0 * ratio)) / 2.0, low, high).astype(np.int64)

    log_kappa = np.log(kappa)
    # No batch can exceed what the others leave at their minimum.
    high = min(high, budget - low * (kappa.size - 1))
    # Start from the real-valued solution, where kappa/B^2 is the same for all unclipped steps.
    real = water_fill(np.sqrt(kappa), float(budget), float(low), float(high))
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
        batches = batches_at(middle)
        if _total(batches) <= budget:
            less_at, less = middle, batches
        else:
            more_at, more = middle, batches
    return _spend(kappa, less, budget, high)


def _total(batches: IntArray) -> int:
    """The sum of the batches, capped at 2^62, above any budget, where it would overflow."""
    return int(batches.sum()) if batches.sum(dtype=np.float64) < 2.0**62 else 2**62


def _spend(kappa: FloatArray, batches: IntArray, budget: int, high: int) -> IntArray:
    """Hand out the few samples left by the threshold, largest gain first."""
    batches = batches.copy()
    while (left := budget - int(batches.sum())) > 0:
        gain = np.where(batches < high, kappa / (batches * (batches + 1.0)), -1.0)
        order = np.argsort(-gain, kind="stable")[: min(left, int((batches < high).sum()))]
        batches[order] += 1
    return batches
