"""Tables of features from .npz, .npy, .csv and .parquet files."""

from __future__ import annotations

import csv
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw._base.files import is_number

SUFFIXES = (".npz", ".npy", ".csv", ".parquet")


def read_features(path: Path, *, array: str | None = None, drop: Sequence[str] = ()) -> FloatArray:
    """An (n, p) array of numbers, one row a sample.

    Parameters
    ----------
    path
        Its suffix says what it is. A CSV file may have a header: a first row with a cell that
        is no number, or 0, 1, 2, ... as pandas numbers columns.
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
    except (EOFError, RuntimeError, tokenize.TokenError, zipfile.BadZipFile, zlib.error):
        raise ValueError(f"{path} must be a {suffix} file, it is broken") from None


def _numbers(path: Path, values: Any) -> FloatArray:
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        raise ValueError(
            f"{path} must hold a table of numbers, got shape {values.shape} of {values.dtype}"
        )
    return np.asarray(values, dtype=np.float64)


def _array(path: Path, file: IO[bytes]) -> FloatArray:
    """An array in NumPy's format; objects are not unpickled, for that may run code."""
    try:
        values = np.lib.format.read_array(file, allow_pickle=False)
    except ValueError as error:
        said = str(error).split(". ")[0]
        raise ValueError(f"{path} must hold a table of numbers: {said}") from None
    return _numbers(path, values)


def _npy(path: Path) -> FloatArray:
    with path.open("rb") as file:
        return _array(path, file)


def _npz(path: Path, name: str | None) -> FloatArray:
    with zipfile.ZipFile(path) as archive:
        names = [x.removesuffix(".npy") for x in archive.namelist() if x.endswith(".npy")]
        if not names:
            raise ValueError(f"{path} must have an array, got none")
        if name is None and len(names) != 1:
            raise ValueError(f"{path} has {len(names)} arrays, name one of {', '.join(names)}")
        if name is not None and name not in names:
            raise ValueError(f"{path} must have an array {name}, got {', '.join(names)}")
        with archive.open(f"{name or names[0]}.npy") as file:
            return _array(path, file)


def _csv(path: Path, drop: Sequence[str]) -> FloatArray:
    """Rows of numbers, read in one pass without Python objects for the cells."""
    try:
        # Spreadsheets put a byte-order mark in front.
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = csv.reader(file)
            first = next(filter(None, lines), [])
    except (UnicodeDecodeError, csv.Error):
        raise ValueError(f"{path} must be a CSV file of text") from None
    if not first:
        raise ValueError(f"{path} must have at least one row, got none")
    header = _header(path, first)
    used = _used(path, header, drop, len(first)) if drop else None
    skipped = lines.line_num if header else 0
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "loadtxt: input contained no data", UserWarning)
            table = np.loadtxt(
                path,
                delimiter=",",
                skiprows=skipped,
                usecols=used,
                ndmin=2,
                comments=None,
                quotechar='"',
                encoding="utf-8-sig",
            )
    except UserWarning:
        raise ValueError(f"{path} must have rows of numbers, got a header alone") from None
    except ValueError as error:
        said = " ".join(str(error).split()).split("; use")[0]
        raise ValueError(f"{path} must have a number in every cell: {said}") from None
    return np.asarray(table)


def _header(path: Path, first: list[str]) -> list[str]:
    """Names of the columns, or none where the first row holds numbers."""
    names = [name.strip() for name in first]
    if len(names) == 1 and any(mark in names[0] for mark in ";\t"):
        raise ValueError(f"{path} must separate cells by commas, got {names[0][:40]!r}")
    numbered = len(names) > 2 and names == [str(k) for k in range(len(names))]
    return names if numbered or not all(map(is_number, names)) else []


def _used(path: Path, header: list[str], drop: Sequence[str], width: int) -> list[int]:
    missing = [name for name in drop if name not in header]
    if missing:
        got = ", ".join(header[:8]) or "no header"
        raise ValueError(f"{path} must have a column {missing[0]} to drop, got {got}")
    return [k for k in range(width) if header[k] not in drop]


def _parquet(path: Path, drop: Sequence[str]) -> FloatArray:
    try:
        from pyarrow import ArrowException, parquet, types
    except ImportError:
        raise ValueError("parquet files need pyarrow: pip install 'batchlaw[parquet]'") from None
    try:
        names = parquet.read_schema(path).names
    except ArrowException:
        raise ValueError(f"{path} must be a parquet file, it is broken") from None
    used = [names[k] for k in _used(path, names, drop, len(names))]
    if len(set(used)) < len(used):
        raise ValueError(f"{path} must have one column of each name, got {', '.join(used[:8])}")
    table = parquet.read_table(path, columns=used)
    for field in table.schema:
        kind = field.type
        known = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
        if not any(is_kind(kind) for is_kind in known):
            raise ValueError(
                f"{path} must be a parquet file of numbers, drop other columns: "
                f"{field.name} is of {kind}"
            )
    columns = [np.asarray(column.to_numpy(), dtype=np.float64) for column in table.columns]
    return np.column_stack(columns) if columns else np.empty((0, 0))
