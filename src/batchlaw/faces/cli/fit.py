"""``batchlaw fit``: a law of the loss from logs of training runs."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
from cyclopts import Parameter

from batchlaw._base import checks
from batchlaw._base.errors import InputError, arg
from batchlaw._base.files import OutputDirectory
from batchlaw._base.version import __version__
from batchlaw.datasets import batch_schedules
from batchlaw.design.logs_by_words import log_words, runs_of_list, runs_of_logs
from batchlaw.faces.cli.inputs import Flag, Options, option_class
from batchlaw.faces.cli.table import text_table
from batchlaw.from_data.laws.fit_law import baseline_scores, fit_law
from batchlaw.from_data.laws.profiles import law_profiles
from batchlaw.from_data.laws.published import PUBLISHED
from batchlaw.from_data.laws.training_law import LEVEL, TrainingLaw
from batchlaw.from_data.run import Run
from batchlaw.schedule.optimizers import optimizer_of

# What the factors of the terms are.
FACTORS = {
    "floor": "the loss below which nothing falls",
    "progress": "what there is to learn",
    "hill": "the noise of a run at the peak rate",
}

Intervals: TypeAlias = Mapping[str, tuple[float, float]]

if TYPE_CHECKING:
    LogOptions: TypeAlias = Options
else:
    LogOptions = option_class("LogOptions", log_words())


def fit(
    *logs: Path,
    run_list: Path | None = None,
    dataset: str | None = None,
    log: LogOptions = LogOptions(),  # noqa: B008 - frozen
    baselines: Flag = False,
    profile: Flag = False,
    level: float = LEVEL,
    output: Path | None = None,
    json_: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Fit a law of the loss to logs of a few training runs, to predict other rates and batches.

    First how well it predicts schedules that were left out of the fit. Ten runs take up to a
    minute.

    Parameters
    ----------
    logs
        One log per run, in any format of docs/logs.md. The options hold for all of them.
    run_list
        A list of runs instead: a CSV file with a row for every log, whose columns are path (from
        the list's folder) and any of the options below; or TOML, with [[run]] tables.
    dataset
        A block of the project's own runs instead, to try it out: its runs with constant batches.
    baselines
        Compare with published laws on the same schedules left out; about 5 s for each schedule.
    profile
        Intervals of the shape's parameters by profile likelihood instead of the curvature of the
        fit: about a second for each run.
    level
        Probability that the intervals claim.
    output
        JSON file for the law, which predict reads.
    json_
        Print JSON instead of text.
    """
    level = checks.real("level", level, above=0.0, below=1.0)
    target = None if output is None else _target(output)
    words = log.words()
    found = _runs(logs, run_list, dataset, words)
    started = time.perf_counter()
    law = fit_law(found)
    seconds = {"fit": time.perf_counter() - started}
    scores: Mapping[str, float | str] = {}
    if baselines:
        scores = baseline_scores(found)
        seconds["baselines"] = time.perf_counter() - started - seconds["fit"]
        errors = {name: e for name, e in scores.items() if isinstance(e, float)}
        law = replace(law, held_out={**law.held_out, **errors})
    intervals = law.intervals(level)
    if profile:
        intervals |= law_profiles(law, found, level)
        seconds["profiles"] = time.perf_counter() - started - sum(seconds.values())
    if target is not None and output is not None:
        with target.transaction() as files:
            files.path(output.name).write_text(law.to_json())
    if json_:
        print(json.dumps(_document(law, scores, seconds, intervals, level), indent=2))
        return 0
    print(_report(law, scores, intervals, level))
    took = ", ".join(f"{name} {value:.0f} s" for name, value in seconds.items())
    print(f"\ntook: {took}" + ("" if output is None else f"; the law is in {output}"))
    return 0


def _target(output: Path) -> OutputDirectory:
    """Where the law goes, checked before the work."""
    if output.is_dir():
        needed = "must be a file or absent, but is a directory"
        raise InputError("output", needed, subject=str(output))
    return OutputDirectory(output.parent)


def _runs(
    logs: Sequence[Path], listed: Path | None, dataset: str | None, words: Mapping[str, Any]
) -> list[Run]:
    if (bool(logs), listed is not None, dataset is not None).count(True) != 1:
        subject = f"either logs, {arg('run_list')} or {arg('dataset')}"
        raise InputError("logs", "must be given", subject=subject)
    if dataset is None:
        return runs_of_logs(logs, words) if listed is None else runs_of_list(listed, words)
    for name in words:
        raise InputError(name, f"has no use with {arg('dataset')}")
    return [run for run in batch_schedules(dataset) if np.ptp(run.batches) == 0.0]


def _report(
    law: TrainingLaw, scores: Mapping[str, float | str], intervals: Intervals, level: float
) -> str:
    seen, chosen = law.seen, law.member.name
    lines = [
        f"predicts schedules that were left out to {law.held_out[chosen]:.4f} in the loss "
        "(root mean square over the last 30 % of each)",
        f"form: {chosen}",
        f"from {seen.runs} runs with {seen.schedules} schedules of {optimizer_of(law.rule)}, of up "
        f"to {seen.updates} updates, batches of {seen.smallest_batch:.6g} to "
        f"{seen.largest_batch:.6g} and peak rates of {seen.lowest_peak:.3g} to "
        f"{seen.highest_peak:.3g}",
        *_exponent(law, level),
        *(f"not identified: {note}" for note in law.unidentified),
        "",
        _forms(law),
        *(f"{name}: not fitted, {e}" for name, e in scores.items() if isinstance(e, str)),
        "",
        _parameters(law, intervals, level),
    ]
    return "\n".join(lines)


def _exponent(law: TrainingLaw, level: float) -> list[str]:
    if law.seen.largest_batch <= law.seen.smallest_batch:
        return []
    beta, low, high = law.batch_exponent(level)
    line = f"noise that is left ~ batch^-{beta:.2f} ({low:.2f} to {high:.2f}, {level:.0%})"
    if low <= 0.0:
        line += ": its interval reaches 0, so that no gain from batches can be promised"
    return [line]


def _forms(law: TrainingLaw) -> str:
    published = {law.name for law in PUBLISHED}
    rows = [
        (f"{name} (published)" if name in published else name, f"{error:.4f}")
        for name, error in sorted(law.held_out.items(), key=lambda item: item[1])
    ]
    return text_table(("error on schedules left out, by form", "loss"), rows)


def _parameters(law: TrainingLaw, intervals: Intervals, level: float) -> str:
    meaning = FACTORS | {p.name: p.meaning for p in law.member.shape}
    rows = [
        (f"{name}: {meaning[name]}", f"{value:.4g}", *(f"{end:.4g}" for end in intervals[name]))
        for name, value in law.parameters.items()
    ]
    return text_table(("parameter", "value", f"{level:.0%}: from", "to"), rows)


def _document(
    law: TrainingLaw,
    scores: Mapping[str, float | str],
    seconds: Mapping[str, float],
    intervals: Intervals,
    level: float,
) -> dict[str, Any]:
    several = law.seen.largest_batch > law.seen.smallest_batch
    return {
        "error_left_out": law.held_out[law.member.name],
        "form": law.member.name,
        "batch_exponent": list(law.batch_exponent(level)) if several else None,
        "unidentified": list(law.unidentified),
        "held_out": dict(law.held_out),
        "not_fitted": {name: e for name, e in scores.items() if isinstance(e, str)},
        "parameters": law.parameters,
        "intervals": dict(intervals),
        "level": level,
        "seconds": dict(seconds),
        "law": json.loads(law.to_json()),
        "batchlaw": __version__,
    }
