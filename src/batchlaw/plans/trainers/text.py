"""Lines that exports share."""

from __future__ import annotations

from collections.abc import Iterable

from batchlaw.plans.plan import Plan


def headline(plan: Plan, what: str) -> str:
    """What this is, for how many updates, samples and stages, and whose version made it."""
    return (
        f"{what}: {plan.steps} updates, {plan.samples} samples, {len(plan.stages)} stages "
        f"(batchlaw {plan.version})."
    )


def comment(lines: Iterable[str]) -> str:
    """Lines behind ``#``, which every trainer's file takes for a comment."""
    return "".join(f"# {line}\n" for line in lines)
