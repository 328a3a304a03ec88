"""Dynamic programming over constant stages, and the best sizes of given stages.

A stage of ``length`` n and influence ``mass`` K with batches of size b costs K/b and uses n b
samples. At a price ``lam`` per sample its best cost is F(n, K) = min_b K/b + lam n b, with b
among the allowed sizes. Sizes are float64, with integer values where ``whole`` is set.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from batchlaw._base.kernels.common import copy

# Lets the compiler vectorise minima. Not "reassoc": two-part sums rely on their order.
VECTOR_MINIMA = {"nnan", "nsz", "contract"}


@njit(nogil=True, cache=True)
def two_part_sums(kappa):  # type: ignore[no-untyped-def]
    """Prefix sums P_0..P_T as a leading part and its accumulated rounding error.

    Differences of plain prefix sums would lose the mass of stages far below the largest.
    """
    sums = np.zeros((2, kappa.size + 1))
    high = 0.0
    low = 0.0
    for t in range(kappa.size):
        total = high + kappa[t]
        shift = total - high
        low += (high - (total - shift)) + (kappa[t] - shift)
        high = total
        sums[0, t + 1] = high
        sums[1, t + 1] = low
    return sums


@njit(nogil=True, fastmath=VECTOR_MINIMA, forceinline=True)
def _priced(mass, length, lam, low, high, whole):  # type: ignore[no-untyped-def]
    """F(n, K): convex in b, so the best allowed size is next to sqrt(K/(lam n))."""
    price = lam * length
    size = np.sqrt(mass / price)
    if whole:
        below = min(max(np.floor(size), low), high)
        above = min(below + 1.0, high)
        return min(mass / below + price * below, mass / above + price * above)
    size = min(max(size, low), high)
    return mass / size + price * size


@njit(nogil=True, fastmath=VECTOR_MINIMA)
def _priced_row(sums, ends, j, lam, low, high, spare, whole, row):  # type: ignore[no-untyped-def]
    """F of the stages from every earlier boundary to boundary j.

    All other steps need ``low``, so a stage of length n can take at most low + spare/n.
    """
    for i in range(j):
        length = ends[j] - ends[i]
        mass = max((sums[0, j] - sums[0, i]) + (sums[1, j] - sums[1, i]), 0.0)
        most = low + spare / length
        most = min(high, np.floor(most) if whole else most)
        row[i] = _priced(mass, length, lam, low, most, whole)


@njit(nogil=True, fastmath=VECTOR_MINIMA)
def _least(first, second, size):  # type: ignore[no-untyped-def]
    least = np.inf
    for i in range(size):
        least = min(least, first[i] + second[i])
    return least


@njit(nogil=True, cache=True)
def stage_costs(sums, ends, cut, stages, lam, low, high, spare, whole):  # type: ignore[no-untyped-def]
    """Least priced cost of reaching each boundary in at most k stages, (stages + 1, m + 1).

    ``sums`` and ``ends`` are taken at the m + 1 boundaries. A stage may also end inside cell i,
    between two neighbouring boundaries, at the cost ``cut[i]`` (inf forbids it).
    """
    m = ends.size - 1
    clean = np.full((stages + 1, m + 1), np.inf)
    split = np.full((stages + 1, m + 1), np.inf)
    clean[:, 0] = 0.0
    split[:, 0] = 0.0
    row = np.empty(m)
    for j in range(1, m + 1):
        _priced_row(sums, ends, j, lam, low, high, spare, whole, row)
        for k in range(1, stages + 1):
            clean[k, j] = min(_least(split[k - 1], row, j), split[k - 1, j])
            split[k, j] = min(clean[k, j], clean[k, j - 1] + cut[j - 1])
    return clean


@njit(nogil=True, cache=True)
def stage_boundaries(  # type: ignore[no-untyped-def]
    costs, sums, ends, lam, low, high, spare, whole
):
    """Indices of the boundaries that give the last entry of a table without split cells."""
    j = ends.size - 1
    k = costs.shape[0] - 1
    chosen = np.empty(k + 1, dtype=np.int64)
    row = np.empty(j)
    used = 0
    while j > 0:
        while k > 1 and costs[k - 1, j] <= costs[k, j]:
            k -= 1
        chosen[used] = j
        used += 1
        _priced_row(sums, ends, j, lam, low, high, spare, whole, row)
        best = 0
        for i in range(1, j):
            if costs[k - 1, i] + row[i] < costs[k - 1, best] + row[best]:
                best = i
        j = best
        k -= 1
    return chosen[:used][::-1].copy()


@njit(nogil=True, cache=True)
def priced_steps(kappa, starts, lam, low, high, whole):  # type: ignore[no-untyped-def]
    """sum_t F(1, kappa_t) over each cell, a lower bound on every split of the cell."""
    total = np.zeros(starts.size - 1)
    for cell in range(total.size):
        for t in range(starts[cell], starts[cell + 1]):
            total[cell] += _priced(kappa[t], 1.0, lam, low, high, whole)
    return total


@njit(nogil=True)
def _wanted(mass, length, lam, whole):  # type: ignore[no-untyped-def]
    """The largest size whose last unit still gains lam per sample."""
    ratio = mass / (lam * length)
    return np.floor((1.0 + np.sqrt(1.0 + 4.0 * ratio)) / 2.0) if whole else np.sqrt(ratio)


@njit(nogil=True)
def _extra(mass, length, sizes, lam, left, high, whole):  # type: ignore[no-untyped-def]
    """Samples that the stages that still fit would take at the price lam."""
    total = 0.0
    for s in range(mass.size):
        if not whole or length[s] <= left:
            wanted = min(_wanted(mass[s], length[s], lam, whole), high)
            total += length[s] * max(wanted - sizes[s], 0.0)
    return total


@njit(nogil=True)
def _raise_together(mass, length, sizes, left, high, whole):  # type: ignore[no-untyped-def]
    """Raise sizes to the lowest common price that ``left`` can pay; returns that price."""
    most = 0.0
    least = np.inf
    for s in range(mass.size):
        if mass[s] > 0.0:
            most = max(most, mass[s] / length[s] / sizes[s] ** 2)
            reach = min(sizes[s] + left / length[s], high)
            least = min(least, mass[s] / length[s] / (reach + 1.0) ** 2)
    if most == 0.0:
        return 0.0
    affordable = 2.0 * most
    beyond = 0.5 * least
    if _extra(mass, length, sizes, beyond, left, high, whole) <= left:
        affordable = beyond
    while affordable > beyond * (1.0 + 4e-16):
        middle = np.sqrt(affordable) * np.sqrt(beyond)
        if middle >= affordable or middle <= beyond:
            break
        if _extra(mass, length, sizes, middle, left, high, whole) <= left:
            affordable = middle
        else:
            beyond = middle
    for s in range(mass.size):
        if not whole or length[s] <= left:
            wanted = min(_wanted(mass[s], length[s], affordable, whole), high)
            sizes[s] = max(sizes[s], wanted)
    return affordable


@njit(nogil=True)
def _raise_each(mass, length, sizes, left, high):  # type: ignore[no-untyped-def]
    """Add one to each stage that fits, in order of gain: these tie at the common price."""
    order = np.argsort(-mass / (length * sizes * (sizes + 1.0)), kind="mergesort")
    for s in order:
        if mass[s] > 0.0 and sizes[s] < high and length[s] <= left:
            sizes[s] += 1.0
            left -= length[s]


@njit(nogil=True)
def _raise_one(mass, length, sizes, left, high, whole):  # type: ignore[no-untyped-def]
    """Raise the stage with the largest gain per sample; returns whether any could be raised."""
    best = -1
    gain = -1.0
    for s in range(mass.size):
        if sizes[s] < high and (not whole or length[s] <= left):
            density = mass[s] / (length[s] * sizes[s] * (sizes[s] + 1.0))
            if density > gain:
                best = s
                gain = density
    if best < 0 or left <= 0.0:
        return False
    if not whole:
        sizes[best] = min(sizes[best] + left / length[best], high)
    elif gain > 0.0:
        sizes[best] += 1.0
    else:
        sizes[best] = min(sizes[best] + np.floor(left / length[best]), high)
    return True


@njit(nogil=True)
def _fill(mass, length, sizes, budget, high, whole):  # type: ignore[no-untyped-def]
    """Spend the budget in order of gain per sample; returns the price of the first round."""
    left = budget - np.sum(length * sizes)
    price = _raise_together(mass, length, sizes, left, high, whole)
    left = budget - np.sum(length * sizes)
    if whole:
        _raise_each(mass, length, sizes, left, high)
        left = budget - np.sum(length * sizes)
    rounds = 0
    while _raise_one(mass, length, sizes, left, high, whole):
        left = budget - np.sum(length * sizes)
        rounds += 1
        if rounds % 64 == 0:
            _raise_together(mass, length, sizes, left, high, whole)
            left = budget - np.sum(length * sizes)
        if not whole and rounds == mass.size:
            break
    return price


@njit(nogil=True)
def _search(mass, length, sizes, budget, low, high, lam, nodes):  # type: ignore[no-untyped-def]
    """Improve integer sizes by branch and bound; exact unless ``nodes`` run out.

    Depth first, the longest stage first, sizes in order of priced cost. A branch is pruned
    when its priced cost so far, plus the least possible for the rest, minus lam times the
    budget, cannot beat the best by more than 1e-11. The last stage takes what is left.
    """
    k = mass.size
    best = np.sum(mass / sizes)
    rest = np.zeros(k + 1)
    rest_low = np.zeros(k + 1)
    for s in range(k - 1, -1, -1):
        rest[s] = rest[s + 1] + _priced(mass[s], length[s], lam, low, high, True)
        rest_low[s] = rest_low[s + 1] + low * length[s]
    trial = np.zeros(k)
    down = np.zeros(k)
    up = np.zeros(k)
    left = np.zeros(k + 1)
    so_far = np.zeros(k + 1)
    left[0] = budget
    level = 0
    fresh = True
    for _ in range(nodes):
        price = lam * length[level]
        room = min(np.floor((left[level] - rest_low[level + 1]) / length[level]), high)
        if level == k - 1:
            trial[level] = room
            cost = np.sum(mass / trial)
            if cost < best:
                best = cost
                copy(trial, sizes)
            level -= 1
            fresh = False
            if level < 0:
                return
            continue
        if fresh:
            middle = np.floor(np.sqrt(mass[level] / price))
            down[level] = min(max(middle, low), room)
            up[level] = down[level] + 1.0
        below = np.inf
        above = np.inf
        if down[level] >= low:
            below = mass[level] / down[level] + price * down[level]
        if up[level] <= room:
            above = mass[level] / up[level] + price * up[level]
        cost = so_far[level] + min(below, above)
        if cost + rest[level + 1] - lam * budget >= best * (1.0 - 1e-11):
            level -= 1
            fresh = False
            if level < 0:
                return
            continue
        if below <= above:
            trial[level] = down[level]
            down[level] -= 1.0
        else:
            trial[level] = up[level]
            up[level] += 1.0
        so_far[level + 1] = cost
        left[level + 1] = left[level] - length[level] * trial[level]
        level += 1
        fresh = True


@njit(nogil=True, cache=True)
def stage_sizes(mass, length, budget, low, high, whole, nodes):  # type: ignore[no-untyped-def]
    """Sizes of given stages that minimise sum K_s/b_s with sum n_s b_s <= budget.

    Real sizes are clipped square roots. Integer sizes start from the greedy rule by gain per
    sample, which is optimal if all stages have the same length, and are improved by a search.
    """
    sizes = np.full(mass.size, low)
    lam = _fill(mass, length, sizes, budget, high, whole)
    if whole and nodes > 0 and lam > 0.0 and np.max(length) > np.min(length):
        order = np.argsort(-length)
        ordered = sizes[order]
        _search(mass[order], length[order], ordered, budget, low, high, lam, nodes)
        _fill(mass[order], length[order], ordered, budget, high, whole)
        sizes[order] = ordered
    return sizes


@njit(nogil=True, cache=True)
def stages_between(sums, ends, mass, length):  # type: ignore[no-untyped-def]
    """Mass and length of the stages that end after the steps ``ends``."""
    begin = 0
    for s in range(ends.size):
        end = ends[s]
        inside = (sums[0, end] - sums[0, begin]) + (sums[1, end] - sums[1, begin])
        mass[s] = max(inside, 0.0)
        length[s] = end - begin
        begin = end


@njit(nogil=True, cache=True)
def stages_objective(sums, ends, budget, low, high, whole, nodes):  # type: ignore[no-untyped-def]
    """sum K_s/b_s of the given stages at their best sizes."""
    mass = np.empty(ends.size)
    length = np.empty(ends.size)
    stages_between(sums, ends, mass, length)
    sizes = stage_sizes(mass, length, budget, low, high, whole, nodes)
    total = 0.0
    for s in range(ends.size):
        total += mass[s] / sizes[s]
    return total


@njit(nogil=True, cache=True)
def improve_ends(sums, ends, rules, reach, near, trials, passes, precision, worth):  # type: ignore[no-untyped-def]
    """Move one boundary at a time while that improves the objective, by shrinking jumps.

    Jumps start at ``reach``, are halved down to ``near`` and then shrink by one. The search ends
    after ``passes``, after about ``trials`` objectives (``rules`` are their other arguments), or
    when a pass gains less than the share ``worth``.
    """
    ends = ends.copy()
    best = stages_objective(sums, ends, *rules)
    for _ in range(passes):
        before = best
        for i in range(ends.size - 1):
            jump = reach
            while jump > 0 and trials > 0:
                current = ends[i]
                previous = ends[i - 1] if i > 0 else 0
                place = current
                lowest = np.inf
                for trial in (current - jump, current + jump):
                    if previous < trial < ends[i + 1]:
                        ends[i] = trial
                        value = stages_objective(sums, ends, *rules)
                        trials -= 1
                        if value < lowest:
                            lowest = value
                            place = trial
                if lowest < best * (1.0 - precision):
                    best = lowest
                    ends[i] = place
                else:
                    ends[i] = current
                    jump = jump // 2 if jump > near else jump - 1
        if before - best <= worth * before:
            break
    return ends
