"""Three ways to distribute a budget over updates so that sum_t kappa_t / B_t is small.

Ties go to the earliest step.
"""

from __future__ import annotations

import math

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray


def water_fill(
    weights: FloatArray, budget: float, low: float, high: float, counts: IntArray | None = None
) -> FloatArray:
    """B = clip(c weights, low, high) with sum B = budget: the KKT solution.

    sum_t clip(c w_t, low, high) is piecewise linear in c with kinks at low/w and high/w, so c
    is found by sorting the kinks and interpolating. With ``counts`` weight t stands for as many
    steps of equal batch.
    """
    n = np.ones(weights.size, dtype=np.int64) if counts is None else counts
    positive = weights > 0.0
    idle = int(n[~positive].sum())
    full = high * n[positive].sum() + low * idle
    if budget >= full:
        # Steps without influence share what the others cannot take.
        spare = (budget - high * n[positive].sum()) / max(idle, 1)
        return np.where(positive, high, spare)
    order = np.argsort(-weights[positive])
    w, n = weights[positive][order] / weights.max(), n[positive][order]
    # before[k] steps weigh more than w_k, suffix[k] = n_k w_k + ... + n_last w_last.
    before = np.append(0, np.cumsum(n))
    suffix = np.append(np.cumsum((n * w)[::-1])[::-1], 0.0)
    kinks = np.sort(np.concatenate([low / w, high / w]))
    at_high = np.searchsorted(-w, -high / kinks, side="right")  # c w >= high
    above_low = np.searchsorted(-w, -low / kinks, side="left")  # c w > low
    totals = (
        high * before[at_high]
        + kinks * (suffix[at_high] - suffix[above_low])
        + low * (before[-1] - before[above_low])
        + low * idle
    )
    k = int(np.clip(np.searchsorted(totals, budget, side="right"), 1, kinks.size - 1))
    # Between two kinks the same steps are clipped: solve for c there.
    middle = math.sqrt(kinks[k - 1]) * math.sqrt(kinks[k])
    free = (middle * w > low) & (middle * w < high)
    fixed = high * n[middle * w >= high].sum() + low * (n[middle * w <= low].sum() + idle)
    c = (budget - fixed) / (n * w)[free].sum() if free.any() else kinks[k - 1]
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
    """``greedy`` for positive kappa, by bisection of the logarithm of the threshold gain.

    Neighbours of equal kappa have equal batches up to the last step, so that a row of them costs
    as much as one.
    """
    first = np.flatnonzero(np.diff(kappa, prepend=np.nan))
    counts = np.diff(first, append=kappa.size)
    log_kappa = np.log(kappa[first])

    def batches_at(log_gain: float) -> IntArray:
        ratio = np.exp(np.minimum(log_kappa - log_gain, 80.0))  # e^80 exceeds any budget
        return np.clip((1.0 + np.sqrt(1.0 + 4.0 * ratio)) / 2.0, low, high).astype(np.int64)

    # No batch can exceed what the others leave at their minimum.
    high = min(high, budget - low * (kappa.size - 1))
    # Start from the real-valued solution, where kappa/B^2 is the same for all unclipped steps.
    real = water_fill(np.sqrt(kappa[first]), float(budget), float(low), float(high), counts)
    guess = float(np.max(log_kappa - 2.0 * np.log(real)))
    width = 4.0
    while _total(batches_at(guess - width), counts) < budget:
        width *= 2.0
    more_at = guess - width
    width = 4.0
    while _total(batches_at(guess + width), counts) > budget:
        width *= 2.0
    less_at = guess + width
    less, more = batches_at(less_at), batches_at(more_at)
    while _total(less, counts) < budget and int((more - less).max()) > 1:
        middle = 0.5 * (less_at + more_at)
        if middle in (less_at, more_at):
            break
        batches = batches_at(middle)
        if _total(batches, counts) <= budget:
            less_at, less = middle, batches
        else:
            more_at, more = middle, batches
    return _spend(kappa, np.repeat(less, counts), budget, high)


def _total(batches: IntArray, counts: IntArray) -> int:
    """The sum of the batches, capped at 2^62, above any budget, where it would overflow."""
    sums = counts * batches.astype(np.float64)
    return int((counts * batches).sum()) if sums.sum() < 2.0**62 else 2**62


def _spend(kappa: FloatArray, batches: IntArray, budget: int, high: int) -> IntArray:
    """Hand out the few samples left by the threshold, largest gain first."""
    batches = batches.copy()
    while (left := budget - int(batches.sum())) > 0:
        gain = np.where(batches < high, kappa / (batches * (batches + 1.0)), -1.0)
        order = np.argsort(-gain, kind="stable")[: min(left, int((batches < high).sum()))]
        batches[order] += 1
    return batches
