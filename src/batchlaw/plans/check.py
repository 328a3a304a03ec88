"""Before a run: whether rates, batches and the trainer's settings fit together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.plans.plan import stages_of
from batchlaw.plans.trainer_settings import TrainerClock, TrainerSettings
from batchlaw.schedule.phases import Phases, find_phases

# An end of a phase may be off by this share of the phase.
SLACK = 0.02
# A stage below this share of the steps and of the influence is too short to matter.
SHORT = 0.01
# Counting samples may differ from counting steps by this share of a warmup or decay.
BEND = 0.01

# Ids of all findings.
SEVERITY = {
    "schedule-lengths": "error",
    "length": "error",
    "budget": "error",
    "horizon-warmup": "error",
    "horizon-decay-start": "error",
    "horizon-decay-end": "error",
    "bend-warmup": "warning",
    "bend-decay": "warning",
    "divisibility": "error",
    "dataset": "error",
    "short-stages": "warning",
}


@dataclass(frozen=True)
class Finding:
    """A conflict between the schedule and the settings.

    Attributes
    ----------
    id
        A key of ``SEVERITY``.
    severity
        "error" where the run would go wrong, "warning" where it may be intended.
    message
        A sentence with its numbers.
    """

    id: str
    severity: str
    message: str


def check(
    rates: ArrayLike,
    batches: ArrayLike,
    settings: TrainerSettings,
    influence: ArrayLike | None = None,
) -> list[Finding]:
    """What would go wrong in a run with these rates, batch sizes and settings.

    Parameters
    ----------
    rates : (T,) array
        Step sizes of the run.
    batches : (T,) array
        Batch sizes.
    settings
        The trainer's settings.
    influence : (T,) array, optional
        Decides which stages matter; the squared rates by default.
    """
    gamma = checks.vector("rates", rates)
    sizes = checks.batches(batches, np.size(np.asarray(batches)))[0]
    if gamma.size != sizes.size:
        message = f"The rates have {gamma.size} steps and the batches {sizes.size}."
        return [_finding("schedule-lengths", message)]
    kappa = gamma**2 if influence is None else checks.vector("influence", influence)
    checks.same_length("influence", kappa.size, gamma.size, "steps")
    phases, clock = find_phases(gamma), TrainerClock(sizes, settings)
    return [
        *_length(sizes, settings),
        *_budget(sizes, settings),
        *_horizon(phases, clock, settings),
        *_bends(phases, clock),
        *_divisibility(sizes, settings),
        *_dataset(sizes, settings),
        *_short_stages(sizes, kappa, "squared rate" if influence is None else "influence"),
    ]


def _finding(id_: str, message: str) -> Finding:
    return Finding(id_, SEVERITY[id_], message)


def _length(sizes: IntArray, settings: TrainerSettings) -> Iterator[Finding]:
    if settings.train_steps is None or settings.train_steps == sizes.size:
        return
    planned = settings.train_samples or int(sizes.sum())
    cause = _constant_batch(planned, settings.train_steps, sizes)
    message = f"The trainer runs {settings.train_steps} steps, the schedule has {sizes.size}"
    yield _finding("length", f"{message}{cause}.")


def _budget(sizes: IntArray, settings: TrainerSettings) -> Iterator[Finding]:
    """Remaining tokens that do not fill a sample are ignored."""
    spent = int(sizes.sum())
    if settings.train_tokens is not None and settings.sequence_length is not None:
        length = settings.sequence_length
        left = settings.train_tokens - spent * length
        if not 0 <= left < length:
            yield _finding(
                "budget",
                f"The batches sum to {spent * length} tokens ({spent} samples of {length}), "
                f"the trainer is to use {settings.train_tokens}: {_difference(left)} tokens.",
            )
    elif settings.train_samples is not None and settings.train_samples != spent:
        left = settings.train_samples - spent
        yield _finding(
            "budget",
            f"The batches sum to {spent} samples, the trainer is to use "
            f"{settings.train_samples}: {_difference(left)} samples.",
        )


def _difference(left: int) -> str:
    return f"they leave {left}" if left > 0 else f"they lack {-left}"


def _horizon(phases: Phases, clock: TrainerClock, settings: TrainerSettings) -> Iterator[Finding]:
    """Where the trainer's warmup and decay fall with these batches, against the rates."""
    if settings.warmup is not None:
        end = clock.counted(settings.warmup)
        if message := _misplaced("warmup", "ends", clock, end, phases.warmup, phases.warmup):
            yield _finding("horizon-warmup", message)
    if not phases.decays or (settings.decay is None and settings.horizon is None):
        return
    length, end = phases.steps - phases.stable, clock.end()
    if settings.decay is not None:
        start = end - clock.counted(settings.decay)
        if message := _misplaced("decay", "starts", clock, start, phases.stable, length):
            yield _finding("horizon-decay-start", message)
    if message := _misplaced("decay", "ends", clock, end, phases.steps, length):
        yield _finding("horizon-decay-end", message)


