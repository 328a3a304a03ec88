"""The check before a run: do rates, batches and the trainer's settings fit together?"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.plans.plan import samples_of_budget, stages_of
from batchlaw.schedule.phases import Phases, find_phases

COUNTERS = ("steps", "samples", "tokens")
SLACK = 0.02  # of a phase: how far its ends may be off
SHORT = 0.01  # of the steps and of the influence: a stage below both is too short to matter
BEND = 0.01  # of a warmup or decay: how far counting samples may run from counting steps


@dataclass(frozen=True)
class Finding:
    """Something to mend: "error" before the run may start, "warning" where it may be meant."""

    severity: str
    message: str


@dataclass(frozen=True)
class Settings:
    """What the trainer is told; None is not checked.

    Parameters
    ----------
    train_steps, train_samples, train_tokens, sequence_length
        Length of the run, in any of the three, and the tokens of a sample.
    data_parallel, micro_batch
        Replicas, and the samples that a replica takes at once.
    dataset_samples
        Size of the dataset.
    counts
        What the trainer's learning-rate schedule counts: "steps", "samples" or "tokens".
    counted_batch
        The batch size by which the trainer multiplies its steps, to count samples: Megatron-LM
        trained by iterations does so with its global batch size. None: it counts true updates.
    warmup, decay, horizon
        Length of the warmup, length of the decay, and where the decay ends, as counted; the
        decay ends with the run by default.
    """

    train_steps: int | None = None
    train_samples: int | None = None
    train_tokens: int | None = None
    sequence_length: int | None = None
    data_parallel: int = 1
    micro_batch: int = 1
    dataset_samples: int | None = None
    counts: str = "steps"
    counted_batch: int | None = None
    warmup: int | None = None
    decay: int | None = None
    horizon: int | None = None

    def __post_init__(self) -> None:
        checks.choice("counts", self.counts, COUNTERS)
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name != "counts" and value is not None:
                low = 0 if each.name in ("warmup", "decay") else 1
                object.__setattr__(self, each.name, checks.count(each.name, value, minimum=low))
        if self.train_samples is not None and self.train_tokens is not None:
            samples_of_budget(self.train_samples, self.train_tokens, self.sequence_length)
        if self.sequence_length is None and (
            self.train_tokens is not None or self.counts == "tokens"
        ):
            raise ValueError("sequence_length must be given where tokens are counted")
        if self.counted_batch is not None and self.counts != "steps":
            raise ValueError(f"counted_batch belongs to counts = steps, got {self.counts}")


def check(
    rates: ArrayLike,
    batches: ArrayLike,
    settings: Settings,
    influence: ArrayLike | None = None,
) -> list[Finding]:
    """What would go wrong in a run with these rates, batch sizes and settings.

    ``influence`` (T,) judges which stages matter; without it the squared rates do.
    """
    gamma = checks.vector("rates", rates)
    sizes = checks.batches(batches, np.size(np.asarray(batches)))[0]
    if gamma.size != sizes.size:
        return [
            Finding(
                "error",
                f"The rates have {gamma.size} steps and the batches {sizes.size}.",
            )
        ]
    kappa = gamma**2 if influence is None else checks.vector("influence", influence)
    if kappa.size != gamma.size:
        raise ValueError(
            f"influence must have one entry for each of the {gamma.size} steps, got {kappa.size}"
        )
    return [
        *_length(sizes, settings),
        *_budget(sizes, settings),
        *_horizon(find_phases(gamma), sizes, settings),
        *_bends(find_phases(gamma), sizes, settings),
        *_divisibility(sizes, settings),
        *_dataset(sizes, settings),
        *_short_stages(sizes, kappa, "squared rate" if influence is None else "influence"),
    ]


def _length(sizes: IntArray, settings: Settings) -> list[Finding]:
    if settings.train_steps is None or settings.train_steps == sizes.size:
        return []
    planned = settings.train_samples or int(sizes.sum())
    cause = _constant_batch(planned, settings.train_steps, sizes)
    message = f"The trainer runs {settings.train_steps} steps, the schedule has {sizes.size}"
    return [Finding("error", f"{message}{cause}.")]


def _budget(sizes: IntArray, settings: Settings) -> list[Finding]:
    """Tokens that do not fill a sample are no finding."""
    spent = int(sizes.sum())
    if settings.train_tokens is not None and settings.sequence_length is not None:
        length = settings.sequence_length
        left = settings.train_tokens - spent * length
        if not 0 <= left < length:
            return [
                Finding(
                    "error",
                    f"The batches sum to {spent * length} tokens ({spent} samples of {length}), "
                    f"the trainer is to use {settings.train_tokens}: {_off(left)} tokens.",
                )
            ]
    elif settings.train_samples is not None and settings.train_samples != spent:
        left = settings.train_samples - spent
        return [
            Finding(
                "error",
                f"The batches sum to {spent} samples, the trainer is to use "
                f"{settings.train_samples}: {_off(left)} samples.",
            )
        ]
    return []


def _off(left: int) -> str:
    return f"they leave {left}" if left > 0 else f"they lack {-left}"


def _horizon(phases: Phases, sizes: IntArray, settings: Settings) -> list[Finding]:
    """Where the trainer's warmup and decay fall with these batches, against the rates."""
    clock = _Clock(sizes, settings)
    found = []
    if settings.warmup is not None:
        found += _end_of(
            "warmup", "ends", clock, clock.counted(settings.warmup), phases.warmup, phases.warmup
        )
    if settings.decay is not None and phases.decays:
        length = phases.steps - phases.stable
        end = clock.end(settings)
        start = end - clock.counted(settings.decay)
        found += _end_of("decay", "starts", clock, start, phases.stable, length)
        found += _end_of("decay", "ends", clock, end, phases.steps, length)
    elif settings.horizon is not None and phases.decays:
        length = phases.steps - phases.stable
        found += _end_of("decay", "ends", clock, clock.end(settings), phases.steps, length)
    return found


