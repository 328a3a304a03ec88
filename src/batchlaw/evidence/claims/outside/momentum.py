"""Outside plain SGD: heavy-ball and Nesterov momentum, at the rate gamma (1 - beta).

Each gradient then moves the iterate by gamma in total, as in SGD at the rate gamma.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from batchlaw._base.checks import IntArray
from batchlaw.evidence.claims.claim import (
    Check,
    Claim,
    Collapse,
    Estimate,
    Exponent,
    Proportional,
    Task,
    Value,
    wrong_exponents,
)
from batchlaw.evidence.claims.outside.departure import Departure
from batchlaw.evidence.claims.outside.rates import (
    BATCH,
    PEAK,
    family_collapse,
    horizon_curve,
    horizons,
)
from batchlaw.influences.weights import influence
from batchlaw.model.problem import Problem
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.risk.result import Risk
from batchlaw.schedule.rates import wsd

BETA = 0.9
SEED = 1
A, B = 2.0, 1.5
HEAVY_BALL = Departure("heavy-ball", "heavy ball", "outside section 2, plain SGD")
NESTEROV = Departure("nesterov", "Nesterov", "outside section 2, plain SGD")
MOMENTUM_B_EFF, SCALED_SGD_B_EFF, SGD_B_EFF, MEAN_BATCH = (
    "1/B_eff",
    "1/B_eff at gamma/(1 - beta)",
    "1/B_eff at gamma",
    "1/mean batch",
)
# Parts whose level is SGD's in long runs -> their names in a sentence.
LEVELS = {"bias": "bias", "variance": "Var"}
HIGH_RATE = HEAVY_BALL.claim(
    "high-rate", "at a high rate a short run is closer to SGD's B_eff than to its own"
)


def tasks(longest: int) -> list[Task]:
    """Both forms of momentum: exponents and levels over horizons, and B_eff."""
    return [
        Task(f"momentum {form.id}", momentum_claims(form), partial(checks, form, longest))
        for form in (HEAVY_BALL, NESTEROV)
    ]


def momentum_claims(form: Departure) -> tuple[Claim, ...]:
    """The claims about a form of momentum."""
    levels = (level_claim(form, "bias"), level_claim(form, "variance"), short_claim(form))
    batches = (momentum_batch_claim(form), sgd_batch_claim(form))
    high_rate = (HIGH_RATE,) if form == HEAVY_BALL else ()
    return (
        exponent_claim(form, "bias"),
        exponent_claim(form, "variance_noise"),
        *levels,
        *batches,
        *high_rate,
    )


def exponent_claim(form: Departure, part: str) -> Claim:
    """The claim on a part of theorem 1."""
    id_, word = {"bias": ("bias", "bias"), "variance_noise": ("noise", "Var_noise")}[part]
    return form.claim(f"{id_}-exponent", f"the exponent of {word} is SGD's")


def level_claim(form: Departure, part: str) -> Claim:
    """The claim on the level of a part in long runs."""
    return form.claim(
        f"{part}-level", f"{LEVELS[part]} is that of SGD at the rate gamma/(1 - beta)"
    )


def short_claim(form: Departure) -> Claim:
    """The claim on short runs."""
    return form.claim("short-run", "a short run keeps more noise than SGD at gamma/(1 - beta)")


def momentum_batch_claim(form: Departure) -> Claim:
    """The claim on momentum's influence."""
    return form.claim("own-batch", "Var follows momentum's own B_eff")


def sgd_batch_claim(form: Departure) -> Claim:
    """The claim on SGD's influence."""
    return form.claim("sgd-batch", "Var follows SGD's B_eff at gamma/(1 - beta)")


def checks(form: Departure, longest: int) -> list[Check[Any]]:
    """Exponents of bias and Var_noise, levels against SGD's at gamma, and B_eff."""
    problem = Problem.power_law_nodes(A, B, math.inf, nodes=200)
    steps = horizons(longest)
    plain = runs(problem, steps, 1.0)
    with_momentum = runs(problem, steps, 1.0 - BETA, momentum=BETA, nesterov=form == NESTEROV)
    return [
        *exponent_checks(form, steps, with_momentum),
        *level_checks(form, steps, with_momentum, plain),
        *batch_checks(form),
    ]


