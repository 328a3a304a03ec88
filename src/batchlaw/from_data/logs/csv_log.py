"""CSV: one row per logged step, under a header; commas, semicolons or tabs between the cells."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from batchlaw.from_data.logs.table import Row, Table, cell, read_text, refusal

_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")


def read(path: Path) -> Table:
    return read_renamed(path, list)


def read_renamed(path: Path, rename: Callable[[Sequence[str]], list[str]]) -> Table:
    """A CSV file under other names of its columns; a column named "" is left out."""
    text = read_text(path)
    header, lines, separator = _lines(path, text)
    names = rename(header)
    twice = [name for k, name in enumerate(names) if name and name in names[:k]]
    if twice:
        raise refusal(path, "must have one column of each name", f"two columns {twice[0]!r}")
    rows: list[Row] = []
    truncated = 0
    for number, cells in lines:
        if len(cells) > len(names):
            got = f"{len(cells)} cells in line {number} under a header of {len(names)}"
            raise refusal(path, "must have no more cells in a row than in its header", got)
        if len(cells) < len(names):
            if number != lines[-1][0] or text.endswith(("\n", "\r")):
                got = f"{len(cells)} cells in line {number} under a header of {len(names)}"
                raise refusal(path, "must have as many cells in every row as in its header", got)
            truncated = 1
            continue
        values = {
            name: cell(_decimal_point(content) if separator != "," else content)
            for name, content in zip(names, cells, strict=True)
            if name
        }
        rows.append({name: value for name, value in values.items() if value is not None})
    return Table(rows, truncated)


def header_of(text: str) -> list[str]:
    """The names in the first line that is not empty."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    try:
        return next(csv.reader([first], delimiter=_separator(first)), [])
    except csv.Error:
        return []


def _lines(path: Path, text: str) -> tuple[list[str], list[tuple[int, list[str]]], str]:
    """The header, the rows below it with the numbers of their lines, and the separator."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    separator = _separator(first)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        rows = [(lines.line_num, row) for row in lines if any(map(str.strip, row))]
    except csv.Error as error:
        raise refusal(path, "must be a CSV file", hint=str(error)) from None
    if not rows:
        raise refusal(path, "must have a header and rows", "empty lines alone")
    return [name.strip() for name in rows[0][1]], rows[1:], separator


def _separator(first: str) -> str:
    """What cuts the header into most cells; a comma where there is one cell alone."""
    return max(",;\t", key=lambda separator: len(next(csv.reader([first], delimiter=separator))))


def _decimal_point(text: str) -> str:
    """Where a semicolon or tab separates the cells, a comma may stand for the decimal point."""
    return text.replace(",", ".") if _DECIMAL_COMMA.fullmatch(text) else text
