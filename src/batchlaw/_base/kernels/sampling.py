"""Rows of batches drawn from a dataset, for many updates at once, in each way of sampling.

Every function takes (rng, rows, used, sizes, picked): ``rows`` (N,) is an order of the dataset
that is shuffled in place and kept between calls, ``used`` the rows of it that the running epoch
has used, ``sizes`` the batches of the updates, whose rows are written to ``picked`` one after
another. It returns the new ``used``. With the same generator it draws the same batches as the
loop of plain SGD in ``kernels.sgd``.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, forceinline=True)
def draw_rows(rng, rows, batch):  # type: ignore[no-untyped-def]
    """Move a uniform subset to rows[:batch]: the first steps of a Fisher-Yates shuffle.

    The order left by earlier draws does not matter: the subset is uniform from any start.
    """
    N = rows.size
    for k in range(batch):
        p = np.uint64(k) + np.uint64(rng.random() * (N - k))
        row = rows[p]
        rows[p] = rows[k]
        rows[k] = row


@njit(nogil=True, cache=True)
def subsets(rng, rows, used, sizes, picked):  # type: ignore[no-untyped-def]
    """Every batch is a fresh uniform subset."""
    at = 0
    for batch in sizes:
        draw_rows(rng, rows, batch)
        for k in range(batch):
            picked[at + k] = rows[k]
        at += batch
    return used


@njit(nogil=True, cache=True)
def independent_rows(rng, rows, used, sizes, picked):  # type: ignore[no-untyped-def]
    """Every row is drawn with replacement."""
    for k in range(sizes.sum()):
        picked[k] = np.uint64(rng.random() * rows.size)
    return used


@njit(nogil=True, cache=True)
def epochs(rng, rows, used, sizes, picked):  # type: ignore[no-untyped-def]
    """Every epoch goes through a fresh order; a batch may span two epochs."""
    for k in range(sizes.sum()):
        if used == rows.size:
            draw_rows(rng, rows, rows.size)
            used = 0
        picked[k] = rows[used]
        used += 1
    return used
