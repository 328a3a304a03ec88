"""How long a sweep will take, from a few of its cells."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from batchlaw.sweep.design import Design

# Cells that are timed first.
PROBES = 16


def probes(design: Design) -> Iterator[dict[str, Any]]:
    """Cells spread evenly over a design."""
    apart = max(1, len(design) // PROBES)
    return islice(design.cells(), apart // 2, None, apart)


def described(seconds: float) -> str:
    """A duration in words."""
    if seconds < 120.0:
        return f"{seconds:.3g} s"
    minutes = seconds / 60.0
    if minutes < 120.0:
        return f"{minutes:.0f} min"
    hours = minutes / 60.0
    return f"{hours:.1f} h" if hours < 48.0 else f"{hours / 24.0:.1f} days"
