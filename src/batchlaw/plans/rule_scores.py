"""Rules that people use beside a plan: over its range of problems, or for a known one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields, replace

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import Unstable
from batchlaw.batches.rules import RULES, ChangesRates, Schedule
from batchlaw.design.plan_cases import pilot_noise_scales
from batchlaw.design.robust_plan import RobustPlan
from batchlaw.design.rule_scores import CONSTANT, DIVERGED, RuleScore
from batchlaw.model.problem import Problem
from batchlaw.plans.verdict import CONSTANT_BATCH, PLAN, range_of
from batchlaw.schedule.adam import Adam
from batchlaw.schedule.update_rule import SGD


def rule_schedules(
    problem: Problem, gamma: FloatArray, samples: int, rule: Adam | SGD
) -> dict[str, Schedule]:
    """Rates and batches of every rule for a known problem, at equal samples, free of the limits.

    Where an option of the update rule has a number per update, those that change their number are
    left out.
    """
    last = replace(rule, average=None)
    noise = pilot_noise_scales(problem, gamma, samples / gamma.size, last)
    any_length = all(np.ndim(getattr(rule, option.name)) == 0 for option in fields(rule))
    return {
        name: named.schedule(gamma, samples, noise)
        for name, named in RULES.items()
        if name != CONSTANT and (any_length or not isinstance(named, ChangesRates))
    }


def known_scores(
    schedules: Mapping[str, Schedule],
    gamma: FloatArray,
    least: float,
    excess: Callable[[FloatArray, IntArray], float],
) -> dict[str, RuleScore]:
    """Scores for one known problem by ``excess(rates, batches)``, over a constant batch's."""

    def ratio(own: Schedule) -> float:
        try:
            value = excess(own.rates, own.batches) / least
        except Unstable:
            return DIVERGED
        return min(value, DIVERGED) if math.isfinite(value) else DIVERGED

    return {
        name: RuleScore(np.array([ratio(own)]), own.rates.size, own.rates is gamma)
        for name, own in schedules.items()
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
