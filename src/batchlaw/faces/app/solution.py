"""A setting solved: its case, schedules and plan, shared by the page's parallel requests."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError, Unstable
from batchlaw.batches.allocation import allocate
from batchlaw.design.by_words import Words, problem_by_words, problem_seed, rates_by_words
from batchlaw.design.case import Case
from batchlaw.design.optimum import optimal_batches
from batchlaw.faces.app.controls import MOST_STAGES
from batchlaw.faces.app.page_setting import PageSetting
from batchlaw.faces.app.replies import Against, Name, Parts, Search
from batchlaw.model.problem import Problem
from batchlaw.plans.plan import Plan
from batchlaw.plans.planner import plan as make_plan
from batchlaw.risk.procedures import OnePass
from batchlaw.risk.result import TERMS, Risk

# Steps x directions up to which a rule without influence is searched for its plan in every view
# (a third of a second), and for that and the best schedule on request (seconds).
SEARCHED_AT_ONCE, MOST_SEARCHED = 2**13, 2**16
# Updates of SGD up to which a view scores the rules that people use.
MOST_SCORED = 10_000


@dataclass(frozen=True, eq=False)
class Solution:
    """A setting's case, schedules and plan. No mathematics here: it calls the package.

    Attributes
    ----------
    setting
        The page's setting.
    case
        The setting as a case, without batches.
    schedules
        Batches by name.
    plan
        The plan behind the planned schedule; None where a search for it would take too long.
    certificate
        With the best schedule found: what is known of it.
    """

    setting: PageSetting
    case: Case
    schedules: dict[Name, FloatArray]
    plan: Plan | None
    certificate: str = ""

    @classmethod
    def of(cls, setting: PageSetting) -> Solution:
        case = case_of(setting)
        if not case.rule.has_influence:
            return cls._without_influence(setting, case)
        # A view has the risks themselves: with data reuse they would be computed twice.
        plan = staged_plan(setting, case, whole_risk=not case.procedure.reuses)
        schedules: dict[Name, FloatArray] = {
            "greedy": best_whole(setting, case, case.influence),
            "planned": plan.batches.astype(np.float64),
            "constant": _constant(setting, case),
        }
        return cls(setting, case, schedules, plan)

    @classmethod
    def _without_influence(cls, setting: PageSetting, case: Case) -> Solution:
        """The plan has to be searched for, and only a short search fits into a view."""
        schedules: dict[Name, FloatArray] = {"constant": _constant(setting, case)}
        if setting.work > SEARCHED_AT_ONCE:
            return cls(setting, case, schedules, None)
        plan = staged_plan(setting, case)
        return cls(setting, case, {"planned": plan.batches.astype(np.float64), **schedules}, plan)

    def searched(self) -> Solution:
        """With the plan, and the best stationary schedule found, for a rule without influence."""
        if self.case.rule.has_influence:
            return self
        setting, case = self.setting, self.case
        if setting.work > MOST_SEARCHED:
            raise InputError(
                "steps",
                f"must be at most {MOST_SEARCHED // setting.directions} for a search with "
                f"{setting.directions} directions",
                f"{setting.steps}",
            )
        plan = self.plan or staged_plan(setting, case)
        best = optimal_batches(
            case.problem,
            case.gamma,
            setting.budget,
            min_batch=setting.limits.min_batch,
            max_batch=setting.limits.max_batch,
            multiple_of=setting.limits.multiple_of,
            stages=min(setting.steps, MOST_STAGES),
            rule=case.rule,
        )
        schedules: dict[Name, FloatArray] = {
            "best": np.asarray(best.batches, np.float64),
            "planned": plan.batches.astype(np.float64),
            "constant": self.schedules["constant"],
        }
        return Solution(setting, case, schedules, plan, best.certificate)

    @property
    def constant(self) -> int:
        """The row of the constant schedule."""
        return list(self.schedules).index("constant")

    @property
    def search(self) -> Search:
        """What a search would add."""
        if self.case.rule.has_influence or self.certificate:
            return ""
        return "on request" if self.setting.work <= MOST_SEARCHED else "too large"

    @property
    def noise(self) -> str:
        """The part of the risk that batches change."""
        return self.case.procedure.noise

    @property
    def summary(self) -> str:
        """Name of the summary of a schedule's batches."""
        return "B_eff" if self.large_is_good else self.case.procedure.summary

    @property
    def large_is_good(self) -> bool:
        """Whether a larger summary means less noise, as with B_eff."""
        return self.case.procedure.summary == OnePass.summary

    def effective(self, schedules: list[FloatArray]) -> FloatArray:
        """B_eff of each schedule, or rho_eff if data are reused."""
        (summaries,) = self.case.with_batches(schedules).summaries().values()
        return np.atleast_1d(summaries)

    def scores(self, effective: FloatArray, best: float) -> FloatArray:
        """The greedy schedule's noise over each one's, to first order: 1 is as good."""
        if self.large_is_good:
            return effective / best
        # Batches of the whole dataset leave no noise at all.
        safe = np.where(effective > 0.0, effective, 1.0)
        return np.where(effective > 0.0, best / safe, 1.0)

    def risk(self, schedules: list[FloatArray]) -> Risk:
        """Without Monte Carlo if the procedure allows it; refused if it overflows."""
        risk = self.case.with_batches(schedules).solve()
        if not np.isfinite(risk.total).all():
            raise Unstable(
                "rates", "diverges: its risk is past the largest number", subject="this run"
            )
        return risk

    def ratio(self, risk: Risk, term: str, row: int, other: int) -> tuple[float, float]:
        """A term of one schedule over another's (1 if the other has none), and its error."""
        if row == other or not np.asarray(getattr(risk, term))[other] > 0.0:
            return 1.0, 0.0
        return risk.ratio(term, row, other)

    def against(self, risk: Risk, row: int, other: int) -> Against:
        """One schedule's whole risk, excess, noise and with Adam bias over another's."""
        terms = {"total": "total", "excess": "excess", "noise": self.noise}
        if not self.case.rule.has_influence:
            terms["bias"] = "bias"
        found = {name: self.ratio(risk, term, row, other) for name, term in terms.items()}
        errors = {name: error for name, (_, error) in found.items()}
        simulated = bool(risk.leave_one_out) and row != other
        ratios = {name: ratio for name, (ratio, _) in found.items()}
        return Against(**ratios, standard_error=errors if simulated else None)

    def parts(self, risk: Risk, row: int) -> Parts:
        """Parts of one schedule's risk; parts that batches do not change are equal for all."""

        def of(name: str) -> float:
            return _entry(getattr(risk, name), row)

        names = ("total", "excess", "irreducible", "approximation", "bias", "variance")
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
    return errors | {"excess": errors["total"], "reducible": errors["total"]}


