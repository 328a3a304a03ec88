"""Rules that people use beside a plan: over its range of problems, or for a known one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.batches.rules import RULES, Schedule
from batchlaw.design.plan_cases import pilot_noise_scales
from batchlaw.design.robust_plan import RobustPlan
from batchlaw.design.rule_scores import CONSTANT, RuleScore
from batchlaw.model.problem import Problem
from batchlaw.plans.verdict import CONSTANT_BATCH, PLAN, range_of
from batchlaw.schedule.adam import Adam


def rule_schedules(
    problem: Problem, gamma: FloatArray, samples: int, rule: Adam
) -> dict[str, Schedule]:
    """Rates and batches of every rule for a known problem, at equal samples, free of the limits."""
    last = replace(rule, average=None)
    noise = pilot_noise_scales(problem, gamma, samples / gamma.size, last)
    return {
        name: named.schedule(gamma, samples, noise)
        for name, named in RULES.items()
        if name != CONSTANT
    }


def ranges_of(
    scores: Mapping[str, RuleScore],
) -> tuple[dict[str, tuple[float, float, float]], dict[str, int]]:
    """Smallest, median and largest excess over the constant batch's, by name; and the updates of
    those that change the rates."""
    return (
        {name: range_of(score.ratios) for name, score in scores.items()},
        {name: score.steps for name, score in scores.items() if not score.keeps_rates},
    )


def regrets_of(scores: Mapping[str, RuleScore], found: RobustPlan) -> dict[str, float]:
    """By what the plan was chosen: the largest excess over the best schedule's for the problem."""
    logs = {PLAN: found.regret, CONSTANT_BATCH: found.constant_regret}
    logs |= {name: found.constant_regret + np.log(score.ratios) for name, score in scores.items()}
    return {name: math.exp(float(values.max())) for name, values in logs.items()}
