"""Settings of OLMo-core 2.5.0: its batch-size callback, with the horizon in steps.

The callback changes the batch by whole factors only, raises it only when the data consumed are
whole batches of the new size, and multiplies the rate by the square root of the factor. Plans that
break the first two rules are refused. The third is overridden.
"""

from __future__ import annotations

import itertools

import numpy as np

from batchlaw._base.errors import InputError
from batchlaw.plans.plan import Plan
from batchlaw.plans.trainers.rates import Match, closest_shape, trainer_rates
from batchlaw.plans.trainers.text import comment, headline
from batchlaw.plans.trainers.trainer import Export, Layout, Trainer
from batchlaw.schedule.phases import Phases, find_phases


def write(plan: Plan, layout: Layout) -> Export:
    """Python statements for the script that configures the trainer."""
    length = layout.value("sequence_length")
    rows = plan.stage_table()
    _refuse_unsupported_changes(rows)
    phases = find_phases(plan.rates)
    match = _match(plan, phases)
    notes = [
        headline(plan, "OLMo-core settings"),
        "The data loader starts with the first batch size; sizes are in tokens, within one epoch.",
        f"Rates: {match}.",
    ]
    code = _code(rows, length, plan.steps, phases.peak, _scheduler(phases, match.shape))
    return Export(comment(notes) + "\n".join(code), match)


def _code(
    rows: list[dict[str, int]], length: int, steps: int, peak: float, scheduler: str
) -> list[str]:
    return [
        f"from olmo_core.optim import {scheduler.partition('(')[0]}",
        "from olmo_core.train import Duration",
        "from olmo_core.train.callbacks import BatchSizeSchedulerCallback",
        "",
        "",
        "class PlannedBatchSizes(BatchSizeSchedulerCallback):",
        '    """Keeps the planned rates; the parent scales them by the root of the batch."""',
        "",
        "    def _update_batch_size_and_lr(self, batch_size):",
        "        self.trainer.data_loader.global_batch_size = batch_size",
        "",
        "",
        f"global_batch_size = {rows[0]['batch'] * length}",
        f"max_duration = Duration.steps({steps})",
        "callback = PlannedBatchSizes(",
        f"    batch_sizes=[{', '.join(str(row['batch'] * length) for row in rows)}],",
        "    schedule=[",
        *(f"        Duration.tokens({row['before'] * length})," for row in rows),
        "    ],",
        ")",
        f"lr = {peak!r}",
        f"scheduler = {scheduler}",
        "",
    ]


def _match(plan: Plan, phases: Phases) -> Match:
    # OLMo-core's cosine starts at the end of the warmup; only its linear decay can follow a
    # plateau.
    shapes = ("linear", "cosine") if phases.warmup == phases.stable else ("linear",)
    return closest_shape(
        plan.rates,
        shapes,
        lambda shape: trainer_rates(
            phases,
            shape,
            np.arange(1, phases.steps + 1),
            warmup=phases.warmup,
            decay=(phases.stable, phases.steps),
            start=0.0,
        ),
    )


def _scheduler(phases: Phases, shape: str) -> str:
    if not phases.decays:
        return f"ConstantWithWarmup(warmup={phases.warmup})"
    if shape == "cosine":
        return f"CosWithWarmup(warmup={phases.warmup}, alpha_f={phases.final / phases.peak!r})"
    return (
        f"WSD(warmup={phases.warmup}, decay={phases.steps - phases.stable}, decay_fraction=None, "
        f"decay_min_lr={phases.final!r})"
    )


def _refuse_unsupported_changes(rows: list[dict[str, int]]) -> None:
    for old, new in itertools.pairwise(rows):
        small, large = sorted((old["batch"], new["batch"]))
        change = f"{old['batch']} to {new['batch']} after step {old['last']}"
        if large % small:
            raise InputError(
                "plan",
                "changes the batch by a whole factor only",
                change,
                hint="plan with stages that divide each other, or export for another trainer",
                subject="olmo",
            )
        if new["batch"] == large and new["before"] % large:
            updates = (-new["before"]) % large // small
            raise InputError(
                "plan",
                "raises the batch only after whole batches of the new size",
                f"{change}, {new['before']} samples",
                hint=f"it would wait {updates} updates",
                subject="olmo",
            )


OLMO = Trainer(
    name="olmo",
    title="OLMo-core",
    summary="Python settings: a callback and a scheduler",
    write=write,
    file_name="plan-olmo.txt",
    needs=("sequence_length",),
    batch_factor=2,
)
