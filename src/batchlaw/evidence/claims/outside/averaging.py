"""Outside the last iterate: tail averages and exponential moving averages at a constant rate.

An average already forgets the noise of single updates, so the late updates that plain SGD's
influence favours are not the ones that matter: batches allocated for the last iterate can be worse
for the average than a constant batch, and batches allocated by the average's own influence are not.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.batches.allocation import allocate
from batchlaw.evidence.claims.claim import Check, Estimate, Task, Value, task_name
from batchlaw.evidence.claims.outside.departure import Departure
from batchlaw.evidence.claims.outside.rates import BATCH, family_collapse
from batchlaw.influences.weights import influence
from batchlaw.model.problem import Problem
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.schedule.rates import constant

STEPS, RATE = 512, 0.05
SOURCE = 1.5
# Long averages, over about as many updates as the slow directions remember; and a short one.
LONG = ("tail:0.5", "ema:0.99")
SHORT = "ema:0.95"
AVERAGE = Departure("average", "averaged iterates", "outside section 2, the last iterate")
PLAIN_LOSES = AVERAGE.claim(
    "plain-influence", "batches by plain SGD's influence lose to a constant batch"
)
OWN_WINS = AVERAGE.claim("own-influence", "batches by the average's own influence win")
SHORT_WINS = AVERAGE.claim("short", "a short one still gains by plain SGD's influence")
SHORT_OWN = AVERAGE.claim("short-own", "a short one gains more by its own influence")
OWN_BATCH = AVERAGE.claim(
    "own-batch", "Var is nearer to the average's own B_eff than to plain SGD's"
)
AVERAGE_B_EFF, SGD_B_EFF = "1/B_eff", "1/B_eff of plain SGD"


def tasks() -> list[Task]:
    """One task per spectrum."""
    claims = (PLAIN_LOSES, OWN_WINS, SHORT_WINS, SHORT_OWN, OWN_BATCH)
    return [Task(task_name("averages", a=a), claims, partial(checks, a)) for a in (1.5, 2.0)]


def checks(a: float) -> list[Check[Any]]:
    """Every claim about averages for one spectrum."""
    problem = Problem.power_law_nodes(a, SOURCE, math.inf, nodes=200)
    return [
        *(check for average in LONG for check in long_checks(problem, a, average)),
        *short_checks(problem, a),
        *(batch_check(problem, a, average) for average in LONG),
    ]


def against_constant(problem: Problem, kappa: FloatArray, average: str) -> float:
    """Var of the average with batches ~ sqrt(kappa), over that with a constant batch."""
    rates = constant(STEPS, RATE)
    batches = allocate(kappa, BATCH * STEPS, method="continuous")
    schedules = [np.asarray(batches, dtype=np.float64), np.full(STEPS, float(BATCH))]
    return one_pass_risk(problem, rates, schedules, average=average).ratio("variance", 0, 1)[0]


def influences(problem: Problem, average: str) -> tuple[FloatArray, FloatArray]:
    """Plain SGD's, and the average's own."""
    rates = constant(STEPS, RATE)
    return influence(problem, rates), influence(problem, rates, average=average)


def case_of(a: float, average: str) -> str:
    """The setting in words."""
    return f"a = {a:g}, b = {SOURCE:g}, {average}, constant rate {RATE:g}, T = {STEPS}"


def long_checks(problem: Problem, a: float, average: str) -> list[Check[Any]]:
    """A long average: plain SGD's influence loses, its own wins."""
    plain, own = influences(problem, average)
    last = against_constant(problem, plain, "last")
    wrong = {
        "constant's level": Value(1.0, 0.02),
        "the gain of the last iterate": Value(last, 0.02),
    }
    return [
        Check(
            claim,
            case_of(a, average),
            Estimate(against_constant(problem, kappa, average), f"Var over constant's, by {whose}"),
            law,
            wrong,
        )
        for claim, kappa, whose, law in (
            (PLAIN_LOSES, plain, "plain SGD's influence", Value(1.1, side="at_least")),
            (OWN_WINS, own, "its own influence", Value(0.95, side="at_most")),
        )
    ]


def short_checks(problem: Problem, a: float) -> list[Check[Any]]:
    """A short average is nearly the last iterate."""
    plain, own = influences(problem, SHORT)
    by_plain = against_constant(problem, plain, SHORT)
    by_own = against_constant(problem, own, SHORT)
    return [
        Check(
            SHORT_WINS,
            case_of(a, SHORT),
            Estimate(by_plain, "Var over constant's, by plain SGD's influence"),
            Value(0.8, side="at_most"),
            {"constant's level": Value(1.0, 0.02), "its own influence's": Value(by_own, 0.02)},
        ),
        Check(
            SHORT_OWN,
            case_of(a, SHORT),
            Estimate(by_own / by_plain, "Var by its own influence over plain SGD's"),
            Value(0.95, side="at_most"),
            {"no difference": Value(1.0, 0.02)},
        ),
    ]


def batch_check(problem: Problem, a: float, average: str) -> Check[Any]:
    """How far the four families of the average's influence are from either B_eff.

    Neither explains all of it: the noise falls with the bias along the run.
    """
    rates = constant(STEPS, RATE)
    plain, own = influences(problem, average)
    families = family_collapse(
        problem, rates, {AVERAGE_B_EFF: own, SGD_B_EFF: plain}, average=average
    )
    near, far = (
        float(np.abs(families.deviations(summary)).max()) for summary in (AVERAGE_B_EFF, SGD_B_EFF)
    )
    return Check(
        OWN_BATCH,
        case_of(a, average),
        Estimate(
            near / far,
            "largest deviation from its own 1/B_eff over that from plain SGD's",
            detail=f"deviations {near:.3f} and {far:.3f}",
        ),
        Value(0.5, side="at_most"),
        {
            "as far from either": Value(1.0, 0.02),
            "nearer to plain SGD's": Value(1.0, side="at_least"),
        },
    )
