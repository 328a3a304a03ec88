"""What a law of loss curves follows along a run, over rows of several updates each.

Rates and noise are relative: ``rates`` to the largest one, ``noise`` = reference batch / batch.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from batchlaw._base.kernels.common import REORDER

# Below this effective rate the curvature is followed as at it: where nothing moves there is no
# temperature, and no logarithm.
SLOWEST = 1e-3


@njit(nogil=True, cache=True)
def states(rates, noise, steps, keep2, growth, shrink, open_share, lag):  # type: ignore[no-untyped-def]
    """Effective rate e and curvature h of every row.

        v   <- keep2 v + (1 - keep2) h x,  corrected          x = noise
        a   =  g / sqrt(v)
        e   =  a / n,   n^2 <- n^2 (1 - shrink g)^(2 c) + growth c a^2 h x
        h   follows  target = (1 + s) / (e x + s)  logistically, within ``lag`` updates

    Parameters
    ----------
    rates, noise : (R,) arrays
        g and x.
    steps
        c: updates per row.
    keep2
        Share of v that a row keeps; negative: v = 1 (no second moment).
    growth, shrink
        Of the weights' squared norm n^2, per update; shrink is weight decay times the rate's unit.
    open_share
        s: the temperature at which curvature is half of what it is without noise; negative: h = 1.
    lag
        In rows.
    """
    count = rates.size
    effective, curvature = np.empty(count), np.empty(count)
    h, v, forgotten, norm2 = 1.0, 0.0, 1.0, 1.0
    grown = math.exp(1.0 / lag)
    for t in range(count):
        a = rates[t]
        if keep2 >= 0.0:
            v = keep2 * v + (1.0 - keep2) * h * noise[t]
            forgotten *= keep2
            a /= math.sqrt(v / (1.0 - forgotten))
        e = a / math.sqrt(norm2)
        effective[t], curvature[t] = e, h
        norm2 = norm2 * (1.0 - shrink * rates[t]) ** (2.0 * steps)
        norm2 += growth * steps * a * a * h * noise[t]
        if open_share >= 0.0:
            target = (1.0 + open_share) / (noise[t] * max(e, SLOWEST) + open_share)
            h = target * h * grown / (target + h * (grown - 1.0))
    return effective, curvature


@njit(nogil=True, cache=True, fastmath=REORDER)
def remaining(at, rows, clock, level, scale, power):  # type: ignore[no-untyped-def]
    """What is left at every loss of levels that each row approaches.

        sum_r level_r (F(at - clock_{r+1}) - F(at - clock_r)),   F(d) = (1 + d / scale)^-power

    over the rows before the loss and the part of its own row: exact where the level is constant
    within a row, however short the memory.

    Parameters
    ----------
    at : (n,) array
        The clock at the losses.
    rows : (n,) array
        Full rows before each.
    clock : (R + 1,) array
    level : (R,) array
    """
    out = np.zeros(at.size)
    for i in range(at.size):
        total, before = 0.0, (1.0 + at[i] / scale) ** -power
        for r in range(rows[i]):
            after = math.exp(-power * math.log1p(max(at[i] - clock[r + 1], 0.0) / scale))
            total += level[r] * (after - before)
            before = after
        if rows[i] < level.size:
            total += level[rows[i]] * (1.0 - before)
        out[i] = total
    return out
