"""Outside assumptions 1.A and 1.B: other label residuals and other features.

Exponents cannot change, because only moments of the data law enter (``data_laws``); the
level can, and it is predicted and measured by Monte Carlo. Where the residual depends on the
features, the noise of a direction counts by what that direction receives, and so B_eff does.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.batches.allocation import effective_batch, schedule_families
from batchlaw.evidence.claims.claim import (
    Check,
    Collapse,
    Estimate,
    Exponent,
    Proportional,
    Value,
    wrong_exponents,
)
from batchlaw.evidence.claims.outside.data_laws import (
    HEAVY_NOISE,
    MIXED,
    NO_NOISE,
    SIGNS,
    STUDENT,
    UNEVEN_NOISE,
    DataLaw,
    one_pass_risk_under,
)
from batchlaw.evidence.claims.outside.rates import BATCH, PEAK, horizon_curve, horizons
from batchlaw.evidence.claims.settings import Task
from batchlaw.influences.weights import influence
from batchlaw.model.problem import Problem
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.risk.result import jackknife
from batchlaw.risk.simulate import simulate_one_pass
from batchlaw.schedule.rates import wsd

SEED = 11
LAWS = {
    "outside assumption 1.B": (HEAVY_NOISE, UNEVEN_NOISE, NO_NOISE),
    "outside assumption 1.A": (SIGNS, STUDENT, MIXED),
}
# Samples an update, updates, peak rate: small enough for many repetitions.
MEAN_BATCH, STEPS, RATE = 8, 64, 0.1


def tasks(quick: bool, longest: int) -> list[Task]:
    """One Monte Carlo a data law, and exponents on nodes for those that change most."""
    every = [(law, where) for where, laws in LAWS.items() for law in laws]
    return [
        *(partial(simulated_checks, law, where, quick) for law, where in every),
        lambda: [received_check(law, where) for law, where in every if law.top > 1.0],
        *(partial(long_checks, law, where, longest) for law, where in every if law.far),
    ]


def simulated_checks(law: DataLaw, where: str, quick: bool) -> list[Check[Any]]:
    """Level and B_eff of one law, by Monte Carlo over the four families of schedules."""
    problem, rates = instance(), wsd(STEPS, RATE)
    kappa = influence(problem, rates)
    families = np.array(list(schedule_families(kappa, MEAN_BATCH * STEPS).values()))
    repetitions = 3_000 if quick else 32_000
    measured = simulate_one_pass(
        problem,
        rates,
        families,
        repetitions=repetitions,
        seed=SEED,
        draw=law.draw(problem),
        threads=1,
    )
    gaussian = np.asarray(one_pass_risk(problem, rates, families).variance)
    predicted = np.asarray(one_pass_risk_under(law, problem, rates, families).variance)
    case = f"a = 2, b = 1.5, M = 16, T = {STEPS}, N = {MEAN_BATCH * STEPS}, R = {repetitions}"
    replicates = measured.leave_one_out["variance"]
    level = level_over(gaussian, np.asarray(measured.variance), replicates)
    foreseen = float(np.exp(np.log(predicted / gaussian).mean()))
    tolerance = (0.06 if quick else 0.015) * foreseen
    return [
        level_check(law, where, case, level, Value(foreseen, tolerance)),
        batch_check(law, where, case, problem, rates, families, replicates),
    ]


def level_over(reference: FloatArray, values: FloatArray, replicates: FloatArray) -> Estimate:
    """Geometric mean over schedules of values/reference, jackknifed over repetitions."""
    ratio = math.exp(float(np.log(values / reference).mean()))
    without = np.exp(np.log(replicates / reference[:, None]).mean(axis=0))
    return Estimate(ratio, "Var over that of Gaussian data", float(jackknife(without)))


def level_check(
    law: DataLaw, where: str, case: str, level: Estimate, foreseen: Value
) -> Check[Any]:
    """Var over the Gaussian law's is what the moments predict."""
    wrong = {
        "a quarter more": Value(1.25 * foreseen.value, foreseen.tolerance),
        "a quarter less": Value(0.75 * foreseen.value, foreseen.tolerance),
    }
    if abs(foreseen.value - 1.0) > 2.5 * foreseen.tolerance:
        wrong["the Gaussian level"] = Value(1.0, foreseen.tolerance)
    same = "is the Gaussian one" if foreseen.value == 1.0 else "is what the moments predict"
    claim = f"outside: {law.name}: the level of Var {same}"
    return Check(claim, where, case, level, foreseen, wrong)


