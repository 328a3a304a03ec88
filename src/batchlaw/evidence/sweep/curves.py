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

# More lines, or more colours, could not be told apart.
MAX_LINES, MAX_COLOURS = 500, 48


@dataclass(frozen=True)
class Line:
    """Points in the order of x; ``errors`` are standard errors, or empty.

    ``label`` is the value that the line is coloured by, ``rest`` describes the other parameters.
    """

    label: str
    rest: str
    x: list[float]
    y: list[float]
    errors: list[float]


@dataclass(frozen=True)
class Curves:
    """Lines with the names of their axes; separate points unless ``joined``.

    ``where`` describes the selected cells; empty if all are drawn.
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
    """The done cells of a design, one line per combination of the parameters not on the axes.

    ``where`` selects the cells with these values, written as in the legend or in full.
    """
    done = [row for row in records(store, design.cells()) if row[STATUS] == DONE]
    if not done:
        raise InputError(
            "store", "is nothing to draw", hint="no cell has a result", subject="there"
        )
    names = tuple(dict.fromkeys(name for row in done for name in row))
    for label, name in (("x", x), ("y", y), ("by", by)):
        if name is not None:
            checks.choice(label, name, names)
    for name, text in (where or {}).items():
        checks.choice("where", name, names)
        done = _selected(done, name, text)
    numbers = [row for row in done if _is_number(row.get(x)) and _is_number(row.get(y))]
    if not numbers:
        raise InputError("x", "must be numbers in the same cells", subject=f"{x} and {y}")
    # In a random design, or against a result, no two points share the other parameters.
    joined = design.on_grid and x in design.axes
    others = [name for name in design.axes if name not in (x, by)] if joined else []
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in numbers:
        group = (row.get(by) if by else "", *(row.get(name) for name in others))
        groups.setdefault(group, []).append(row)
    if len(groups) > MAX_LINES:
        raise InputError(
            "by", f"can be drawn, this would be {len(groups)}", subject=f"at most {MAX_LINES} lines"
        )
    colours = len({group[0] for group in groups})
    if colours > MAX_COLOURS:
        raise InputError("by", f"must have at most {MAX_COLOURS} values, {by} has {colours}")
    varying = [name for name in others if len({row.get(name) for row in numbers}) > 1]
    lines = [
        _line(
            _text(group[0]), _described((name, rows[0].get(name)) for name in varying), rows, x, y
        )
        for group, rows in groups.items()
    ]
    return Curves(_title(x), _title(y), by, _described((where or {}).items()), lines, joined)


def _selected(rows: list[dict[str, Any]], name: str, text: str) -> list[dict[str, Any]]:
    """The rows whose column ``name`` has the value written as ``text``."""
    selected = [row for row in rows if _matches(row.get(name), text)]
    if not selected:
        values = ", ".join(dict.fromkeys(_text(row.get(name)) for row in rows))
        raise InputError(
            "where", f"must be one of {values}", repr(text), subject=f"{arg('where')} {name}"
        )
    return selected


def _matches(value: Any, text: str) -> bool:
    if text in (str(value), _text(value)):
        return True
    try:
        return _is_number(value) and float(text) == value
    except ValueError:
        return False


def _described(pairs: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {_text(value)}" for name, value in pairs)


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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _title(name: str) -> str:
    words = name.replace("_", " ")
    return f"{words} ({unit(name)})" if unit(name) else words
