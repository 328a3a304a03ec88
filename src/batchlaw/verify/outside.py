"""What lies outside the paper's assumptions: for each departure, which statement survives.

A statement that does not survive is not asked for: the claim then says what was measured to
happen instead, and the paper's statement is one of the wrong laws that the evidence rejects.
"""

from __future__ import annotations

from typing import Protocol

from batchlaw.verify import outside_data, outside_momentum, outside_rates, outside_sketch
from batchlaw.verify.outside_rates import Task


class Size(Protocol):
    """How much to spend."""

    @property
    def quick(self) -> bool:
        """Seconds in all, instead of minutes."""
        ...

    @property
    def longest(self) -> int:
        """Steps of the longest run, 10^5 or more."""
        ...


def tasks(size: Size) -> list[Task]:
    """Independent pieces of work, each with fixed seeds: label noise and features, sketches,
    decays, momentum."""
    return [
        *outside_data.tasks(size.quick, size.longest),
        *outside_sketch.tasks(size.quick),
        *outside_rates.tasks(size.longest),
        *outside_momentum.tasks(size.longest),
    ]
