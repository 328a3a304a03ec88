"""Rules that people use for the batch sizes of a run: shapes up to a factor, by name.

``allocate`` turns a shape into batches of a given sum: it follows square roots, so give it the
square.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from batchlaw._base.checks import FloatArray

# Late-large: the last quarter of the updates gets batches this many times as large.
SWITCH, LARGER = 0.75, 8.0

# rates -> batches up to a factor
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
