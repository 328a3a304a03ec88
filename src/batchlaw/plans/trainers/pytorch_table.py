"""A table of steps, batches and rates for a PyTorch loop."""

from __future__ import annotations

from batchlaw.plans.plan import Plan
from batchlaw.plans.trainers.text import comment, headline
from batchlaw.plans.trainers.trainer import Export, Layout, Trainer


def write(plan: Plan, layout: Layout) -> Export:
    """One row per update: exact for any batches and rates."""
    del layout
    notes = [
        headline(plan, "Batch sizes and rates for a PyTorch loop"),
        "Pass the samples of one update as one list of indices:",
        "DataLoader(dataset, batch_sampler=lists), without batch_size, shuffle, sampler or",
        "drop_last; map-style datasets only. Set the rate of every update from its row.",
    ]
    rows = (
        f"{step},{batch},{rate!r}"
        for step, (batch, rate) in enumerate(
            zip(plan.batches.tolist(), plan.rates.tolist(), strict=True), start=1
        )
    )
    return Export(comment(notes) + "\n".join(["step,batch,rate", *rows, ""]))


PYTORCH = Trainer(
    name="pytorch",
    title="PyTorch",
    summary="a table with batch and rate of every update",
    write=write,
    file_name="plan-pytorch.txt",
)
