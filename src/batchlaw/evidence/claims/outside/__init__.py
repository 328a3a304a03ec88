"""What lies outside the paper's assumptions: for each departure, which statement survives.

A statement that does not survive is not asked for: the claim then says what was measured to
happen instead, and the paper's statement is one of the wrong laws that the evidence rejects.
"""

from __future__ import annotations

from batchlaw.evidence.claims.check_settings import CheckSize
from batchlaw.evidence.claims.claim import Task
from batchlaw.evidence.claims.outside import data, momentum, rates, sketch

# Steps that settle the slopes of the quick list.
QUICK_STEPS = 10**5


def tasks(size: CheckSize) -> list[Task]:
    """Independent pieces of work, each with fixed seeds: label noise and features, sketches,
    decays, momentum."""
    longest = QUICK_STEPS if size.quick else size.longest
    return [
        *data.tasks(size.quick, longest),
        *sketch.tasks(size.quick),
        *rates.tasks(longest),
        *momentum.tasks(longest),
    ]
