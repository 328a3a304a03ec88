"""A setting with its influence, schedules and risks; the page's requests of one move share it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.batches.allocation import allocate
from batchlaw.design.choices import ProblemChoice
from batchlaw.faces.app.replies import Name, Parts
from batchlaw.faces.app.request import Setting
from batchlaw.model.problem import Problem
from batchlaw.plans.plan import Plan
from batchlaw.plans.planner import plan as make_plan
from batchlaw.risk.result import Risk


@dataclass(frozen=True, eq=False)
class Solved:
    """All mathematics is the package's own: this only asks for it."""

    setting: Setting
    problem: Problem
    gamma: FloatArray
    kappa: FloatArray
    schedules: dict[Name, FloatArray]
    plan: Plan

    @classmethod
    def of(cls, setting: Setting) -> Solved:
        problem, gamma = setting.build_problem(), setting.gamma()
        kappa = setting.solver.influence(problem, gamma)
        plan = staged_plan(setting, problem, gamma)
        schedules: dict[Name, FloatArray] = {
            "oracle": best_whole(setting, kappa),
            "planned": plan.batches.astype(np.float64),
            # Of the same sum, and not rounded.
            "constant": np.full(setting.steps, setting.whole_budget / setting.steps),
        }
        return cls(setting, problem, gamma, kappa, schedules, plan)

    @property
    def noise(self) -> Literal["variance", "fluctuation"]:
        """The part of the risk that batches change."""
        return "fluctuation" if self.setting.reuse else "variance"

    def effective(self, schedules: list[FloatArray]) -> FloatArray:
        """B_eff of each, or rho_eff where data are reused."""
        (found,) = self.setting.solver.summaries(self.kappa, schedules).values()
        return np.atleast_1d(found)

    def scores(self, effective: FloatArray, oracle: float) -> FloatArray:
        """The oracle's noise over each schedule's: 1 is as good as it."""
        if not self.setting.reuse:
            return effective / oracle
        # Batches of the whole dataset leave no noise at all.
        safe = np.where(effective > 0.0, effective, 1.0)
        return np.where(effective > 0.0, oracle / safe, 1.0)

    def risk(self, schedules: list[FloatArray]) -> Risk:
        """Without Monte Carlo; refused where it is past all numbers."""
        risk = self.setting.solver.expected(self.problem, self.gamma, schedules)
        if not np.isfinite(risk.total).all():
            raise ValueError("the risk must be a finite number: this run diverges")
        return risk

    def ratio(self, risk: Risk, row: int, other: int) -> float:
        """Noise of one schedule over another's; 1 where neither has any."""
        ours, theirs = (float(np.asarray(getattr(risk, self.noise))[k]) for k in (row, other))
        return ours / theirs if theirs > 0.0 else 1.0

    def parts(self, risk: Risk, row: int) -> Parts:
        """Of one schedule; parts that batches do not change are the same for all."""

        def of(name: str) -> float:
            values = np.ravel(getattr(risk, name))
            return float(values[row if values.size > 1 else 0])

        names = ("total", "irreducible", "approximation", "bias", "variance")
        return Parts(
            **{name: of(name) for name in names},
            reducible=of("approximation") + of("excess"),
            fluctuation=of("fluctuation") if self.setting.reuse else None,
        )


def staged_plan(
    at: Setting, problem: Problem, gamma: FloatArray, factor: int | None = None
) -> Plan:
    """The planned schedule, as every export takes it."""
    return make_plan(
        gamma,
        at.budget,
        spectrum=problem,
        stages=at.stages,
        min_batch=at.min_batch,
        max_batch=at.max_batch,
        multiple_of=at.multiple_of,
        factor=factor,
        sampling="independent batches" if at.reuse else "one pass",
        dataset_size=at.samples if at.reuse else None,
        replacement=at.reuse and at.replacement,
        **at.momentum_rule,
        inputs={"explorer": at.model_dump(mode="json")},
        seed=ProblemChoice(problem=at.problem).used_seed,
    )


def best_whole(at: Setting, kappa: FloatArray) -> FloatArray:
    """The best whole batches under the limits for an influence."""
    found = allocate(
        kappa,
        at.whole_budget,
        min_batch=at.min_batch,
        max_batch=at.largest_batch,
        multiple_of=at.multiple_of,
    )
    return np.asarray(found, np.float64)


class Recent:
    """The last settings, each solved once although several requests ask for it together."""

    def __init__(self, kept: int = 8) -> None:
        self._kept = kept
        self._places: OrderedDict[str, _Place] = OrderedDict()
        self._lock = threading.Lock()

    def solved(self, setting: Setting) -> Solved:
        key = setting.model_dump_json()
        with self._lock:
            place = self._places.setdefault(key, _Place())
            self._places.move_to_end(key)
            if len(self._places) > self._kept:
                self._places.popitem(last=False)
        with place.lock:
            if place.solved is None:
                place.solved = Solved.of(setting)
            return place.solved


@dataclass
class _Place:
    lock: threading.Lock = field(default_factory=threading.Lock)
    solved: Solved | None = None


solve = Recent().solved
