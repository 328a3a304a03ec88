"""The verdict on a plan that follows an influence, and what it uses: the plan, or a constant batch.

Over a range of problems where the spectrum is unknown, by the whole risk of a known problem, or by
the noise alone.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.batches.limits import Limits
from batchlaw.design.plan_cases import RANGE, SCORE_ROWS, PlanCases
from batchlaw.design.robust_plan import EVERYWHERE, NOTHING, RATIO_ERROR
from batchlaw.design.rule_scores import score_rules
from batchlaw.design.within_limits import within_limits
from batchlaw.model.problem import Problem
from batchlaw.plans.advice import PlanTask, constant_words, equal_samples
from batchlaw.plans.evidence import influence_evidence
from batchlaw.plans.rule_scores import known_scores, ranges_of, rule_schedules
from batchlaw.plans.verdict import Verdict, range_of
from batchlaw.plans.worth import NOTHING as NOTHING_CHANGES
from batchlaw.plans.worth import worth_known, worth_of_noise, worth_over_range
from batchlaw.risk.procedure import Setup
from batchlaw.schedule.optimizers import optimizer_of
from batchlaw.schedule.update_rule import PLAIN, SGD

# Begins the note that says why the risk of a known problem is not predicted.
UNPREDICTED = "the whole risk is not predicted"
# Updates of a reused dataset up to which the mean field predicts the whole risk of a plan.
LONGEST_REUSE = 2048
# A plan over the range is recommended where it gains this share of the excess in the median case.
# SGD's risk is exact there, so that only what a change of batches is worth counts.
WORTH = 0.01
# Shares of the plan's departure from a constant batch that are tried, the largest first.
DEPARTURES = (1.0, 0.8, 0.6, 0.4)

# Batches, with the limits that they were made for.
Tried = Iterable[tuple[FloatArray, Limits]]
Judged = tuple[FloatArray, Verdict, dict[str, float], list[str]]


def judged(
    task: PlanTask,
    batches: FloatArray,
    tried: Tried,
    constant: IntArray,
    noise: float | None,
) -> Judged:
    """The batches to use, the verdict, what it is worth by name, and notes.

    ``noise`` is the plan's, to first order, over the constant batch's. ``tried`` are plans with
    fewer and fewer stages, for a range of problems.
    """
    if _has_range(task):
        return _over_range(task, batches, tried, constant)
    if isinstance(task.spectrum, Problem) and task.whole_risk:
        obstacle = _obstacle(task)
        if not obstacle:
            return _known(task, batches, constant)
        return _of_noise(task, batches, constant, noise, [f"{UNPREDICTED}: {obstacle}"])
    return _of_noise(task, batches, constant, noise, [])


def _has_range(task: PlanTask) -> bool:
    """Whether nothing is known but the rule: one form of SGD, read out at its last iterate."""
    rule = task.rule
    return (
        task.spectrum is None
        and task.noise is None
        and not task.run.reuses
        and isinstance(rule, SGD)
        and not rule.averages
        and np.ndim(rule.momentum) == 0
    )


def _over_range(task: PlanTask, batches: FloatArray, tried: Tried, constant: IntArray) -> Judged:
    """Recommended where a plan, or a part of its departure, is better in every problem."""
    assert task.rule is not None
    cases = PlanCases.of(task.gamma, float(constant.mean()), task.rule, SCORE_ROWS)
    words = f"of the range, {constant_words(constant, task.samples)}"
    found = _recommended(task, cases, tried, constant)
    if found is not None:
        sizes, ratios = found
        advice = f"use this schedule for {_optimizer(task)}: {EVERYWHERE} {words}"
    else:
        advice = f"keep the batch constant: {NOTHING} {words}"
        sizes, ratios = constant.astype(np.float64), np.ones(len(cases.cases))
        if task.bold:
            advice += "; the bold schedule follows"
            sizes, ratios = batches, cases.ratios([batches], constant)[0]
    low, middle, high = range_of(ratios)
    departs = not np.array_equal(sizes, constant)
    verdict = Verdict(
        _optimizer(task),
        advice,
        worth_over_range(ratios, task.loss) if departs else NOTHING_CHANGES,
        influence_evidence(task.rule, f"exact risks of {len(cases.cases)} solvable problems"),
        *ranges_of(score_rules(task.gamma, constant, task.rule, RANGE, cases)),
    )
    prediction = {
        "median_excess_against_constant": middle,
        "best_excess_against_constant": low,
        "worst_excess_against_constant": high,
    }
    return sizes, verdict, prediction, []


def _recommended(
    task: PlanTask, cases: PlanCases, tried: Tried, constant: IntArray
) -> tuple[FloatArray, FloatArray] | None:
    """The first part of a departure that meets the standard, and its ratios; or None."""
    margin = 0.0 if cases.single_updates else RATIO_ERROR
    for batches, limits in tried:
        shares = DEPARTURES[1:]
        parts = [within_limits(batches**share, task.samples, limits) for share in shares]
        options = [batches, *(part.astype(np.float64) for part in parts)]
        for sizes, ratios in zip(options, cases.ratios(options, constant), strict=True):
            if ratios.max() < 1.0 - margin and np.median(ratios) <= 1.0 - WORTH:
                return sizes, ratios
    return None


def _known(task: PlanTask, batches: FloatArray, constant: IntArray) -> Judged:
    """By the whole risk; a plan that loses is used only where asked for boldly."""
    found = _whole_risk(task, batches, constant)
    gains = found["excess_against_constant"] < 1.0
    words = constant_words(constant, task.samples)
    if gains:
        advice = f"use this schedule for {_optimizer(task)}, {words}"
        if found["excess_against_constant"] > 1.0 - WORTH:
            advice = (
                f"this schedule if changing the batch costs nothing, {words}: it gains less than "
                f"{100 * WORTH:g} % of the excess"
            )
    else:
        advice = f"keep the batch constant: the schedule gains nothing {words}"
        if task.bold:
            advice += "; the bold schedule follows"
    if not gains and not task.bold:
        batches = constant.astype(np.float64)
        found = dict.fromkeys(found, 1.0)
    source = f"the given problem, by its {'mean field' if task.run.reuses else 'exact risk'}"
    verdict = Verdict(
        _optimizer(task),
        advice,
        worth_known(found["total_against_constant"], found["excess_against_constant"], task.loss),
        influence_evidence(task.rule, source),
        *_rules(task, equal_samples(constant, batches)),
    )
    return batches, verdict, found, []


def _rules(
    task: PlanTask, even: FloatArray
) -> tuple[dict[str, tuple[float, float, float]], dict[str, int]]:
    """Rules that people use beside a known problem's plan, in one pass, by its exact risk."""
    rule, problem = task.rule, task.spectrum
    assert isinstance(problem, Problem)
    scored = task.score_rules and not task.run.reuses
    if not (scored and isinstance(rule, SGD)) or np.ndim(rule.momentum):
        return {}, {}

    def excess(gamma: FloatArray, batches: FloatArray | IntArray) -> float:
        return float(task.run.expected(Setup(problem, gamma, batches, rule)).excess)

    schedules = rule_schedules(problem, task.gamma, round(float(even.sum())), rule)
    least = excess(task.gamma, even)
    return ranges_of(known_scores(schedules, task.gamma, least, excess))


