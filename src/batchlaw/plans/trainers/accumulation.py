"""Gradient accumulation of each stage, with arguments for transformers 5 and Lightning 2.6.

Both count the micro-batches of an epoch modulo the accumulation, so the first update of a stage is
too small unless the micro-batches before it are a multiple; column ``aligned`` says so.
"""

from __future__ import annotations

import textwrap

import numpy as np

from batchlaw.plans.plan import Plan
from batchlaw.plans.trainers.rates import Match, closest_shape, trainer_rates
from batchlaw.plans.trainers.text import comment, headline
from batchlaw.plans.trainers.trainer import Export, Layout, Trainer
from batchlaw.schedule.phases import Phases, find_phases

HEADER = "first_step,last_step,batch,accumulation,micro_batches_before,aligned"


def write(plan: Plan, layout: Layout) -> Export:
    """A CSV table of the stages, with the arguments as comments above it."""
    replicas, micro_batch = layout.value("data_parallel"), layout.value("micro_batch")
    unit = replicas * micro_batch
    first = plan.stages[0][1] // unit
    arguments, match = _hugging_face(plan, micro_batch)
    notes = [
        headline(plan, "Gradient accumulation"),
        f"batch = accumulation x {replicas} replicas x micro-batch {micro_batch}.",
        "aligned: the trainers count micro-batches of an epoch modulo the accumulation; where",
        "it says no, the first update of the stage would be cut short.",
        "Hugging Face: set args.gradient_accumulation_steps when a stage ends (on_step_end).",
        "max_steps keeps the horizon: without it Trainer derives it from the accumulation at",
        "the start, as it does the number of updates of an epoch.",
        f"TrainingArguments: gradient_accumulation_steps={first}, {arguments}",
        f"Rates of these arguments: {match}.",
        *textwrap.wrap(
            f"Lightning: Trainer(max_steps={plan.steps}, accumulate_grad_batches={first}), and the "
            'rate scheduler with interval="step", which counts updates.',
            width=86,
        ),
        *_lightning(plan, unit, layout.epoch_samples),
    ]
    return Export(comment(notes) + "\n".join([HEADER, *_rows(plan, unit), ""]), match)


def _rows(plan: Plan, unit: int) -> list[str]:
    rows, before = [], 0
    for row in plan.stage_table():
        # The trainer updates when its count of micro-batches is a multiple of the accumulation.
        factor = row["batch"] // unit
        aligned = "no" if before % factor else "yes"
        rows.append(f"{row['first']},{row['last']},{row['batch']},{factor},{before},{aligned}")
        before += factor - before % factor + (row["last"] - row["first"]) * factor
    return rows


def _hugging_face(plan: Plan, micro_batch: int) -> tuple[str, Match]:
    """Trainer's arguments. Its schedule counts from 0: update t runs at the rate of count t - 1."""
    phases = find_phases(plan.rates)
    warmup, ratio = phases.warmup - 1, phases.final / phases.peak if phases.decays else 0.0
    match = closest_shape(
        plan.rates,
        ("linear", "cosine", "1-sqrt"),
        lambda shape: trainer_rates(
            phases,
            shape,
            np.arange(phases.steps),
            warmup=warmup,
            decay=(phases.stable - 1, phases.steps - 1),
            start=ratio * phases.peak,
        ),
    )
    common = (
        f"max_steps={plan.steps}, per_device_train_batch_size={micro_batch}, "
        f"learning_rate={phases.peak!r}, warmup_steps={warmup}, "
    )
    if not phases.decays:
        return common + 'lr_scheduler_type="constant_with_warmup"', match
    return common + _hugging_face_decay(phases, match.shape, ratio), match


def _hugging_face_decay(phases: Phases, shape: str, ratio: float) -> str:
    return (
        'lr_scheduler_type="warmup_stable_decay", '
        f'lr_scheduler_kwargs={{"num_stable_steps": {phases.stable - phases.warmup}, '
        f'"num_decay_steps": {phases.steps - phases.stable}, "decay_type": "{shape}", '
        f'"min_lr_ratio": {ratio!r}}}'
    )


def _lightning(plan: Plan, unit: int, epoch_samples: int | None) -> list[str]:
    rows = plan.stage_table()
    if epoch_samples is None:
        return [
            "GradientAccumulationScheduler is keyed by epoch: it can express these stages only",
            "where each starts with an epoch (give epoch_samples to see).",
        ]
    whole = all(row["before"] % epoch_samples == 0 for row in rows)
    if not whole or any(epoch_samples % row["batch"] for row in rows):
        return [
            "GradientAccumulationScheduler is keyed by epoch and cannot express these stages:",
            f"not all start with an epoch of {epoch_samples} samples and fill it with whole",
            "batches. Set trainer.accumulate_grad_batches in a callback when a stage ends.",
        ]
    factors = {row["before"] // epoch_samples: row["batch"] // unit for row in rows}
    return [f"GradientAccumulationScheduler(scheduling={factors})"]


ACCUMULATION = Trainer(
    name="accumulation",
    title="Hugging Face, Lightning",
    summary="accumulation steps of every stage, and arguments",
    write=write,
    file_name="plan-accumulation.txt",
    needs=("data_parallel", "micro_batch"),
)
