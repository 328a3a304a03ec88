"""Experiment 2: multi-pass fluctuation, without replacement, against rho_eff."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from batchlaw.allocation import effective_fluctuation, fluctuation_factors
from batchlaw.exact.multi_pass import multi_pass_risk
from batchlaw.paper.setting import Setting
from batchlaw.paper.sweep import Collapse, Sweep
from batchlaw.problem import Problem
from batchlaw.simulate import Progress, simulate_multi_pass


@dataclass(frozen=True, eq=False)
class MultiPassSweep(Collapse):
    """The measured sweep with its mean-field expectation beside it."""

    samples: int

    def summary_rows(self) -> list[dict[str, object]]:
        measured, errors = self.values(), self.standard_errors()
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


def run(
    setting: Setting, problem: Problem, threads: int | None, progress: Progress | None
) -> MultiPassSweep:
    sweep = Sweep.build(
        problem, setting.l, setting.gamma, setting.reuse_budgets, max_batch=setting.n
    )
    measured = simulate_multi_pass(
        problem,
        sweep.rates,
        sweep.flat,
        samples=setting.n,
        repetitions=setting.reps,
        seed=setting.seed,
        threads=threads,
        progress=progress,
    )
    return MultiPassSweep(
        sweep=sweep,
        term="fluctuation",
        predictor=np.asarray(effective_fluctuation(sweep.kappa, sweep.flat, setting.n)),
        measured=measured,
        exact=multi_pass_risk(problem, sweep.rates, sweep.flat, samples=setting.n),
        samples=setting.n,
    )
