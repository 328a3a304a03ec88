"""Arguments of Megatron-LM 0.20 (Megatron Core), which counts rates in samples.

Update t runs at the rate for the samples consumed before it. So the warmup starts at the first
rate and reaches the peak at the samples before the step with the peak rate; the decay likewise.
That is exact while the batch is constant in a phase; where it changes, the rates depart from the
plan's, and the export states by how much.
"""

from __future__ import annotations

import numpy as np

from batchlaw.plans.plan import Plan
from batchlaw.plans.trainers.rates import Match, closest_shape, trainer_rates
from batchlaw.plans.trainers.text import comment, headline
from batchlaw.plans.trainers.trainer import Export, Layout, Trainer
from batchlaw.schedule.phases import Phases, find_phases

# Megatron-LM's names of the shapes.
DECAYS = {
    "linear": "linear",
    "cosine": "cosine",
    "1-sqrt": "minus_sqrt",
    "shifted exponential": "exponential",
}


def write(plan: Plan, layout: Layout) -> Export:
    """A bash array of arguments."""
    length = layout.value("sequence_length")
    schedule = " ".join(f"{row['before'] * length}:{row['batch']}" for row in plan.stage_table())
    rates, match = _rate_arguments(plan)
    arguments = [
        f"--seq-length {length}",
        f"--train-samples {plan.samples}",
        f'--step-batch-size-schedule "{schedule}"',
        *rates,
    ]
    notes = [
        headline(plan, "Megatron-LM arguments"),
        "Thresholds are tokens. Leave --global-batch-size, --rampup-batch-size and",
        "--train-iters out: with --train-iters, warmup and decay are multiplied by one batch",
        "size, and the horizon breaks as soon as the batch changes.",
        f"Rates: {match}.",
    ]
    block = "\n".join(f"    {argument}" for argument in arguments)
    return Export(f"{comment(notes)}BATCH_SCHEDULE_ARGS=(\n{block}\n)\n", match)


def _rate_arguments(plan: Plan) -> tuple[list[str], Match]:
    phases = find_phases(plan.rates)
    before = np.append(np.int64(0), np.cumsum(plan.batches)[:-1])
    warmup = int(before[phases.warmup - 1])
    decay = (int(before[phases.stable - 1]), int(before[-1]))
    match = closest_shape(
        plan.rates,
        tuple(DECAYS),
        lambda shape: trainer_rates(
            phases, shape, before, warmup=warmup, decay=decay, start=phases.first
        ),
    )
    arguments = [f"--lr {phases.peak!r}"]
    if warmup:
        arguments += [f"--lr-warmup-init {phases.first!r}", f"--lr-warmup-samples {warmup}"]
    return arguments + _decay_arguments(phases, decay, match.shape), match


def _decay_arguments(phases: Phases, decay: tuple[int, int], shape: str) -> list[str]:
    if not phases.decays:
        return ["--lr-decay-style constant"]
    return [
        f"--min-lr {phases.final!r}",
        "--lr-decay-style WSD",
        f"--lr-wsd-decay-style {DECAYS[shape]}",
        f"--lr-decay-samples {decay[1]}",
        f"--lr-wsd-decay-samples {decay[1] - decay[0]}",
    ]


MEGATRON = Trainer(
    name="megatron",
    title="Megatron-LM",
    summary="arguments, with rates counted in samples",
    write=write,
    file_name="plan-megatron.txt",
    needs=("sequence_length",),
)
