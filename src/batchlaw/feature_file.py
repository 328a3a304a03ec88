"""Tables of features from .npz, .npy, .csv and .parquet files."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from batchlaw._check import FloatArray

SUFFIXES = (".npz", ".npy", ".csv", ".parquet")


def read_features(path: Path, *, array: str | None = None, drop: Sequence[str] = ()) -> FloatArray:
    """An (n, p) array of numbers, one row a sample.

    Parameters
    ----------
    path
        Its suffix says what it is. A CSV file may have a header.
    array
        Name of the array in an .npz file; needed where there are several.
    drop
        Names of columns that are no features; for CSV files with a header, and parquet.
    """
    readers: dict[str, Callable[[], FloatArray]] = {
        ".npz": lambda: _npz(path, array),
        ".npy": lambda: _npy(path),
        ".csv": lambda: _csv(path, drop),
        ".parquet": lambda: _parquet(path, drop),
    }
    suffix = path.suffix.lower()
    if suffix not in readers:
        raise ValueError(f"{path} must end in one of {', '.join(SUFFIXES)}")
    if array is not None and suffix != ".npz":
        raise ValueError(f"array names one of an .npz file, got {path}")
    if drop and suffix not in (".csv", ".parquet"):
        raise ValueError(f"drop names columns of a .csv or .parquet file, got {path}")
    try:
        return readers[suffix]()
    except OSError as error:
        raise ValueError(f"{path} must be a readable file: {error.strerror or error}") from None
    except (EOFError, zipfile.BadZipFile):
        raise ValueError(f"{path} must be a {suffix} file, it is broken") from None


def _numbers(path: Path, values: Any) -> FloatArray:
    if getattr(values, "ndim", 0) != 2 or values.dtype.kind not in "fiub":
        raise ValueError(
            f"{path} must hold a table of numbers, got shape {np.shape(values)} of {values.dtype}"
        )
    return np.asarray(values, dtype=np.float64)


def _npy(path: Path) -> FloatArray:
    with path.open("rb") as file:
        return _numbers(path, np.lib.format.read_array(file, allow_pickle=False))


def _npz(path: Path, name: str | None) -> FloatArray:
    with path.open("rb") as file, np.lib.npyio.NpzFile(file) as arrays:
        names = list(arrays)
        if name is None and len(names) != 1:
            raise ValueError(f"{path} has {len(names)} arrays, name one of {', '.join(names)}")
        if name is not None and name not in names:
            raise ValueError(f"{path} must have an array {name}, got {', '.join(names)}")
        return _numbers(path, arrays[name or names[0]])


def _csv(path: Path, drop: Sequence[str]) -> FloatArray:
    """Rows of numbers, read in one pass without Python objects for the cells."""
    try:
        with path.open(newline="") as file:
            first = next(csv.reader(file), [])
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be a CSV file of text") from None
    header = [name.strip() for name in first] if not all(map(_is_number, first)) else []
    used = _used(path, header, drop, len(first)) if drop else None
    if not first:
        raise ValueError(f"{path} must have at least one row, got none")
    try:
        table = np.loadtxt(
            path, delimiter=",", skiprows=int(bool(header)), usecols=used, ndmin=2, comments=None
        )
    except ValueError as error:
        said = " ".join(str(error).split()).split(";")[0]
        raise ValueError(f"{path} must have a number in every cell: {said}") from None
    return np.asarray(table)


def _used(path: Path, header: list[str], drop: Sequence[str], width: int) -> list[int]:
    missing = [name for name in drop if name not in header]
    if missing:
        got = ", ".join(header[:8]) or "no header"
        raise ValueError(f"{path} must have a column {missing[0]} to drop, got {got}")
    return [k for k in range(width) if header[k] not in drop]


def _parquet(path: Path, drop: Sequence[str]) -> FloatArray:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise ValueError("parquet files need pyarrow: pip install 'batchlaw[parquet]'") from None
    try:
        names = parquet.read_schema(path).names
    except ArrowException:
        raise ValueError(f"{path} must be a parquet file, it is broken") from None
    used = [names[k] for k in _used(path, names, drop, len(names))]
    table = parquet.read_table(path, columns=used)
    try:
        columns = [np.asarray(column.to_numpy(), dtype=np.float64) for column in table.columns]
    except (ArrowException, TypeError, ValueError):
        raise ValueError(f"{path} must be a parquet file of numbers, drop other columns") from None
    return np.column_stack(columns) if columns else np.empty((0, 0))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
