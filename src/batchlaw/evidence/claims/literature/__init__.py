"""An outside check: laws that others proved for the same model, judged by our exact risks.

``sketched_regression`` holds Lin et al. (2024), ``random_features`` Paquette et al. (2024).
"""

from __future__ import annotations

from batchlaw.evidence.claims.check_settings import CheckSize
from batchlaw.evidence.claims.claim import Task
from batchlaw.evidence.claims.literature import random_features, sketched_regression

# Steps that settle the slopes of the quick list.
QUICK_STEPS = 10**5


def tasks(size: CheckSize) -> list[Task]:
    """One task a case; what needs long runs to settle is left out when quick."""
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
