"""A finished block of the benchmark as compressed CSV (``datasets.layout``)."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from batchlaw._base.files import OutputDirectory, Transaction
from batchlaw.datasets import layout
from batchlaw.evidence.study.blocks import Block, Scheduled, block_cells, scheduled
from batchlaw.evidence.study.cells import needs_pilot, pilot_cells, usable_pilot
from batchlaw.evidence.study.curve import columns_of
from batchlaw.evidence.study.data import LONG_TRAINING_TEXT, VALIDATION_TEXT
from batchlaw.evidence.study.groups import Group
from batchlaw.evidence.study.models import data_of, training_task
from batchlaw.evidence.study.schedules import OPTIMIZERS
from batchlaw.jobs.store import DONE, FAILED, Store
from batchlaw.schedule.adam import Adam
from batchlaw.schedule.observation import CURVE
from batchlaw.schedule.update_rule import SGD

Row = Mapping[str, object]
# Digits of losses after the point; significant digits of the gradient's moments and of rates.
LOSS_FORMAT, MOMENT_FORMAT, RATE_FORMAT = "{:.6f}", "{:.5g}", "{:.9g}"


def unfinished(block: Block, store: Store) -> str:
    """Why a block can't be published, in one line; empty if it can.

    Pilots count too: without one, the schedules of its group are not even known.
    """
    cells = [*pilot_cells(list(block.groups)), *block_cells(block, store)]
    missing = sum(1 for _ in store.missing(cells, retry=(FAILED,)))
    if missing:
        return f"{missing} runs are missing or failed; the same command tries them again"
    unplanned = [
        group.name
        for group in block.groups
        if needs_pilot(group) and usable_pilot(group, group.peaks[0], store) is None
    ]
    return f"every pilot diverged of {'; '.join(unplanned)}" if unplanned else ""


def publish(
    block: Block, store: Store, folder: Path, facts: Mapping[str, Any], asked: Block
) -> list[Path]:
    """Write the tables, facts and checksums of a block whose runs are all stored.

    ``asked`` is the block before it was trimmed to the hours there were.
    """
    assert not unfinished(block, store)
    tables = _Tables(store)
    for one in scheduled(block, store):
        tables.add(one)
    with OutputDirectory(folder).transaction() as files:
        for name in layout.TABLES:
            _compressed(files, name, *tables.of(name, block))
        files.json(layout.FACTS, _facts(block, asked, tables, facts))
        staging = files.path(layout.CHECKSUMS).parent
        (staging / layout.CHECKSUMS).write_text(layout.checksums(staging))
    return files.written


class _Tables:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.runs: list[Row] = []
        self.curves: list[Row] = []
        self.seconds = 0.0
        self.rates, self.batches = _Sequences(), _Sequences()

    def add(self, one: Scheduled) -> None:
        """All seeds of a schedule."""
        rates_id = self.rates.number(one.schedule.rates)
        batches_id = self.batches.number(one.schedule.batches)
        shared = _shared(one) | {"rates_id": rates_id, "batches_id": batches_id}
        for seed, cell in one.cells():
            row = self.store.get(cell)
            assert row is not None
            self.seconds += row.seconds
            number = len(self.runs) + 1
            status = layout.DONE if row.status == DONE else layout.DIVERGED
            final = {
                name: LOSS_FORMAT.format(row.result[name]) if row.status == DONE else ""
                for name in ("validation", "training")
            }
            self.runs.append({"run": number} | shared | {"seed": seed, "status": status} | final)
            if row.status == DONE:
                self.curves += _curve_rows(number, columns_of(row.result))

    def of(self, name: str, block: Block) -> tuple[Sequence[str], Iterable[Row]]:
        """Columns and rows of a table."""
        if name == layout.RUNS:
            return layout.RUN_COLUMNS, self.runs
        if name == layout.CURVES:
            return layout.CURVE_COLUMNS, self.curves
        if name == layout.RATES:
            return ("rates_id", "update", "rate"), self.rates.rows("rates_id", _rate_rows)
        if name == layout.BATCHES:
            columns = ("batches_id", "last_update", "batch")
            return columns, self.batches.rows("batches_id", _batch_rows)
        return layout.PILOT_COLUMNS, list(_pilot_rows(block, self.store))


class _Sequences:
    """Distinct arrays, numbered from 1."""

    def __init__(self) -> None:
        self.known: list[np.ndarray[Any, Any]] = []

    def number(self, array: np.ndarray[Any, Any]) -> int:
        for k, other in enumerate(self.known, start=1):
            if np.array_equal(other, array):
                return k
        self.known.append(array)
        return len(self.known)

    def rows(
        self, key: str, rows_of: Callable[[np.ndarray[Any, Any]], Iterable[Row]]
    ) -> Iterable[Row]:
        return [
            {key: k} | dict(row)
            for k, array in enumerate(self.known, start=1)
            for row in rows_of(array)
        ]


def _shared(one: Scheduled) -> dict[str, object]:
    """What all seeds of a schedule have in common."""
    group, rule = one.group, OPTIMIZERS[one.group.optimizer]
    names = ("task", "optimizer", "rates", "mean_batch")
    shared: dict[str, object] = {name: getattr(group, name) for name in names}
    for name in ("beta1", "beta2", "weight_decay"):
        shared[name] = getattr(rule, name) if isinstance(rule, Adam) else ""
    shared["momentum"] = float(rule.momentum) if isinstance(rule, SGD) else ""
    shared |= {"parameters": parameters(group.task), "peak": one.peak}
    shared |= {"schedule": one.name, "also": "; ".join(one.also)}
    batches = one.schedule.batches
    return shared | {"updates": batches.size, "samples": int(batches.sum())}


def parameters(task: str) -> int:
    """Number of weights of a task's model."""
    return sum(weight.numel() for weight in training_task(task).start().parameters())


