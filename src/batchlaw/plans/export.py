"""Plan -> what a trainer reads: batch sizes, with learning-rate settings of the same horizon.

The rules of each trainer are facts of the versions named beside it; ``tests/test_export.py``
parses every export back by those rules.
"""

from __future__ import annotations

import itertools
import math
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from batchlaw._base import checks
from batchlaw._base.checks import IntArray
from batchlaw.plans.plan import Plan
from batchlaw.schedule.phases import Match, Phases, closest_shape, find_phases, trainer_rates


@dataclass(frozen=True)
class Layout:
    """How samples are shaped and spread: what a plan does not know about the run."""

    sequence_length: int | None
    data_parallel: int | None
    micro_batch: int | None
    epoch_samples: int | None


def export(
    plan: Plan,
    format: str,
    *,
    sequence_length: int | None = None,
    data_parallel: int | None = None,
    micro_batch: int | None = None,
    epoch_samples: int | None = None,
) -> str:
    """The plan as text for a trainer.

    Parameters
    ----------
    format
        "json" (the plan itself), "megatron" (Megatron-LM arguments), "olmo" (OLMo-core
        settings), "accumulation" (accumulation steps for Hugging Face and Lightning) or
        "pytorch" (a table of steps, batches and rates).
    sequence_length
        Tokens of a sample, where the plan does not know: megatron and olmo count tokens.
    data_parallel, micro_batch
        Replicas and samples a replica takes at once: needed by accumulation, and for every
        format a stage that they do not divide is refused.
    epoch_samples
        Size of the dataset, for Lightning's scheduler, which is keyed by epoch.
    """
    checks.choice("format", format, tuple(_FORMATS))
    known = plan.sequence_length if sequence_length is None else sequence_length
    layout = Layout(
        sequence_length=_optional("sequence_length", known),
        data_parallel=_optional("data_parallel", data_parallel),
        micro_batch=_optional("micro_batch", micro_batch),
        epoch_samples=_optional("epoch_samples", epoch_samples),
    )
    if plan.sequence_length is not None and layout.sequence_length != plan.sequence_length:
        raise ValueError(
            f"sequence_length must be the plan's {plan.sequence_length}, "
            f"got {layout.sequence_length}"
        )
    _refuse_indivisible(plan, layout)
    return _FORMATS[format](plan, layout)


def rates_warning(text: str) -> str:
    """What to say where an export can't run the planned rates: its comments are easily missed."""
    found = re.search(r"up to ([\d.]+)% of the peak away", text)
    if found is None or float(found[1]) <= 2.0:
        return ""
    return (
        f"this trainer's rates differ from the plan's by up to {found[1]}% of the peak; the gain "
        "that was predicted does not hold for them (decays that it can run: linear and 1-sqrt, "
        "and stages that change outside warmup and decay)"
    )


