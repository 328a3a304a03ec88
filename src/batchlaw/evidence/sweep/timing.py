"""How long a sweep will take, from a few of its cells."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from batchlaw.evidence.sweep.design import Design

# Number of cells that are timed first.
PROBES = 16


def probes(design: Design) -> Iterator[dict[str, Any]]:
    """Cells spread over a design: a random one from each of its equal stretches.

    Every n-th cell could have the same value of an axis each time.
    """
    count = min(PROBES, len(design))
    rng = random.Random(0)
    ends = [k * len(design) // count for k in range(count + 1)]
    chosen = {rng.randrange(start, end) for start, end in pairwise(ends)}
    return (cell for k, cell in enumerate(design.cells()) if k in chosen)


def described(seconds: float) -> str:
    """A duration as text."""
    if seconds < 120.0:
        return f"{seconds:.3g} s"
    minutes = seconds / 60.0
    if minutes < 120.0:
        return f"{minutes:.0f} min"
    hours = minutes / 60.0
    return f"{hours:.1f} h" if hours < 48.0 else f"{hours / 24.0:.1f} days"
