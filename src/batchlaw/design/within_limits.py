"""Whole batches within limits that are near real ones."""

from __future__ import annotations

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import InputError
from batchlaw.batches.factors import stages_by_factors
from batchlaw.batches.limits import Limits
from batchlaw.batches.sharing import greedy
from batchlaw.batches.stages import sizes_of_stages


def within_limits(shape: FloatArray, samples: int, limits: Limits) -> IntArray:
    """Batches in proportion to a (T,) shape; its steps of equal value are the stages.

    A shape of ones gives the constant batch that the limits allow. Where every step is free it is
    as even as whole numbers can be; in stages it is one size, and may leave samples unspent.
    """
    kappa = (shape / shape.max()) ** 2
    if limits.stages is None:
        low, high, unit, budget = limits.units(shape.size, samples)
        return unit * greedy(kappa, budget // unit, low, high)
    ends = np.append(np.flatnonzero(np.diff(shape)) + 1, shape.size)
    batches = sizes_of_stages(kappa, ends, samples, limits)
    if limits.batch_factor is None:
        return batches
    sizes = batches[ends - 1].astype(np.float64)
    stepped = stages_by_factors(kappa, ends, sizes, samples, limits)
    if stepped is None:
        raise InputError("batch_factor", "must let some schedule fit", f"{limits.batch_factor}")
    return stepped.astype(np.int64)
