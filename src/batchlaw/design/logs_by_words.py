"""Training runs from words: a log each, with what it does not say, as options or a list of runs."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base import words as kinds
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError, arg
from batchlaw._base.files import is_number, read_schedule
from batchlaw._base.words import CHOICE, COUNT, REAL, TEXT, Word, refuse_unused
from batchlaw.design.vocabulary import rate_words
from batchlaw.from_data.logs import names
from batchlaw.from_data.logs.formats import FORMATS
from batchlaw.from_data.logs.read import LOG, UNITS, read_run
from batchlaw.from_data.run import Run
from batchlaw.schedule.optimizers import optimizer_word, rule_by_words, rule_words
from batchlaw.schedule.registry import RATE_PARAMETERS, RATE_SCHEDULES, rates_by_name
from batchlaw.schedule.update_rule import OPTIMIZERS, UpdateRule

Words = Mapping[str, Any]
PATH = "path"
NAMES = ", ".join(RATE_SCHEDULES)
# Columns that hold whole batches; a trainer's "train_batch_size" may be that of a device.
WHOLE_BATCHES = "batch batches batch_size global_batch_size"


def stated_rate_words() -> tuple[Word, ...]:
    """Rates without a default: name, length and peak must be given."""
    return _rate_words(
        f"{NAMES}, or a CSV file with a column rate, one row per step.",
        "Updates of a named schedule.",
    )


def log_words() -> tuple[Word, ...]:
    """What a log may not say itself."""
    return (
        *_rate_words(
            f"Where the log has no rates: {NAMES}, or a CSV file with a column rate, one row per "
            "step. Or the log's column of rates; by default one with a usual name.",
            "Updates of the run; by default as many as the rates, or the log's last step.",
        ),
        Word(
            "batch",
            TEXT,
            "Samples (or tokens) per update: a number, a CSV file with a column batch, one row per "
            "step, or the log's column; by default one with a usual name.",
        ),
        Word("unit", CHOICE, "Unit of the batches; samples by default.", UNITS),
        Word("sequence_length", COUNT, "Tokens per sample, for batches in tokens.", low=1),
        Word("loss", TEXT, "The log's column of losses; by default validation before training."),
        Word("step", TEXT, "The log's column of steps; by default one with a usual name."),
        Word("format", CHOICE, "Format of the log; recognised by default.", tuple(FORMATS)),
        optimizer_word("it must be named"),
        *rule_words().values(),
    )


def _rate_words(rates: str, steps: str) -> tuple[Word, ...]:
    _, _, _, *parameters = rate_words()
    return (
        Word("rates", TEXT, rates, tuple(RATE_SCHEDULES)),
        Word("steps", COUNT, steps, low=1),
        Word("gamma", REAL, "Peak rate of a named schedule.", low=0),
        *parameters,
    )


def stated_rates(words: Words, folder: Path = Path()) -> FloatArray:
    """The rates of a schedule that is named in full, or of a file."""
    name = words.get("rates")
    if name is None:
        raise InputError("rates", f"must be given: {NAMES} or a CSV file")
    if name not in RATE_SCHEDULES:
        refuse_unused(words, (*RATE_PARAMETERS, "steps", "gamma"), "a file of rates")
        path = folder / name
        if not path.suffix and not path.exists():
            raise InputError("rates", f"must be one of {NAMES} or a CSV file", repr(name))
        return read_schedule(path, "rate")
    for field, key in (("steps", "steps"), ("peak", "gamma")):
        if words.get(key) is None:
            raise InputError(field, f"must be given with {arg('rates')} {name}")
    parameters = {key: words.get(key) for key in RATE_PARAMETERS}
    return rates_by_name(name, words["steps"], words["gamma"], parameters)


def rule_of(words: Words) -> UpdateRule:
    """The optimizer; it must be named."""
    if words.get("optimizer") is None:
        *others, last = OPTIMIZERS
        raise InputError("rule", f"must be named: {', '.join(others)} or {last}")
    return rule_by_words(words)


def run_by_words(path: Path, words: Words, folder: Path = Path()) -> Run:
    """The run of a log; the words say what the log does not. Paths in them are from ``folder``."""
    rule = rule_of(words)
    batch = _batch(words.get("batch"), folder)
    options = {n: words.get(n) for n in ("format", "step", "loss", "sequence_length")}
    try:
        run = read_run(
            path,
            rates=_rates(words, folder),
            batch=batch,
            unit=words.get("unit") or UNITS[0],
            steps=words.get("steps"),
            rule=rule,
            **options,
        )
        _refuse_contradiction(run, batch)
    except InputError as error:
        raise error if error.field == PATH else error.within(path) from None
    return run


def _rates(words: Words, folder: Path) -> ArrayLike | str:
    """The schedule or file that is named, or the column of the log."""
    name = words.get("rates")
    if name in RATE_SCHEDULES or (name is not None and Path(name).suffix == ".csv"):
        return stated_rates(words, folder)
    refuse_unused(words, ("gamma", *RATE_PARAMETERS), "the log's own rates")
    return LOG if name is None else name


def _batch(given: str | None, folder: Path) -> ArrayLike | str | None:
    if given is None:
        return None
    if Path(given).suffix == ".csv":
        return read_schedule(folder / given, "batch")
    return float(given) if is_number(given) else given


def _refuse_contradiction(run: Run, given: ArrayLike | str | None) -> None:
    """Refuse a batch that is not the one in the log."""
    if given is None or isinstance(given, str):
        return
    sizes = np.broadcast_to(np.asarray(given, dtype=np.float64), run.updates)
    for name in names.usual(run.columns, WHOLE_BATCHES):
        logged = run.columns[name]
        wrong = (run.steps > 0) & (logged != sizes[run.steps - 1]) & np.isfinite(logged)
        if wrong.any():
            raise InputError(
                "batch",
                f"must be that of the log's column {name}, {logged[wrong][0]:g}",
                f"{sizes[run.steps[wrong][0] - 1]:g}",
                hint="leave it out, or leave the column out if it counts something else",
            )


def runs_of_logs(paths: Sequence[Path], words: Words) -> list[Run]:
    """A run for every log; the words hold for all."""
    return [run_by_words(path, words) for path in _once(paths)]


def runs_of_list(path: Path, words: Words) -> list[Run]:
    """The runs of a list, a CSV or TOML file with a row or ``[[run]]`` for every log.

    A row has the log's path, from the list's folder, and words of its own; the others are as in
    ``words``, or in TOML as in the keys before the first run.
    """
    rows = _toml_rows(path) if path.suffix == ".toml" else _csv_rows(path)
    given = []
    for number, row in enumerate(rows, start=1):
        try:
            given.append(_row(row))
        except InputError as error:
            raise error.within(f"{path}, run {number}") from None
    logs = _once([path.parent / own.pop(PATH) for own in given])
    return [
        run_by_words(log, {**words, **own}, path.parent)
        for log, own in zip(logs, given, strict=True)
    ]


def _once(paths: Sequence[Path]) -> Sequence[Path]:
    """Refuse a log that is given twice: its errors would count as those of two seeds."""
    seen = set()
    for path in paths:
        if path.resolve() in seen:
            raise InputError(PATH, "must be given once", subject=str(path))
        seen.add(path.resolve())
    return paths


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    """The words of a row, checked and with their types; empty cells are left out."""
    known = {word.name: word for word in log_words()}
    for name in row:
        if name != PATH and name not in known:
            raise InputError(
                "run_list", f"must be one of {PATH}, {', '.join(known)}", name, subject="a column"
            )
    given = {name: value for name, value in row.items() if value not in ("", None)}
    if not isinstance(given.get(PATH), str):
        raise InputError("run_list", f"must have a {PATH}, the log", repr(given.get(PATH)))
    own = {n: _value(known[n], value) for n, value in given.items() if n != PATH}
    return {PATH: given[PATH]} | own


def _value(word: Word, value: Any) -> Any:
    if word.kind == kinds.FLAG:
        texts = {"true": True, "false": False}
        return texts[checks.choice(word.name, str(value).lower(), texts)]
    if isinstance(value, (bool, list, dict)):
        raise InputError(word.name, "must be a number or a text", repr(value)[:40])
    if word.kind == COUNT:
        number = checks.real(word.name, value)
        return checks.count(word.name, int(number) if number.is_integer() else number)
    if word.kind == REAL:
        return checks.real(word.name, value)
    if word.kind == kinds.PHASE_END:
        return kinds.phase_end(word.name, str(value))
    return checks.choice(word.name, str(value), word.choices) if word.kind == CHOICE else str(value)


def _csv_rows(path: Path) -> list[dict[str, Any]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            cells = [[cell.strip() for cell in row] for row in csv.reader(file) if any(row)]
    except (OSError, UnicodeDecodeError, csv.Error, ValueError) as error:
        raise _unreadable(path, error) from None
    if len(cells) < 2 or len(set(cells[0])) < len(cells[0]):
        needed = "must have a header of different names, and a row for every log"
        raise InputError("run_list", needed, subject=str(path))
    for number, row in enumerate(cells[1:], start=1):
        if len(row) != len(cells[0]):
            needed = f"must have {len(cells[0])} cells in run {number}, as in the header"
            raise InputError("run_list", needed, f"{len(row)}", subject=str(path))
    return [dict(zip(cells[0], row, strict=True)) for row in cells[1:]]


def _toml_rows(path: Path) -> list[dict[str, Any]]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(path, error) from None
    tables = document.pop("run", None)
    if (
        not isinstance(tables, list)
        or not tables
        or not all(isinstance(table, dict) for table in tables)
    ):
        raise InputError("run_list", "must have a table [[run]] for every log", subject=str(path))
    return [{**document, **table} for table in tables]


def _unreadable(path: Path, error: Exception) -> InputError:
    hint = str(error.strerror) if isinstance(error, OSError) else str(error)
    return InputError(
        "run_list", "must be a readable CSV or TOML file", hint=hint, subject=str(path)
    )
