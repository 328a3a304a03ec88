"""Laws that others proved for the same model, judged by our exact risks.

``sketched_regression`` holds Lin et al. (2024), ``random_features`` Paquette et al. (2024).
"""

from __future__ import annotations

from batchlaw.evidence.claims.check_settings import CheckSize
from batchlaw.evidence.claims.claim import Task
from batchlaw.evidence.claims.literature import random_features, sketched_regression

# Enough steps for the slopes of the quick list to settle.
QUICK_STEPS = 10**5


def tasks(size: CheckSize) -> list[Task]:
    """One task per case; the quick size leaves out what needs long runs to settle."""
    longest, nodes = (QUICK_STEPS, 80) if size.quick else (size.longest, 160)
    quick = [
        *sketched_regression.data_tasks(longest),
        *random_features.phase_tasks(longest, nodes),
    ]
    if size.quick:
        return quick
    return [
        *quick,
        *sketched_regression.panel_tasks(longest),
        *random_features.frontier_tasks(longest, nodes),
    ]
