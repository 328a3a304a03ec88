"""The formats of logs: how each is recognised, and what reads it.

To add one, write a file with ``read(path) -> Table`` and give it a place in ``FORMATS``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from batchlaw._base import checks
from batchlaw.from_data.logs import csv_log, json_lines, tensorboard, trainer_state, wandb
from batchlaw.from_data.logs.table import Table, read_bytes, refusal

# How much of a file is looked at to recognise its format.
_HEAD = 65536


@dataclass(frozen=True)
class Format:
    """A format: its name, whether a path with this content has it, and its reader."""

    name: str
    recognised: Callable[[Path, bytes], bool]
    read: Callable[[Path], Table]


def _text(content: bytes) -> str:
    return content.decode("utf-8-sig", errors="replace").lstrip()


# The first that recognises a file reads it; CSV is what is left.
FORMATS: dict[str, Format] = {
    known.name: known
    for known in (
        Format(
            "tensorboard",
            lambda path, content: (
                os.path.isdir(path)
                or tensorboard.MARK in path.name
                or tensorboard.is_event_file(content)
            ),
            tensorboard.read,
        ),
        Format(
            "trainer-state",
            lambda path, content: (
                path.name == trainer_state.NAME
                or (
                    _text(content).startswith("{")
                    and f'"{trainer_state.HISTORY}"' in _text(content)
                )
            ),
            trainer_state.read,
        ),
        Format(
            "jsonl",
            lambda path, content: (
                path.suffix in (".jsonl", ".ndjson", ".json")
                or _text(content).startswith(("{", "["))
            ),
            json_lines.read,
        ),
        Format(
            "wandb",
            lambda path, content: wandb.recognised(csv_log.header_of(_text(content))),
            wandb.read,
        ),
        Format("csv", lambda path, content: True, csv_log.read),
    )
}


def read_table(path: Path, name: str | None = None) -> tuple[str, Table]:
    """The name of a log's format, recognised unless it is given, and the rows of the log."""
    if name is None:
        content = b"" if os.path.isdir(path) else read_bytes(path)[:_HEAD]
        name = next(known.name for known in FORMATS.values() if known.recognised(path, content))
    found = FORMATS[checks.choice("format", name, FORMATS)]
    table = found.read(path)
    if not table.rows:
        raise refusal(path, f"must have rows, as a log of format {found.name}", "none")
    return found.name, table