def _of_noise(
    task: PlanTask,
    batches: FloatArray,
    constant: IntArray,
    noise: float | None,
    notes: list[str],
) -> Judged:
    """By the noise to first order, whose share of the loss is not known."""
    words = constant_words(constant, task.samples)
    if noise is None:
        advice = (
            f"no recommendation: the noise of this way of reading data has another law, {words}"
        )
        worth = "not known, neither in the noise nor in the loss"
    elif noise < 1.0:
        advice = (
            f"this schedule where batch noise is a visible share of the loss, {words}; where it is "
            "not, keep the batch constant"
        )
        worth = worth_of_noise(noise, task.loss)
    else:
        advice = f"keep the batch constant: the schedule leaves no less noise {words}"
        worth = NOTHING_CHANGES
        if not task.bold:
            batches = constant.astype(np.float64)
    source = "the influence on the noise of a quadratic loss, to first order"
    verdict = Verdict(_optimizer(task), advice, worth, influence_evidence(task.rule, source))
    return batches, verdict, {}, notes


def _optimizer(task: PlanTask) -> str:
    return "the optimizer of the given influence" if task.rule is None else optimizer_of(task.rule)


def _obstacle(task: PlanTask) -> str:
    """Why the whole risk of a known problem can't be computed; empty if it can."""
    run, rule = task.run, PLAIN if task.rule is None else task.rule
    if task.noise is not None and not isinstance(task.noise, str):
        return "the given noise is not the problem's"
    if not run.solves(rule):
        return f"no solver without Monte Carlo has it over datasets for {rule.title(run.title)}"
    if run.reuses and task.gamma.size > LONGEST_REUSE:
        return f"the mean field over datasets is solved up to {LONGEST_REUSE} updates here"
    return ""


def _whole_risk(task: PlanTask, batches: FloatArray, constant: IntArray) -> dict[str, float]:
    """The plan's risk over that of a constant batch: the whole, the excess, then the noise."""
    assert isinstance(task.spectrum, Problem)
    rule = PLAIN if task.rule is None else task.rule
    schedules = {"planned": batches, "constant": equal_samples(constant, batches)}
    risk = task.run.expected(Setup(task.spectrum, task.gamma, schedules, rule))
    terms = ["total", "excess"]
    if np.asarray(getattr(risk, task.run.noise))[1] > 0.0:
        terms.append(task.run.noise)
    return {
        f"{term}_against_constant": risk.ratio(term, "planned", "constant")[0] for term in terms
    }
