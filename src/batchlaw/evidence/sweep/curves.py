"""Results of a sweep as lines to draw: one column against another, grouped by the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from batchlaw._base import checks
from batchlaw._base.errors import InputError, arg
from batchlaw.evidence.sweep.design import Design
from batchlaw.evidence.sweep.tidy import STATUS, records, unit
from batchlaw.jobs.store import DONE, Store

# More lines than these can't be told apart, and more colours neither.
MOST, COLOURS = 500, 48


@dataclass(frozen=True)
class Line:
    """Points in the order of x; ``errors`` are standard errors, or empty.

    ``label`` is the value of what lines are coloured by, ``rest`` says the other parameters.
    """

    label: str
    rest: str
    x: list[float]
    y: list[float]
    errors: list[float]


@dataclass(frozen=True)
class Curves:
    """Lines with the names of their axes; points alone where they are not ``joined``.

    ``where`` says which cells they are of, if not of all.
    """

    x: str
    y: str
    by: str | None
    where: str
    lines: list[Line]
    joined: bool


def curves(
    store: Store,
    design: Design,
    x: str,
    y: str,
    by: str | None,
    where: Mapping[str, str] | None = None,
) -> Curves:
    """The done cells of a design, a line for each combination of what is not on the axes.

    ``where`` keeps the cells with these values, written as in a legend or in full.
    """
    found = [row for row in records(store, design.cells()) if row[STATUS] == DONE]
    if not found:
        raise InputError(
            "store", "is nothing to draw", hint="no cell has a result", subject="there"
        )
    names = tuple(dict.fromkeys(name for row in found for name in row))
    for label, name in (("x", x), ("y", y), ("by", by)):
        if name is not None:
            checks.choice(label, name, names)
    for name, text in (where or {}).items():
        checks.choice("where", name, names)
        found = _kept(found, name, text)
    numbers = [row for row in found if _number(row.get(x)) and _number(row.get(y))]
    if not numbers:
        raise InputError("x", "must be numbers in the same cells", subject=f"{x} and {y}")
    # Of a random design, or against a result, no two points share the other parameters.
    joined = design.on_grid and x in design.axes
    others = [name for name in design.axes if name not in (x, by)] if joined else []
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in numbers:
        group = (row.get(by) if by else "", *(row.get(name) for name in others))
        groups.setdefault(group, []).append(row)
    if len(groups) > MOST:
        raise InputError(
            "by", f"can be drawn, this would be {len(groups)}", subject=f"at most {MOST} lines"
        )
    colours = len({group[0] for group in groups})
    if colours > COLOURS:
        raise InputError("by", f"must have at most {COLOURS} values, {by} has {colours}")
    told = [name for name in others if len({row.get(name) for row in numbers}) > 1]
    lines = [
        _line(_said(group[0]), _together((name, rows[0].get(name)) for name in told), rows, x, y)
        for group, rows in groups.items()
    ]
    return Curves(_title(x), _title(y), by, _together((where or {}).items()), lines, joined)


def _kept(rows: list[dict[str, Any]], name: str, text: str) -> list[dict[str, Any]]:
    """The rows with a value of a column."""
    kept = [row for row in rows if _is(row.get(name), text)]
    if not kept:
        there = ", ".join(dict.fromkeys(_said(row.get(name)) for row in rows))
        raise InputError(
            "where", f"must be one of {there}", repr(text), subject=f"{arg('where')} {name}"
        )
    return kept


def _is(value: Any, text: str) -> bool:
    if text in (str(value), _said(value)):
        return True
    try:
        return _number(value) and float(text) == value
    except ValueError:
        return False


def _together(pairs: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {_said(value)}" for name, value in pairs)


def _line(label: str, rest: str, rows: list[dict[str, Any]], x: str, y: str) -> Line:
    rows = sorted(rows, key=lambda row: row[x])
    errors = [row[f"{y}_se"] for row in rows if f"{y}_se" in row]
    return Line(
        label,
        rest,
        [float(row[x]) for row in rows],
        [float(row[y]) for row in rows],
        errors if len(errors) == len(rows) else [],
    )


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _said(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _title(name: str) -> str:
    said = name.replace("_", " ")
    return f"{said} ({unit(name)})" if unit(name) else said
