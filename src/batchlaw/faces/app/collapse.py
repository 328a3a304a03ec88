"""The four families of schedules at several budgets, whose noise one summary explains."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchlaw._base.checks import FloatArray
from batchlaw.batches.allocation import FAMILIES, schedule_families
from batchlaw.faces.app.replies import Collapse, Point
from batchlaw.faces.app.request import Setting
from batchlaw.faces.app.solution import Solved, solve

# Budgets, as multiples of the one asked for.
BUDGETS = (0.25, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0)
# So many schedules at most.
MOST_SCHEDULES = len(BUDGETS) * len(FAMILIES)


def collapse(setting: Setting) -> Collapse:
    """Noise of the families, without Monte Carlo, against their one summary."""
    solved = solve(setting)
    return exact_collapse(solved, *families(solved))


def exact_collapse(
    solved: Solved, rows: list[dict[str, Any]], sizes: NDArray[np.int64]
) -> Collapse:
    schedules: list[FloatArray] = list(sizes.astype(np.float64))
    effective = solved.effective(schedules)
    values = np.asarray(getattr(solved.risk(schedules), solved.noise))
    reuse = solved.setting.reuse
    summaries = effective if reuse else 1.0 / effective
    return Collapse(
        term=solved.noise,
        summary="rho_eff" if reuse else "1 / B_eff",
        families=list(FAMILIES),
        points=[
            Point(**row, summary=float(summary), value=float(value))
            for row, summary, value in zip(rows, summaries, values, strict=True)
        ],
    )


def families(solved: Solved) -> tuple[list[dict[str, Any]], NDArray[np.int64]]:
    """Family and budget of every schedule, and its batches."""
    at = solved.setting
    most = at.solver.max_batch
    budgets = sorted({max(at.steps, round(share * at.budget)) for share in BUDGETS})
    rows: list[dict[str, Any]] = []
    sizes: list[NDArray[np.int64]] = []
    for budget in budgets:
        if most is not None and budget > most * at.steps:
            continue
        for family, batches in schedule_families(solved.kappa, budget, max_batch=most).items():
            rows.append({"family": family, "budget": budget})
            sizes.append(batches)
    return rows, np.array(sizes)
