"""The verdict of a plan on the page, or why there is none."""

from __future__ import annotations

from batchlaw.faces.app.controls import control
from batchlaw.faces.app.replies import Rule, Verdict
from batchlaw.faces.app.solution import MOST_SEARCHED, Solution
from batchlaw.plans.plan import Plan


def verdict(plan: Plan | None) -> Verdict | None:
    """The plan's verdict, with a row per rule that it was compared with."""
    if plan is None or plan.verdict is None:
        return None
    found = plan.verdict
    rules = [
        Rule(name=name, best=best, median=median, worst=worst, steps=found.steps.get(name))
        for name, (best, median, worst) in found.rules.items()
    ]
    return Verdict(
        optimizer=found.optimizer,
        recommendation=found.recommendation,
        worth=found.worth,
        evidence=found.evidence,
        rules=rules,
    )


def no_verdict(solution: Solution) -> str:
    """Why there is no verdict; empty where there is one."""
    plan, case, setting = solution.plan, solution.case, solution.setting
    if plan is None:
        size = f"{setting.steps} steps x {setting.directions} directions"
        if solution.search == "on request":
            return f"the search for a plan with {size} takes longer than a view may; start it below"
        optimizer = control("optimizer").titles.get(setting.optimizer, setting.optimizer)
        return (
            f"plans for {optimizer} are searched for up to {MOST_SEARCHED} steps x directions on "
            f"this page, not {size}; batchlaw plan has no such limit"
        )
    if plan.verdict is None:
        run = case.rule.title(case.procedure.title)
        return f"a plan for {run} has none; compare the schedules below"
    return ""
