"""What a law of loss curves follows along a run, over rows of several updates each.

Rates and noise are relative: ``rates`` to the largest one, ``noise`` = reference batch / batch.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from batchlaw._base.kernels.common import REORDER

# The temperature is taken at an effective rate of at least this: at a rate of zero nothing limits
# the curvature, and its target would be without bound.
SLOWEST = 1e-3


@njit(nogil=True, cache=True)
def states(rates, noise, steps, keep2, growth, shrink, open_share, lag):  # type: ignore[no-untyped-def]
    """Effective rate e and curvature h of every row.

        v   <- keep2 v + (1 - keep2) h x,  corrected          x = noise
        a   =  g / sqrt(v)
        e   =  a / n,   n^2 <- n^2 (1 - lambda g)^(2 c) + G c a^2 h x
        h   follows  target = (1 + s) / (e x + s)  logistically, within ``lag`` rows

    Parameters
    ----------
    rates, noise : (R,) arrays
        g and x.
    steps
        c: updates per row.
    keep2
        Share of v that a row keeps; negative: v = 1 (no second moment).
    growth, shrink
        G and lambda, of the norm n of the weights, per update: lambda is the weight decay times
        the rate's unit.
    open_share
        s: the temperature at which curvature is half of what it is without noise; negative: h = 1.
    lag
        Rows within which h comes nearer to its target by a factor of e.
    """
    count = rates.size
    effective, curvature = np.empty(count), np.empty(count)
    h, v, forgotten, norm2 = 1.0, 0.0, 1.0, 1.0
    kept = math.exp(-1.0 / lag)
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
            h = target * h / (target * kept + h * (1.0 - kept))
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