def batch_check(
    law: DataLaw,
    where: str,
    case: str,
    problem: Problem,
    rates: FloatArray,
    families: IntArray,
    replicates: FloatArray,
) -> Check[Any]:
    """Measured variances of the families against B_eff."""
    variance = replicates.mean(axis=1)
    error = float((jackknife(replicates) / variance).max())
    summaries = {
        "1/B_eff": 1.0 / np.asarray(effective_batch(influence(problem, rates), families)),
        "1/mean batch": rates.size / families.sum(axis=1),
    }
    return Check(
        f"outside: {law.name}: Var follows B_eff within 10 %",
        where,
        case,
        Collapse(variance, summaries, "Var", error),
        Proportional("1/B_eff", 0.1),
        {"mean batch": Proportional("1/mean batch", 0.1)},
    )


def received_check(law: DataLaw, where: str) -> Check[Any]:
    """Var_noise against influence that counts each direction by the noise it receives.

    At a higher rate the top direction forgets early noise that the others keep, and the
    paper's B_eff, which counts all alike, is off.
    """
    problem, rates = instance(), wsd(STEPS, PEAK)
    kappa = influence(problem, rates)
    top = influence(problem.eigenvalues[:1], rates)
    families = np.array(list(schedule_families(kappa, MEAN_BATCH * STEPS).values()))
    noise = one_pass_risk_under(law, problem, rates, families).variance_noise
    weights = {"1/B_eff by received noise": kappa + (law.top - 1.0) * top, "1/B_eff": kappa}
    summaries = {
        name: 1.0 / np.asarray(effective_batch(weight, families))
        for name, weight in weights.items()
    }
    return Check(
        f"outside: {law.name}: Var_noise follows B_eff weighted by the noise received",
        where,
        f"a = 2, b = 1.5, M = 16, T = {STEPS}, peak {PEAK:g}",
        Collapse(np.asarray(noise), summaries, "Var_noise"),
        Proportional("1/B_eff by received noise", 0.03),
        {"the paper's B_eff": Proportional("1/B_eff", 0.03)},
    )


def instance() -> Problem:
    """Small enough for many repetitions."""
    return Problem.power_law(2.0, 1.5, 16, dim=4096, seed=SEED).prior_mean()


def long_checks(law: DataLaw, where: str, longest: int) -> list[Check[Any]]:
    """The exponent of Var_noise, and the way of the level to the Gaussian one as T grows."""
    a, b = 2.0, 1.5
    problem = Problem.power_law_nodes(a, b, math.inf, nodes=200)
    steps = horizons(longest)
    runs = [(wsd(int(T), PEAK), np.full(T, BATCH)) for T in steps]
    ours = [one_pass_risk_under(law, problem, *run) for run in runs]
    excess = [
        float(ours[k].variance / one_pass_risk(problem, *runs[k]).variance) - 1.0 for k in (0, -1)
    ]
    case = f"a = {a:g}, b = {b:g}, T to {longest:g}"
    found: list[Check[Any]] = [
        Check(
            f"outside: {law.name}: the level of Var tends to the Gaussian one",
            where,
            case,
            Estimate(
                excess[1] / excess[0],
                "excess of the level, longest over shortest run",
                detail=f"excess {excess[1]:.4f} after {excess[0]:.4f}",
            ),
            Value(0.5, side="at_most"),
            {"it stays": Value(1.0, 0.1)},
        )
    ]
    # With more noise in one direction the exponent settles late.
    if law.top == 1.0 or longest >= 10**6:
        noise = [float(np.asarray(risk.variance_noise)) for risk in ours]
        law_ = Exponent(1.0 / a - 1.0, "T/log T", 0.03)
        curve = horizon_curve(steps, noise, "Var_noise")
        claim = f"outside: {law.name}: the exponent of Var_noise survives"
        found.append(Check(claim, where, case, curve, law_, wrong_exponents(law_)))
    return found
