"""Stages whose batches differ by powers of a factor, for trainers that multiply the batch."""

from __future__ import annotations

import math

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.batches.limits import Limits

# Number of candidates for the smallest batch. For each, all sizes are scaled by each of
# SCALES before they are rounded to a power of the factor.
BASES = 512
SCALES = (0.75, 0.85, 0.95, 1.05, 1.2, 1.35)


def stages_by_factors(
    kappa: FloatArray,
    ends: IntArray,
    sizes: FloatArray,
    budget: int,
    limits: Limits,
) -> FloatArray | None:
    """The schedule nearest to these stages with batches base x factor^k, or None.

    Every size is rounded to the nearest base x factor^k. Before an increase, the previous stage
    is extended until the samples so far are a multiple of the new batch. Of all bases that stay
    within the budget, the one with the least noise sum kappa/B is kept; part of the budget may
    be left. Not proven optimal: compare the noise.
    """
    factor, multiple_of, min_batch = limits.batch_factor, limits.multiple_of, limits.min_batch
    assert factor is not None
    largest = budget if limits.max_batch is None else limits.max_batch
    lowest = -(-min_batch // multiple_of) * multiple_of
    bases = np.unique(np.linspace(lowest, max(float(sizes.max()), lowest), BASES) // multiple_of)
    masses = np.append(0.0, np.cumsum(kappa))
    best: tuple[float, IntArray, IntArray] | None = None
    for base in (int(count) * multiple_of for count in bases if count >= 1):
        if not min_batch <= base <= largest:
            continue
        largest_power = math.floor(math.log(largest / base) / math.log(factor) + 1e-12)
        for scale in SCALES:
            powers = np.rint(np.log(scale * sizes / base) / math.log(factor))
            rounded = (base * factor ** np.clip(powers, 0, largest_power)).astype(np.int64)
            new_ends, new_sizes = _aligned(ends, rounded)
            if np.diff(new_ends, prepend=0) @ new_sizes > budget:
                continue
            noise = float((np.diff(masses[new_ends], prepend=0.0) / new_sizes).sum())
            if best is None or noise < best[0]:
                best = (noise, new_ends, new_sizes)
    if best is None:
        return None
    _, new_ends, new_sizes = best
    return np.repeat(new_sizes.astype(np.float64), np.diff(new_ends, prepend=0))


def _aligned(ends: IntArray, sizes: IntArray) -> tuple[IntArray, IntArray]:
    """Extend stages before an increase to whole batches of the next; drop those used up."""
    steps = int(ends[-1])
    begin, consumed, i = 0, 0, 0
    kept_ends, kept_sizes = [], []
    while i < sizes.size:
        size, j, end = int(sizes[i]), i + 1, steps
        while j < sizes.size:
            short = 0
            if sizes[j] > size:
                short = -(consumed + (int(ends[i]) - begin) * size) % int(sizes[j])
            end = int(ends[i]) + short // size
            if end < ends[j]:
                break
            j, end = j + 1, steps
        kept_ends.append(end)
        kept_sizes.append(size)
        consumed += (end - begin) * size
        begin, i = end, j
    return np.array(kept_ends), np.array(kept_sizes)
