"""The file of a sweep: which parameters take which values, in a grid, random or Sobol design."""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw._base.words import CHOICE, COUNT, FLAG, PHASE_END, PHASE_ENDS, TEXT, Word
from batchlaw.design.vocabulary import FIELDS, SECTIONS
from batchlaw.evidence.sweep.cell import prepare

GRID, RANDOM, SOBOL = DESIGNS = ("grid", "random", "sobol")
# Raise it when the same file would mean other cells.
VERSION = 1
SCALES = ("linear", "log")
RANGE = ("from", "to", "count", "scale")
# Points drawn at a time, so that a million are never in memory.
BLOCK = 1024


@dataclass(frozen=True)
class Values:
    """A parameter that takes each of a list of values."""

    values: tuple[Any, ...]

    def at(self, share: float) -> Any:
        return self.values[min(int(share * len(self.values)), len(self.values) - 1)]


@dataclass(frozen=True)
class Range:
    """A parameter between two ends, drawn by a random or Sobol design."""

    low: float
    high: float
    scale: str
    whole: bool

    def at(self, share: float) -> Any:
        if self.scale == "log":
            value = self.low * (self.high / self.low) ** share
        else:
            value = self.low + (self.high - self.low) * share
        # Rounding may step over the end: 0.1 * (0.3 / 0.1) > 0.3.
        value = self.high if share == 1.0 else min(max(value, self.low), self.high)
        return round(value) if self.whole else value


Axis = Values | Range


@dataclass(frozen=True)
class Design:
    """The cells of a sweep, in order; ``text`` is the file they came from."""

    kind: str
    axes: dict[str, Axis]
    fixed: dict[str, Any]
    count: int
    seed: int
    text: str

    def __len__(self) -> int:
        return self.count

    @property
    def on_grid(self) -> bool:
        return self.kind == GRID

    def cells(self) -> Iterator[dict[str, Any]]:
        """The cells, one at a time; neighbours share their problem."""
        for values in self._points():
            yield {"sweep": VERSION, **self.fixed, **dict(zip(self.axes, values, strict=True))}

    def _points(self) -> Iterator[Sequence[Any]]:
        axes = list(self.axes.values())
        if self.kind == GRID:
            yield from itertools.product(*(axis.values for axis in axes))  # type: ignore[union-attr]
            return
        for shares in self._shares(len(axes)):
            yield [axis.at(share) for axis, share in zip(axes, shares.tolist(), strict=True)]

    def _shares(self, dimension: int) -> Iterator[FloatArray]:
        """Points of the unit cube."""
        if self.kind == SOBOL:
            draw = _sobol(dimension, self.seed)
        else:
            rng = np.random.default_rng(self.seed)
            draw = lambda n: rng.random((n, dimension))  # noqa: E731
        for start in range(0, self.count, BLOCK):
            # Always whole blocks: Sobol points are balanced in powers of two.
            yield from draw(BLOCK)[: self.count - start]


def read_design(path: Path) -> Design:
    """Parse and check a file. Nothing is computed, but one cell of every kind is prepared."""
    try:
        design = parse_design(path.read_text("utf-8"))
        _check_kinds(design)
    except OSError as error:
        raise InputError(
            "grid", "must be a readable file", hint=str(error.strerror), subject=str(path)
        ) from None
    except UnicodeDecodeError:
        raise InputError("grid", "must be a TOML file of text", subject=str(path)) from None
    except InputError as error:
        raise error.renamed(key_of).within(path) from None
    return design


def parse_design(text: str) -> Design:
    """A design from its text."""
    try:
        sections = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError("grid", "must be TOML", hint=str(error), subject="it") from None
    return _design(sections, text)


def key_of(field: str) -> str:
    """The key in a file that sets an argument of the library."""
    name = FIELDS.get(field, field)
    for section, words in SECTIONS.items():
        if name in (word.name for word in words()):
            return f"{section}.{'kind' if name == section else name}"
    return field


def _design(sections: dict[str, Any], text: str) -> Design:
    plan = _section(sections, "design", {"kind": str, "count": int, "seed": int})
    kind = checks.choice("design.kind", plan.get("kind", GRID), DESIGNS)
    given = {
        name: (section, value)
        for section in SECTIONS
        for name, value in _renamed(sections, section).items()
    }
    for section in sections:
        checks.choice("section", section, ("design", *SECTIONS))
    axes: dict[str, Axis] = {}
    fixed: dict[str, Any] = {}
    for name, (section, value) in given.items():
        label = f"{section}.{'kind' if name == section else name}"
        word = parameters(section)[name]
        if isinstance(value, list):
            if not value:
                raise InputError(label, "must have at least one value", "none")
            values = tuple(_value(label, item, word) for item in value)
            # Compared with their types: a warmup of 1 is one step, 1.0 is a share.
            if len({(type(item), item) for item in values}) < len(values):
                raise InputError(label, "must not have the same value twice")
            axes[name] = Values(values)
        elif isinstance(value, dict):
            axes[name] = _range(label, value, word, kind)
        else:
            fixed[name] = _value(label, value, word)
    if kind == GRID:
        for name in ("count", "seed"):
            if name in plan:
                raise InputError(
                    f"design.{name}", f"has no use for design.{name}", subject="a grid"
                )
        count = math.prod(len(axis.values) for axis in axes.values() if isinstance(axis, Values))
        return Design(kind, axes, fixed, count, 0, text)
    if not axes:
        raise InputError(
            "design.kind",
            "must have a list or a range to draw from",
            "none",
            subject=f"a {kind} design",
        )
    count = checks.count("design.count", plan.get("count"))
    seed = checks.count("design.seed", plan.get("seed", 0), minimum=0)
    return Design(kind, axes, fixed, count, seed, text)


