"""Plans for Adam: over a range of problems, or for one that is known."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import InputError, arg
from batchlaw.batches.allocation import allocate
from batchlaw.batches.limits import Limits
from batchlaw.batches.rules import RULES
from batchlaw.batches.sharing import greedy
from batchlaw.batches.stages import sizes_of_stages
from batchlaw.design.adam_optimum import adam_optimum
from batchlaw.design.plan_cases import RANGE, Grid
from batchlaw.design.robust_plan import RobustPlan, robust_plan, score
from batchlaw.model.problem import Problem
from batchlaw.model.spectrum import PowerLaw, Spectrum
from batchlaw.plans.verdict import Verdict, range_of
from batchlaw.risk.adam import adam_risk
from batchlaw.schedule.adam import GENERIC, SKETCH_DIAGONAL, Adam

EVIDENCE = (
    "solvable problems only: a mean field of {label} on linear regression with power-law spectra "
    "(docs/adam_mean_field.md); no trained model has tested this plan"
)
# In words, and relative to a constant batch: the middle, then the ends.
WORTH = (
    "the excess (the loss above the lowest that the model can reach) changes by {1} in the median "
    "problem, between {0} and {2} over all {count}; what that is in your loss is not known"
)


@dataclass(frozen=True, eq=False)
class AdamPlan:
    """Batches, their prediction by name, what it assumes, and the verdict."""

    batches: FloatArray
    prediction: dict[str, float]
    assumptions: tuple[str, ...]
    verdict: Verdict


def adam_plan(
    spectrum: Spectrum | None,
    gamma: FloatArray,
    samples: int,
    rule: Adam,
    limits: Limits,
    bold: bool,
) -> AdamPlan:
    """The plan for a known problem, for a power law's exponents, or for the whole range."""
    if isinstance(spectrum, Problem):
        return _known(spectrum, gamma, samples, rule, limits, bold)
    if spectrum is not None and not isinstance(spectrum, PowerLaw):
        raise InputError(
            "spectrum",
            "must be a problem or a power law for Adam",
            type(spectrum).__name__,
            f"or give {arg('influence')}, from adam_influence",
        )
    grid = RANGE if spectrum is None else _grid(spectrum)
    found = robust_plan(gamma, samples, rule, limits, bold=bold, grid=grid)
    return _over_range(found, gamma, rule, grid)


def _grid(law: PowerLaw) -> Grid:
    if law.scale is not None:
        raise InputError("scale", "has no use with Adam, whose steps do not depend on it")
    return replace(RANGE, exponents=tuple(dict.fromkeys(law.range)))


def _over_range(found: RobustPlan, gamma: FloatArray, rule: Adam, grid: Grid) -> AdamPlan:
    low, middle, high = range_of(found.ratios)
    constant = _constant_words(found.constant)
    departs = not np.array_equal(found.batches, found.constant)
    if found.recommended and departs:
        advice = f"use this schedule for {rule.label}: {found.standard} of the range, {constant}"
    elif departs:
        advice = (
            f"keep the batch constant ({constant}): {found.standard}; the bold schedule follows"
        )
    else:
        advice = f"keep the batch constant ({constant}): {found.standard}"
    cases = f"{len(found.cases)} problems: exponents {_listed(grid.exponents)} of the spectrum"
    cases += f" and {_listed(grid.target_exponents)} of the target, sigma^2 over the signal "
    cases += f"{_listed(grid.noise_to_signal)}, peak rates {_listed(grid.rate_scales)} of the best"
    schedules = {"constant": found.constant} | _rules(gamma, int(found.constant.sum()))
    scores = score(gamma, schedules, rule, grid)
    worth = WORTH.format(*(_percent(x) for x in (low, middle, high)), count=len(found.cases))
    verdict = Verdict(
        advice,
        worth if departs else "nothing changes against a constant batch",
        EVIDENCE.format(label=rule.label),
        {name: range_of(ratios) for name, ratios in scores.items() if name != "constant"},
    )
    prediction = {
        "median_excess_against_constant": middle,
        "best_excess_against_constant": low,
        "worst_excess_against_constant": high,
        "median_regret": float(np.median(found.regret)),
        "median_regret_of_constant": float(np.median(found.constant_regret)),
        "constant_batch": float(found.constant.mean()),
    }
    assumptions = rule.assumption(), f"the problem is like one of {cases}"
    return AdamPlan(found.batches.astype(np.float64), prediction, assumptions, verdict)


