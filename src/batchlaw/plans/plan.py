"""Plan: a batch schedule with its inputs and its predicted gain."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import InputError, arg
from batchlaw._base.version import __version__
from batchlaw.batches.limits import Limits
from batchlaw.plans.plan_json import read_plan, write_plan
from batchlaw.plans.verdict import Verdict

UNITS = ("samples", "tokens")
# The prediction of the noise that is left, relative to a constant batch's.
NOISE = "noise_against_constant"


@dataclass(frozen=True, eq=False)
class Plan:
    """A batch schedule in constant stages, checked for consistency.

    Parameters
    ----------
    rates : (T,) array
        Step sizes.
    stages
        (last step, batch size in samples) of every stage, in order; see ``stages_of``.
    budget
        Upper limit of what the stages spend, in ``unit``.
    unit
        "samples" or "tokens".
    sequence_length
        Tokens of one sample; needed where the unit is tokens.
    limits
        Bounds that the stages obey.
    prediction
        Numbers by name: the whole risk, the excess and the noise over those of a constant batch
        of the same sum, as far as they are known, and the noise over the square-root rule's.
    assumptions
        What the prediction assumes, in sentences.
    verdict
        What is recommended, what it is worth, and the evidence; None where nothing was judged.
    inputs
        How the rates and the spectrum were given; anything that JSON can hold.
    seed
        Seed of the random draws, if any.
    version
        Version of batchlaw that made the plan.
    """

    rates: FloatArray
    stages: tuple[tuple[int, int], ...]
    budget: int
    unit: str = "samples"
    sequence_length: int | None = None
    limits: Limits = field(default_factory=Limits)
    prediction: Mapping[str, float] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    verdict: Verdict | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    version: str = __version__

    def __post_init__(self) -> None:
        rates = checks.vector("rates", self.rates).copy()
        rates.flags.writeable = False
        checked: dict[str, Any] = {
            "rates": rates,
            "stages": _check_stages(self.stages, rates.size, self.limits),
            "budget": checks.count("budget", self.budget),
            "unit": checks.choice("unit", self.unit, UNITS),
            "prediction": {
                name: checks.real(f"prediction {name}", value)
                for name, value in self.prediction.items()
            },
            "assumptions": tuple(self.assumptions),
            "inputs": _json_only(self.inputs),
        }
        if self.seed is not None:
            checked["seed"] = checks.count("seed", self.seed, minimum=0)
        if self.sequence_length is not None:
            checked["sequence_length"] = checks.count("sequence_length", self.sequence_length)
        elif self.unit == "tokens":
            raise InputError("sequence_length", "must be given for a budget in tokens")
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        self._check_budget()

    def _check_budget(self) -> None:
        checks.count("samples of all stages", self.samples)
        if self.sequence_length is not None:
            checks.count("tokens of all stages", self.samples * self.sequence_length)
        if self.spent > self.budget:
            raise InputError(
                "budget",
                f"must cover the stages: they spend {self.spent} {self.unit}",
                f"{self.budget}",
            )

    @property
    def steps(self) -> int:
        """Updates T."""
        return int(self.rates.size)

    @property
    def batches(self) -> IntArray:
        """(T,) batch sizes in samples."""
        ends, sizes = np.array(self.stages, dtype=np.int64).T
        return np.repeat(sizes, np.diff(ends, prepend=0))

    @property
    def samples(self) -> int:
        """Samples consumed by the run."""
        return self.samples_before(self.steps + 1)

    @property
    def spent(self) -> int:
        """The same in ``unit``."""
        return self.samples if self.unit == "samples" else self.tokens_before(self.steps + 1)

    def samples_before(self, step: int) -> int:
        """Samples consumed before ``step`` (from 1); ``steps + 1`` gives those of the run."""
        step = checks.count("step", step)
        if step > self.steps + 1:
            raise InputError("step", f"must be at most steps + 1 = {self.steps + 1}", f"{step}")
        consumed, begin = 0, 0
        for end, size in self.stages:
            consumed += size * max(min(end, step - 1) - begin, 0)
            begin = end
        return consumed

    def tokens_before(self, step: int) -> int:
        """Tokens consumed before ``step``; needs ``sequence_length``."""
        if self.sequence_length is None:
            raise InputError("sequence_length", "must be known to count tokens")
        return self.samples_before(step) * self.sequence_length

    def position(self, samples: int) -> tuple[int, int]:
        """The update of the next sample, and how many samples of that update are consumed.

        After ``samples`` of the run; (steps + 1, 0) at its end. Exact resume needs both.
        """
        left = checks.count("samples", samples, minimum=0)
        if left > self.samples:
            raise InputError("samples", f"must be at most the {self.samples} of the run", f"{left}")
        begin = 0
        for end, size in self.stages:
            if left < (end - begin) * size:
                return begin + left // size + 1, left % size
            left -= (end - begin) * size
            begin = end
        return self.steps + 1, 0

    def excess_change(self, noise_share: float) -> float:
        """Relative change of the excess from a constant batch to this plan, for a share of noise.

        A plan made without the loss knows how much of the batch noise it removes, and not how
        much of the loss that noise is.

        Parameters
        ----------
        noise_share
            What batch noise is, with the constant batch, of the excess: the loss above the
            lowest that this model can reach.
        """
        share = checks.real("noise_share", noise_share, at_least=0.0, at_most=1.0)
        if NOISE not in self.prediction:
            raise InputError("prediction", f"must have {NOISE}, which this plan does not quote")
        return share * (self.prediction[NOISE] - 1.0)

    def stage_table(self) -> list[dict[str, int]]:
        """One row per stage: its first and last step, batch, and the samples before it."""
        rows, first, before = [], 1, 0
        for last, size in self.stages:
            rows.append({"first": first, "last": last, "batch": size, "before": before})
            before += (last + 1 - first) * size
            first = last + 1
        return rows

    def step_table(self) -> list[dict[str, Any]]:
        """One row per step: its rate, batch, and the samples before it."""
        batches = self.batches
        before = np.concatenate([[0], np.cumsum(batches)[:-1]])
        return [
            {"step": t, "rate": rate, "batch": batch, "samples_before": consumed}
            for t, (rate, batch, consumed) in enumerate(
                zip(self.rates, batches, before, strict=True), start=1
            )
        ]

    def to_json(self) -> str:
        """The plan as JSON. Floats keep every digit, so ``from_json`` gives the same plan."""
        return write_plan(
            {f.name: getattr(self, f.name) for f in fields(self)} | {"steps": self.steps}
        )

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """A plan from its JSON text; an error names the field that is unknown, missing or wrong."""
        return cls(**read_plan(text))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())


def stages_of(batches: ArrayLike) -> tuple[tuple[int, int], ...]:
    """(last step, batch) of the longest constant stretches of a (T,) schedule."""
    sizes = checks.batches(batches, np.size(np.asarray(batches)))[0]
    ends = np.append(np.flatnonzero(np.diff(sizes)) + 1, sizes.size)
    return tuple((int(end), int(sizes[end - 1])) for end in ends)


def samples_of_budget(
    samples: int | None = None, tokens: int | None = None, sequence_length: int | None = None
) -> int:
    """A budget in samples, from samples or tokens; tokens are rounded down to whole samples."""
    if samples is None and tokens is None:
        raise InputError("budget", "must be given, in samples or in tokens")
    if tokens is None:
        return checks.count("samples", samples)
    if sequence_length is None:
        raise InputError("sequence_length", "must be given for a budget in tokens")
    length = checks.count("sequence_length", sequence_length)
    of_tokens = checks.count("tokens", tokens) // length
    if of_tokens < 1:
        raise InputError("tokens", f"must fill one sample of {length}", f"{tokens}")
    if samples is not None and checks.count("samples", samples) != of_tokens:
        raise InputError(
            "samples",
            f"must agree with the {tokens} tokens, {of_tokens} samples of {length}",
            f"{samples}",
        )
    return of_tokens


def _check_stages(
    stages: Sequence[tuple[int, int]], steps: int, limits: Limits
) -> tuple[tuple[int, int], ...]:
    pairs = tuple(
        (checks.count("stage end", end), checks.count("stage batch", size)) for end, size in stages
    )
    if not pairs:
        raise InputError("stages", "must hold at least one stage", "none")
    before, last_size = 0, 0
    for end, size in pairs:
        if end <= before:
            raise InputError("stages", "must end one after the other", f"{end} after {before}")
        if size == last_size:
            raise InputError("stages", "must differ from their neighbours", f"{size} twice")
        _check_batch(size, limits)
        before, last_size = end, size
    if before != steps:
        raise InputError("stages", f"must end at step {steps}, one step per rate", f"{before}")
    if limits.stages is not None and len(pairs) > limits.stages:
        raise InputError("stages", f"must be at most {limits.stages}", f"{len(pairs)}")
    return pairs


def _check_batch(size: int, limits: Limits) -> None:
    high = size if limits.max_batch is None else limits.max_batch
    if not limits.min_batch <= size <= high:
        raise InputError(
            "stages",
            f"must obey {arg('min_batch')} and {arg('max_batch')}",
            f"a batch of {size}",
        )
    if size % limits.multiple_of:
        raise InputError(
            "stages",
            f"must be multiples of {arg('multiple_of')} = {limits.multiple_of}",
            f"a batch of {size}",
        )


def _json_only(inputs: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return dict(json.loads(json.dumps(dict(inputs), allow_nan=False)))
    except (TypeError, ValueError) as error:
        raise InputError("inputs", "must be values that JSON can hold", hint=str(error)) from None
