"""Experiment 1: centred one-pass variance against B_eff."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from batchlaw.batches.effective import effective_batch
from batchlaw.evidence.paper.experiment import Experiment, cell_instance, instance_cell
from batchlaw.evidence.paper.sweep import Collapse, Sweep
from batchlaw.jobs.arrays import pack, unpack
from batchlaw.model.problem import Problem
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.risk.simulate import simulate_one_pass

if TYPE_CHECKING:
    from batchlaw.jobs.store import Cell

NAME = "one-pass"


@dataclass(frozen=True, eq=False)
class OnePassSweep(Collapse):
    """The measured sweep with the exact variance of the same schedules."""

    def summary_rows(self) -> list[dict[str, object]]:
        measured, errors = self.measured, self.standard_errors()
        return [
            {
                "schedule": schedule,
                "n": n,
                "b_eff": 1.0 / self.predictor[row],
                "variance": measured[row],
                "variance_se": errors[row],
                "exact_variance": np.asarray(self.exact.variance)[row],
            }
            for row, n, schedule in self.sweep.cells()
        ]

    def schedule_rows(self) -> list[dict[str, object]]:
        return [
            {"schedule": schedule, "n": n, "t": t + 1, "batch": batch, "kappa": kappa}
            for row, n, schedule in self.sweep.cells()
            for t, (batch, kappa) in enumerate(
                zip(self.sweep.flat[row], self.sweep.kappa, strict=True)
            )
        ]


def build(experiment: Experiment, problem: Problem) -> Sweep:
    """All schedules of the experiment."""
    return Sweep.build(problem, experiment.t, experiment.gamma, experiment.one_pass_budgets)


def cells(experiment: Experiment) -> list[Cell]:
    """One cell per budget: a schedule's numbers do not depend on the other schedules."""
    fixed = instance_cell(experiment, __name__) | {
        "sweep": NAME,
        "t": experiment.t,
        "reps": experiment.reps,
    }
    return [{**fixed, "budget": budget} for budget in experiment.one_pass_budgets]


def compute(cell: Cell) -> dict[str, Any]:
    """The measured variance of a budget's schedules, and the same without each repetition."""
    problem = cell_instance(cell)
    sweep = Sweep.build(problem, cell["t"], cell["gamma"], (cell["budget"],))
    risk = simulate_one_pass(
        problem,
        sweep.rates,
        sweep.flat,
        repetitions=cell["reps"],
        seed=cell["seed"],
        threads=1,
    )
    return {
        "measured": pack(np.asarray(risk.variance)),
        "without": pack(risk.leave_one_out["variance"]),
    }


def collect(problem: Problem, sweep: Sweep, results: Sequence[Mapping[str, Any]]) -> OnePassSweep:
    """Assemble the experiment from the results of its cells."""
    return OnePassSweep(
        sweep=sweep,
        term="variance",
        predictor=1.0 / np.asarray(effective_batch(sweep.kappa, sweep.flat)),
        measured=np.concatenate([unpack(result["measured"]) for result in results]),
        without=np.concatenate([unpack(result["without"]) for result in results]),
        exact=one_pass_risk(problem, sweep.rates, sweep.flat),
    )
