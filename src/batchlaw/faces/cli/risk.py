"""``batchlaw risk``: the risk of batch schedules, part by part, exact or simulated."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from cyclopts import Parameter

from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError, arg
from batchlaw._base.files import OutputDirectory
from batchlaw._base.uncertain import with_error
from batchlaw._base.version import __version__
from batchlaw.design.by_words import (
    case_by_words,
    is_simulated,
    problem_by_words,
    problem_seed,
    word,
)
from batchlaw.design.case import Case
from batchlaw.design.distribution import SKETCHES, Sketches, risk_quantiles
from batchlaw.design.quantiles import Quantiles
from batchlaw.design.vocabulary import DRAWN, EXACT, SIMULATED
from batchlaw.faces.cli.inputs import BatchOptions, ProblemOptions, RateOptions, SolverOptions
from batchlaw.faces.cli.table import text_table, without_infinities
from batchlaw.risk.result import Risk

# The whole risk, and what lies above the best predictor: shown before any part.
WHOLE = ("total", "excess")
# The schedule that others are compared with, and the end of the key of a standard error.
CONSTANT, ERROR = "constant", "_se"


def risk(
    *,
    problem: ProblemOptions = ProblemOptions(),  # noqa: B008 - frozen
    rates: RateOptions = RateOptions(),  # noqa: B008
    batches: BatchOptions = BatchOptions(),  # noqa: B008
    solver: SolverOptions = SolverOptions(),  # noqa: B008
    json_: Annotated[bool, Parameter(name="--json", negative=())] = False,
    trajectory: Path | None = None,
    quantiles: Literal["batches", "datasets", "sketches"] | None = None,
) -> int:
    """Print the expected risk of batch schedules: the whole, then its parts.

    Then the change of the whole risk, of the excess (the risk above that of the best predictor of
    the sketched model) and of the noise against a constant batch, if that is among the schedules.
    Simulated numbers have their standard errors.

    Parameters
    ----------
    json_
        Print JSON instead of a table.
    trajectory
        Directory for trajectory.csv and trajectory.png: the risk after every step.
    quantiles
        Of the simulated excess risk, in place of its parts: over the batches of one dataset, over
        datasets, or over sketches (drawn problems with seeds from --seed on). Also with momentum
        and averages.
    """
    setting = {
        "problem": problem.words(),
        "rates": rates.words(),
        "batches": batches.words(),
        "solver": solver.words(),
    }
    words = {name: value for section in setting.values() for name, value in section.items()}
    case = case_by_words(words)
    simulated = is_simulated(words, case.procedure, case.rule)
    if quantiles is not None:
        if not simulated:
            got = words.get("solver") or f"{EXACT}, the default"
            raise InputError("solver", f"must be {SIMULATED} with {arg('quantiles')}", got)
        if trajectory is not None:
            raise InputError("trajectory", f"has no use with {arg('quantiles')}")
        spread = _spread(case, quantiles, words)
        print(_quantile_document(case, spread, setting) if json_ else _quantile_table(case, spread))
        return 0
    path = case.risk(trajectory=True) if trajectory is not None else None
    result = (
        case.simulate(word(words, "repetitions"), word(words, "data_seed"))
        if simulated
        else case.risk()
    )
    rows, changes = _rows(case, result), _changes(case, result)
    if trajectory is not None and path is not None:
        _write_trajectory(OutputDirectory(trajectory), case, path)
    if json_:
        print(json.dumps(_document(result, rows, changes, setting), indent=2))
    else:
        print(_report(case, result, rows, changes))
    if trajectory is not None:
        written = f"trajectory.csv and trajectory.png in {trajectory}"
        # stdout holds the JSON and nothing else.
        print(written, file=sys.stderr) if json_ else print(f"\n{written}")
    return 0


def _spread(case: Case, over: str, words: dict[str, Any]) -> Quantiles:
    return risk_quantiles(
        case,
        over=over,
        repetitions=word(words, "repetitions"),
        seed=word(words, "data_seed"),
        sketches=_sketches(words) if over == SKETCHES else None,
    )


def _sketches(words: dict[str, Any]) -> Sketches:
    """The problem of each repetition, drawn with seeds that follow the given one."""
    first = problem_seed(words)
    if first is None:
        raise InputError(
            "problem", f"must be one of {', '.join(DRAWN)} for quantiles over sketches"
        )
    return lambda k: problem_by_words({**words, "seed": first + k})


def _quantile_table(case: Case, spread: Quantiles) -> str:
    header = ["schedule", "mean ± s.e.", "exact mean"]
    header += [f"{level:.6g}" for level in spread.levels]
    cells = [
        [
            row["schedule"],
            with_error(row["mean"], row["mean_se"]),
            "-" if row["exact_mean"] is None else f"{row['exact_mean']:#.6g}",
            *(spread.cell(s, k) for k in range(spread.levels.size)),
        ]
        for s, row in enumerate(spread.rows())
    ]
    title = case.rule.title(case.procedure.title)
    setting = f"{title}, {case.gamma.size} steps, peak rate {case.gamma.max():.6g}"
    return "\n".join([f"{setting}; {spread.heading()}", "", text_table(header, cells)])


def _quantile_document(case: Case, spread: Quantiles, setting: dict[str, Any]) -> str:
    document = {
        "procedure": case.rule.title(case.procedure.title),
        "term": spread.term,
        "over": spread.over,
        "repetitions": spread.repetitions,
        "data_seed": spread.seed,
        "confidence": spread.confidence,
        "schedules": spread.rows(),
        "setting": setting,
        "batchlaw": __version__,
    }
    return json.dumps(without_infinities(document), indent=2)


def _rows(case: Case, result: Risk) -> list[dict[str, Any]]:
    """One row per schedule: the whole risk, its parts with their errors, then the summary."""
    names = list(case.schedules())
    columns: dict[str, FloatArray] = {}
    for part in ("total", "excess", "irreducible", "approximation", *case.procedure.parts):
        value = getattr(result, part)
        if value is None:  # a simulation of one pass does not split the variance by source
            continue
        columns[part] = np.asarray(value)
        if result.leave_one_out and (part in result.leave_one_out or part in WHOLE):
            columns[f"{part}{ERROR}"] = np.asarray(result.standard_error(part))
    columns |= case.summaries()
    per_schedule = {name: np.broadcast_to(values, len(names)) for name, values in columns.items()}
    return [
        {"schedule": name} | {part: float(values[row]) for part, values in per_schedule.items()}
        for row, name in enumerate(names)
    ]


def _changes(case: Case, result: Risk) -> list[dict[str, Any]]:
    """Change of the whole risk, the excess and the noise against the constant schedule, in %."""
    names = list(case.schedules())
    if CONSTANT not in names or len(names) == 1:
        return []
    constant = names.index(CONSTANT)
    terms = [t for t in (*WHOLE, case.procedure.noise) if _entry(getattr(result, t), constant)]
    rows = []
    for row, name in enumerate(names):
        if row == constant:
            continue
        changes: dict[str, Any] = {"schedule": name}
        for term in terms:
            ratio, error = result.ratio(term, row, constant)
            changes[term] = 100.0 * (ratio - 1.0)
            if result.leave_one_out:
                changes[f"{term}{ERROR}"] = 100.0 * error
        rows.append(changes)
    return rows


def _entry(values: float | FloatArray, row: int) -> float:
    return float(np.atleast_1d(values)[row])


def _report(
    case: Case, result: Risk, rows: list[dict[str, Any]], changes: list[dict[str, Any]]
) -> str:
    gamma, named = case.gamma, bool(case.procedure.summary)
    lines = [
        f"{result.procedure}, {gamma.size} steps, peak rate {gamma.max():.6g}; {result.method}",
        "",
        _table("schedule", rows, "{:.8g}".format),
    ]
    if changes:
        lines += ["", _table(f"against {CONSTANT}, %", changes, "{:+#.3g}".format)]
    elif named and CONSTANT not in [row["schedule"] for row in rows]:
        lines.append(f"\nno comparison: {CONSTANT} is not among the batches")
    if np.any(result.uncertainty):
        error = float(np.max(result.uncertainty))
        shown = "unknown" if np.isinf(error) else f"{error:.1e}"
        lines.append(f"\nestimated relative error of the excess: {shown}")
    lines += [f"\nnote: {note}" for note in result.notes]
    return "\n".join(lines)


def _table(first: str, rows: list[dict[str, Any]], number: Callable[[float], str]) -> str:
    """Rows as a table; a number with an error has it in its own cell."""
    parts = [name for name in rows[0] if name != "schedule" and not name.endswith(ERROR)]
    cells = [
        [
            row["schedule"],
            *(
                with_error(row[part], row[f"{part}{ERROR}"])
                if f"{part}{ERROR}" in row
                else number(row[part])
                for part in parts
            ),
        ]
        for row in rows
    ]
    return text_table([first, *(part.replace("_", " ") for part in parts)], cells)


def _document(
    result: Risk,
    rows: list[dict[str, Any]],
    changes: list[dict[str, Any]],
    setting: dict[str, Any],
) -> dict[str, Any]:
    error = float(np.max(result.uncertainty))
    return {
        "procedure": result.procedure,
        "method": result.method,
        "schedules": rows,
        "percent_against_constant": changes,
        "relative_error_of_excess": None if np.isinf(error) else error,
        "notes": list(result.notes),
        "setting": without_infinities(setting),
        "batchlaw": __version__,
    }


def _write_trajectory(output: OutputDirectory, case: Case, path: Risk) -> None:
    from batchlaw import plots

    names: Sequence[str] = list(case.schedules())
    terms = (*case.procedure.parts, "total")
    curves = {part: np.atleast_2d(getattr(path, part)) for part in terms}
    rows = [
        {"schedule": name, "step": t, "rate": case.gamma[t - 1] if t else 0.0}
        | {part: values[row, t] for part, values in curves.items()}
        for row, name in enumerate(names)
        for t in range(case.gamma.size + 1)
    ]
    with output.transaction() as files:
        files.csv("trajectory.csv", rows)
        figure = plots.trajectory_figure(names, curves, case.procedure.noise)
        plots.save(figure, files.path("trajectory.png"))
