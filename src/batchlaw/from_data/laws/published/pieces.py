"""Long schedules in a few pieces that no measured step divides.

Sums over all updates, at every measured step, cost two powers for each pair. Neighbouring updates
are merged into about ``MOST_PIECES`` pieces, each with its total and its mean place. On cosines and
decays of 24,000 to 72,000 steps with up to 546 measured losses, the multi-power law's losses change
by less than 1e-5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray

MOST_PIECES = 2000
# Measured steps that are summed over pieces at once.
ROWS = 32


@dataclass(frozen=True)
class Changes:
    """Changes of the rate.

    Attributes
    ----------
    size : (m,) array
        g_k - g_{k-1}, summed over a piece: negative where the rate falls.
    level : (m,) array
        g_k, the mean of a piece.
    clock : (m,) array
        g_1 + ... + g_k, the mean of a piece.
    clock_then : (n,) array
        The same at the measured steps.
    rate_then : (n,) array
        The rate there: that of the last update.
    known : (n,) integers
        How many pieces lie before each.
    """

    size: FloatArray
    level: FloatArray
    clock: FloatArray
    clock_then: FloatArray
    rate_then: FloatArray
    known: IntArray


def changes(rates: FloatArray, steps: IntArray, after: int = 0) -> Changes:
    """Changes of the rate at updates later than ``after``, for losses measured after ``steps``.

    The first update changes nothing: before it the rate is its own.
    """
    clock = np.cumsum(np.append(0.0, rates))
    change = np.diff(rates, prepend=rates[0])
    change[:after] = 0.0
    at = np.flatnonzero(change)
    group, before = _groups(at, steps)
    at = at[: group.size]
    # Rises and falls of a group stay apart: together they could cancel, and have no mean place.
    used, piece = np.unique(2 * group + (change[at] < 0.0), return_inverse=True)
    weight = np.abs(change[at])
    total = _sums(piece, weight)
    return Changes(
        size=_sums(piece, change[at]),
        level=_sums(piece, weight * rates[at]) / total,
        clock=_sums(piece, weight * clock[at + 1]) / total,
        clock_then=clock[steps],
        rate_then=rates[np.maximum(steps, 1) - 1],
        known=np.searchsorted(used, 2 * before),
    )


def _sums(piece: IntArray, values: FloatArray) -> FloatArray:
    return np.bincount(piece, values).astype(np.float64, copy=False)


def _groups(at: IntArray, steps: IntArray) -> tuple[IntArray, IntArray]:
    """Group of each update (by index), as far as the last step, and groups before each step.

    Neighbours share a group if no step lies between them. Groups are spread over the intervals
    between steps as the updates are.
    """
    interval = np.searchsorted(steps, at + 1)
    interval = interval[interval < steps.size]
    count = np.bincount(interval, minlength=steps.size)
    allowed = np.ceil(count * min(1.0, MOST_PIECES / max(interval.size, 1)))
    first = np.cumsum(count) - count
    rank = np.arange(interval.size) - first[interval]
    # What came just before a measured step counts most in detail: groups shorten towards it.
    left = 1.0 - rank / count[interval]
    merged = np.floor(allowed[interval] * np.sqrt(left))
    within = np.where(allowed[interval] < count[interval], merged, -rank)
    new = np.diff(within, prepend=np.nan) != 0.0
    new |= np.diff(interval, prepend=-1) != 0
    group = np.cumsum(new) - 1
    return group, np.append(0, group + 1)[np.cumsum(count)]


@dataclass(frozen=True)
class Stretches:
    """Updates by stretches, with the noise that each brings in.

    Attributes
    ----------
    noise : (m,) array
        The sum of g_k^2 / B_k: the integral of du / r(u), r = B / g, over a stretch.
    bounds : (m + 1,) array
        The clock g_1 + ... + g_k where stretches meet.
    clock_then, known
        As in `Changes`.
    """

    noise: FloatArray
    bounds: FloatArray
    clock_then: FloatArray
    known: IntArray


def stretches(rates: FloatArray, batches: FloatArray, steps: IntArray) -> Stretches:
    """All updates as far as the last of ``steps``."""
    clock = np.cumsum(np.append(0.0, rates))
    at = np.arange(rates.size)
    piece, known = _groups(at, steps)
    noise = _sums(piece, (rates**2 / batches)[: piece.size])
    ends = np.flatnonzero(np.diff(piece, append=-1)) + 1
    return Stretches(noise, clock[np.append(0, ends)], clock[steps], known)


def rows(known: IntArray) -> Iterator[tuple[slice, slice]]:
    """Steps by blocks, each with the pieces that lie before its last one."""
    for start in range(0, known.size, ROWS):
        block = slice(start, min(start + ROWS, known.size))
        yield block, slice(0, int(known[block.stop - 1]))
