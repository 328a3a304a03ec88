"""A sweep over budgets and schedules at one horizon, its measurement, and its collapse."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.batches.allocation import FAMILIES, schedule_families
from batchlaw.influences.weights import influence
from batchlaw.model.problem import Problem
from batchlaw.risk.result import Risk, jackknife
from batchlaw.schedule.rates import wsd


@dataclass(frozen=True, eq=False)
class Sweep:
    """Every (budget, schedule) of a sweep over one horizon, in one array.

    ``batches[budget_index, schedule_index]`` is a schedule; ``flat`` is the (S, T) form
    that solvers take.
    """

    rates: FloatArray
    kappa: FloatArray
    budgets: tuple[int, ...]
    batches: IntArray

    @classmethod
    def build(
        cls,
        problem: Problem,
        steps: int,
        gamma: float,
        budgets: tuple[int, ...],
        max_batch: int | None = None,
    ) -> Sweep:
        rates = wsd(steps, gamma)
        kappa = influence(problem.eigenvalues, rates)
        families = [schedule_families(kappa, budget, max_batch=max_batch) for budget in budgets]
        batches = np.array([[family[name] for name in FAMILIES] for family in families])
        return cls(rates, kappa, budgets, batches)

    @property
    def flat(self) -> IntArray:
        return self.batches.reshape(-1, self.rates.size)

    def index(self, budget: int, schedule: str) -> int:
        """Row of a schedule in ``flat``."""
        return self.budgets.index(budget) * len(FAMILIES) + FAMILIES.index(schedule)

    def cells(self) -> list[tuple[int, int, str]]:
        """(row, budget, schedule) of every schedule."""
        return [
            (self.index(budget, name), budget, name) for budget in self.budgets for name in FAMILIES
        ]


@dataclass(frozen=True, eq=False)
class Collapse:
    """A measured sweep, and the summary of its schedules that should explain it.

    ``predictor`` is 1/B_eff (one pass) or rho_eff (multi-pass); the law says that the
    ``term`` of the risk is proportional to it. ``measured`` is that term of every schedule, and
    ``without``, (schedules, repetitions), the same without each repetition in turn. ``exact``
    holds the expectations of the same schedules, without Monte Carlo.
    """

    sweep: Sweep
    term: str
    predictor: FloatArray
    measured: FloatArray
    without: FloatArray
    exact: Risk

    def standard_errors(self) -> FloatArray:
        return jackknife(self.without)

    def ratio(self, row: int, reference: int) -> tuple[float, float]:
        """One schedule's measured term over another's, and its standard error: they share data."""
        ratio = float(self.measured[row] / self.measured[reference])
        return ratio, float(jackknife(self.without[row] / self.without[reference]))

    def multiple(self) -> tuple[float, float]:
        """The one fitted multiple of the predictor, with its standard error.

        Least squares on the logarithms, so that every point has the same weight. Points of a
        repetition share data; the jackknife over repetitions accounts for it.
        """
        fit = np.exp(np.mean(np.log(self.measured / self.predictor)))
        replicates = self.without / self.predictor[:, None]
        return float(fit), float(jackknife(np.exp(np.mean(np.log(replicates), axis=0))))

    def spread(self) -> float:
        """Root mean square of log(measured / fitted): how far the points lie off the line."""
        return float(np.std(np.log(self.measured / self.predictor)))
