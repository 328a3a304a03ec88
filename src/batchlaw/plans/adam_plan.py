"""Plans for Adam: over a range of problems, or for one that is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from batchlaw._base.errors import InputError, arg
from batchlaw.design.adam_optimum import adam_optimum
from batchlaw.design.plan_cases import RANGE, Grid
from batchlaw.design.robust_plan import robust_plan
from batchlaw.design.rule_scores import score_rules
from batchlaw.design.within_limits import within_limits
from batchlaw.model.problem import Problem
from batchlaw.model.spectrum import PowerLaw
from batchlaw.plans.advice import Advice, PlanTask, constant_words, equal_samples
from batchlaw.plans.evidence import Answer, adam_evidence
from batchlaw.plans.rule_scores import ranges_of, regrets_of, rule_schedules
from batchlaw.plans.verdict import Verdict, range_of
from batchlaw.plans.worth import NOTHING, worth_known, worth_over_range
from batchlaw.risk.adam import adam_risk
from batchlaw.risk.procedures import OnePass
from batchlaw.risk.stability import excess_note
from batchlaw.schedule.adam import GENERIC, SKETCH_DIAGONAL, Adam
from batchlaw.schedule.optimizers import optimizer_of

MEAN_FIELD = "a mean field of {label} (docs/adam_mean_field.md)"


def adam_plan(task: PlanTask) -> Advice:
    """The plan for a known problem, for a power law's exponents, or for the whole range."""
    if task.run.reuses:
        raise InputError("procedure", f"must be {OnePass.name} for Adam", task.run.name)
    if task.noise is not None:
        raise InputError("noise", "has no use with Adam, whose plan follows the whole excess")
    if isinstance(task.spectrum, Problem):
        return _known(task, task.spectrum)
    if task.spectrum is not None and not isinstance(task.spectrum, PowerLaw):
        raise InputError(
            "spectrum",
            "must be a problem or a power law for Adam",
            type(task.spectrum).__name__,
            f"or give {arg('influence')}, from adam_influence",
        )
    return _over_range(task, RANGE if task.spectrum is None else _grid(task.spectrum))


def _grid(law: PowerLaw) -> Grid:
    if law.scale is not None:
        raise InputError("scale", "has no use with Adam, whose steps do not depend on it")
    return replace(RANGE, exponents=tuple(dict.fromkeys(law.range)))


def _over_range(task: PlanTask, grid: Grid) -> Advice:
    rule = _rule(task)
    found = robust_plan(task.gamma, task.samples, rule, task.limits, bold=task.bold, grid=grid)
    low, middle, high = range_of(found.ratios)
    words = f"{found.standard} of the range, {constant_words(found.constant, task.samples)}"
    departs = not np.array_equal(found.batches, found.constant)
    if found.recommended:
        advice = f"use this schedule for {rule.label}: {words}"
    else:
        advice = f"keep the batch constant: {words}"
        advice += "; the bold schedule follows" if departs else ""
    count = len(found.cases)
    source = f"{count} solvable problems, by {MEAN_FIELD.format(label=rule.label)}"
    scores = score_rules(task.gamma, found.constant, rule, grid)
    verdict = Verdict(
        optimizer_of(rule),
        advice,
        worth_over_range(found.ratios, task.loss) if departs else NOTHING,
        adam_evidence(rule, source, _answer(task, departs, over_range=grid == RANGE)),
        *ranges_of(scores),
        regrets_of(scores, found),
    )
    prediction = {
        "median_excess_against_constant": middle,
        "best_excess_against_constant": low,
        "worst_excess_against_constant": high,
        "median_regret": float(np.median(found.regret)),
        "median_regret_of_constant": float(np.median(found.constant_regret)),
        "constant_batch": float(found.constant.mean()),
    }
    assumptions = rule.assumption(), f"the problem is like one of {_cases(grid, count)}"
    return Advice(found.batches, found.constant, prediction, assumptions, verdict)


def _cases(grid: Grid, count: int) -> str:
    return (
        f"{count} problems: exponents {_listed(grid.exponents)} of the spectrum and "
        f"{_listed(grid.target_exponents)} of the target, sigma^2 over the signal "
        f"{_listed(grid.noise_to_signal)}, peak rates {_listed(grid.rate_scales)} of the best"
    )


def _known(task: PlanTask, problem: Problem) -> Advice:
    """The optimum by the cheapest form of the mean field, judged in the rule's own basis."""
    rule, gamma = _rule(task), task.gamma
    if task.limits.batch_factor is not None:
        raise InputError("batch_factor", "needs a plan over the range for Adam, without a problem")
    if rule.in_sketch:
        _ = problem.axes  # refuses a problem that was not drawn
    constant = within_limits(np.ones_like(gamma), task.samples, task.limits)
    searched = rule
    if rule.in_sketch:
        searched = replace(rule, basis=GENERIC if rule.averages else SKETCH_DIAGONAL)
    found = adam_optimum(problem, gamma, task.samples, searched, task.limits).whole
    even = equal_samples(constant, found.astype(np.float64))
    others = rule_schedules(problem, gamma, int(found.sum()), rule)
    changed = {name: own for name, own in others.items() if own.rates is not gamma}
    kept = {name: own.batches for name, own in others.items() if own.rates is gamma}
    schedules = {"planned": found, "constant": even} | kept
    risk = adam_risk(problem, gamma, schedules, rule)
    uncertainty = float(np.max(np.asarray(risk.uncertainty)[:2]))
    ratios = {name: risk.ratio("excess", name, "constant")[0] for name in schedules}
    for name, own in changed.items():
        excess = adam_risk(problem, own.rates, own.batches, rule).excess
        ratios[name] = float(excess) / float(np.asarray(risk.excess)[1])
    total = risk.ratio("total", "planned", "constant")[0]
    recommended = ratios["planned"] <= 1.0 - uncertainty
    words = constant_words(constant, task.samples)
    error = f"the mean field's stated error of {100 * uncertainty:.1f} %"
    if recommended:
        advice = f"use this schedule for {rule.label}: it gains more than {error}, {words}"
    else:
        advice = (
            f"keep the batch constant: the best schedule found gains less than {error}, {words}"
        )
        advice += "; the bold schedule follows" if task.bold else ""
    departs = recommended or task.bold
    prediction = {
        "total_against_constant": total if departs else 1.0,
        "excess_against_constant": ratios["planned"] if departs else 1.0,
        "constant_batch": float(constant.mean()),
    }
    gain = worth_known(total, ratios["planned"], task.loss)
    source = f"the given problem, by {MEAN_FIELD.format(label=rule.label)}"
    growth = excess_note(problem, np.asarray(risk.excess)[0 if departs else 1])
    source += f"; {growth}" if growth else ""
    verdict = Verdict(
        optimizer_of(rule),
        advice,
        f"{gain}; each level has a stated error of {100 * uncertainty:.1f} %"
        if departs
        else NOTHING,
        adam_evidence(rule, source, _answer(task, departs)),
        {n: (r, r, r) for n, r in ratios.items() if n not in ("planned", "constant")},
        {name: own.rates.size for name, own in changed.items()},
    )
    assumptions = rule.assumption(), "the spectrum is the given problem's"
    return Advice(found if departs else constant, constant, prediction, assumptions, verdict)


def _answer(task: PlanTask, departs: bool, over_range: bool = False) -> Answer:
    return Answer(task.gamma, task.samples, task.limits, departs, over_range, task.bold)


def _rule(task: PlanTask) -> Adam:
    assert isinstance(task.rule, Adam)
    return task.rule


def _listed(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)
