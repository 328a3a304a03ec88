"""A setting as a case with its schedules and plan; the page's requests of one move share it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import Unstable
from batchlaw.batches.allocation import allocate
from batchlaw.design.by_words import Words, problem_by_words, problem_seed, rates_by_words
from batchlaw.design.case import Case
from batchlaw.faces.app.page_setting import PageSetting
from batchlaw.faces.app.replies import Name, Parts
from batchlaw.model.problem import Problem
from batchlaw.plans.plan import Plan
from batchlaw.plans.planner import plan as make_plan
from batchlaw.risk.procedures import OnePass
from batchlaw.risk.result import TERMS, Risk


@dataclass(frozen=True, eq=False)
class Solution:
    """All mathematics is the package's own: this only asks for it.

    Attributes
    ----------
    setting
        What was asked for.
    case
        The same as a case, with the batches of ``schedules``.
    schedules
        Batches by name.
    plan
        Of the planned schedule.
    """

    setting: PageSetting
    case: Case
    schedules: dict[Name, FloatArray]
    plan: Plan

    @classmethod
    def of(cls, setting: PageSetting) -> Solution:
        case = case_of(setting)
        plan = staged_plan(setting, case)
        schedules: dict[Name, FloatArray] = {
            "oracle": best_whole(setting, case, case.influence),
            "planned": plan.batches.astype(np.float64),
            "constant": _constant(setting, case),
        }
        return cls(setting, case, schedules, plan)

    @property
    def noise(self) -> str:
        """The part of the risk that batches change."""
        return self.case.procedure.noise

    @property
    def summary(self) -> str:
        """The name of what sums up a schedule's batches."""
        return "B_eff" if self.large_is_good else self.case.procedure.summary

    @property
    def large_is_good(self) -> bool:
        """Whether noise falls with the summary, as it does with B_eff."""
        return self.case.procedure.summary == OnePass.summary

    def effective(self, schedules: list[FloatArray]) -> FloatArray:
        """B_eff of each, or rho_eff where data are reused."""
        (summaries,) = self.case.with_batches(schedules).summaries().values()
        return np.atleast_1d(summaries)

    def scores(self, effective: FloatArray, oracle: float) -> FloatArray:
        """The oracle's noise over each schedule's: 1 is as good as it."""
        if self.large_is_good:
            return effective / oracle
        # Batches of the whole dataset leave no noise at all.
        safe = np.where(effective > 0.0, effective, 1.0)
        return np.where(effective > 0.0, oracle / safe, 1.0)

    def risk(self, schedules: list[FloatArray]) -> Risk:
        """Without Monte Carlo where there is such a way; refused where it is past all numbers."""
        risk = self.case.with_batches(schedules).solve()
        if not np.isfinite(risk.total).all():
            raise Unstable(
                "rates", "diverges: its risk is past the largest number", subject="this run"
            )
        return risk

    def ratio(self, risk: Risk, row: int, other: int) -> tuple[float, float | None]:
        """Noise of one schedule over another's, 1 where neither has any; and its error."""
        if row == other or not np.asarray(getattr(risk, self.noise))[other] > 0.0:
            return 1.0, None
        ratio, error = risk.ratio(self.noise, row, other)
        return ratio, error if risk.leave_one_out else None

    def parts(self, risk: Risk, row: int) -> Parts:
        """Of one schedule; parts that batches do not change are the same for all."""

        def of(name: str) -> float:
            return _entry(getattr(risk, name), row)

        names = ("total", "irreducible", "approximation", "bias", "variance")
        reuse = [name for name in ("fluctuation", "cross") if name in self.case.procedure.parts]
        return Parts(
            **{name: of(name) for name in (*names, *reuse)},
            reducible=of("approximation") + of("excess"),
            standard_error=_errors(risk, row),
        )


def _errors(risk: Risk, row: int) -> dict[str, float] | None:
    """Standard errors of a simulated risk, by part; None for an exact one."""
    if not risk.leave_one_out:
        return None
    errors = {
        name: _entry(risk.standard_error(name), row)
        for name in (*TERMS, "total")
        if name in risk.leave_one_out or name == "total"
    }
    return errors | {"reducible": errors["total"]}


def _entry(values: float | FloatArray, row: int) -> float:
    flat = np.ravel(values)
    return float(flat[row if flat.size > 1 else 0])


def case_of(setting: PageSetting) -> Case:
    """The case that a setting asks for, without batches."""
    words = setting.words()
    procedure, rule = setting.procedure_and_rule()
    return Case(_problem(setting, words), rates_by_words(words), procedure=procedure, rule=rule)


def _problem(setting: PageSetting, words: Words) -> Problem:
    file = setting.spectrum
    if file is None:
        return problem_by_words(words)
    return Problem.from_spectrum(file.eigenvalue, file.energy, setting.sigma**2, file.multiplicity)


def staged_plan(at: PageSetting, case: Case, batch_factor: int | None = None) -> Plan:
    """The planned schedule, as every export takes it."""
    procedure = case.procedure
    return make_plan(
        case.gamma,
        at.budget,
        spectrum=case.problem,
        rule=case.rule,
        stages=at.limits.stages,
        min_batch=at.limits.min_batch,
        max_batch=at.limits.max_batch,
        multiple_of=at.limits.multiple_of,
        batch_factor=batch_factor,
        procedure=procedure.name,
        dataset_size=getattr(procedure, "samples", None),
        replacement=getattr(procedure, "replacement", False),
        inputs={"explorer": at.model_dump(mode="json")},
        seed=problem_seed(at.words()),
    )


def best_whole(at: PageSetting, case: Case, influence: FloatArray) -> FloatArray:
    """The best whole batches under the limits for an influence."""
    limits = at.limits.capped(case.procedure.max_batch)
    batches = allocate(
        influence,
        at.whole_budget,
        min_batch=limits.min_batch,
        max_batch=limits.max_batch,
        multiple_of=limits.multiple_of,
    )
    return np.asarray(batches, np.float64)


def _constant(at: PageSetting, case: Case) -> FloatArray:
    """Of the same sum, and not rounded unless it is to be simulated."""
    if case.procedure.solvable:
        return np.full(at.steps, at.whole_budget / at.steps)
    return best_whole(at, case, np.ones(at.steps))


class Recent:
    """The last settings, each solved once although several requests ask for it together."""

    def __init__(self, kept: int = 8) -> None:
        self._kept = kept
        self._places: OrderedDict[str, _Place] = OrderedDict()
        self._lock = threading.Lock()

    def solution(self, setting: PageSetting) -> Solution:
        key = setting.model_dump_json()
        with self._lock:
            place = self._places.setdefault(key, _Place())
            self._places.move_to_end(key)
            if len(self._places) > self._kept:
                self._places.popitem(last=False)
        with place.lock:
            if place.solution is None:
                place.solution = Solution.of(setting)
            return place.solution


@dataclass
class _Place:
    lock: threading.Lock = field(default_factory=threading.Lock)
    solution: Solution | None = None


solve = Recent().solution
