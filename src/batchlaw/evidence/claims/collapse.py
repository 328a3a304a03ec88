"""A schedule matters through one number: 1/B_eff for one pass, rho_eff for data reuse."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.batches.effective import effective_batch, effective_fluctuation
from batchlaw.evidence.claims.check_settings import (
    WIDE,
    CheckSize,
    fewest_samples,
    hypotheses,
    named,
    peak_rate,
    reuse_rate,
    small_bias,
    wide_problem,
)
from batchlaw.evidence.claims.claim import (
    Check,
    Claim,
    Collapse,
    Proportional,
    Task,
    task_name,
)
from batchlaw.influences.weights import influence
from batchlaw.model.problem import Problem
from batchlaw.risk.multi_pass import multi_pass_risk
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.risk.result import jackknife
from batchlaw.schedule.rates import wsd
from batchlaw.theory.bounds.bound import Condition
from batchlaw.theory.laws import Law, multi_pass_law, one_pass_law

VARIANCE = Claim(
    "collapse/one-pass-variance",
    "one-pass variance ~ 1/B_eff, whatever the schedule",
    "theorem 1; proposition raw-var (H.3)",
)
WITHOUT_REPLACEMENT = Claim(
    "collapse/fluctuation-without-replacement",
    "fluctuation ~ rho_eff, without replacement",
    "theorem 2; corollary wor-batch-fluc (J)",
)
WITH_REPLACEMENT = Claim(
    "collapse/fluctuation-with-replacement",
    "fluctuation ~ rho_eff, with replacement",
    "remark, with replacement; lemma wr-batch-fluc-source (I.4)",
)

# The label noise dominates for the first four; for the others the bias is still large after a
# reused run, or after any.
PAIRS = ((1.5, 2.2), (2.0, 2.6), (3.0, 2.5), (1.2, 1.8), (2.0, 2.0), (2.5, 2.0), (2.0, 1.5))
BUDGETS = (4.0, 64.0, 1024.0)
# Data reuse: steps for which gamma tau_d is above 3 at a rate that the largest norm allows, and
# for the mean field at full size enough for the bias to be small.
REUSE_STEPS, MEAN_FIELD_STEPS = 20_000, 60_000
# (a, b, M) of drawn datasets: few directions, and few of them learned.
DRAWN = (3.0, 3.5, 16)
INFLUENCE, RHO, MEAN = "1/B_eff", "rho_eff", "1/(mean batch)"
# Largest deviation from proportionality over three decades of budgets.
TOLERANCE = 0.05


def tasks(size: CheckSize) -> list[Task]:
    """One task per pair and procedure, and at full size one with drawn datasets."""
    pairs = PAIRS[:2] if size.quick else PAIRS
    drawn = Task("drawn datasets", (WITHOUT_REPLACEMENT,), partial(_given_datasets, size))
    return [
        *(
            Task(task_name("one pass", a=a, b=b), (VARIANCE,), partial(_one_pass, size, a, b))
            for a, b in PAIRS
        ),
        *(_reuse_task(size, a, b, replacement) for a, b in pairs for replacement in (False, True)),
        *([] if size.quick else [drawn]),
    ]


def _reuse_task(size: CheckSize, a: float, b: float, replacement: bool) -> Task:
    sampling = "with replacement" if replacement else "without replacement"
    claim = WITH_REPLACEMENT if replacement else WITHOUT_REPLACEMENT
    steps = REUSE_STEPS if size.quick else MEAN_FIELD_STEPS
    return Task(task_name(sampling, a=a, b=b), (claim,), partial(_reuse, steps, a, b, replacement))


def shapes(steps: int, seed: int = 0) -> dict[str, FloatArray]:
    """Schedules of mean one in many shapes, none of them designed to be near the optimum."""
    t = (np.arange(steps) + 0.5) / steps
    rng = np.random.default_rng(seed)
    raw = {
        "constant": np.ones(steps),
        "rising": 0.1 + t,
        "falling": 1.1 - t,
        "late large": np.where(t > 0.75, 8.0, 1.0),
        "early large": np.where(t < 0.25, 8.0, 1.0),
        "middle large": np.where(np.abs(t - 0.5) < 0.1, 20.0, 1.0),
        "saw": 1.0 + 9.0 * (8.0 * t % 1.0),
        "random": np.exp(rng.normal(size=steps)),
        "random stages": np.repeat(np.exp(rng.normal(size=10)), -(-steps // 10))[:steps],
    }
    return {name: shape / shape.mean() for name, shape in raw.items()}


def _one_pass(size: CheckSize, a: float, b: float) -> list[Check[Any]]:
    problem = wide_problem(a, b)
    steps = size.longest // 30
    rates = wsd(steps, peak_rate(problem))
    kappa = influence(problem, rates)
    batches = np.array([N * B for N in BUDGETS for B in shapes(steps).values()])
    batches = np.maximum(np.round(batches), 1.0)
    risk = one_pass_risk(problem, rates, batches)
    evidence = Collapse(
        np.asarray(risk.variance),
        {
            INFLUENCE: 1.0 / np.asarray(effective_batch(kappa, batches)),
            MEAN: 1.0 / batches.mean(axis=1),
        },
        "variance",
    )
    return [
        Check(
            VARIANCE,
            named(a, b, T=steps),
            evidence,
            Proportional(INFLUENCE, TOLERANCE),
            {"mean batch for B_eff": Proportional(MEAN, TOLERANCE)},
            (
                *hypotheses(*(_one_pass_law(problem, a, b, rates, B) for B in batches)),
                small_bias(float(np.max(risk.bias)), problem.noise_variance),
            ),
        )
    ]


def _one_pass_law(
    problem: Problem, a: float, b: float, rates: FloatArray, batches: FloatArray
) -> Law:
    peak = float(rates.max())
    return one_pass_law(a, b, WIDE, steps=rates.size, peak=peak, batches=batches, problem=problem)


def _reuse(steps: int, a: float, b: float, replacement: bool) -> list[Check[Any]]:
    problem = wide_problem(a, b)
    gamma = reuse_rate(problem, steps)
    rates, N = wsd(steps, gamma), fewest_samples(gamma * steps)
    batches = _reuse_batches(steps, N, 4)
    risk = multi_pass_risk(problem, rates, batches, samples=N, replacement=replacement)
    rho, inverse, mean = _summaries(problem, rates, batches, N, replacement)
    summaries = {RHO: rho, MEAN: mean} | ({} if replacement else {INFLUENCE: inverse})
    error = float(np.max(risk.uncertainty))
    evidence = Collapse(np.asarray(risk.fluctuation), summaries, "fluctuation", error)
    law = _reuse_law(problem, a, b, WIDE, steps, N)
    conditions = _reuse_conditions(law, float(np.max(risk.bias)))
    return [_reuse_check(evidence, replacement, named(a, b, N=N, L=steps), conditions)]


def _reuse_law(problem: Problem, a: float, b: float, sketch: int, steps: int, samples: int) -> Law:
    gamma = reuse_rate(problem, steps)
    return multi_pass_law(
        a, b, sketch, samples=samples, steps=steps, peak=gamma, batches=1, problem=problem
    )


def _reuse_conditions(law: Law, bias: float) -> tuple[Condition, ...]:
    return (*hypotheses(law), small_bias(bias, law.setting.problem.noise_variance))


def _given_datasets(size: CheckSize) -> list[Check[Any]]:
    """The same without any approximation: exact given a dataset, averaged over drawn ones."""
    a, b, M = DRAWN
    problem = Problem.power_law(a, b, M, dim=2000, seed=5).prior_mean()
    gamma, datasets = reuse_rate(problem, REUSE_STEPS), size.datasets // 4
    rates, N = wsd(REUSE_STEPS, gamma), fewest_samples(gamma * REUSE_STEPS)
    batches = _reuse_batches(REUSE_STEPS, N, 2)
    risks = [
        multi_pass_risk(problem, rates, batches, dataset=problem.sample(N, seed))
        for seed in range(datasets)
    ]
    rows = np.array([risk.fluctuation for risk in risks])
    rho, inverse, mean = _summaries(problem, rates, batches, N, False)
    left_out = np.log((rows.sum(axis=0) - rows) / (datasets - 1) / rho)
    error = jackknife((left_out - left_out.mean(axis=1, keepdims=True)).T).max()
    summaries = {RHO: rho, INFLUENCE: inverse, MEAN: mean}
    evidence = Collapse(rows.mean(axis=0), summaries, "fluctuation", float(error))
    case = named(a, b, M=M, N=N, L=REUSE_STEPS, datasets=datasets)
    bias = float(np.mean([np.max(risk.bias) for risk in risks]))
    law = _reuse_law(problem, a, b, M, REUSE_STEPS, N)
    return [_reuse_check(evidence, False, case, _reuse_conditions(law, bias))]


def _reuse_check(
    evidence: Collapse, replacement: bool, case: str, conditions: tuple[Condition, ...]
) -> Check[Any]:
    wrong = {"mean batch for rho_eff": Proportional(MEAN, TOLERANCE)}
    if not replacement:
        wrong["1/B for rho"] = Proportional(INFLUENCE, TOLERANCE)
    return Check(
        WITH_REPLACEMENT if replacement else WITHOUT_REPLACEMENT,
        case,
        evidence,
        Proportional(RHO, TOLERANCE),
        wrong,
        conditions,
    )


def _reuse_batches(steps: int, samples: int, levels: int) -> FloatArray:
    """All shapes at means from 1 to 0.3 N, clipped to 1..N, where rho and 1/B differ."""
    means = np.geomspace(1.0, 0.3 * samples, levels)
    raw = [mean * shape for mean in means for shape in shapes(steps).values()]
    return np.clip(np.round(raw), 1.0, samples)


def _summaries(
    problem: Problem, rates: FloatArray, batches: FloatArray, samples: int, replacement: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """rho_eff, 1/B_eff and 1/(mean batch) of each schedule."""
    kappa = influence(problem, rates)
    rho = effective_fluctuation(kappa, batches, samples, replacement=replacement)
    return (
        np.asarray(rho),
        1.0 / np.asarray(effective_batch(kappa, batches)),
        1.0 / batches.mean(axis=1),
    )