def runs(problem: Problem, steps: IntArray, scale: float, **update: Any) -> list[Risk]:
    """WSD at every horizon, with constant batches."""
    return [
        one_pass_risk(problem, scale * wsd(int(T), PEAK), np.full(T, BATCH), **update)
        for T in steps
    ]


def exponent_checks(
    form: Departure, steps: IntArray, with_momentum: list[Risk]
) -> list[Check[Any]]:
    """The exponents of theorem 1, unchanged."""
    case = f"a = {A:g}, b = {B:g}, beta = {BETA:g}, T to {steps[-1]:g}"
    rows: list[Check[Any]] = []
    for term, law in (
        ("bias", Exponent((1.0 - B) / A, "T", 0.02)),
        ("variance_noise", Exponent(1.0 / A - 1.0, "T/log T", 0.03)),
    ):
        curve = horizon_curve(steps, [getattr(risk, term) for risk in with_momentum], term)
        rows.append(Check(exponent_claim(form, term), case, curve, law, wrong_exponents(law)))
    return rows


def level_checks(
    form: Departure, steps: IntArray, with_momentum: list[Risk], plain: list[Risk]
) -> list[Check[Any]]:
    """Long runs are SGD at gamma/(1 - beta); short ones keep noise that SGD would forget."""
    rows: list[Check[Any]] = []
    for term, word in LEVELS.items():
        ratios = [
            getattr(m, term) / getattr(s, term) for m, s in zip(with_momentum, plain, strict=True)
        ]
        rows.append(
            Check(
                level_claim(form, term),
                f"a = {A:g}, b = {B:g}, beta = {BETA:g}, T = {steps[-1]:g}",
                Estimate(float(ratios[-1]), f"{word} over SGD's"),
                Value(1.0, 0.01),
                {"1/(1 - beta) of it": Value(1.0 / (1.0 - BETA), 0.01), "5 %": Value(1.05, 0.01)},
            )
        )
    short = np.array([316])
    problem = Problem.power_law_nodes(A, B, math.inf, nodes=200)
    update = {"momentum": BETA, "nesterov": form == NESTEROV}
    ratio = runs(problem, short, 1.0 - BETA, **update)[0].variance
    ratio = float(ratio / runs(problem, short, 1.0)[0].variance)
    rows.append(
        Check(
            short_claim(form),
            f"a = {A:g}, b = {B:g}, beta = {BETA:g}, T = 316",
            Estimate(ratio, "Var over SGD's"),
            Value(1.1, side="at_least"),
            {"SGD's level": Value(1.0, 0.01)},
        )
    )
    return rows


def batch_checks(form: Departure) -> list[Check[Any]]:
    """Which B_eff Var follows: momentum's own in short runs, SGD's too in long ones.

    A short run of heavy ball at a high rate is the exception.
    """
    low = 0.1 * PEAK
    momentum, sgd = momentum_batch_claim(form), sgd_batch_claim(form)
    settings = [
        (
            momentum,
            64,
            low,
            Proportional(MOMENTUM_B_EFF, 0.1),
            (SCALED_SGD_B_EFF, SGD_B_EFF, MEAN_BATCH),
        ),
        (momentum, 4096, low, Proportional(MOMENTUM_B_EFF, 0.02), (SGD_B_EFF, MEAN_BATCH)),
        (sgd, 4096, low, Proportional(SCALED_SGD_B_EFF, 0.02), (SGD_B_EFF, MEAN_BATCH)),
    ]
    if form == HEAVY_BALL:
        settings.append(
            (
                HIGH_RATE,
                64,
                0.1,
                Proportional(SGD_B_EFF, 0.06),
                (MOMENTUM_B_EFF, SCALED_SGD_B_EFF, MEAN_BATCH),
            )
        )
    return [
        Check(
            claim,
            f"a = {A:g}, b = {B:g}, M = 64, beta = {BETA:g}, T = {steps}, peak {peak:g}",
            families_of(steps, peak, form == NESTEROV),
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
        MOMENTUM_B_EFF: influence(problem, rates, momentum=BETA, nesterov=nesterov),
        SCALED_SGD_B_EFF: influence(problem, rates / (1.0 - BETA)),
        SGD_B_EFF: influence(problem, rates),
    }
    return family_collapse(problem, rates, influences, momentum=BETA, nesterov=nesterov)
