"""The plan as a file: every export of ``batchlaw plan``, its table and its picture."""

from __future__ import annotations

import io
from typing import Literal, NamedTuple

from batchlaw._base.files import write_csv
from batchlaw.faces.app.request import Setting
from batchlaw.faces.app.solution import solve, staged_plan
from batchlaw.plans.export import export, rates_warning

Format = Literal["json", "megatron", "olmo", "accumulation", "pytorch", "csv", "png"]

MEDIA_TYPES = ("application/json", "image/png", "text/csv", "text/plain")


class File(NamedTuple):
    content: bytes
    media_type: str
    name: str
    warning: str = ""


def plan_file(setting: Setting, format_: Format, layout: dict[str, int | None]) -> File:
    """The planned schedule; ``layout`` is what trainers need to know beside it."""
    needed = (layout["data_parallel"] or 1) * (layout["micro_batch"] or 1)
    if setting.multiple_of % needed:
        raise ValueError(
            f'"multiple of" must be a multiple of data parallel x micro-batch = {needed}, '
            f"got {setting.multiple_of}: change it under Budget"
        )
    solved = solve(setting)
    plan = solved.plan
    # OLMo-core changes its batch by whole factors.
    if format_ == "olmo":
        plan = staged_plan(setting, solved.problem, solved.gamma, factor=2)
    if format_ == "png":
        from batchlaw import plots

        buffer = io.BytesIO()
        plots.plan_figure(plan.rates, plan.batches).savefig(buffer, format="png", dpi=150)
        return File(buffer.getvalue(), "image/png", "plan.png")
    if format_ == "csv":
        table = io.StringIO()
        write_csv(table, plan.step_table())
        return File(table.getvalue().encode(), "text/csv", "plan.csv")
    text = export(plan, format_, **layout)
    if format_ == "json":
        return File(text.encode(), "application/json", "plan.json")
    warning = rates_warning(text)
    if plan is not solved.plan:
        moved = f"batches are moved to powers of 2; {plan.samples} of {setting.budget} are spent"
        warning = f"{moved}; {warning}" if warning else moved
    return File(text.encode(), "text/plain", f"plan-{format_}.txt", warning)
