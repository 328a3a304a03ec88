"""An outside check: laws that others proved for the same model, judged by our exact risks.

``sketched_regression`` holds Lin et al. (2024), ``random_features`` Paquette et al. (2024).
"""

from __future__ import annotations

from functools import partial

from batchlaw.evidence.claims.literature import random_features, sketched_regression
from batchlaw.evidence.claims.settings import Size, Task

# Steps that settle the slopes of the quick list.
QUICK_STEPS = 10**5


def tasks(size: Size) -> list[Task]:
    """One task a case; what needs long runs to settle is left out when quick."""
    longest, nodes = (QUICK_STEPS, 80) if size.quick else (size.longest, 160)
    cases = sketched_regression.CASES
    made: list[Task] = [partial(sketched_regression.data_checks, *ab, longest) for ab in cases]
    made += [
        partial(random_features.phase_checks, case, longest, nodes)
        for case in random_features.PHASES
    ]
    if size.quick:
        return made
    made += [partial(sketched_regression.panel_checks, *ab, longest) for ab in cases]
    made.append(partial(random_features.boundary_checks, longest, nodes))
    made += [
        partial(random_features.finite_size_checks, pair, longest, nodes)
        for pair in random_features.PAIRS
    ]
    return made
