"""Rules that people use beside a plan: over its range of problems, or for a known one."""

from __future__ import annotations

from dataclasses import replace

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.batches.rules import RULES, Schedule
from batchlaw.design.plan_cases import Grid, PlanCases, pilot_noise_scales
from batchlaw.design.rule_scores import CONSTANT, score_rules
from batchlaw.model.problem import Problem
from batchlaw.plans.verdict import range_of
from batchlaw.schedule.adam import Adam
from batchlaw.schedule.update_rule import UpdateRule


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


def rule_scores(
    gamma: FloatArray,
    constant: IntArray,
    rule: UpdateRule,
    grid: Grid,
    cases: PlanCases | None = None,
) -> tuple[dict[str, tuple[float, float, float]], dict[str, int]]:
    """Smallest, median and largest excess over the constant batch's, by name; and the updates of
    those that change the rates."""
    scores = score_rules(gamma, constant, rule, grid, cases)
    return (
        {name: range_of(score.ratios) for name, score in scores.items()},
        {name: score.steps for name, score in scores.items() if not score.keeps_rates},
    )