class _Clock:
    """The trainer's count after every step."""

    def __init__(self, sizes: IntArray, settings: Settings) -> None:
        in_steps = settings.counts == "steps" and settings.counted_batch is None
        self.unit = "steps" if in_steps else "samples"
        self.reached = np.arange(1, sizes.size + 1) if in_steps else np.cumsum(sizes)
        self.sizes = sizes
        self._settings = settings

    def counted(self, value: int) -> int:
        """A setting in the clock's unit."""
        if self._settings.counts == "tokens":
            return value // (self._settings.sequence_length or 1)
        return value * (self._settings.counted_batch or 1)

    def end(self, settings: Settings) -> int:
        """Where the decay ends: the given horizon, or the end of the run as the trainer sees it."""
        if settings.horizon is not None:
            return self.counted(settings.horizon)
        if settings.counts == "steps":
            return self.counted(settings.train_steps or self.sizes.size)
        if settings.train_samples is None and settings.train_tokens is None:
            return int(self.reached[-1])
        return samples_of_budget(
            settings.train_samples, settings.train_tokens, settings.sequence_length
        )

    def step(self, count: int) -> int:
        """The first step that reaches the count; past the end as if the run went on."""
        beyond = count - int(self.reached[-1])
        if beyond > 0:
            last = 1 if self.unit == "steps" else int(self.sizes[-1])
            return int(self.sizes.size - (-beyond // last))
        return int(np.searchsorted(self.reached, count)) + 1

    def shown(self, count: int) -> str:
        """A count in the unit of the settings."""
        if self._settings.counts == "tokens":
            return f"{count * (self._settings.sequence_length or 1)} tokens"
        batch = self._settings.counted_batch
        return f"{count} {self.unit}" + (f" ({count / batch:g} steps of {batch})" if batch else "")


def _end_of(
    phase: str, verb: str, clock: _Clock, count: int, expected: int, length: int
) -> list[Finding]:
    """A count may be an update off: some trainers read the rate before a step, some after."""
    step = clock.step(count)
    if abs(step - expected) <= max(1.0, SLACK * length):
        return []
    when = f"{verb} at step {step}" if step <= clock.sizes.size else f"never {verb}"
    cause = _constant_batch(count, expected, clock.sizes) if clock.unit == "samples" else ""
    return [
        Finding(
            "error",
            f"The {phase} {when}, by the rates at step {expected}: its setting amounts to "
            f"{clock.shown(count)}{cause}; with these batches it must be "
            f"{clock.shown(int(clock.reached[expected - 1]))}.",
        )
    ]


def _constant_batch(samples: int, steps: int, sizes: IntArray) -> str:
    """Says so where a count of samples and one of steps were tied by a constant batch."""
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


def _bends(phases: Phases, sizes: IntArray, settings: Settings) -> list[Finding]:
    """Samples are counted while the batch changes inside a warmup or a decay."""
    clock = _Clock(sizes, settings)
    if clock.unit == "steps":
        return []
    found = []
    for phase, first, last in (
        ("warmup", 0, phases.warmup),
        ("decay", phases.stable, phases.steps),
    ):
        if last - first < 2:
            continue
        inside = np.cumsum(sizes[first:last])
        share = inside / inside[-1]
        even = np.arange(1, last - first + 1) / (last - first)
        at = int(np.argmax(np.abs(share - even)))
        if abs(share[at] - even[at]) > BEND:
            found.append(
                Finding(
                    "warning",
                    f"The {phase} counts samples while the batch changes in it: at step "
                    f"{first + at + 1} it is {share[at]:.0%} done instead of {even[at]:.0%}.",
                )
            )
    return found


def _divisibility(sizes: IntArray, settings: Settings) -> list[Finding]:
    unit = settings.data_parallel * settings.micro_batch
    stages = stages_of(sizes)
    wrong = [stage for stage in stages if stage[1] % unit]
    if not wrong:
        return []
    (end, size) = wrong[0]
    return [
        Finding(
            "error",
            f"{len(wrong)} of {len(stages)} stages are no multiple of data_parallel x micro_batch "
            f"= {unit}; the first, up to step {end}, has batches of {size}.",
        )
    ]


def _dataset(sizes: IntArray, settings: Settings) -> list[Finding]:
    if settings.dataset_samples is None or sizes.max() <= settings.dataset_samples:
        return []
    at = int(np.argmax(sizes > settings.dataset_samples))
    return [
        Finding(
            "error",
            f"The batch of {sizes[at]} at step {at + 1} is larger than the dataset of "
            f"{settings.dataset_samples} samples.",
        )
    ]


def _short_stages(sizes: IntArray, kappa: FloatArray, weight: str) -> list[Finding]:
    stages = stages_of(sizes)
    ends = np.array([end for end, _ in stages])
    starts = np.append(0, ends[:-1])
    share = np.add.reduceat(kappa, starts) / (kappa.sum() or 1.0)
    short = ((ends - starts) < SHORT * sizes.size) & (share < SHORT)
    if len(stages) < 2 or not short.any():
        return []
    at = int(np.argmax(short))
    return [
        Finding(
            "warning",
            f"{short.sum()} of {len(stages)} stages are too short to matter, under {SHORT:.0%} of "
            f"the steps and of the {weight}; the first is steps {starts[at] + 1} to {ends[at]}, "
            f"{share[at]:.2%} of the {weight}.",
        )
    ]
