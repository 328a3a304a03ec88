"""Plan: a batch schedule with what it was made from and what it promises, and its JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.files import read_columns
from batchlaw._base.version import __version__

SCHEMA = 1
UNITS = ("samples", "tokens")


@dataclass(frozen=True)
class Constraints:
    """What every batch had to obey: bounds, a multiple, and at most so many stages."""

    min_batch: int = 1
    max_batch: int | None = None
    multiple_of: int = 1
    max_stages: int | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.default is not None or value is not None:
                object.__setattr__(self, each.name, checks.count(each.name, value))
        if self.max_batch is not None and self.min_batch > self.max_batch:
            raise ValueError(
                f"min_batch must be at most max_batch = {self.max_batch}, got {self.min_batch}"
            )


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
        What was to be spent, in ``unit``; the stages may spend less, never more.
    unit
        "samples" or "tokens".
    sequence_length
        Tokens of one sample; needed where the unit is tokens.
    constraints
        Bounds that the stages obey.
    prediction
        Numbers by name, such as the noise against the constant schedule and against the oracle.
    assumptions
        Sentences: what the prediction takes for granted.
    inputs
        How the rates and the spectrum were given; anything that JSON can hold.
    seed
        Of the random draws, where there were any.
    version
        Of the batchlaw that made the plan.
    """

    rates: FloatArray
    stages: tuple[tuple[int, int], ...]
    budget: int
    unit: str = "samples"
    sequence_length: int | None = None
    constraints: Constraints = Constraints()
    prediction: Mapping[str, float] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    inputs: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    version: str = __version__

    def __post_init__(self) -> None:
        rates = checks.vector("rates", self.rates).copy()
        rates.flags.writeable = False
        checked: dict[str, Any] = {
            "rates": rates,
            "stages": _check_stages(self.stages, rates.size, self.constraints),
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
            raise ValueError("sequence_length must be given for a budget in tokens")
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        self._check_budget()

    def _check_budget(self) -> None:
        checks.count("samples of all stages", self.samples)
        if self.sequence_length is not None:
            checks.count("tokens of all stages", self.samples * self.sequence_length)
        if self.spent > self.budget:
            raise ValueError(
                f"budget must cover the stages: they spend {self.spent} {self.unit}, "
                f"got {self.budget}"
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
        """Samples that the run consumes."""
        return self.samples_before(self.steps + 1)

    @property
    def spent(self) -> int:
        """The same in ``unit``."""
        return self.samples if self.unit == "samples" else self.tokens_before(self.steps + 1)

    def samples_before(self, step: int) -> int:
        """Samples consumed before ``step`` (from 1); ``steps + 1`` gives those of the run."""
        step = checks.count("step", step)
        if step > self.steps + 1:
            raise ValueError(f"step must be at most steps + 1 = {self.steps + 1}, got {step}")
        consumed, begin = 0, 0
        for end, size in self.stages:
            consumed += size * max(min(end, step - 1) - begin, 0)
            begin = end
        return consumed

    def tokens_before(self, step: int) -> int:
        """Tokens consumed before ``step``; needs ``sequence_length``."""
        if self.sequence_length is None:
            raise ValueError("sequence_length must be known to count tokens")
        return self.samples_before(step) * self.sequence_length

    def position(self, samples: int) -> tuple[int, int]:
        """The update to which the next sample belongs, and how many of its own are consumed.

        After ``samples`` of the run; (steps + 1, 0) at its end. Exact resume needs both.
        """
        left = checks.count("samples", samples, minimum=0)
        if left > self.samples:
            raise ValueError(f"samples must be at most the {self.samples} of the run, got {left}")
        begin = 0
        for end, size in self.stages:
            if left < (end - begin) * size:
                return begin + left // size + 1, left % size
            left -= (end - begin) * size
            begin = end
        return self.steps + 1, 0

    def stage_table(self) -> list[dict[str, int]]:
        """One row a stage: its first and last step, batch, and the samples before it."""
        rows, first, before = [], 1, 0
        for last, size in self.stages:
            rows.append({"first": first, "last": last, "batch": size, "before": before})
            before += (last + 1 - first) * size
            first = last + 1
        return rows

    def step_table(self) -> list[dict[str, Any]]:
        """One row a step: its rate, batch, and the samples before it."""
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
        document = {
            "schema": SCHEMA,
            "version": self.version,
            "steps": self.steps,
            "budget": self.budget,
            "unit": self.unit,
            "sequence_length": self.sequence_length,
            "stages": [list(stage) for stage in self.stages],
            "constraints": {each.name: getattr(self.constraints, each.name) for each in _LIMITS},
            "prediction": dict(self.prediction),
            "assumptions": list(self.assumptions),
            "inputs": dict(self.inputs),
            "seed": self.seed,
            "rates": self.rates.tolist(),
        }
        lines = (
            f"  {json.dumps(name)}: {json.dumps(value, allow_nan=False)}"
            for name, value in document.items()
        )
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """A plan from its JSON; a field that is unknown, missing or wrong is named."""
        document = _parse(text)
        _check_fields("plan", document, _TYPES)
        if document.pop("schema") != SCHEMA:
            raise ValueError(f"plan field schema must be {SCHEMA}, the version that is read here")
        _check_fields("constraints", document["constraints"], _CONSTRAINT_TYPES)
        steps = document.pop("steps")
        if steps != len(document["rates"]):
            raise ValueError(
                f"plan field steps must count the rates: {len(document['rates'])}, got {steps}"
            )
        for name, kind in (("rates", _NUMBER), ("assumptions", _TEXT)):
            _check_items(name, document[name], kind)
        for name, value in document["prediction"].items():
            _check_type(f"prediction {name}", value, _NUMBER)
        for stage in document["stages"]:
            if not (isinstance(stage, list) and len(stage) == 2):
                raise ValueError(f"plan field stages must hold pairs of numbers, got {stage!r}")
            _check_items("stages", stage, _WHOLE)
        document["stages"] = tuple(tuple(stage) for stage in document["stages"])
        document["constraints"] = Constraints(**document["constraints"])
        return cls(**document)

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
    """A budget in samples, from samples or tokens; whole samples of the tokens are taken."""
    if samples is None and tokens is None:
        raise ValueError("a budget in samples or in tokens must be given")
    if tokens is None:
        return checks.count("samples", samples)
    if sequence_length is None:
        raise ValueError("sequence_length must be given for a budget in tokens")
    length = checks.count("sequence_length", sequence_length)
    of_tokens = checks.count("tokens", tokens) // length
    if of_tokens < 1:
        raise ValueError(f"tokens must fill one sample of {length}, got {tokens}")
    if samples is not None and checks.count("samples", samples) != of_tokens:
        raise ValueError(
            f"budgets contradict each other: {tokens} tokens are {of_tokens} samples of "
            f"{length}, got {samples} samples"
        )
    return of_tokens


def read_schedule(path: Path, column: str) -> FloatArray:
    """One number a step from a CSV file; a column ``step``, if any, must be 1, 2, 3, ..."""
    columns = read_columns(path, needed=(column,), optional=("step",))
    lines = path.read_text().rstrip().splitlines()
    empty = [number for number, line in enumerate(lines, start=1) if not line.strip()]
    if empty:
        raise ValueError(f"{path} must have no gaps: line {empty[0]} is empty")
    if "step" in columns:
        expected = np.arange(1, columns["step"].size + 1)
        wrong = columns["step"] != expected
        if wrong.any():
            at = int(np.argmax(wrong))
            raise ValueError(
                f"{path} must have no gaps: step {expected[at]} is missing, "
                f"got {columns['step'][at]:g}"
            )
    return columns[column]


def _check_stages(
    stages: Sequence[tuple[int, int]], steps: int, constraints: Constraints
) -> tuple[tuple[int, int], ...]:
    pairs = tuple(
        (checks.count("stage end", end), checks.count("stage batch", size)) for end, size in stages
    )
    if not pairs:
        raise ValueError("stages must hold at least one stage, got none")
    before, last_size = 0, 0
    for end, size in pairs:
        if end <= before:
            raise ValueError(f"stages must end one after the other, got {end} after {before}")
        if size == last_size:
            raise ValueError(f"stages must differ from their neighbours, got {size} twice")
        _check_batch(size, constraints)
        before, last_size = end, size
    if before != steps:
        raise ValueError(f"stages must end at step {steps}, one step a rate, got {before}")
    if constraints.max_stages is not None and len(pairs) > constraints.max_stages:
        raise ValueError(
            f"stages must be at most max_stages = {constraints.max_stages}, got {len(pairs)}"
        )
    return pairs


def _check_batch(size: int, limits: Constraints) -> None:
    high = size if limits.max_batch is None else limits.max_batch
    if not limits.min_batch <= size <= high:
        raise ValueError(f"stages must obey min_batch and max_batch, got a batch of {size}")
    if size % limits.multiple_of:
        raise ValueError(
            f"stages must be multiples of multiple_of = {limits.multiple_of}, got a batch of {size}"
        )


def _json_only(inputs: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return dict(json.loads(json.dumps(dict(inputs), allow_nan=False)))
    except (TypeError, ValueError) as error:
        raise ValueError(f"inputs must be values that JSON can hold: {error}") from None


_LIMITS = fields(Constraints)
_WHOLE, _NUMBER, _TEXT = "a whole number", "a number", "text"
_OPTIONAL = "a whole number or null"
_KINDS: dict[str, tuple[type, ...]] = {
    _WHOLE: (int,),
    _NUMBER: (int, float),
    _TEXT: (str,),
    _OPTIONAL: (int, type(None)),
    "a list": (list,),
    "an object": (dict,),
}
_TYPES = {
    "schema": _WHOLE,
    "version": _TEXT,
    "steps": _WHOLE,
    "budget": _WHOLE,
    "unit": _TEXT,
    "sequence_length": _OPTIONAL,
    "stages": "a list",
    "constraints": "an object",
    "prediction": "an object",
    "assumptions": "a list",
    "inputs": "an object",
    "seed": _OPTIONAL,
    "rates": "a list",
}
_CONSTRAINT_TYPES = {
    "min_batch": _WHOLE,
    "max_batch": _OPTIONAL,
    "multiple_of": _WHOLE,
    "max_stages": _OPTIONAL,
}


def _parse(text: str) -> dict[str, Any]:
    def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"plan field {name} must be given once")
        return dict(pairs)

    def no_constants(name: str) -> float:
        raise ValueError(f"a plan must hold finite numbers, got {name}")

    if isinstance(text, os.PathLike) or str(text).endswith(".json"):
        raise ValueError(
            "a plan must be given as its JSON text, got a file name: "
            f"pass Path({os.fspath(text)!r}).read_text()"
        )
    try:
        document = json.loads(text, object_pairs_hook=no_duplicates, parse_constant=no_constants)
    except (json.JSONDecodeError, RecursionError, TypeError) as error:
        raise ValueError(f"a plan must be JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError(f"a plan must be a JSON object, got {type(document).__name__}")
    return document


def _check_fields(owner: str, document: dict[str, Any], types: dict[str, str]) -> None:
    for name in document:
        if name not in types:
            raise ValueError(f"{owner} field {name} is unknown")
    for name, kind in types.items():
        if name not in document:
            raise ValueError(f"{owner} field {name} is missing")
        _check_type(name, document[name], kind)


def _check_items(name: str, values: list[Any], kind: str) -> None:
    for value in values:
        _check_type(name, value, kind, "hold")


def _check_type(name: str, value: Any, kind: str, verb: str = "be") -> None:
    if isinstance(value, bool) or not isinstance(value, _KINDS[kind]):
        raise ValueError(f"plan field {name} must {verb} {kind}, got {value!r}")
