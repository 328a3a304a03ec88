"""Python's ``random.gauss``, computed from the uniform numbers that it would draw."""

from __future__ import annotations

import math

from numba import njit


@njit(nogil=True, cache=True)
def standard_normals(uniform, normal):  # type: ignore[no-untyped-def]
    """Turn pairs of uniform numbers into pairs of normal ones, bit for bit as Python does."""
    for k in range(0, uniform.size, 2):
        angle = uniform[k] * (2.0 * math.pi)
        radius = math.sqrt(-2.0 * math.log(1.0 - uniform[k + 1]))
        normal[k] = math.cos(angle) * radius
        normal[k + 1] = math.sin(angle) * radius
