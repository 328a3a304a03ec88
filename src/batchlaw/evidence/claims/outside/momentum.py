"""Outside plain SGD: heavy-ball and Nesterov momentum, at the rate gamma (1 - beta).

A gradient then moves the iterate by gamma in the end, as it would in SGD at the rate gamma.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from batchlaw._base.checks import IntArray
from batchlaw.evidence.claims.claim import (
    Check,
    Collapse,
    Estimate,
    Exponent,
    Proportional,
    Value,
    wrong_exponents,
)
from batchlaw.evidence.claims.outside.rates import (
    BATCH,
    PEAK,
    family_collapse,
    horizon_curve,
    horizons,
)
from batchlaw.evidence.claims.settings import Task
from batchlaw.influences.weights import influence
from batchlaw.model.problem import Problem
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.risk.result import Risk
from batchlaw.schedule.rates import wsd

BETA = 0.9
SEED = 1
WHERE = "outside section 2, plain SGD"
A, B = 2.0, 1.5
OWN, LONG, SAME, MEAN = (
    "1/B_eff",
    "1/B_eff at gamma/(1 - beta)",
    "1/B_eff at gamma",
    "1/mean batch",
)


def tasks(longest: int) -> list[Task]:
    """Both forms of momentum: exponents and levels over horizons, and B_eff."""
    return [partial(checks, nesterov, longest) for nesterov in (False, True)]


def checks(nesterov: bool, longest: int) -> list[Check[Any]]:
    """Exponents of bias and Var_noise, both against SGD's at gamma, and B_eff."""
    problem = Problem.power_law_nodes(A, B, math.inf, nodes=200)
    steps = horizons(longest)
    plain = runs(problem, steps, 1.0)
    ours = runs(problem, steps, 1.0 - BETA, momentum=BETA, nesterov=nesterov)
    name = "Nesterov" if nesterov else "heavy ball"
    return [
        *exponent_checks(name, steps, ours),
        *level_checks(name, steps, ours, plain),
        *batch_checks(name, nesterov),
    ]


def runs(problem: Problem, steps: IntArray, scale: float, **update: Any) -> list[Risk]:
    """WSD at every horizon, with constant batches."""
    return [
        one_pass_risk(problem, scale * wsd(int(T), PEAK), np.full(T, BATCH), **update)
        for T in steps
    ]


def exponent_checks(name: str, steps: IntArray, ours: list[Risk]) -> list[Check[Any]]:
    """The exponents of theorem 1, unchanged."""
    case = f"a = {A:g}, b = {B:g}, beta = {BETA:g}, T to {steps[-1]:g}"
    found: list[Check[Any]] = []
    for term, law in (
        ("bias", Exponent((1.0 - B) / A, "T", 0.02)),
        ("variance_noise", Exponent(1.0 / A - 1.0, "T/log T", 0.03)),
    ):
        curve = horizon_curve(steps, [getattr(risk, term) for risk in ours], term)
        claim = f"outside: {name}: the exponent of {term.replace('variance', 'Var')} is SGD's"
        found.append(Check(claim, WHERE, case, curve, law, wrong_exponents(law)))
    return found


def level_checks(
    name: str, steps: IntArray, ours: list[Risk], plain: list[Risk]
) -> list[Check[Any]]:
    """Long runs are SGD at gamma/(1 - beta); short ones keep noise that SGD would forget."""
    found: list[Check[Any]] = []
    for term in ("bias", "variance"):
        ratios = [getattr(m, term) / getattr(s, term) for m, s in zip(ours, plain, strict=True)]
        word = {"bias": "bias", "variance": "Var"}[term]
        found.append(
            Check(
                f"outside: {name}: {word} is that of SGD at the rate gamma/(1 - beta)",
                WHERE,
                f"a = {A:g}, b = {B:g}, beta = {BETA:g}, T = {steps[-1]:g}",
                Estimate(float(ratios[-1]), f"{word} over SGD's"),
                Value(1.0, 0.01),
                {"1/(1 - beta) of it": Value(1.0 / (1.0 - BETA), 0.01), "5 %": Value(1.05, 0.01)},
            )
        )
    short = np.array([316])
    problem = Problem.power_law_nodes(A, B, math.inf, nodes=200)
    update = {"momentum": BETA, "nesterov": name == "Nesterov"}
    ratio = runs(problem, short, 1.0 - BETA, **update)[0].variance
    ratio = float(ratio / runs(problem, short, 1.0)[0].variance)
    found.append(
        Check(
            f"outside: {name}: a short run keeps more noise than SGD at gamma/(1 - beta)",
            WHERE,
            f"a = {A:g}, b = {B:g}, beta = {BETA:g}, T = 316",
            Estimate(ratio, "Var over SGD's"),
            Value(1.1, side="at_least"),
            {"SGD's level": Value(1.0, 0.01)},
        )
    )
    return found


def batch_checks(name: str, nesterov: bool) -> list[Check[Any]]:
    """Which B_eff Var follows: momentum's own in short runs, SGD's too in long ones.

    A short run of heavy ball at a high rate is the exception.
    """
    low = 0.1 * PEAK
    settings = [
        ("Var follows momentum's own B_eff", 64, low, Proportional(OWN, 0.1), (LONG, SAME, MEAN)),
        ("Var follows momentum's own B_eff", 4096, low, Proportional(OWN, 0.02), (SAME, MEAN)),
        (
            "Var follows SGD's B_eff at gamma/(1 - beta)",
            4096,
            low,
            Proportional(LONG, 0.02),
            (SAME, MEAN),
        ),
    ]
    if not nesterov:
        claim = "at a high rate a short run is closer to SGD's B_eff than to its own"
        settings.append((claim, 64, 0.1, Proportional(SAME, 0.06), (OWN, LONG, MEAN)))
    return [
        Check(
            f"outside: {name}: {claim}",
            WHERE,
            f"a = {A:g}, b = {B:g}, M = 64, beta = {BETA:g}, T = {steps}, peak {peak:g}",
            families_of(steps, peak, nesterov),
            law,
            {other: Proportional(other, law.tolerance) for other in wrong},
        )
        for claim, steps, peak, law, wrong in settings
    ]


def families_of(steps: int, peak: float, nesterov: bool) -> Collapse:
    """Var of the four families of momentum's influence, with every B_eff."""
    problem = Problem.power_law(A, B, 64, dim=4096, seed=SEED).prior_mean()
    rates = wsd(steps, peak)
    influences = {
        OWN: influence(problem, rates, momentum=BETA, nesterov=nesterov),
        LONG: influence(problem, rates / (1.0 - BETA)),
        SAME: influence(problem, rates),
    }
    return family_collapse(problem, rates, influences, momentum=BETA, nesterov=nesterov)
