"""Outside assumptions 1.A and 1.B: other label residuals and other features.

Exponents cannot change, because only moments of the data law enter (``data_laws``); the
level can, and it is predicted and measured by Monte Carlo. Where the residual depends on the
features, each direction counts in B_eff by the noise that it receives.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.batches.allocation import schedule_families
from batchlaw.batches.effective import effective_batch
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
from batchlaw.influences.weights import influence
from batchlaw.model.problem import Problem
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.risk.result import jackknife
from batchlaw.risk.simulate import simulate_one_pass
from batchlaw.schedule.rates import wsd

SEED = 11
LAWS = (HEAVY_NOISE, UNEVEN_NOISE, NO_NOISE, SIGNS, STUDENT, MIXED)
# Samples per update, updates, peak rate: small enough for many repetitions.
MEAN_BATCH, STEPS, RATE = 8, 64, 0.1


def tasks(quick: bool, longest: int) -> list[Task]:
    """One Monte Carlo task per data law, and exponents on nodes for the laws that change most."""
    uneven = [law for law in LAWS if law.top_noise > 1.0]
    return [
        *(
            Task(
                f"data {law.departure.id}",
                (level_claim(law), batch_claim(law)),
                partial(simulated_checks, law, quick),
            )
            for law in LAWS
        ),
        Task(
            "received noise",
            tuple(received_claim(law) for law in uneven),
            lambda: [received_check(law) for law in uneven],
        ),
        *(
            Task(
                f"long runs {law.departure.id}",
                long_claims(law, longest),
                partial(long_checks, law, longest),
            )
            for law in LAWS
            if law.far
        ),
    ]


def level_claim(law: DataLaw) -> Claim:
    """The claim on the level of Var in short runs."""
    level = "the Gaussian one" if law.gaussian else "what the moments predict"
    return law.departure.claim("level", f"the level of Var is {level}")


def batch_claim(law: DataLaw) -> Claim:
    """The claim on the four families of schedules."""
    return law.departure.claim("effective-batch", "Var follows B_eff within 10 %")


def received_claim(law: DataLaw) -> Claim:
    """The claim on noise that the directions receive unevenly."""
    return law.departure.claim("received", "Var_noise follows B_eff weighted by the noise received")


def limit_claim(law: DataLaw) -> Claim:
    """The claim on the level of Var in long runs."""
    return law.departure.claim("level-limit", "the level of Var tends to the Gaussian one")


def exponent_claim(law: DataLaw) -> Claim:
    """The claim on the exponent of Var_noise."""
    return law.departure.claim("exponent", "the exponent of Var_noise survives")


def long_claims(law: DataLaw, longest: int) -> tuple[Claim, ...]:
    """The claims on long runs: with more noise in one direction the exponent settles late."""
    settled = law.top_noise == 1.0 or longest >= 10**6
    return (limit_claim(law), *((exponent_claim(law),) if settled else ()))


def simulated_checks(law: DataLaw, quick: bool) -> list[Check[Any]]:
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
    expected = float(np.exp(np.log(predicted / gaussian).mean()))
    tolerance = (0.06 if quick else 0.015) * expected
    return [
        level_check(law, case, level, Value(expected, tolerance)),
        batch_check(law, case, problem, rates, families, replicates),
    ]


def level_over(reference: FloatArray, values: FloatArray, replicates: FloatArray) -> Estimate:
    """Geometric mean over schedules of values/reference, jackknifed over repetitions."""
    ratio = math.exp(float(np.log(values / reference).mean()))
    without = np.exp(np.log(replicates / reference[:, None]).mean(axis=0))
    return Estimate(ratio, "Var over that of Gaussian data", float(jackknife(without)))


def level_check(law: DataLaw, case: str, level: Estimate, expected: Value) -> Check[Any]:
    """Var over the Gaussian law's is what the moments predict."""
    wrong = {
        "a quarter more": Value(1.25 * expected.value, expected.tolerance),
        "a quarter less": Value(0.75 * expected.value, expected.tolerance),
    }
    if abs(expected.value - 1.0) > 2.5 * expected.tolerance:
        wrong["the Gaussian level"] = Value(1.0, expected.tolerance)
    return Check(level_claim(law), case, level, expected, wrong)


def batch_check(
    law: DataLaw,
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
        batch_claim(law),
        case,
        Collapse(variance, summaries, "Var", error),
        Proportional("1/B_eff", 0.1),
        {"mean batch": Proportional("1/mean batch", 0.1)},
    )


def received_check(law: DataLaw) -> Check[Any]:
    """Var_noise against an influence that weights each direction by the noise it receives.

    At a higher rate the top direction forgets early noise that the others keep, and the
    paper's B_eff, which weights all directions equally, is off.
    """
    problem, rates = instance(), wsd(STEPS, PEAK)
    kappa = influence(problem, rates)
    top = influence(problem.eigenvalues[:1], rates)
    families = np.array(list(schedule_families(kappa, MEAN_BATCH * STEPS).values()))
    noise = one_pass_risk_under(law, problem, rates, families).variance_noise
    weights = {"1/B_eff by received noise": kappa + (law.top_noise - 1.0) * top, "1/B_eff": kappa}
    summaries = {
        name: 1.0 / np.asarray(effective_batch(weight, families))
        for name, weight in weights.items()
    }
    return Check(
        received_claim(law),
        f"a = 2, b = 1.5, M = 16, T = {STEPS}, peak {PEAK:g}",
        Collapse(np.asarray(noise), summaries, "Var_noise"),
        Proportional("1/B_eff by received noise", 0.03),
        {"the paper's B_eff": Proportional("1/B_eff", 0.03)},
    )


def instance() -> Problem:
    """A problem small enough for many repetitions."""
    return Problem.power_law(2.0, 1.5, 16, dim=4096, seed=SEED).prior_mean()


def long_checks(law: DataLaw, longest: int) -> list[Check[Any]]:
    """The exponent of Var_noise, and the level as it tends to the Gaussian one with growing T."""
    a, b = 2.0, 1.5
    problem = Problem.power_law_nodes(a, b, math.inf, nodes=200)
    steps = horizons(longest)
    runs = [(wsd(int(T), PEAK), np.full(T, BATCH)) for T in steps]
    ours = [one_pass_risk_under(law, problem, *run) for run in runs]
    excess = [
        float(ours[k].variance / one_pass_risk(problem, *runs[k]).variance) - 1.0 for k in (0, -1)
    ]
    case = f"a = {a:g}, b = {b:g}, T to {longest:g}"
    checks: list[Check[Any]] = [
        Check(
            limit_claim(law),
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
    if exponent_claim(law) in long_claims(law, longest):
        noise = [float(np.asarray(risk.variance_noise)) for risk in ours]
        exponent = Exponent(1.0 / a - 1.0, "T/log T", 0.03)
        curve = horizon_curve(steps, noise, "Var_noise")
        checks.append(Check(exponent_claim(law), case, curve, exponent, wrong_exponents(exponent)))
    return checks
