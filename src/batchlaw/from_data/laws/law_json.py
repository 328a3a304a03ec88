"""A law from its JSON: every part is checked, because files are edited, cut and mixed up."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.from_data.laws.bands import Misfit
from batchlaw.from_data.laws.curves import Scale
from batchlaw.from_data.laws.least_squares import Fit
from batchlaw.from_data.laws.member import TERMS, Member
from batchlaw.from_data.logs.cleaning import MOST_UPDATES
from batchlaw.schedule.update_rule import RULES, UpdateRule

SCHEMA = 1
# Numbers beyond this are not those of a fit, and their squares overflow.
LARGEST = 1e60
# Rounding that a coordinate at its bound may have.
ROUNDING = 1e-9


class Parts(NamedTuple):
    """What a law is made of; ``seen`` by the names of its fields."""

    fit: Fit
    covariance: FloatArray
    misfit: Misfit
    seen: dict[str, Any]
    held_out: dict[str, float]
    unidentified: tuple[str, ...]


def parts(text: str, seen: Mapping[str, type]) -> Parts:
    """The parts of a law; ``seen`` has the fields of what the runs have shown, and their types."""
    try:
        return _parts(_parsed(text), seen)
    except InputError as error:
        if error.field == "law":
            raise
        raise _refusal(str(error)) from None  # of the rule's options


def _parsed(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise _refusal(str(error)) from None
    if not isinstance(document, dict) or "schema" not in document:
        raise _refusal("it has no schema")
    if document["schema"] != SCHEMA or isinstance(document["schema"], bool):
        needed = f"must be of schema {SCHEMA}, which is read here"
        raise InputError("law", needed, repr(document["schema"])[:20])
    return document


def _parts(d: dict[str, Any], seen: Mapping[str, type]) -> Parts:
    scale = _table(d, "scale")
    member = Member(
        _rule(_table(d, "rule")),
        Scale(
            _number(scale, "peak", above=0.0),
            _number(scale, "batch", above=0.0),
            _count(scale, "span"),
            _count(scale, "steps"),
        ),
        **_flags(_table(d, "member")),
    )
    coordinates = _vector(d, "coordinates", len(member.shape))
    low = np.array([p.inner(p.low) for p in member.shape]) - ROUNDING
    high = np.array([p.inner(p.high) for p in member.shape]) + ROUNDING
    if not ((low <= coordinates) & (coordinates <= high)).all():
        raise _refusal("coordinates are out of their bounds")
    factors = _vector(d, "factors", len(TERMS))
    if (factors < 0.0).any():
        raise _refusal("factors must not be negative")
    return Parts(
        Fit(member, coordinates, factors, _number(d, "cost", at_least=0.0)),
        _covariance(d, coordinates.size + factors.size),
        _misfit(_table(d, "misfit")),
        _seen(_table(d, "seen"), seen),
        _held_out(_table(d, "held_out"), member.name),
        _texts(d, "unidentified"),
    )


def _rule(table: dict[str, Any]) -> UpdateRule:
    name, options = table.get("name"), _table(table, "options")
    if not isinstance(name, str) or name not in RULES:
        raise _refusal(f"the rule must be one of {', '.join(RULES)}")
    try:
        return RULES[name](**options)
    except (TypeError, ValueError, OverflowError) as error:
        raise _refusal(f"the rule's options: {error}") from None


def _flags(table: dict[str, Any]) -> dict[str, bool]:
    names = {field.name for field in fields(Member)} - {"rule", "scale"}
    if set(table) != names or not all(isinstance(value, bool) for value in table.values()):
        raise _refusal(f"member must have {', '.join(sorted(names))}, each true or false")
    return table


def _covariance(d: dict[str, Any], size: int) -> FloatArray:
    rows = d.get("covariance")
    if not isinstance(rows, list) or len(rows) != size:
        raise _refusal(f"covariance must have {size} rows")
    matrix = np.array([_vector({"covariance": row}, "covariance", size) for row in rows])
    largest = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    if (np.diag(matrix) < 0.0).any() or not np.allclose(
        matrix, matrix.T, rtol=1e-9, atol=1e-9 * float(largest.max()) ** 2
    ):
        raise _refusal("covariance must be symmetric, with a diagonal that is not negative")
    return matrix


def _misfit(table: dict[str, Any]) -> Misfit:
    count = len(table["length"]) if isinstance(table.get("length"), list) else 0
    columns = {name: _vector(table, name, count) for name in _MISFIT}
    if not (columns["length"] > 0.0).all() or not (columns["peak"] > 0.0).all():
        raise _refusal("misfit must have lengths and peaks above 0")
    return Misfit(**columns, seeds=_number(table, "seeds", at_least=0.0))


_MISFIT = ("length", "peak", "fitted", "held_out")


def _seen(table: dict[str, Any], kinds: Mapping[str, type]) -> dict[str, Any]:
    return {
        name: _count(table, name) if kind is int else _number(table, name, above=0.0)
        for name, kind in kinds.items()
    }


def _held_out(table: dict[str, Any], chosen: str) -> dict[str, float]:
    if chosen not in table:
        raise _refusal(f"held_out must have the error of {chosen}")
    return {name: _number(table, name, at_least=0.0) for name in table}


def _texts(d: dict[str, Any], name: str) -> tuple[str, ...]:
    values = d.get(name)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise _refusal(f"{name} must be a list of texts")
    return tuple(values)


def _table(d: dict[str, Any], name: str) -> dict[str, Any]:
    if not isinstance(d.get(name), dict):
        raise _refusal(f"{name} is missing")
    value: dict[str, Any] = d[name]
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST


def _number(
    d: dict[str, Any], name: str, *, above: float = -math.inf, at_least: float = -math.inf
) -> float:
    value = d.get(name)
    if not _is_number(value):
        raise _refusal(f"{name} must be a number")
    number = float(d[name])
    if not (number > above and number >= at_least):
        raise _refusal(f"{name} is too small: {number:g}")
    return number


def _count(d: dict[str, Any], name: str) -> int:
    value = d.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_UPDATES:
        raise _refusal(f"{name} must be a whole number from 1 to {MOST_UPDATES}")
    return value


def _vector(d: dict[str, Any], name: str, size: int) -> FloatArray:
    values = d.get(name)
    if not isinstance(values, list) or len(values) != size or not size:
        raise _refusal(f"{name} must be a list of {size or 'some'} numbers")
    if not all(map(_is_number, values)):
        raise _refusal(f"{name} must be numbers")
    return np.array(values, dtype=np.float64)


def _refusal(why: str) -> InputError:
    return InputError("law", "must be the JSON of a law that was fitted", hint=why[:160])
