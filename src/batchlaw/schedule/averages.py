"""Averages of iterates: weights on u_1..u_T that define the result of a run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError

# Averages as text, before the number of steps is known: a name and its parameter.
FORMS = "last, tail:SHARE or ema:DECAY"


def tail_average(steps: int, share: float = 0.5) -> FloatArray:
    """Equal weights on the last ``share`` of the iterates (at least one)."""
    steps = checks.count("steps", steps)
    share = checks.real("share", share, above=0.0, at_most=1.0)
    length = max(int(share * steps + 1e-9), 1)
    return np.append(np.zeros(steps - length), np.full(length, 1.0 / length))


def ema(steps: int, decay: float) -> FloatArray:
    """Exponential moving average started at u_0: (1 - decay) decay^(T - t).

    A weight of decay^T stays on u_0, so these weights sum to less than 1.
    """
    steps = checks.count("steps", steps)
    decay = checks.real("decay", decay, at_least=0.0, below=1.0)
    return (1.0 - decay) * decay ** np.arange(steps - 1, -1, -1, dtype=np.float64)


def readout(average: ArrayLike | str | None, steps: int) -> FloatArray | None:
    """Checked weights on u_1..u_T, or None for the last iterate; the remainder to 1 is on u_0.

    ``average`` is an array of weights or text: "last", "tail:0.5", "ema:0.99".
    """
    if average is None:
        return None
    if isinstance(average, str):
        return _by_name(average, steps)
    weights = checks.vector("average", average)
    if weights.size != steps:
        raise InputError(
            "average", f"must have one weight for each of the {steps} rates", f"{weights.size}"
        )
    if weights.sum() > 1.0 + 1e-9:
        raise InputError("average", "must sum to at most 1", f"{weights.sum():.12g}")
    return weights


# Name -> its weights, and what its parameter must be.
_NAMED: dict[str, tuple[Callable[..., FloatArray], str]] = {
    "tail": (tail_average, "a SHARE above 0 and at most 1 in tail:SHARE"),
    "ema": (ema, "a DECAY of at least 0 and below 1 in ema:DECAY"),
}


def _by_name(text: str, steps: int) -> FloatArray | None:
    name, _, value = text.partition(":")
    if text == "last":
        return None
    if name not in _NAMED:
        raise InputError("average", f"must be {FORMS}", repr(text))
    weights, bounds = _NAMED[name]
    try:
        return weights(steps, value)
    except InputError:
        raise InputError("average", f"must have {bounds}", repr(text)) from None


def running_readout(weights: FloatArray | None, steps: int) -> FloatArray:
    """(hold, weight) of every step, as a (T, 2) array: s_t = hold s_{t-1} + weight u_t.

    s_t is the average of the iterates so far, with weights scaled to sum to 1, and s_T is the
    readout itself: for an EMA the running EMA; for a tail average the iterate before the tail
    and the running mean of the tail within it. With None, s_t is the iterate.
    """
    if weights is None:
        return np.tile([0.0, 1.0], (steps, 1))
    on_start = max(1.0 - float(weights.sum()), 0.0)
    # A smaller weight on u_0 is only the rounding error of the sum.
    so_far = (on_start if on_start > 1e-13 else 0.0) + np.cumsum(weights)
    before = np.append(so_far[:1] - weights[:1], so_far[:-1])
    begun = so_far > 0.0
    scale = np.where(begun, so_far, 1.0)
    return np.stack(
        [np.where(begun, before / scale, 0.0), np.where(begun, weights / scale, 1.0)], axis=1
    )