def parameters(section: str) -> dict[str, Word]:
    """The words that a section may have, by name; a section's own name is its ``kind``."""
    return {word.name: word for word in SECTIONS[section]()}


def _section(sections: Mapping[str, Any], name: str, known: Mapping[str, Any]) -> dict[str, Any]:
    content = sections.get(name, {})
    if not isinstance(content, dict):
        raise InputError(f"[{name}]", "must be a section", repr(content))
    for key in content:
        if key not in known:
            raise InputError(f"{name}.{key}", f"is unknown; [{name}] may have {', '.join(known)}")
    return content


def _renamed(sections: Mapping[str, Any], section: str) -> dict[str, Any]:
    """The parameters of a section, by their names in a cell."""
    names = parameters(section)
    known = {"kind": str} | {name: hint for name, hint in names.items() if name != section}
    content = _section(sections, section, known)
    return {section if key == "kind" else key: value for key, value in content.items()}


def _value(label: str, value: Any, word: Word) -> Any:
    """One value, checked against the kind of its word."""
    if word.kind == FLAG:
        if not isinstance(value, bool):
            raise InputError(label, "must be true or false", repr(value))
        return value
    if word.kind in (TEXT, CHOICE, PHASE_ENDS):
        if not isinstance(value, str):
            raise InputError(label, "must be a text", repr(value))
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(label, "must be a number", repr(value))
    if word.kind == COUNT:
        return checks.count(label, value, minimum=0)
    if word.name == "m":
        return "inf" if value == math.inf else checks.count(label, value)
    number = checks.real(label, value, at_least=0.0)
    return value if word.kind == PHASE_END else number


def _range(label: str, given: dict[str, Any], word: Word, kind: str) -> Axis:
    """{from, to, count, scale}: ``count`` values for a grid, an interval for the other designs."""
    for key in given.keys() - set(RANGE):
        raise InputError(f"{label}.{key}", f"is unknown; a range may have {', '.join(RANGE)}")
    if not given.keys() >= {"from", "to"}:
        raise InputError(label, "must have from and to", repr(given))
    ends = [_value(label, given[key], word) for key in ("from", "to")]
    if any(isinstance(end, str | bool) for end in ends) or not ends[0] < ends[1]:
        raise InputError(label, "must have from < to, both numbers", repr(given))
    scale = checks.choice(f"{label}.scale", given.get("scale", "linear"), SCALES)
    if scale == "log" and ends[0] <= 0:
        raise InputError(label, "must be positive to have a log scale", repr(ends[0]))
    whole = all(isinstance(end, int) for end in ends)
    axis = Range(float(ends[0]), float(ends[1]), scale, whole)
    if kind != GRID:
        if "count" in given:
            raise InputError(
                f"{label}.count", f"is for grids; a {kind} design has one count for all"
            )
        return axis
    count = checks.count(f"{label}.count", given.get("count"), minimum=2)
    values = [axis.at(k / (count - 1)) for k in range(count)]
    return Values(tuple(dict.fromkeys(values)))


def _check_kinds(design: Design) -> None:
    """Prepare one small cell per combination of names, to find words that do not fit together."""
    names = [name for name, axis in design.axes.items() if _is_categorical(axis)]
    small = {name: _smallest(axis) for name, axis in design.axes.items() if name not in names}
    choices = (axis.values for name, axis in design.axes.items() if name in names)  # type: ignore[union-attr]
    for values in itertools.product(*choices):
        prepare({**design.fixed, **small, **dict(zip(names, values, strict=True))})


def _is_categorical(axis: Axis) -> bool:
    return isinstance(axis, Values) and any(
        isinstance(v, bool) or (isinstance(v, str) and v != "inf") for v in axis.values
    )


def _smallest(axis: Axis) -> Any:
    if isinstance(axis, Range):
        return axis.at(0.0)
    return min(axis.values, key=lambda value: math.inf if value == "inf" else value)


def _sobol(dimension: int, seed: int) -> Any:
    from scipy.stats import qmc

    return qmc.Sobol(dimension, scramble=True, rng=seed).random
