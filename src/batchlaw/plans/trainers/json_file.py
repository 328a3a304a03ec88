"""The plan as JSON, which ``Plan.from_json`` and ``batchlaw check`` read."""

from __future__ import annotations

from batchlaw.plans.plan import Plan
from batchlaw.plans.trainers.trainer import Export, Layout, Trainer


def write(plan: Plan, layout: Layout) -> Export:
    del layout
    return Export(plan.to_json())


JSON = Trainer(
    name="json",
    title="JSON",
    summary="the plan itself",
    write=write,
    file_name="plan.json",
    media_type="application/json",
)
