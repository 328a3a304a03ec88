"""Read the benchmark of batch schedules."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.datasets import layout
from batchlaw.from_data.run import Run
from batchlaw.model.model_spectrum import ModelSpectrum
from batchlaw.schedule.adam import GENERIC, adam
from batchlaw.schedule.update_rule import UpdateRule, sgd

Row = dict[str, str]


def blocks(folder: str | Path | None = None) -> tuple[str, ...]:
    """Names of the blocks there are, in the package or in a folder of your own."""
    root = _root(folder)
    return tuple(sorted(path.parent.name for path in root.glob(f"*/{layout.RUNS}")))


def batch_schedules(
    block: str | None = None, *, folder: str | Path | None = None, verify: bool = True
) -> list[Run]:
    """Training runs under batch schedules, the project's own benchmark (docs/batch_schedules.md).

    Losses are validation losses; ``columns`` has "training", and of the gradient on fixed training
    samples "noise", the trace of the covariance of one sample's gradient, and "gradient", the
    squared norm of its mean. ``facts`` has block, task, parameters, optimizer, rates, peak,
    schedule, also (other names of the same schedule), seed and more. Runs that diverged are left
    out.

    Parameters
    ----------
    block
        The name of one block; all of them by default.
    folder
        Where blocks of your own are, as ``batchlaw study --block`` writes them.
    verify
        Whether to compare the files with their checksums.
    """
    names = blocks(folder) if block is None else (_block(block, folder),)
    if folder is not None and not names:
        raise InputError(
            "folder", f"must have blocks, folders with {layout.RUNS}", repr(str(folder))
        )
    return [run for name in names for run in _runs(_root(folder) / name, verify)]


def pilot_spectrum(
    block: str, rates: str, *, folder: str | Path | None = None, verify: bool = True
) -> ModelSpectrum:
    """The curvature and gradient noise at the end of the pilot run of a block with these rates.

    Parameters
    ----------
    block, rates
        Names of a block and of a shape of the rates, as in ``Run.facts``.
    folder
        Where blocks of your own are.
    verify
        Whether to compare the files with their checksums.
    """
    root = _root(folder) / _block(block, folder)
    if verify:
        _verify(root)
    rows = [row for row in _rows(root / layout.PILOTS) if row["rates"] == rates]
    if not rows:
        raise InputError("rates", f"must have a pilot in block {block}", repr(rates))
    lists: dict[str, list[float]] = {}
    for row in rows:
        lists.setdefault(row["name"], []).append(float(row["value"]))
    values: dict[str, Any] = {name: numbers[0] for name, numbers in lists.items()}
    values |= {name: int(lists[name][0]) for name in ("dimension", "samples")}
    values |= {name: np.array(lists[name]) for name in ("eigenvalues", "noise")}
    return ModelSpectrum(kind="gauss-newton", **values)


def _root(folder: str | Path | None) -> Path:
    if folder is None:
        return layout.FOLDER
    if not Path(folder).is_dir():
        raise InputError("folder", "must be a folder of blocks", repr(str(folder)))
    return Path(folder)


def _block(name: str, folder: str | Path | None) -> str:
    there = blocks(folder)
    if not there:
        where = "batchlaw, which has none" if folder is None else f"{folder}, which has none"
        raise InputError("block", f"must be a block of {where}", repr(name))
    return checks.choice("block", name, there)


def _runs(folder: Path, verify: bool) -> list[Run]:
    if verify:
        _verify(folder)
    rates = _by_id(_rows(folder / layout.RATES), "rates_id", _rates)
    batches = _by_id(_rows(folder / layout.BATCHES), "batches_id", _batches)
    curves = _by_id(_rows(folder / layout.CURVES), "run", _curve)
    return [
        _run(row, folder.name, rates, batches, curves[row["run"]])
        for row in _rows(folder / layout.RUNS)
        if row["status"] == layout.DONE
    ]


def _run(
    row: Row,
    block: str,
    rates: dict[str, FloatArray],
    batches: dict[str, FloatArray],
    curve: dict[str, FloatArray],
) -> Run:
    losses = {name: curve[name] for name in ("training", "noise", "gradient")}
    return Run(
        rates[row["rates_id"]],
        batches[row["batches_id"]],
        curve["update"],
        curve["validation"],
        rule=_rule(row),
        columns=losses,
        facts={"block": block} | _facts(row),
    )


def _facts(row: Row) -> dict[str, Any]:
    names = ("task", "optimizer", "rates", "schedule", "also")
    facts: dict[str, Any] = {name: row[name] for name in names}
    facts |= {name: float(row[name]) for name in layout.NUMBERS if row[name]}
    return facts | {name: int(row[name]) for name in layout.WHOLE}


def _rule(row: Row) -> UpdateRule:
    if row["beta2"]:
        betas = float(row["beta1"]), float(row["beta2"])
        # PyTorch's coordinates have nothing to do with the curvature's eigenvectors.
        return adam(*betas, weight_decay=float(row["weight_decay"]), basis=GENERIC)
    momentum = float(row["momentum"])
    return sgd(momentum, pytorch=True) if momentum else sgd()


def _rates(rows: list[Row]) -> FloatArray:
    return np.array([float(row["rate"]) for row in rows])


def _batches(rows: list[Row]) -> FloatArray:
    """From the last update of every stage, and its batch."""
    ends = [int(row["last_update"]) for row in rows]
    sizes = [float(row["batch"]) for row in rows]
    return np.repeat(sizes, np.diff(ends, prepend=0))


def _curve(rows: list[Row]) -> dict[str, FloatArray]:
    return {name: np.array([float(row[name]) for row in rows]) for name in layout.CURVE_COLUMNS[1:]}


def _by_id(rows: Iterable[Row], key: str, read: Any) -> dict[str, Any]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[key], []).append(row)
    return {name: read(group) for name, group in groups.items()}


def _rows(path: Path) -> list[Row]:
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise _broken(path, f"must have a readable {path.name}", str(error)) from None


def _verify(folder: Path) -> None:
    """Refuse tables that are not those of the checksums, or without a checksum."""
    path = folder / layout.CHECKSUMS
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise _broken(path, f"must have its checksums, {path.name}") from None
    expected = {line[66:]: line[:64] for line in lines}
    for name in layout.TABLES:
        if name not in expected:
            raise _broken(path, f"must have a checksum of {name}", "none")
        table = folder / name
        if not table.is_file() or layout.digest(table) != expected[name]:
            raise _broken(
                table,
                f"must have the file {name} that its checksum is of",
                hint=f"{table} is missing or was changed",
            )


def _broken(path: Path, needed: str, got: str = "", hint: str = "") -> InputError:
    return InputError("block", needed, got, hint or str(path), subject=path.parent.name)
