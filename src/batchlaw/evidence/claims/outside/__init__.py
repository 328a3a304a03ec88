"""Outside the paper's assumptions: which of its statements survive each departure.

Where a statement does not survive, the claim says what was measured instead, and the paper's
statement is one of the wrong laws that the evidence rejects.
"""

from __future__ import annotations

from batchlaw.evidence.claims.check_settings import CheckSize
from batchlaw.evidence.claims.claim import Task
from batchlaw.evidence.claims.outside import averaging, data, momentum, rates, sketch

# Enough steps for the slopes of the quick list to settle.
QUICK_STEPS = 10**5


def tasks(size: CheckSize) -> list[Task]:
    """Independent tasks with fixed seeds: data, sketches, decays, momentum and averages."""
    longest = QUICK_STEPS if size.quick else size.longest
    return [
        *data.tasks(size.quick, longest),
        *sketch.tasks(size.quick),
        *rates.tasks(longest),
        *momentum.tasks(longest),
        *averaging.tasks(),
    ]
