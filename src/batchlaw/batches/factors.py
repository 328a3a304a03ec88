"""Stages whose batches differ by powers of a factor, for trainers that change by whole factors."""

from __future__ import annotations

import math

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.batches.limits import Limits

# So many starting sizes are tried for the smallest batch, each with all sizes a little
# smaller or larger before they go to their rungs.
BASES = 512
TILTS = (0.75, 0.85, 0.95, 1.05, 1.2, 1.35)


def stages_by_factors(
    kappa: FloatArray,
    ends: IntArray,
    sizes: FloatArray,
    budget: int,
    limits: Limits,
) -> FloatArray | None:
    """The schedule nearest to these stages with batches base x factor^k, or None.

    Every size goes to the nearest rung; where the batch rises, the stage before is extended
    until the samples so far are a multiple of the new batch. Of many bases the one with the
    least noise sum kappa/B is kept, among those that stay within the budget; some of it may
    be left. Not proven optimal: the noise says what it costs.
    """
    factor, multiple_of, min_batch = limits.batch_factor, limits.multiple_of, limits.min_batch
    assert factor is not None
    top = budget if limits.max_batch is None else limits.max_batch
    lowest = -(-min_batch // multiple_of) * multiple_of
    bases = np.unique(np.linspace(lowest, max(float(sizes.max()), lowest), BASES) // multiple_of)
    masses = np.append(0.0, np.cumsum(kappa))
    best: tuple[float, IntArray, IntArray] | None = None
    for base in (int(count) * multiple_of for count in bases if count >= 1):
        if not min_batch <= base <= top:
            continue
        highest = math.floor(math.log(top / base) / math.log(factor) + 1e-12)
        for tilt in TILTS:
            rungs = np.rint(np.log(tilt * sizes / base) / math.log(factor))
            stepped = (base * factor ** np.clip(rungs, 0, highest)).astype(np.int64)
            new_ends, new_sizes = _aligned(ends, stepped)
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
    """Extend stages before a rise to whole batches of the next; a stage used up is left out."""
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
