"""JSON lines: one object per line, with a step and whatever was measured there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from batchlaw.from_data.logs.table import Row, Table, cell, read_text, refusal


def read(path: Path) -> Table:
    """Every line; the last is left out where it breaks off."""
    text = read_text(path)
    lines = [(k, line) for k, line in enumerate(text.split("\n"), start=1) if line.strip()]
    rows: list[Row] = []
    truncated = 0
    for number, line in lines:
        try:
            value = parsed(line)
        except ValueError:
            if number < lines[-1][0] or text.endswith("\n"):
                needed = f"must have a JSON object in every line, line {number} is none"
                raise refusal(path, needed, repr(line.strip()[:40])) from None
            truncated = 1
            continue
        if not isinstance(value, dict):
            needed = f"must have a JSON object in every line, line {number} is none"
            raise refusal(path, needed, repr(line.strip()[:40]))
        rows.append(row(value))
    return Table(rows, truncated)


def parsed(text: str) -> Any:
    """A value in JSON; ``ValueError`` for every text that is none."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def row(values: Mapping[str, Any]) -> Row:
    """The numbers and texts of an object; lists, objects, null and true are left out."""
    cells = {name: _cell(value) for name, value in values.items()}
    return {name: value for name, value in cells.items() if value is not None}


def _cell(value: Any) -> float | str | None:
    if isinstance(value, str):
        return cell(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return "a number beyond floating point"
