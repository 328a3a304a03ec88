"""Files: columns read with clear errors; output that is complete or absent, never partial."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError


def read_columns(
    path: Path, needed: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, FloatArray]:
    """Read columns of numbers from a CSV file; a header is optional if there is one column."""
    try:
        with path.open(newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except OSError as error:
        raise InputError(
            "path", "must be a readable CSV file", hint=str(error.strerror), subject=str(path)
        ) from None
    except (UnicodeDecodeError, csv.Error):
        raise InputError("path", "must be a CSV file of text", subject=str(path)) from None
    if not rows:
        raise InputError("path", "must have at least one row", "none", subject=str(path))
    header, first = [name.strip() for name in rows[0]], 1
    if len(needed) == 1 and len(header) == 1 and is_number(header[0]):
        header, first = list(needed), 0
    missing = [name for name in needed if name not in header]
    if missing:
        got = ", ".join(header)
        raise InputError("path", f"must have a column {missing[0]}", got, subject=str(path))
    names = [name for name in (*needed, *optional) if name in header]
    columns: dict[str, list[float]] = {name: [] for name in names}
    for number, row in enumerate(rows[first:], start=first + 1):
        cells = dict(zip(header, row, strict=False))
        for name in names:
            if not is_number(cells.get(name, "")):
                raise InputError(
                    "path",
                    f"must have a number in column {name}, row {number}",
                    repr(cells.get(name, "")),
                    subject=str(path),
                )
            columns[name].append(float(cells[name]))
    return {name: np.array(values) for name, values in columns.items()}


def read_schedule(path: Path, column: str) -> FloatArray:
    """Read one number per step from a CSV file; a column ``step``, if any, must be 1, 2, 3, ..."""
    columns = read_columns(path, needed=(column,), optional=("step",))
    lines = path.read_text().rstrip().splitlines()
    empty = [number for number, line in enumerate(lines, start=1) if not line.strip()]
    if empty:
        raise InputError("path", f"must have no gaps: line {empty[0]} is empty", subject=str(path))
    if "step" in columns:
        expected = np.arange(1, columns["step"].size + 1)
        wrong = columns["step"] != expected
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(
                "path",
                f"must have no gaps: step {expected[row]} is missing",
                f"{columns['step'][row]:g}",
                subject=str(path),
            )
    return columns[column]


def write_csv(file: TextIO, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows with the same keys under a header."""
    writer = csv.DictWriter(file, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _plain(value) for key, value in row.items()} for row in rows)


def is_number(text: str) -> bool:
    """Whether the text can be read as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


class Transaction:
    """The files of one result, which appear under their names together once all are complete."""

    def __init__(self, directory: Path, staging: Path) -> None:
        self._directory = directory
        self._staging = staging
        self.written: list[Path] = []

    def path(self, name: str) -> Path:
        """Where to write the file that will be called ``name``."""
        self.written.append(self._directory / name)
        return self._staging / name

    def csv(self, name: str, rows: Sequence[dict[str, Any]]) -> None:
        with self.path(name).open("w", newline="") as file:
            write_csv(file, rows)

    def json(self, name: str, value: Any) -> None:
        text = json.dumps(value, indent=2, default=_plain, allow_nan=False)
        self.path(name).write_text(text + "\n")


class OutputDirectory:
    """A directory that can be written to, checked before the work starts."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        candidates = (self.path, *self.path.absolute().parents)
        nearest_existing = next(path for path in candidates if path.exists())
        try:
            with tempfile.TemporaryFile(dir=nearest_existing):
                pass
        except OSError as error:
            raise InputError(
                "output_dir",
                "must be writable",
                hint=f"{self.path}: {error.strerror}",
                subject="output directory",
            ) from None

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        self.path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.path, prefix=".writing-") as staging:
            files = Transaction(self.path, Path(staging))
            yield files
            for target in files.written:
                if target.is_dir():
                    raise InputError(
                        "output_dir",
                        "must be a file or absent, but is a directory",
                        subject=str(target),
                    )
            for target in files.written:
                os.replace(Path(staging) / target.name, target)


def _plain(value: Any) -> Any:
    """NumPy scalars as Python numbers: full digits in CSV, numbers in JSON."""
    return value.item() if isinstance(value, np.generic) else value
