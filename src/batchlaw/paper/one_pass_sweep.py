"""Experiment 1: centred one-pass variance against B_eff."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from batchlaw.allocation import effective_batch
from batchlaw.exact.one_pass import one_pass_risk
from batchlaw.paper.setting import Setting
from batchlaw.paper.sweep import Collapse, Sweep
from batchlaw.problem import Problem
from batchlaw.simulate import Progress, simulate_one_pass


@dataclass(frozen=True, eq=False)
class OnePassSweep(Collapse):
    """The measured sweep with the exact variance of the same schedules beside it."""

    def summary_rows(self) -> list[dict[str, object]]:
        measured, errors = self.values(), self.standard_errors()
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


def run(
    setting: Setting, problem: Problem, threads: int | None, progress: Progress | None
) -> OnePassSweep:
    sweep = Sweep.build(problem, setting.t, setting.gamma, setting.one_pass_budgets)
    measured = simulate_one_pass(
        problem,
        sweep.rates,
        sweep.flat,
        repetitions=setting.reps,
        seed=setting.seed,
        threads=threads,
        progress=progress,
    )
    return OnePassSweep(
        sweep=sweep,
        term="variance",
        predictor=1.0 / np.asarray(effective_batch(sweep.kappa, sweep.flat)),
        measured=measured,
        exact=one_pass_risk(problem, sweep.rates, sweep.flat),
    )
