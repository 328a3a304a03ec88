"""Lines common to the exports."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from batchlaw.plans.plan import Plan

WIDTH = 86


def headline(plan: Plan, what: str) -> str:
    """Title, number of updates, samples and stages, and batchlaw's version; then the verdict."""
    title = (
        f"{what}: {plan.steps} updates, {plan.samples} samples, {len(plan.stages)} stages "
        f"(batchlaw {plan.version})."
    )
    return "\n".join([title, *verdict_lines(plan)])


def verdict_lines(plan: Plan) -> list[str]:
    """The optimizer, the recommendation, its worth and the evidence, one wrapped line each."""
    if plan.verdict is None:
        return ["No verdict: the plan was not made for a named optimizer."]
    named = {
        "Optimizer": plan.verdict.optimizer,
        "Recommended": plan.verdict.recommendation,
        "Worth": plan.verdict.worth,
        "Evidence": plan.verdict.evidence,
    }
    return [
        line
        for name, text in named.items()
        for line in textwrap.wrap(f"{name}: {text}.", WIDTH, subsequent_indent="  ")
    ]


def comment(lines: Iterable[str]) -> str:
    """Lines after ``#``, a comment in every trainer's format."""
    return "".join(f"# {line}\n" for text in lines for line in text.splitlines())