def _entry(values: float | FloatArray, row: int) -> float:
    flat = np.ravel(values)
    return float(flat[row if flat.size > 1 else 0])


def case_of(setting: PageSetting) -> Case:
    """The case of a setting, without batches."""
    words = setting.words()
    procedure, rule = setting.procedure_and_rule()
    return Case(_problem(setting, words), rates_by_words(words), procedure=procedure, rule=rule)


def _problem(setting: PageSetting, words: Words) -> Problem:
    file = setting.spectrum
    if file is None:
        return problem_by_words(words)
    return Problem.from_spectrum(file.eigenvalue, file.energy, setting.sigma**2, file.multiplicity)


def staged_plan(
    setting: PageSetting,
    case: Case,
    batch_factor: int | None = None,
    *,
    whole_risk: bool = True,
) -> Plan:
    """The plan, as every export takes it."""
    procedure = case.procedure
    return make_plan(
        case.gamma,
        setting.budget,
        spectrum=case.problem,
        rule=case.rule,
        stages=setting.limits.stages,
        min_batch=setting.limits.min_batch,
        max_batch=setting.limits.max_batch,
        multiple_of=setting.limits.multiple_of,
        batch_factor=batch_factor,
        procedure=procedure.name,
        dataset_size=getattr(procedure, "samples", None),
        replacement=getattr(procedure, "replacement", False),
        whole_risk=whole_risk,
        score_rules=case.gamma.size <= MOST_SCORED,
        inputs={"explorer": setting.model_dump(mode="json")},
        seed=problem_seed(setting.words()),
    )


def best_whole(setting: PageSetting, case: Case, influence: FloatArray) -> FloatArray:
    """The best whole batches under the limits for an influence."""
    limits = setting.limits.capped(case.procedure.max_batch)
    batches = allocate(
        influence,
        setting.whole_budget,
        min_batch=limits.min_batch,
        max_batch=limits.max_batch,
        multiple_of=limits.multiple_of,
    )
    return np.asarray(batches, np.float64)


def _constant(setting: PageSetting, case: Case) -> FloatArray:
    """The constant batch of the same sum; rounded only if it must be simulated."""
    if case.solved:
        return np.full(setting.steps, setting.whole_budget / setting.steps)
    return best_whole(setting, case, np.ones(setting.steps))


class SolutionCache:
    """Solutions of the last settings, each solved once even if requested concurrently."""

    def __init__(self, make: Callable[[PageSetting], Solution], size: int = 8) -> None:
        self._make, self._size = make, size
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._lock = threading.Lock()

    def solution(self, setting: PageSetting) -> Solution:
        key = setting.model_dump_json()
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            if len(self._entries) > self._size:
                self._entries.popitem(last=False)
        with entry.lock:
            if entry.solution is None:
                entry.solution = self._make(setting)
            return entry.solution


@dataclass
class _Entry:
    lock: threading.Lock = field(default_factory=threading.Lock)
    solution: Solution | None = None


solve = SolutionCache(Solution.of).solution
search = SolutionCache(lambda setting: solve(setting).searched()).solution
