"""All four experiments, and their files."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from batchlaw._base.files import OutputDirectory
from batchlaw._base.version import __version__
from batchlaw.evidence.paper import multi_pass_sweep, one_pass_sweep
from batchlaw.evidence.paper.comparison import Comparison, compare
from batchlaw.evidence.paper.experiment import Experiment
from batchlaw.evidence.paper.figure import paper_figure
from batchlaw.evidence.paper.multi_pass_sweep import MultiPassSweep
from batchlaw.evidence.paper.one_pass_sweep import OnePassSweep
from batchlaw.evidence.paper.profile import Profile, profile
from batchlaw.evidence.paper.reported import Figure, figures
from batchlaw.evidence.paper.sweep import Sweep
from batchlaw.jobs.execution import execute
from batchlaw.jobs.store import DONE, FAILED, REFUSED, Cell, Store
from batchlaw.jobs.workers import Workers
from batchlaw.model.problem import Problem
from batchlaw.plots.common import save

FIGURE = "dynamic_experiments"

COMPUTE = {
    one_pass_sweep.NAME: one_pass_sweep.compute,
    multi_pass_sweep.NAME: multi_pass_sweep.compute,
}


@dataclass(frozen=True, eq=False)
class Results:
    experiment: Experiment
    problem: Problem
    one_pass: OnePassSweep
    multi_pass: MultiPassSweep
    comparisons: list[Comparison]
    profile: Profile
    figures: list[Figure]


@dataclass(frozen=True, eq=False)
class Prepared:
    """Everything but the measurements: bad settings are refused before any file is written."""

    experiment: Experiment
    problem: Problem
    one_pass: Sweep
    multi_pass: Sweep
    cells: list[Cell]


def prepare(experiment: Experiment) -> Prepared:
    """Draw the instance, and lay out the sweeps and their cells."""
    problem = experiment.problem()
    return Prepared(
        experiment,
        problem,
        one_pass_sweep.build(experiment, problem),
        multi_pass_sweep.build(experiment, problem),
        # Longer cells first, so that no worker is left with one at the end.
        [*multi_pass_sweep.cells(experiment), *one_pass_sweep.cells(experiment)],
    )


def run_cell(cell: Cell) -> dict[str, Any]:
    """The result of a cell, from the cell alone."""
    return COMPUTE[cell["sweep"]](cell)


def run(
    prepared: Prepared,
    store: Store,
    workers: Workers,
    *,
    advance: Callable[[int], None] | None = None,
) -> Results:
    """Run the cells that are not stored, and assemble the results; writes no other file."""
    experiment, problem, cells = prepared.experiment, prepared.problem, prepared.cells
    retry = (REFUSED, FAILED)
    execute(store, cells, run_cell, workers, advance=advance, retry=retry, largest=1)
    by_sweep = {name: _results(store, cells, name) for name in COMPUTE}
    one_pass = one_pass_sweep.collect(problem, prepared.one_pass, by_sweep[one_pass_sweep.NAME])
    multi_pass = multi_pass_sweep.collect(
        experiment, problem, prepared.multi_pass, by_sweep[multi_pass_sweep.NAME]
    )
    comparisons = compare(experiment, one_pass, multi_pass)
    shape = profile(experiment, multi_pass)
    table = figures(experiment, comparisons, shape)
    return Results(experiment, problem, one_pass, multi_pass, comparisons, shape, table)


def _results(store: Store, cells: Sequence[Cell], sweep: str) -> list[dict[str, Any]]:
    """Results of one sweep, in order; OSError if a cell failed, which the next run retries."""
    of_sweep = [cell for cell in cells if cell["sweep"] == sweep]
    stored = [row for row in map(store.get, of_sweep) if row is not None]
    if failed := [row for row in stored if row.status != DONE]:
        raise OSError(
            f"{len(failed)} of {len(of_sweep)} cells of the {sweep} sweep failed: "
            f"{failed[0].result['reason']}"
        )
    return [row.result for row in stored]


def write(results: Results, output: OutputDirectory) -> list[Path]:
    """Write the paper's files, the figure and summary.json, all or none of them."""
    one, multi = results.one_pass, results.multi_pass
    with output.transaction() as files:
        files.csv("dynamic_one_pass_summary.csv", one.summary_rows())
        files.csv("dynamic_multipass_wor_summary.csv", multi.summary_rows())
        files.csv("dynamic_one_pass_schedules.csv", one.schedule_rows())
        files.csv("dynamic_multipass_wor_schedules.csv", multi.schedule_rows())
        files.csv(
            "dynamic_allocation_comparison.csv",
            [dataclasses.asdict(row) for row in results.comparisons],
        )
        files.csv("dynamic_oracle_influence_profile.csv", results.profile.rows())
        files.json("summary.json", summary(results))
        figure = paper_figure(one, multi, results.comparisons, results.profile)
        for kind in ("png", "pdf"):
            save(figure, files.path(f"{FIGURE}.{kind}"))
    return files.written


def summary(results: Results) -> dict[str, object]:
    """The run in one object: settings, results and versions."""
    problem = results.problem
    return {
        "setting": dataclasses.asdict(results.experiment)
        | {"grad_budget": results.experiment.reuse_budget},
        "differs_from_paper": results.experiment.differs_from_paper(),
        "problem": {
            "largest_eigenvalue": problem.eigenvalues[0],
            "smallest_eigenvalue": problem.eigenvalues[-1],
            "trace": problem.trace,
            "approximation": problem.approximation,
            "noise_variance": problem.noise_variance,
        },
        "one_pass_collapse": _collapse(results.one_pass),
        "multi_pass_collapse": _collapse(results.multi_pass),
        "comparison": [dataclasses.asdict(row) for row in results.comparisons],
        "figures": [dataclasses.asdict(row) for row in results.figures],
        "all_agree": all(row.agrees is not False for row in results.figures),
        "notes": list(results.one_pass.exact.notes),
        "versions": {
            "batchlaw": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def _collapse(collapse: OnePassSweep | MultiPassSweep) -> dict[str, float]:
    multiple, error = collapse.multiple()
    return {
        "fitted_multiple": multiple,
        "fitted_multiple_se": error,
        "spread_of_logarithms": collapse.spread(),
    }
