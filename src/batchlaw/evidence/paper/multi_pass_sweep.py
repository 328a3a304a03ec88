"""Experiment 2: multi-pass fluctuation, without replacement, against rho_eff."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from batchlaw.batches.effective import effective_fluctuation, fluctuation_factors
from batchlaw.evidence.paper.experiment import Experiment, cell_instance, instance_cell
from batchlaw.evidence.paper.sweep import Collapse, Sweep
from batchlaw.jobs.arrays import pack, unpack
from batchlaw.model.problem import Problem
from batchlaw.risk.multi_pass import multi_pass_risk
from batchlaw.risk.simulate import leave_one_out, multi_pass_terms, refuse_divergence

if TYPE_CHECKING:
    from batchlaw.jobs.store import Cell

NAME = "multi-pass"
# Repetitions per cell: about a second at the paper's size.
BLOCK = 50


@dataclass(frozen=True, eq=False)
class MultiPassSweep(Collapse):
    """The measured sweep with its mean-field expectation."""

    samples: int

    def summary_rows(self) -> list[dict[str, object]]:
        measured, errors = self.measured, self.standard_errors()
        return [
            {
                "schedule": schedule,
                "grad_budget": budget,
                "rho_eff": self.predictor[row],
                "fluctuation": measured[row],
                "fluctuation_se": errors[row],
                "expected_fluctuation": np.asarray(self.exact.fluctuation)[row],
            }
            for row, budget, schedule in self.sweep.cells()
        ]

    def schedule_rows(self) -> list[dict[str, object]]:
        rho = fluctuation_factors(self.sweep.flat, self.sweep.rates.size, self.samples)
        return [
            {
                "schedule": schedule,
                "grad_budget": budget,
                "t": t + 1,
                "batch": self.sweep.flat[row, t],
                "kappa": kappa,
                "rho": rho[row, t],
            }
            for row, budget, schedule in self.sweep.cells()
            for t, kappa in enumerate(self.sweep.kappa)
        ]


def build(experiment: Experiment, problem: Problem) -> Sweep:
    """All schedules of the experiment."""
    return _build(problem, experiment.l, experiment.gamma, experiment.reuse_budgets, experiment.n)


def cells(experiment: Experiment) -> list[Cell]:
    """One cell per block of repetitions.

    Not one per budget: the schedules of a repetition draw their batches in turn from one stream.
    """
    fixed = instance_cell(experiment, __name__) | {
        "sweep": NAME,
        "n": experiment.n,
        "l": experiment.l,
        "budgets": list(experiment.reuse_budgets),
    }
    starts = range(0, experiment.reps, BLOCK)
    return [
        {**fixed, "start": start, "stop": min(start + BLOCK, experiment.reps)} for start in starts
    ]


def compute(cell: Cell) -> dict[str, Any]:
    """The fluctuation of every schedule in every repetition of a block."""
    problem = cell_instance(cell)
    sweep = _build(problem, cell["l"], cell["gamma"], tuple(cell["budgets"]), cell["n"])
    terms = multi_pass_terms(
        problem,
        sweep.rates,
        sweep.flat,
        samples=cell["n"],
        repetitions=range(cell["start"], cell["stop"]),
        seed=cell["seed"],
        threads=1,
    )
    refuse_divergence("multi-pass SGD", terms["fluctuation"])
    return {"fluctuation": pack(terms["fluctuation"])}


def collect(
    experiment: Experiment, problem: Problem, sweep: Sweep, results: Sequence[Mapping[str, Any]]
) -> MultiPassSweep:
    """Assemble the experiment from the results of its cells."""
    blocks = [unpack(result["fluctuation"]) for result in results]
    measured, without = leave_one_out(np.concatenate(blocks, axis=1))
    return MultiPassSweep(
        sweep=sweep,
        term="fluctuation",
        predictor=np.asarray(effective_fluctuation(sweep.kappa, sweep.flat, experiment.n)),
        measured=measured,
        without=without,
        exact=multi_pass_risk(problem, sweep.rates, sweep.flat, samples=experiment.n),
        samples=experiment.n,
    )


def _build(
    problem: Problem, steps: int, gamma: float, budgets: tuple[int, ...], samples: int
) -> Sweep:
    return Sweep.build(problem, steps, gamma, budgets, max_batch=samples)
