"""Common batch-size rules by name: the shape of a schedule, up to a factor.

``allocate`` turns a shape into batches with a given sum; because it follows square roots, pass
it the squared shape.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from batchlaw._base.checks import FloatArray

# Late-large: after this share of the updates, batches are this many times as large.
SWITCH, LARGER = 0.75, 8.0

# Maps rates to batches up to a factor.
Rule = Callable[[FloatArray], FloatArray]


def _updates(rates: FloatArray) -> FloatArray:
    """1, 2, ..., T."""
    return np.arange(1.0, rates.size + 1.0)


RULES: dict[str, Rule] = {
    "constant": lambda rates: np.ones_like(rates),
    "linear ramp": _updates,
    "late-large": lambda rates: np.where(_updates(rates) > SWITCH * rates.size, LARGER, 1.0),
    "early-large": lambda rates: _updates(rates)[::-1],
    "like the rate": lambda rates: rates,
}