def _curve_rows(number: int, columns: Mapping[str, list[float]]) -> Iterable[Row]:
    formats = ("{:d}", LOSS_FORMAT, LOSS_FORMAT, MOMENT_FORMAT, MOMENT_FORMAT)
    for values in zip(*columns.values(), strict=True):
        texts = (text.format(value) for text, value in zip(formats, values, strict=True))
        yield {"run": number} | dict(zip(CURVE, texts, strict=True))


def _rate_rows(rates: np.ndarray[Any, Any]) -> Iterable[Row]:
    for update, rate in enumerate(rates, start=1):
        yield {"update": update, "rate": RATE_FORMAT.format(rate)}


def _batch_rows(batches: np.ndarray[Any, Any]) -> Iterable[Row]:
    for end in np.append(np.flatnonzero(np.diff(batches)) + 1, batches.size):
        yield {"last_update": int(end), "batch": int(batches[end - 1])}


def _pilot_rows(block: Block, store: Store) -> Iterable[Row]:
    for group in block.groups:
        for peak in group.peaks:
            pilot = usable_pilot(group, peak, store)
            for name, value in (pilot or {}).items():
                if isinstance(value, str):
                    continue
                for index, number in enumerate(value if isinstance(value, list) else [value]):
                    number = MOMENT_FORMAT.format(number) if isinstance(number, float) else number
                    row = {"rates": group.rates, "peak": peak, "name": name}
                    yield row | {"index": index, "value": number}


def _facts(block: Block, asked: Block, tables: _Tables, facts: Mapping[str, Any]) -> dict[str, Any]:
    group = block.groups[0]
    return {
        "block": block.name,
        "summary": block.summary,
        "command": f"batchlaw study --block {block.name}",
        "runs": len(tables.runs),
        # Summed over the runs, of which every core had one at a time.
        "wall_seconds_of_runs": round(tables.seconds),
        "seeds": {name: _seeds(block.groups, name) for name in _names(block.groups)},
        "seeds_trimmed_from": asked.seeds if asked.seeds != block.seeds else None,
        "text": {
            "what": "the top-level modules of Python's standard library, every tenth held out",
            "training_characters": LONG_TRAINING_TEXT,
            "validation_characters": VALIDATION_TEXT,
            "digest": data_of(group.task),
        },
        "versions": dict(facts),
    }


def _names(groups: Sequence[Group]) -> list[str]:
    return list(dict.fromkeys(name for g in groups for name in (*g.schedules, *g.few)))


def _seeds(groups: Sequence[Group], schedule: str) -> int:
    return max(g.seeds_of(schedule) for g in groups if schedule in (*g.schedules, *g.few))


def _compressed(files: Transaction, name: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """The same bytes for the same rows: no time or name in the header."""
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    with (
        files.path(name).open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=9, fileobj=raw, mtime=0) as file,
    ):
        file.write(text.getvalue().encode())