def _megatron(plan: Plan, layout: Layout) -> str:
    """Arguments of Megatron-LM 0.20 (Megatron Core), which counts rates in samples.

    Update t runs at the rate of the samples consumed before it. So the warmup starts at the
    first rate and reaches the peak at the samples before the step that has it; the decay
    likewise. That is exact while the batch is constant in a phase; where it changes there, the
    rates bend, and the text says how far.
    """
    length = _tokens_a_sample(plan, layout, "megatron")
    phases, before = find_phases(plan.rates), _consumed_before(plan)
    warmup = int(before[phases.warmup - 1])
    decay = (int(before[phases.stable - 1]), int(before[-1]))
    match = closest_shape(
        plan.rates,
        tuple(_MEGATRON_DECAYS),
        lambda shape: trainer_rates(
            phases, shape, before, warmup=warmup, decay=decay, start=phases.first
        ),
    )
    schedule = " ".join(f"{row['before'] * length}:{row['batch']}" for row in plan.stage_table())
    arguments = [
        f"--seq-length {length}",
        f"--train-samples {plan.samples}",
        f'--step-batch-size-schedule "{schedule}"',
        f"--lr {phases.peak!r}",
    ]
    if warmup:
        arguments += [f"--lr-warmup-init {phases.first!r}", f"--lr-warmup-samples {warmup}"]
    if phases.decays:
        arguments += [
            f"--min-lr {phases.final!r}",
            "--lr-decay-style WSD",
            f"--lr-wsd-decay-style {_MEGATRON_DECAYS[match.shape]}",
            f"--lr-decay-samples {decay[1]}",
            f"--lr-wsd-decay-samples {decay[1] - decay[0]}",
        ]
    else:
        arguments += ["--lr-decay-style constant"]
    notes = [
        _headline(plan, "Megatron-LM arguments"),
        "Thresholds are tokens. Leave --global-batch-size, --rampup-batch-size and",
        "--train-iters out: with --train-iters, warmup and decay are multiplied by one batch",
        "size, and the horizon breaks as soon as the batch changes.",
        f"Rates: {match}.",
    ]
    block = "\n".join(f"    {argument}" for argument in arguments)
    return f"{_comment(notes)}BATCH_SCHEDULE_ARGS=(\n{block}\n)\n"


_MEGATRON_DECAYS = {
    "linear": "linear",
    "cosine": "cosine",
    "1-sqrt": "minus_sqrt",
    "exponential": "exponential",
}


def _olmo(plan: Plan, layout: Layout) -> str:
    """Settings of OLMo-core 2.5.0: the batch-size callback, the horizon in steps.

    The callback changes the batch by whole factors alone, raises it only when the data
    consumed are whole batches of the new size, and multiplies the rate by the square root of
    the factor. Plans that break the first two rules are refused. The third is overridden.
    """
    length = _tokens_a_sample(plan, layout, "olmo")
    rows = plan.stage_table()
    _refuse_what_olmo_cannot_do(rows)
    scheduler, match = _olmo_scheduler(plan)
    notes = [
        _headline(plan, "OLMo-core settings"),
        "The data loader starts with the first batch size; sizes are in tokens, within one epoch.",
        f"Rates: {match}.",
    ]
    return _comment(notes) + "\n".join(
        [
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
            f"max_duration = Duration.steps({plan.steps})",
            "callback = PlannedBatchSizes(",
            f"    batch_sizes=[{', '.join(str(row['batch'] * length) for row in rows)}],",
            "    schedule=[",
            *(f"        Duration.tokens({row['before'] * length})," for row in rows),
            "    ],",
            ")",
            f"lr = {float(plan.rates.max())!r}",
            f"scheduler = {scheduler}",
            "",
        ]
    )


def _olmo_scheduler(plan: Plan) -> tuple[str, Match]:
    phases = find_phases(plan.rates)
    steps = np.arange(1, phases.steps + 1)
    # Its cosine decays from the end of the warmup; only its linear decay follows a plateau.
    shapes = ("linear", "cosine") if phases.warmup == phases.stable else ("linear",)
    match = closest_shape(
        plan.rates,
        shapes,
        lambda shape: trainer_rates(
            phases,
            shape,
            steps,
            warmup=phases.warmup,
            decay=(phases.stable, phases.steps),
            start=0.0,
        ),
    )
    if not phases.decays:
        return f"ConstantWithWarmup(warmup={phases.warmup})", match
    if match.shape == "cosine":
        share = phases.final / phases.peak
        return f"CosWithWarmup(warmup={phases.warmup}, alpha_f={share!r})", match
    decay = phases.steps - phases.stable
    return (
        f"WSD(warmup={phases.warmup}, decay={decay}, decay_fraction=None, "
        f"decay_min_lr={phases.final!r})"
    ), match