def _known(
    problem: Problem, gamma: FloatArray, samples: int, rule: Adam, limits: Limits, bold: bool
) -> AdamPlan:
    """The optimum by a cheaper form of the mean field, judged in the rule's own basis."""
    if limits.batch_factor is not None:
        raise InputError("batch_factor", "needs a plan over the range for Adam, without a problem")
    if rule.in_sketch:
        _ = problem.axes  # refuses a problem that was not drawn
    constant = _even(gamma.size, samples, limits)
    searched = rule
    if rule.in_sketch:
        searched = replace(rule, basis=GENERIC if rule.averages else SKETCH_DIAGONAL)
    found = adam_optimum(problem, gamma, samples, searched, limits).whole
    schedules = {"planned": found, "constant": constant} | _rules(gamma, int(constant.sum()))
    risk = adam_risk(problem, gamma, schedules, rule)
    uncertainty = float(np.max(np.asarray(risk.uncertainty)[:2]))
    ratios = {name: risk.ratio("excess", name, "constant")[0] for name in schedules}
    total = risk.ratio("total", "planned", "constant")[0]
    recommended = ratios["planned"] <= 1.0 - uncertainty
    words = _constant_words(constant)
    error = f"the mean field's stated error of {100 * uncertainty:.1f} %"
    if recommended:
        advice = f"use this schedule for {rule.label}: it gains more than {error}, {words}"
    else:
        advice = (
            f"keep the batch constant ({words}): the best schedule found gains less than {error}"
        )
        if bold:
            advice += "; the bold schedule follows"
    used = found if recommended or bold else constant
    departs = recommended or bold
    prediction = {
        "total_against_constant": total if departs else 1.0,
        "excess_against_constant": ratios["planned"] if departs else 1.0,
        "constant_batch": float(constant.mean()),
    }
    gain = (
        f"the whole risk changes by {_percent(total)}, the excess by {_percent(ratios['planned'])}"
    )
    verdict = Verdict(
        advice,
        f"{gain}; each level has a stated error of {100 * uncertainty:.1f} %"
        if departs
        else "nothing changes against a constant batch",
        f"the given problem, by a mean field of {rule.label} (docs/adam_mean_field.md)",
        {n: (r, r, r) for n, r in ratios.items() if n not in ("planned", "constant")},
    )
    assumptions = rule.assumption(), "the spectrum is the given problem's"
    return AdamPlan(used.astype(np.float64), prediction, assumptions, verdict)


def _even(steps: int, samples: int, limits: Limits) -> IntArray:
    """The most even batches that the limits allow."""
    ones = np.ones(steps)
    if limits.stages is not None:
        return sizes_of_stages(ones, np.array([steps]), samples, limits)
    low, high, unit, budget = limits.units(steps, samples)
    return np.asarray(unit * greedy(ones, budget // unit, low, high), dtype=np.int64)


def _rules(gamma: FloatArray, samples: int) -> dict[str, IntArray]:
    """Rules that people use, at the same rates, steps and samples, free of the limits."""
    shapes = {name: rule(gamma) for name, rule in RULES.items() if name != "constant"}
    return {
        name: np.asarray(allocate(shape**2, samples), dtype=np.int64)
        for name, shape in shapes.items()
    }


def _constant_words(constant: IntArray) -> str:
    low, high = int(constant.min()), int(constant.max())
    size = f"{low}" if low == high else f"{low} to {high}"
    return f"against a constant batch of {size}"


def _listed(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1.0):+.3g} %"
