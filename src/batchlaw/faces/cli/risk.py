"""``batchlaw risk``: the risk of batch schedules, part by part, exact or simulated."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

from batchlaw._base.checks import FloatArray
from batchlaw._base.files import OutputDirectory
from batchlaw._base.version import __version__
from batchlaw.design.by_words import case_by_words, is_simulated, word
from batchlaw.design.case import Case
from batchlaw.faces.cli.inputs import BatchOptions, ProblemOptions, RateOptions, SolverOptions
from batchlaw.faces.cli.table import text_table, without_infinities
from batchlaw.risk.result import Risk


def risk(
    *,
    problem: ProblemOptions = ProblemOptions(),  # noqa: B008 - frozen
    rates: RateOptions = RateOptions(),  # noqa: B008
    batches: BatchOptions = BatchOptions(),  # noqa: B008
    solver: SolverOptions = SolverOptions(),  # noqa: B008
    json_: Annotated[bool, Parameter(name="--json", negative=())] = False,
    trajectory: Path | None = None,
) -> int:
    """Print the expected risk of batch schedules, part by part, with errors if simulated.

    Parameters
    ----------
    json_
        Print JSON instead of a table.
    trajectory
        Directory for trajectory.csv and trajectory.png: the risk after every step.
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
    path = case.risk(trajectory=True) if trajectory is not None else None
    result = (
        case.simulate(word(words, "repetitions"), word(words, "data_seed"))
        if simulated
        else case.risk()
    )
    rows = _rows(case, result)
    if trajectory is not None and path is not None:
        _write_trajectory(OutputDirectory(trajectory), case, path)
    if json_:
        print(json.dumps(_document(result, rows, setting), indent=2))
    else:
        print(_report(result, rows, case.gamma))
    if trajectory is not None:
        written = f"trajectory.csv and trajectory.png in {trajectory}"
        # stdout holds the JSON and nothing else.
        print(written, file=sys.stderr) if json_ else print(f"\n{written}")
    return 0


def _rows(case: Case, result: Risk) -> list[dict[str, Any]]:
    """One row per schedule: its summary, then the total risk and its parts with their errors."""
    names = list(case.schedules())
    columns = dict(case.summaries())
    for part in ("total", "irreducible", "approximation", *case.procedure.parts):
        value = getattr(result, part)
        if value is None:  # a simulation of one pass does not split the variance by source
            continue
        columns[part] = np.asarray(value)
        if part in result.leave_one_out or (part == "total" and result.leave_one_out):
            columns[f"{part}_se"] = np.asarray(result.standard_error(part))
    per_schedule = {name: np.broadcast_to(values, len(names)) for name, values in columns.items()}
    return [
        {"schedule": name} | {part: float(values[row]) for part, values in per_schedule.items()}
        for row, name in enumerate(names)
    ]


def _report(result: Risk, rows: list[dict[str, Any]], gamma: FloatArray) -> str:
    header = [name.replace("_se", " s.e.").replace("_", " ") for name in rows[0]]
    cells = [
        [
            row["schedule"],
            *(
                f"{value:.2g}" if name.endswith("_se") else f"{value:.8g}"
                for name, value in list(row.items())[1:]
            ),
        ]
        for row in rows
    ]
    lines = [
        f"{result.procedure}, {gamma.size} steps, peak rate {gamma.max():.6g}; {result.method}",
        "",
        text_table(header, cells),
    ]
    if np.any(result.uncertainty):
        error = float(np.max(result.uncertainty))
        shown = "unknown" if np.isinf(error) else f"{error:.1e}"
        lines.append(f"\nestimated relative error of the excess: {shown}")
    lines += [f"\nnote: {note}" for note in result.notes]
    return "\n".join(lines)


def _document(result: Risk, rows: list[dict[str, Any]], setting: dict[str, Any]) -> dict[str, Any]:
    error = float(np.max(result.uncertainty))
    return {
        "procedure": result.procedure,
        "method": result.method,
        "schedules": rows,
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
