"""Lines common to the exports."""

from __future__ import annotations

from collections.abc import Iterable

from batchlaw.plans.plan import Plan


def headline(plan: Plan, what: str) -> str:
    """Title, number of updates, samples and stages, and batchlaw's version."""
    return (
        f"{what}: {plan.steps} updates, {plan.samples} samples, {len(plan.stages)} stages "
        f"(batchlaw {plan.version})."
    )


def comment(lines: Iterable[str]) -> str:
    """Lines after ``#``, a comment in every trainer's format."""
    return "".join(f"# {line}\n" for line in lines)