def _refuse_what_olmo_cannot_do(rows: list[dict[str, int]]) -> None:
    for old, new in itertools.pairwise(rows):
        small, large = sorted((old["batch"], new["batch"]))
        change = f"{old['batch']} to {new['batch']} after step {old['last']}"
        if large % small:
            raise ValueError(
                f"olmo changes the batch by a whole factor alone, got {change}: "
                "plan with stages that divide each other, or export another format"
            )
        if new["batch"] == large and new["before"] % large:
            later = (-new["before"]) % large // small
            raise ValueError(
                f"olmo raises the batch only after whole batches of the new size, got {change}, "
                f"{new['before']} samples: it would wait {later} updates"
            )


def _accumulation(plan: Plan, layout: Layout) -> str:
    """Accumulation steps a stage, with arguments for transformers 5 and Lightning 2.6.

    Both count the micro-batches of an epoch modulo the accumulation, so the first update of a
    stage is too small unless the micro-batches before it are a multiple: column ``aligned``.
    """
    if layout.data_parallel is None or layout.micro_batch is None:
        raise ValueError("accumulation must know data_parallel and micro_batch")
    unit = layout.data_parallel * layout.micro_batch
    rows, before = [], 0
    for row in plan.stage_table():
        # The trainer updates when its count of micro-batches is a multiple of the accumulation.
        factor = row["batch"] // unit
        aligned = "no" if before % factor else "yes"
        rows.append(f"{row['first']},{row['last']},{row['batch']},{factor},{before},{aligned}")
        before += factor - before % factor + (row["last"] - row["first"]) * factor
    first = plan.stages[0][1] // unit
    arguments, match = _hugging_face(plan, layout.micro_batch)
    notes = [
        _headline(plan, "Gradient accumulation"),
        f"batch = accumulation x {layout.data_parallel} replicas x micro-batch "
        f"{layout.micro_batch}.",
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
    header = "first_step,last_step,batch,accumulation,micro_batches_before,aligned"
    return _comment(notes) + "\n".join([header, *rows, ""])


def _hugging_face(plan: Plan, micro_batch: int) -> tuple[str, Match]:
    """Trainer's arguments. Update t runs at the rate of the updates before it, t - 1."""
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


def _pytorch(plan: Plan, layout: Layout) -> str:
    """One row an update: exact for batches and rates, whatever their shape."""
    del layout
    notes = [
        _headline(plan, "Batch sizes and rates for a PyTorch loop"),
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
    return _comment(notes) + "\n".join(["step,batch,rate", *rows, ""])


def _json(plan: Plan, layout: Layout) -> str:
    del layout
    return plan.to_json()


_FORMATS: dict[str, Callable[[Plan, Layout], str]] = {
    "json": _json,
    "megatron": _megatron,
    "olmo": _olmo,
    "accumulation": _accumulation,
    "pytorch": _pytorch,
}
FORMATS = tuple(_FORMATS)


def _optional(name: str, value: int | None) -> int | None:
    return None if value is None else checks.count(name, value)


def _refuse_indivisible(plan: Plan, layout: Layout) -> None:
    unit = math.prod(value or 1 for value in (layout.data_parallel, layout.micro_batch))
    for row in plan.stage_table():
        if row["batch"] % unit:
            raise ValueError(
                f"every batch must be a multiple of data_parallel x micro_batch = {unit}, "
                f"got {row['batch']} in steps {row['first']} to {row['last']}"
            )


def _tokens_a_sample(plan: Plan, layout: Layout, trainer: str) -> int:
    if layout.sequence_length is None:
        raise ValueError(f"{trainer} counts tokens: sequence_length must be given")
    checks.count("tokens of the run", plan.samples * layout.sequence_length)
    return layout.sequence_length


def _consumed_before(plan: Plan) -> IntArray:
    return np.append(np.int64(0), np.cumsum(plan.batches)[:-1])


def _headline(plan: Plan, what: str) -> str:
    return (
        f"{what}: {plan.steps} updates, {plan.samples} samples, {len(plan.stages)} stages "
        f"(batchlaw {plan.version})."
    )


def _comment(lines: list[str]) -> str:
    return "".join(f"# {line}\n" for line in lines)
