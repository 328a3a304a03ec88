"""Tables of features from .npz, .npy, .csv and .parquet files."""

from __future__ import annotations

import csv
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw._base.files import is_number

SUFFIXES = (".npz", ".npy", ".csv", ".parquet")


def read_features(path: Path, *, array: str | None = None, drop: Sequence[str] = ()) -> FloatArray:
    """Read an (n, p) array of numbers, one row per sample.

    Parameters
    ----------
    path
        A .npz, .npy, .csv or .parquet file. A CSV file may have a header: a first row with a
        cell that is not a number, or 0, 1, 2, ... as pandas numbers columns.
    array
        Name of the array in an .npz file; required if there are several.
    drop
        Names of columns to leave out; for CSV files with a header, and parquet files.
    """
    readers: dict[str, Callable[[], FloatArray]] = {
        ".npz": lambda: _npz(path, array),
        ".npy": lambda: _npy(path),
        ".csv": lambda: _csv(path, drop),
        ".parquet": lambda: _parquet(path, drop),
    }
    suffix = path.suffix.lower()
    if suffix not in readers:
        raise _refusal(path, f"must end in one of {', '.join(SUFFIXES)}")
    if array is not None and suffix != ".npz":
        raise InputError("array", "names one of an .npz file", str(path))
    if drop and suffix not in (".csv", ".parquet"):
        raise InputError("drop", "names columns of a .csv or .parquet file", str(path))
    try:
        return readers[suffix]()
    except OSError as error:
        raise _refusal(path, "must be a readable file", hint=str(error.strerror or error)) from None
    except (
        EOFError,
        RuntimeError,
        UnicodeDecodeError,
        tokenize.TokenError,
        zipfile.BadZipFile,
        zlib.error,
    ):
        raise _refusal(path, f"must be a {suffix} file, it is broken") from None


def _refusal(
    path: Path, needed: str, got: str = "", *, field: str = "path", hint: str = ""
) -> InputError:
    return InputError(field, needed, got, hint, subject=str(path))


def _numbers(path: Path, values: Any) -> FloatArray:
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        got = f"shape {values.shape} of {values.dtype}"
        raise _refusal(path, "must hold a table of numbers", got)
    return np.asarray(values, dtype=np.float64)


def _array(path: Path, file: IO[bytes]) -> FloatArray:
    """An array in NumPy's format; objects are not unpickled, since that can run code."""
    try:
        values = np.lib.format.read_array(file, allow_pickle=False)
    except ValueError:
        raise _refusal(
            path, "must hold a table of numbers", hint="it is broken, or an array of Python objects"
        ) from None
    return _numbers(path, values)


def _npy(path: Path) -> FloatArray:
    with path.open("rb") as file:
        return _array(path, file)


def _npz(path: Path, name: str | None) -> FloatArray:
    with zipfile.ZipFile(path) as archive:
        names = [x.removesuffix(".npy") for x in archive.namelist() if x.endswith(".npy")]
        if not names:
            raise _refusal(path, "must have an array", "none")
        if name is None and len(names) != 1:
            needed = f"has {len(names)} arrays, name one of {', '.join(names)}"
            raise _refusal(path, needed, field="array")
        if name is not None and name not in names:
            got = ", ".join(names)
            raise _refusal(path, f"must have an array {name}", got, field="array")
        with archive.open(f"{name or names[0]}.npy") as file:
            return _array(path, file)


def _csv(path: Path, drop: Sequence[str]) -> FloatArray:
    """Rows of numbers, read by NumPy without a Python object per cell."""
    try:
        # utf-8-sig: spreadsheets write a byte-order mark first.
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = csv.reader(file)
            first = next(filter(None, lines), [])
    except (UnicodeDecodeError, csv.Error):
        raise _refusal(path, "must be a CSV file of text") from None
    if not first:
        raise _refusal(path, "must have at least one row", "none")
    header = _header(path, first)
    used = _used(path, header, drop, len(first)) if drop else None
    skipped = lines.line_num if header else 0
    try:
        with warnings.catch_warnings():
            # loadtxt warns if there is no data; that is refused below.
            warnings.simplefilter("ignore", UserWarning)
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
    except UnicodeDecodeError:
        raise _refusal(path, "must be a CSV file of text") from None
    except ValueError:
        place = _first_bad_cell(path, skipped, used)
        raise _refusal(path, "must have a number in every cell", place) from None
    if not len(table):
        raise _refusal(path, "must have rows of numbers", "a header alone")
    return np.asarray(table)


def _first_bad_cell(path: Path, skipped: int, used: Sequence[int] | None) -> str:
    """The first cell or row that made reading fail, or "" if it cannot be found."""
    with suppress(csv.Error), path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(islice(file, skipped, None))
        width = 0
        for row in filter(None, lines):
            line = skipped + lines.line_num
            width = width or len(row)
            columns = range(width) if used is None else used
            if len(row) <= max(columns, default=-1) or (used is None and len(row) != width):
                return f"{len(row)} cells in line {line}"
            for k in columns:
                if not is_number(row[k]):
                    return f"{row[k]!r} in line {line}, column {k + 1}"
    return ""


def _header(path: Path, first: list[str]) -> list[str]:
    """Names of the columns, or an empty list if the first row holds numbers."""
    names = [name.strip() for name in first]
    if len(names) == 1 and any(separator in names[0] for separator in ";\t"):
        got = repr(names[0][:40])
        raise _refusal(path, "must separate cells by commas", got)
    numbered = len(names) > 2 and names == [str(k) for k in range(len(names))]
    return names if numbered or not all(map(is_number, names)) else []


def _used(path: Path, header: list[str], drop: Sequence[str], width: int) -> list[int]:
    missing = [name for name in drop if name not in header]
    if missing:
        got = ", ".join(header[:8]) or "no header"
        needed = f"must have a column {missing[0]} to drop"
        raise _refusal(path, needed, got, field="drop")
    return [k for k in range(width) if header[k] not in drop]


def _parquet(path: Path, drop: Sequence[str]) -> FloatArray:
    try:
        from pyarrow import ArrowException, parquet, types
    except ImportError:
        raise InputError(
            "path",
            "need pyarrow",
            hint="pip install 'batchlaw[parquet]'",
            subject="parquet files",
        ) from None
    try:
        names = parquet.read_schema(path).names
    except ArrowException:
        raise _refusal(path, "must be a parquet file, it is broken") from None
    used = [names[k] for k in _used(path, names, drop, len(names))]
    if len(set(used)) < len(used):
        got = ", ".join(used[:8])
        raise _refusal(path, "must have one column of each name", got)
    try:
        table = parquet.read_table(path, columns=used)
    except ArrowException:
        raise _refusal(path, "must be a parquet file, it is broken") from None
    for field in table.schema:
        numeric = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
        if not any(is_kind(field.type) for is_kind in numeric):
            raise _refusal(
                path,
                "must be a parquet file of numbers, drop other columns",
                hint=f"{field.name} is of {field.type}",
                field="drop",
            )
    columns = [np.asarray(column.to_numpy(), dtype=np.float64) for column in table.columns]
    return np.column_stack(columns) if columns else np.empty((0, 0))
