"""Rules that people use, scored over the range of problems of a plan."""

from __future__ import annotations

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.batches.allocation import allocate
from batchlaw.batches.rules import RULES
from batchlaw.design.plan_cases import Grid
from batchlaw.design.robust_plan import score
from batchlaw.plans.verdict import range_of
from batchlaw.schedule.update_rule import UpdateRule


def rule_batches(gamma: FloatArray, samples: int) -> dict[str, IntArray]:
    """Rules that keep the rates, at the same steps and samples, free of the limits."""
    return {
        name: np.asarray(allocate(rule(gamma) ** 2, samples), dtype=np.int64)
        for name, rule in RULES.items()
        if name != "constant"
    }


def rule_scores(
    gamma: FloatArray, constant: IntArray, rule: UpdateRule, grid: Grid
) -> dict[str, tuple[float, float, float]]:
    """Smallest, median and largest excess over the constant batch's, by name."""
    schedules = {"constant": constant} | rule_batches(gamma, int(constant.sum()))
    scores = score(gamma, schedules, rule, grid)
    return {name: range_of(ratios) for name, ratios in scores.items() if name != "constant"}
