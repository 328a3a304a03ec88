"""Helpers shared by the compiled loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from batchlaw._base.checks import FloatArray

# Lets the compiler vectorise sums; not used where rounding errors are tracked on purpose.
REORDER = {"reassoc", "contract", "nsz"}


def aligned_zeros(*shape: int) -> FloatArray:
    """Zeros aligned to a cache line: loads that straddle two lines cost 30 % of a sweep."""
    size = math.prod(shape)
    buffer = np.zeros(size + 8)
    start = -buffer.ctypes.data % 64 // 8
    return buffer[start : start + size].reshape(shape)


@intrinsic
def fma(context: Any, a: Any, b: Any, c: Any) -> Any:
    """a b + c with a single rounding, so that fma(a, b, -a b) is the product's exact error."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return types.float64(types.float64, types.float64, types.float64), generate


@njit(nogil=True, cache=True)
def copy(source, target):  # type: ignore[no-untyped-def]
    """Copy a vector. An assignment to a slice takes seconds to compile, for its error message."""
    for i in range(target.size):
        target[i] = source[i]


@njit(nogil=True, cache=True)
def copy_rows(source, target):  # type: ignore[no-untyped-def]
    """Copy the rows of a matrix, as many as both have."""
    for k in range(min(source.shape[0], target.shape[0])):
        copy(source[k], target[k])


@njit(nogil=True, cache=True)
def products(points: Any, rates: FloatArray) -> Any:
    """prod_t (1 - rate_t x) at every point x, real or complex."""
    out = np.ones_like(points)
    for g in rates:
        for j in range(points.size):
            out[j] *= 1.0 - g * points[j]
    return out
