"""From a setting to everything the page shows; all mathematics is the package's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchlaw._check import FloatArray, IntArray
from batchlaw.allocation import (
    FAMILIES,
    allocate,
    effective_batch,
    effective_fluctuation,
    schedule_families,
)
from batchlaw.app.setting import Setting, evenly
from batchlaw.choices import PARTS
from batchlaw.exact.one_pass import one_pass_risk
from batchlaw.plan_file import Plan
from batchlaw.planner import plan as make_plan
from batchlaw.problem import Problem
from batchlaw.risk import Risk

# Points of a curve, and of the risk along a run.
POINTS, ALONG = 800, 200
# Budgets of the collapse, as multiples of the one asked for.
BUDGETS = (0.25, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0)
ORACLE, PLANNED, CONSTANT = "oracle", "planned", "constant"
# Below this many steps times directions the curves along the run come with the view.
QUICK = 2 * 10**6


@dataclass(frozen=True, eq=False)
class Solved:
    """A setting with its influence."""

    setting: Setting
    problem: Problem
    gamma: FloatArray
    kappa: FloatArray

    @classmethod
    def of(cls, setting: Setting) -> Solved:
        problem, gamma = setting.build_problem(), setting.gamma()
        return cls(setting, problem, gamma, setting.solver.influence(problem, gamma))

    def plan(self) -> Plan:
        """The staged schedule, as every export takes it."""
        at = self.setting
        reuse = at.procedure == "multi-pass"
        return make_plan(
            self.gamma,
            at.budget,
            spectrum=self.problem,
            stages=at.stages,
            min_batch=at.min_batch,
            max_batch=at.largest_batch,
            multiple_of=at.multiple_of,
            sampling="independent batches" if reuse else "one pass",
            dataset_size=at.samples if reuse else None,
            inputs={"explorer": at.model_dump(mode="json", exclude={"spectrum"})},
        )

    def schedules(self, plan: Plan) -> dict[str, FloatArray]:
        """The oracle in whole numbers under the bounds, the plan, and a constant batch."""
        at = self.setting
        whole = at.budget // at.multiple_of * at.multiple_of
        oracle = allocate(
            self.kappa,
            whole,
            min_batch=at.min_batch,
            max_batch=at.largest_batch,
            multiple_of=at.multiple_of,
        )
        return {
            ORACLE: np.asarray(oracle, np.float64),
            PLANNED: plan.batches.astype(np.float64),
            CONSTANT: np.full(at.steps, at.budget / at.steps),
        }

    def effective(self, batches: FloatArray) -> float:
        """B_eff, or rho_eff where data are reused."""
        at = self.setting
        if at.procedure == "one-pass":
            return float(effective_batch(self.kappa, batches))
        return float(
            effective_fluctuation(self.kappa, batches, at.samples, replacement=at.replacement)
        )

    def score(self, batches: FloatArray, oracle: FloatArray) -> float:
        """The oracle's noise over this schedule's: 1 is as good as it."""
        ratio = self.effective(batches) / self.effective(oracle)
        return ratio if self.setting.procedure == "one-pass" else 1.0 / ratio

    def risk(self, schedules: list[FloatArray]) -> Risk:
        return self.setting.solver.expected(self.problem, self.gamma, schedules)


def view(setting: Setting) -> dict[str, Any]:
    """Everything but the collapse: rates, influence, schedules, risks."""
    solved = Solved.of(setting)
    plan = solved.plan()
    schedules = solved.schedules(plan)
    risk = solved.risk(list(schedules.values()))
    shown = evenly(setting.steps, POINTS)
    oracle = schedules[ORACLE]
    return {
        "steps": [t + 1 for t in shown],
        "rate": _at(solved.gamma, shown),
        "kappa": _at(solved.kappa, shown),
        "root": _at(np.sqrt(solved.kappa / solved.kappa.max()), shown),
        "effective_name": "B_eff" if setting.procedure == "one-pass" else "rho_eff",
        "schedules": [
            {
                "name": name,
                "batches": _at(batches, shown),
                "samples": float(batches.sum()),
                "effective": solved.effective(batches),
                "score": solved.score(batches, oracle),
                "risk": _parts(risk, setting, row),
            }
            for row, (name, batches) in enumerate(schedules.items())
        ],
        "stages": plan.stage_table(),
        "prediction": dict(plan.prediction),
        "assumptions": list(plan.assumptions),
        "method": risk.method,
        "relative_error": _finite(float(np.max(risk.uncertainty))),
        "notes": list(risk.notes),
        "along": along(solved, schedules),
    }


def along(solved: Solved, schedules: dict[str, FloatArray]) -> dict[str, Any] | None:
    """The one-pass risk after every update; None where it is not known or takes too long."""
    at = solved.setting
    if at.procedure != "one-pass" or at.steps * at.directions > QUICK:
        return None
    path = one_pass_risk(
        solved.problem,
        solved.gamma,
        list(schedules.values()),
        trajectory=True,
        momentum=at.momentum,
    )
    shown = evenly(at.steps + 1, ALONG)
    curves = {part: np.asarray(getattr(path, part)) for part in ("total", "variance")}
    return {"steps": shown} | {
        part: {name: _at(values[k], shown) for k, name in enumerate(schedules)}
        for part, values in curves.items()
    }


def drawn(setting: Setting, heights: FloatArray) -> dict[str, Any]:
    """The score of a drawn schedule: heights at evenly spaced steps, scaled to the budget."""
    solved = Solved.of(setting)
    batches = stretched(setting, heights)
    oracle = solved.schedules(solved.plan())[ORACLE]
    risk = solved.risk([batches])
    shown = evenly(setting.steps, POINTS)
    return {
        "batches": _at(batches, shown),
        "effective": solved.effective(batches),
        "score": solved.score(batches, oracle),
        "risk": _parts(risk, setting, 0),
    }


def stretched(setting: Setting, heights: FloatArray) -> FloatArray:
    """A batch for every step, in proportion to the drawn heights, with the budget as their sum."""
    at = np.linspace(0.0, 1.0, setting.steps)
    shape = np.interp(at, np.linspace(0.0, 1.0, heights.size), heights)
    batches: FloatArray = shape * (setting.budget / shape.sum())
    most = setting.largest_batch
    return batches if most is None else np.minimum(batches, float(most))


def collapse_schedules(solved: Solved) -> tuple[list[dict[str, Any]], IntArray]:
    """The four families at several budgets, with their summaries."""
    at = solved.setting
    most = at.samples if at.procedure == "multi-pass" and not at.replacement else None
    budgets = sorted({max(at.steps, round(share * at.budget)) for share in BUDGETS})
    rows: list[dict[str, Any]] = []
    sizes: list[NDArray[np.int64]] = []
    for budget in budgets:
        if most is not None and budget > most * at.steps:
            continue
        for family, batches in schedule_families(solved.kappa, budget, max_batch=most).items():
            effective = solved.effective(batches.astype(np.float64))
            summary = 1.0 / effective if at.procedure == "one-pass" else effective
            rows.append({"family": family, "budget": budget, "summary": summary})
            sizes.append(batches)
    return rows, np.array(sizes)


def collapse(setting: Setting) -> dict[str, Any]:
    """Exact noise of the four families against their one summary."""
    solved = Solved.of(setting)
    rows, sizes = collapse_schedules(solved)
    term = term_of(setting)
    values = np.asarray(getattr(solved.risk(list(sizes.astype(np.float64))), term))
    return {
        "term": term,
        "summary": "1 / B_eff" if setting.procedure == "one-pass" else "rho_eff",
        "families": list(FAMILIES),
        "points": [row | {"value": float(value)} for row, value in zip(rows, values, strict=True)],
    }


def term_of(setting: Setting) -> str:
    """The part of the risk that batches change."""
    return "variance" if setting.procedure == "one-pass" else "fluctuation"


def _parts(risk: Risk, setting: Setting, row: int) -> dict[str, float]:
    """Of one schedule; parts that batches do not change are the same for all."""
    names = ("total", "irreducible", "approximation", *PARTS[setting.procedure])
    found = {name: np.ravel(getattr(risk, name)) for name in names}
    return {name: float(values[row if values.size > 1 else 0]) for name, values in found.items()}


def _at(values: NDArray[Any], shown: list[int]) -> list[float]:
    return [float(value) for value in values[shown]]


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
