"""``batchlaw risk``: the decomposition of a schedule's risk, without Monte Carlo."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

from batchlaw._base.checks import FloatArray
from batchlaw._base.files import OutputDirectory
from batchlaw._base.version import __version__
from batchlaw.design.choices import PARTS
from batchlaw.faces.cli.inputs import BatchOptions, ProblemOptions, RateOptions, SolverOptions
from batchlaw.faces.cli.table import text_table
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
    """Print the expected risk of batch schedules in its parts, exactly or with its error.

    Parameters
    ----------
    json_
        Print JSON instead of a table.
    trajectory
        Directory for trajectory.csv and trajectory.png: the risk after every step.
    """
    solver.check()
    at, gamma = problem.build(), rates.build()
    kappa = solver.influence(at, gamma)
    schedules: dict[str, FloatArray] = {"full batch": np.zeros(0)}
    if solver.procedure != "gd":
        schedules = batches.build(kappa, solver.max_batch)
    sizes = list(schedules.values())
    result = solver.expected(at, gamma, sizes)
    effective = solver.summaries(kappa, sizes)
    rows = _rows(list(schedules), result, PARTS[solver.procedure], effective)
    setting = {"problem": asdict(problem), "rates": asdict(rates), "batches": asdict(batches)}
    if trajectory is not None:
        path = solver.expected(at, gamma, sizes, trajectory=True)
        terms = PARTS[solver.procedure]
        _write_trajectory(OutputDirectory(trajectory), list(schedules), gamma, path, terms)
    if json_:
        print(json.dumps(_document(result, rows, setting), indent=2))
    else:
        print(_report(result, rows, gamma))
    if trajectory is not None:
        written = f"trajectory.csv and trajectory.png in {trajectory}"
        # JSON stays alone on stdout.
        print(written, file=sys.stderr) if json_ else print(f"\n{written}")
    return 0


def _rows(
    names: Sequence[str], result: Risk, terms: Sequence[str], effective: dict[str, FloatArray]
) -> list[dict[str, Any]]:
    order = ("total", "irreducible", "approximation", *terms)
    parts = {part: np.asarray(getattr(result, part)) for part in order}
    many = {
        name: np.broadcast_to(values, len(names)) for name, values in (effective | parts).items()
    }
    return [
        {"schedule": name} | {part: float(values[row]) for part, values in many.items()}
        for row, name in enumerate(names)
    ]


def _report(result: Risk, rows: list[dict[str, Any]], gamma: FloatArray) -> str:
    header = [name.replace("_", " ") for name in rows[0]]
    cells = [
        [row["schedule"], *(f"{value:.8g}" for value in list(row.values())[1:])] for row in rows
    ]
    lines = [
        f"{result.procedure}, {gamma.size} steps, peak rate {gamma.max():.6g}; {result.method}",
        "",
        text_table(header, cells),
    ]
    if np.any(result.uncertainty):
        error = float(np.max(result.uncertainty))
        said = "unknown" if np.isinf(error) else f"{error:.1e}"
        lines.append(f"\nestimated relative error of the excess: {said}")
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
        "setting": setting,
        "batchlaw": __version__,
    }


def _write_trajectory(
    output: OutputDirectory,
    names: Sequence[str],
    gamma: FloatArray,
    path: Risk,
    terms: Sequence[str],
) -> None:
    from batchlaw import plots

    curves = {part: np.atleast_2d(getattr(path, part)) for part in (*terms, "total")}
    rows = [
        {"schedule": name, "step": t, "rate": gamma[t - 1] if t else 0.0}
        | {part: values[row, t] for part, values in curves.items()}
        for row, name in enumerate(names)
        for t in range(gamma.size + 1)
    ]
    with output.transaction() as files:
        files.csv("trajectory.csv", rows)
        noise = "fluctuation" if "fluctuation" in terms else "variance"
        figure = plots.trajectory_figure(names, curves, noise)
        plots.save(figure, files.path("trajectory.png"))
