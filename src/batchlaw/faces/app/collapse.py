"""Noise of the four families of schedules at several budgets, against their summary."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchlaw._base.checks import FloatArray
from batchlaw.batches.allocation import FAMILIES, schedule_families
from batchlaw.faces.app.page_setting import PageSetting
from batchlaw.faces.app.replies import Collapse, Point
from batchlaw.faces.app.solution import Solution, solve

# Multiples of the setting's budget.
BUDGET_FACTORS = (0.25, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0)
MOST_SCHEDULES = len(BUDGET_FACTORS) * len(FAMILIES)


def collapse(setting: PageSetting) -> Collapse:
    """Noise of the families against their summary, computed without Monte Carlo."""
    solution = solve(setting)
    if not solution.case.rule.has_influence:
        reason = "with Adam no summary of the batches decides: they also scale later steps"
        return Collapse(term=solution.noise, summary="", families=[], points=[], reason=reason)
    if not solution.case.solved:
        procedure = solution.case.procedure
        reason = f"the noise of {procedure.title}, is not known without Monte Carlo"
        reason += " with this update rule" if procedure.solvable else ", and follows another law"
        return _collapse(solution, [], reason)
    return exact_collapse(solution, *families(solution))


def exact_collapse(
    solution: Solution, rows: list[dict[str, Any]], sizes: NDArray[np.int64]
) -> Collapse:
    schedules: list[FloatArray] = list(sizes.astype(np.float64))
    effective = solution.effective(schedules)
    values = np.asarray(getattr(solution.risk(schedules), solution.noise))
    summaries = 1.0 / effective if solution.large_is_good else effective
    points = [
        Point(**row, summary=float(summary), value=float(value))
        for row, summary, value in zip(rows, summaries, values, strict=True)
    ]
    return _collapse(solution, points)


def _collapse(solution: Solution, points: list[Point], reason: str = "") -> Collapse:
    return Collapse(
        term=solution.noise,
        summary=f"1 / {solution.summary}" if solution.large_is_good else solution.summary,
        families=list(FAMILIES),
        points=points,
        reason=reason,
    )


def families(solution: Solution) -> tuple[list[dict[str, Any]], NDArray[np.int64]]:
    """Family and budget of every schedule, and its batches."""
    setting, kappa = solution.setting, solution.case.influence
    max_batch = solution.case.procedure.max_batch
    budgets = sorted(
        {max(setting.steps, round(factor * setting.budget)) for factor in BUDGET_FACTORS}
    )
    rows: list[dict[str, Any]] = []
    sizes: list[NDArray[np.int64]] = []
    for budget in budgets:
        if max_batch is not None and budget > max_batch * setting.steps:
            continue
        for family, batches in schedule_families(kappa, budget, max_batch=max_batch).items():
            rows.append({"family": family, "budget": budget})
            sizes.append(batches)
    return rows, np.array(sizes)
