"""Registry of trainers: help, the page and the documentation are derived from it."""

from __future__ import annotations

import math

from batchlaw._base import checks
from batchlaw._base.errors import InputError, arg
from batchlaw.plans.plan import Plan
from batchlaw.plans.trainers.trainer import Export, Layout, Trainer

TRAINERS: dict[str, Trainer] = {}


def register(trainer: Trainer) -> Trainer:
    """Add a trainer under its name, which must be new.

    Parameters
    ----------
    trainer
        Name, needs and writer of the export.
    """
    if trainer.name in TRAINERS:
        raise InputError("trainer", "must have a name of its own", repr(trainer.name))
    TRAINERS[trainer.name] = trainer
    return trainer


def export(
    plan: Plan,
    trainer: str,
    *,
    sequence_length: int | None = None,
    data_parallel: int | None = None,
    micro_batch: int | None = None,
    epoch_samples: int | None = None,
) -> Export:
    """The plan as text for a trainer.

    Parameters
    ----------
    plan
        The plan to write.
    trainer
        A name in ``TRAINERS``, such as "megatron".
    sequence_length
        Tokens per sample, if the plan does not have it: some trainers count tokens.
    data_parallel, micro_batch
        Number of replicas, and samples per replica in one forward pass. Stages that are not
        multiples of their product are refused, whether or not the trainer needs them.
    epoch_samples
        Size of the dataset, for Lightning's scheduler, which is keyed by epoch.
    """
    chosen = TRAINERS[checks.choice("trainer", trainer, TRAINERS)]
    layout = Layout(
        plan.sequence_length if sequence_length is None else sequence_length,
        data_parallel,
        micro_batch,
        epoch_samples,
    )
    _refuse_contradiction(plan, layout)
    _refuse_missing(chosen, layout)
    return chosen.write(plan, layout)


def table_rows() -> list[str]:
    """One row of a Markdown table per trainer, for the documentation."""
    return [f"| {' | '.join(_cells(trainer))} |" for trainer in TRAINERS.values()]


def _cells(trainer: Trainer) -> tuple[str, ...]:
    """Name, title, content of the export, required options, and how the batch may change."""
    options = ", ".join(f"`--{name.replace('_', '-')}`" for name in trainer.needs)
    changes = "freely" if trainer.batch_factor is None else f"by powers of {trainer.batch_factor}"
    return f"`{trainer.name}`", trainer.title, trainer.summary, options or "nothing", changes


def _refuse_missing(trainer: Trainer, layout: Layout) -> None:
    missing = [name for name in trainer.needs if getattr(layout, name) is None]
    if missing:
        others = " and ".join(map(arg, missing[1:]))
        hint = f"so must {others}" if others else ""
        raise InputError(missing[0], f"must be given for {trainer.name}", hint=hint)


def _refuse_contradiction(plan: Plan, layout: Layout) -> None:
    if plan.sequence_length not in (None, layout.sequence_length):
        raise InputError(
            "sequence_length",
            f"must be the plan's {plan.sequence_length}",
            f"{layout.sequence_length}",
        )
    tokens = plan.samples * (layout.sequence_length or 1)
    if tokens > checks.LARGEST_COUNT:
        raise InputError(
            "sequence_length",
            f"must be short enough for at most 2^53 = {checks.LARGEST_COUNT} tokens in all",
            f"{tokens} tokens",
        )
    unit = math.prod(value or 1 for value in (layout.data_parallel, layout.micro_batch))
    for row in plan.stage_table():
        if row["batch"] % unit:
            product = f"{arg('data_parallel')} x {arg('micro_batch')}"
            raise InputError(
                "plan",
                f"must be a multiple of {product} = {unit}",
                f"{row['batch']} in steps {row['first']} to {row['last']}",
                subject="every batch",
            )
