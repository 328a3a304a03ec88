"""A sweep as one tidy table, CSV or Parquet, with the units of its columns and its provenance."""

from __future__ import annotations

import csv
import json
import platform
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from batchlaw._base.errors import InputError
from batchlaw._base.files import OutputDirectory
from batchlaw._base.version import __version__
from batchlaw.jobs.store import DONE, NUMERICS, Store

STATUS, REASON = "status", "reason"
# Rows of a Parquet file in memory at a time.
BLOCK = 10_000
RISK = "squared units of the label"
UNITS = {
    "steps": "updates",
    "budget": "samples",
    "mean_batch": "samples an update",
    "samples": "samples",
    "repetitions": "datasets",
    "gamma": "1 / squared units of the features",
    "sigma": "units of the label",
    "b_eff": "samples an update",
    "rho_eff": "1 / samples",
    "relative_error": "share of the excess risk; the solver's own estimate",
    **dict.fromkeys(
        (
            "total",
            "excess",
            "irreducible",
            "approximation",
            "bias",
            "variance",
            "variance_noise",
            "variance_covariance",
            "fluctuation",
        ),
        RISK,
    ),
}


def unit(name: str) -> str:
    """Unit of a column or of its standard error; empty for pure numbers, names and seeds."""
    return UNITS.get(name.removesuffix("_se"), "")


def records(store: Store, cells: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The stored rows of these cells, in order."""
    for cell in cells:
        row = store.get(cell)
        if row is not None:
            values = row.result if row.status == DONE else {REASON: row.result[REASON]}
            yield {**cell, STATUS: row.status, **values}


def columns(rows: Iterable[dict[str, Any]]) -> dict[str, type]:
    """Names in order of first appearance, with the type that holds all values of the column."""
    kinds: dict[str, type] = {}
    for record in rows:
        for name, value in record.items():
            kinds[name] = _wider(kinds.get(name), type(value))
    last = {name: kinds.pop(name) for name in (STATUS, REASON) if name in kinds}
    return kinds | last


def check_target(path: Path) -> OutputDirectory:
    """Refuse a path that ``export`` could not write to, before any work is done."""
    if path.suffix not in (".csv", ".parquet"):
        raise InputError("export", "must be a .csv or .parquet file", repr(path.name))
    if path.is_dir():
        raise InputError("export", f"must be a file, {path} is a directory")
    if path.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise InputError(
            "export",
            "must have PyArrow",
            hint="install the extra, parquet",
            subject="a Parquet file",
        )
    return OutputDirectory(path.parent)


def export(store: Store, cells: Any, path: Path, text: str) -> int:
    """Write ``path`` (.csv or .parquet) and ``path``.json; returns the number of rows.

    ``cells`` is called for a fresh iterator; ``text`` is the design they came from. The files hold
    no times and no machine names: the same sweep gives the same bytes.
    """
    directory = check_target(path)
    kinds = columns(records(store, cells()))
    if not kinds:
        raise InputError(
            "export", "is nothing to export", hint="no cell has a result", subject="there"
        )
    about = provenance(kinds, text)
    with directory.transaction() as files:
        target = files.path(path.name)
        write = _write_csv if path.suffix == ".csv" else _write_parquet
        count = write(target, records(store, cells()), kinds, about)
        files.json(about_file(path).name, about | {"rows": count})
    return count


def about_file(path: Path) -> Path:
    """Where units and provenance go, beside the table."""
    return path.with_name(f"{path.name}.json")


def provenance(kinds: dict[str, type], text: str) -> dict[str, Any]:
    """Versions, units and the design."""
    return {
        "batchlaw": __version__,
        "numerical_version": NUMERICS,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "units": {name: unit(name) for name in kinds},
        "design": text,
    }


def _write_csv(
    path: Path, rows: Iterator[dict[str, Any]], kinds: dict[str, type], about: dict[str, Any]
) -> int:
    count = 0
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(kinds), lineterminator="\n")
        writer.writeheader()
        for record in rows:
            writer.writerow(record)
            count += 1
    return count


def _write_parquet(
    path: Path, rows: Iterator[dict[str, Any]], kinds: dict[str, type], about: dict[str, Any]
) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    schema = pa.schema(
        [
            pa.field(name, types[kind], metadata={"unit": unit(name)})
            for name, kind in kinds.items()
        ],
        metadata={"batchlaw": json.dumps(about)},
    )
    count = 0
    block: list[dict[str, Any]] = []

    def flush(writer: Any) -> None:
        writer.write_table(pa.Table.from_pylist(block, schema=schema))
        block.clear()

    with pq.ParquetWriter(path, schema) as writer:
        for record in rows:
            block.append({name: _cast(record.get(name), kinds[name]) for name in kinds})
            count += 1
            if len(block) == BLOCK:
                flush(writer)
        flush(writer)
    return count


def _wider(before: type | None, now: type) -> type:
    if before in (None, now):
        return now
    return float if {before, now} == {int, float} else str


def _cast(value: Any, kind: type) -> Any:
    return None if value is None else kind(value)