def _misplaced(
    phase: str, verb: str, clock: TrainerClock, count: int, expected: int, length: int
) -> str:
    """A sentence where a phase starts or ends at another step than in the rates, else empty.

    One update of difference is allowed: some trainers read the rate before a step, some after.
    """
    step = clock.step(count)
    if abs(step - expected) <= max(1.0, SLACK * length):
        return ""
    when = f"{verb} at step {step}" if step <= clock.sizes.size else f"never {verb}"
    cause = _constant_batch(count, expected, clock.sizes) if clock.unit == "samples" else ""
    return (
        f"The {phase} {when}, by the rates at step {expected}: its setting amounts to "
        f"{clock.shown(count)}{cause}; with these batches it must be "
        f"{clock.shown(int(clock.reached[expected - 1]))}."
    )


def _constant_batch(samples: int, steps: int, sizes: IntArray) -> str:
    """A clause for a count of samples that is the count of steps times a constant batch."""
    known = {
        "first": float(sizes[0]),
        "last": float(sizes[-1]),
        "largest": float(sizes.max()),
        "mean": float(sizes.mean()),
    }
    for name, size in known.items():
        if abs(samples - steps * size) < max(size, 1.0):
            return f", {steps} steps as if all batches were the {name}, {size:g}"
    return ""


def _bends(phases: Phases, clock: TrainerClock) -> Iterator[Finding]:
    """A warmup or decay counted in samples while the batch changes in it."""
    if clock.unit == "steps":
        return
    for phase, first, last in (
        ("warmup", 0, phases.warmup),
        ("decay", phases.stable, phases.steps),
    ):
        if last - first < 2:
            continue
        inside = np.cumsum(clock.sizes[first:last])
        share = inside / inside[-1]
        even = np.arange(1, last - first + 1) / (last - first)
        worst = int(np.argmax(np.abs(share - even)))
        if abs(share[worst] - even[worst]) > BEND:
            yield _finding(
                f"bend-{phase}",
                f"The {phase} counts samples while the batch changes in it: at step "
                f"{first + worst + 1} it is {share[worst]:.0%} done instead of {even[worst]:.0%}.",
            )


def _divisibility(sizes: IntArray, settings: TrainerSettings) -> Iterator[Finding]:
    unit = settings.data_parallel * settings.micro_batch
    stages = stages_of(sizes)
    indivisible = [stage for stage in stages if stage[1] % unit]
    if indivisible:
        end, size = indivisible[0]
        yield _finding(
            "divisibility",
            f"{len(indivisible)} of {len(stages)} stages are no multiple of data_parallel x "
            f"micro_batch = {unit}; the first, up to step {end}, has batches of {size}.",
        )


def _dataset(sizes: IntArray, settings: TrainerSettings) -> Iterator[Finding]:
    if settings.dataset_samples is None or sizes.max() <= settings.dataset_samples:
        return
    first = int(np.argmax(sizes > settings.dataset_samples))
    yield _finding(
        "dataset",
        f"The batch of {sizes[first]} at step {first + 1} is larger than the dataset of "
        f"{settings.dataset_samples} samples.",
    )


def _short_stages(sizes: IntArray, kappa: FloatArray, weight: str) -> Iterator[Finding]:
    stages = stages_of(sizes)
    ends = np.array([end for end, _ in stages])
    starts = np.append(0, ends[:-1])
    share = np.add.reduceat(kappa, starts) / (kappa.sum() or 1.0)
    short = ((ends - starts) < SHORT * sizes.size) & (share < SHORT)
    if len(stages) < 2 or not short.any():
        return
    first = int(np.argmax(short))
    yield _finding(
        "short-stages",
        f"{short.sum()} of {len(stages)} stages are too short to matter, under {SHORT:.0%} of "
        f"the steps and of the {weight}; the first is steps {starts[first] + 1} to {ends[first]}, "
        f"{share[first]:.2%} of the {weight}.",
    )
