"""Table: what a log says, in the order of its file, before any of it is judged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from batchlaw._base.errors import InputError

# A number, or a text that is none. A cell that is empty is not in its row.
Cell = float | str
Row = dict[str, Cell]


@dataclass(frozen=True)
class Table:
    """The rows of a log.

    Attributes
    ----------
    rows
        In the order of the file, which is the order of writing.
    truncated
        Last rows that were left out because they are incomplete, as a killed run leaves them.
    step
        The column of the steps, where the format says which it is.
    """

    rows: list[Row]
    truncated: int = 0
    step: str = ""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns, by their first appearance."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row if name))


def refusal(
    path: Path, needed: str, got: str = "", *, field: str = "path", hint: str = ""
) -> InputError:
    """The error of a log that cannot be used; it begins with the log's path."""
    return InputError(field, needed, got, hint, subject=str(path) if field == "path" else "")


def read_bytes(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise refusal(path, "must be a readable log", hint=str(error.strerror or error)) from None
    except ValueError as error:  # a path that no file can have
        raise refusal(path, "must be a readable log", hint=str(error)) from None
    if not content:
        raise refusal(path, "must not be empty")
    return content


def read_text(path: Path) -> str:
    """A text file in UTF-8, with or without a byte-order mark."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise refusal(path, "must be a log in text (UTF-8) or TensorBoard's event file")
    return text


def cell(text: str) -> Cell | None:
    """The number that a text stands for, else the text; None where it is empty."""
    text = text.strip()
    try:
        return float(text) if text else None
    except ValueError:
        return None if text in ("None", "null") else text
