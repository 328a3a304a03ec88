"""Output files that are whole or absent: written under a temporary name, then renamed."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np


class Transaction:
    """Files of one result. They appear under their names together, when all are complete."""

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
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows({key: _plain(value) for key, value in row.items()} for row in rows)

    def json(self, name: str, value: Any) -> None:
        text = json.dumps(value, indent=2, default=_plain)
        self.path(name).write_text(text + "\n")


class OutputDirectory:
    """A directory that can be written to: checked at once, before the work is done."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path):
                pass
        except OSError as error:
            raise ValueError(
                f"output directory must be writable: {self.path}: {error.strerror}"
            ) from None

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with tempfile.TemporaryDirectory(dir=self.path, prefix=".writing-") as staging:
            files = Transaction(self.path, Path(staging))
            yield files
            for target in files.written:
                os.replace(Path(staging) / target.name, target)


def _plain(value: Any) -> Any:
    """NumPy scalars as Python numbers: full digits in CSV, numbers in JSON."""
    return value.item() if isinstance(value, np.generic) else value
