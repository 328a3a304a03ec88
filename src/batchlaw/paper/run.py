"""All four experiments, and their files."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from batchlaw import plots
from batchlaw._files import OutputDirectory
from batchlaw._version import __version__
from batchlaw.paper import multi_pass_sweep, one_pass_sweep
from batchlaw.paper.comparison import Comparison, compare
from batchlaw.paper.multi_pass_sweep import MultiPassSweep
from batchlaw.paper.one_pass_sweep import OnePassSweep
from batchlaw.paper.profile import Profile, profile
from batchlaw.paper.reported import Figure, figures
from batchlaw.paper.setting import Setting
from batchlaw.problem import Problem

FIGURE = "dynamic_experiments"

# Called with the name of a stage and its repetitions; gives what counts finished ones.
Stages = Callable[[str, int], Callable[[int], None]]


@dataclass(frozen=True, eq=False)
class Results:
    setting: Setting
    problem: Problem
    one_pass: OnePassSweep
    multi_pass: MultiPassSweep
    comparisons: list[Comparison]
    profile: Profile
    figures: list[Figure]


def run(setting: Setting, *, threads: int | None = None, stages: Stages | None = None) -> Results:
    """Compute everything; writes nothing."""
    problem = setting.problem()

    def stage(name: str) -> Callable[[int], None] | None:
        return stages(name, setting.reps) if stages else None

    one_pass = one_pass_sweep.run(setting, problem, threads, stage("one-pass sweep"))
    multi_pass = multi_pass_sweep.run(setting, problem, threads, stage("multi-pass sweep"))
    comparisons = compare(setting, one_pass, multi_pass)
    shape = profile(setting, multi_pass)
    table = figures(setting, comparisons, shape)
    return Results(setting, problem, one_pass, multi_pass, comparisons, shape, table)


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
        figure = plots.paper_figure(one, multi, results.comparisons, results.profile)
        for kind in ("png", "pdf"):
            plots.save(figure, files.path(f"{FIGURE}.{kind}"))
    return files.written


def summary(results: Results) -> dict[str, object]:
    """The run in one object: what was set, what came out, with which versions."""
    problem = results.problem
    return {
        "setting": dataclasses.asdict(results.setting)
        | {"grad_budget": results.setting.reuse_budget},
        "differs_from_paper": results.setting.differs_from_paper(),
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
