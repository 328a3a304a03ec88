"""Theorem 2, term by term: gradient descent's bias and variance, and the fluctuation around it."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.evidence.claims.check_settings import (
    DECADE,
    PAIRS,
    WIDE,
    CheckSize,
    fewest_samples,
    hypotheses,
    named,
    outside,
    parts,
    peak_rate,
    step_grid,
    unexpectedly_outside,
    wide_problem,
)
from batchlaw.evidence.claims.claim import (
    Check,
    Claim,
    Curve,
    Estimate,
    Exponent,
    NoLaw,
    OutsideRegime,
    Task,
    Value,
    task_name,
    wrong_exponents,
)
from batchlaw.evidence.claims.one_pass import large_bias
from batchlaw.model.problem import Problem
from batchlaw.risk.multi_pass import gradient_descent_risk, multi_pass_risk
from batchlaw.schedule.rates import wsd
from batchlaw.theory.laws import Law, multi_pass_law

GD_BIAS = Claim(
    "multi-pass/gd-bias", "GD bias ~ (gamma L)^((1-b)/a)", "theorem 2; lemma gd-bias-source (D.2)"
)
GD_VARIANCE = Claim(
    "multi-pass/gd-variance",
    "GD variance ~ (gamma L)^(1/a)/N",
    "theorem 2; lemma gd-var-source (E.2)",
)
GD_TERMS = (GD_BIAS, GD_VARIANCE)
GD_VARIANCE_IN_SAMPLES = Claim(
    "multi-pass/gd-variance-in-samples",
    "GD variance ~ 1/N",
    "theorem 2; lemma gd-var-source (E.2)",
)
# Keyed by the method of ``multi_pass_risk``.
FLUCTUATION = {
    "mean-field": Claim(
        "multi-pass/fluctuation",
        "fluctuation ~ rho_eff (log L/L)(gamma L/log L)^(1/a), mean field",
        "theorem 2; corollary wor-batch-fluc (J)",
    ),
    "simple": Claim(
        "multi-pass/fluctuation-simple",
        "fluctuation ~ rho_eff (log L/L)(gamma L/log L)^(1/a), simple",
        "theorem 2; corollary wor-batch-fluc (J)",
    ),
}
NOT_FITTED = Claim(
    "multi-pass/not-fitted",
    "theorem 2's exponents are not fitted outside its regime",
    "theorem 2",
)
# Keyed by the part of ``gradient_descent_risk``.
MEAN_FIELD = {
    part: Claim(
        f"multi-pass/mean-field-gd-{part}",
        f"mean field's GD {part} is the average over drawn datasets",
        "ours: docs/mean_field.md",
    )
    for part in ("bias", "variance")
}
NO_LOG_FACTOR = Claim(
    "multi-pass/no-log-factor",
    "the fluctuation has no factor log N",
    "theorem 2: lower side without, upper side with log N",
)

LEARNING, MEMORY = "gamma L", "gamma L/log L"
# Enough samples for gamma L log N <= N at 10^6 steps, with room to spare.
SAMPLES = 10**9
# Pairs whose bias is small enough at the mean field's sizes.
SMALL_BIAS_PAIRS = ((2.0, 2.6), (3.0, 2.5), (1.5, 2.2), (2.0, 2.0), (2.5, 2.0))
# (a, b, M, L, N) outside theorem 2, by the source, the width and the samples.
OUTSIDE_CASES = (
    (1.5, 3.0, WIDE, 10**5, 10**7),
    (2.0, 1.5, 16, 10**5, 10**7),
    (2.0, 1.5, WIDE, 10**5, 10**3),
)
# Batch of the fluctuation checks: every sample is used dozens of times.
BATCH = 64


def tasks(size: CheckSize) -> list[Task]:
    """One task per pair and part of the theorem; two on drawn datasets."""
    pairs = PAIRS[::3] if size.quick else PAIRS
    mean_field_pairs = SMALL_BIAS_PAIRS[:2] if size.quick else SMALL_BIAS_PAIRS
    return [
        *(
            Task(task_name("gd", a=a, b=b), GD_TERMS, partial(_gradient_descent, size, a, b))
            for a, b in pairs
        ),
        *(_fluctuation_task(size, a, b, "mean-field") for a, b in mean_field_pairs),
        *(_fluctuation_task(size, a, b, "simple") for a, b in PAIRS),
        *(
            Task(
                task_name("not fitted", a=a, b=b, M=M, L=L, N=N),
                (NOT_FITTED,),
                partial(_not_fitted, a, b, M, L, N),
            )
            for a, b, M, L, N in OUTSIDE_CASES
        ),
        Task("gd in samples", (GD_VARIANCE_IN_SAMPLES,), _in_samples),
        Task("drawn gd", tuple(MEAN_FIELD.values()), partial(_drawn_gradient_descent, size)),
        Task("log factor of the mean field", (NO_LOG_FACTOR,), _log_factor_of_mean_field),
        Task("log factor on datasets", (NO_LOG_FACTOR,), partial(_log_factor_on_datasets, size)),
    ]


def _fluctuation_task(size: CheckSize, a: float, b: float, method: str) -> Task:
    name = task_name(f"fluctuation {method}", a=a, b=b)
    return Task(name, (FLUCTUATION[method],), partial(_fluctuation, size, a, b, method))


def _horizons(L: Any, gamma: float) -> dict[str, FloatArray]:
    return {LEARNING: gamma * L, MEMORY: gamma * L / np.log(L)}


def _gradient_descent(size: CheckSize, a: float, b: float) -> list[Check[Any]]:
    problem = wide_problem(a, b)
    gamma = peak_rate(problem)
    law = _law(problem, a, b, WIDE, size.longest_reuse, SAMPLES)
    case = named(a, b, L=f"{size.longest_reuse:.0e}", N=f"{SAMPLES:.0e}")
    if reasons := outside(law):
        return unexpectedly_outside(GD_TERMS, case, reasons, "GD risk")
    L = step_grid(size.longest_reuse, per_decade=3 if size.quick else 4)
    risks = [gradient_descent_risk(problem, wsd(int(t), gamma), samples=SAMPLES) for t in L]
    x = _horizons(L, gamma)
    bias = Exponent((1.0 - b) / a, LEARNING, 0.02, MEMORY)
    variance = Exponent(1.0 / a, LEARNING, 0.02, MEMORY)
    return [
        Check(
            GD_BIAS,
            case,
            Curve(x, parts(risks, "bias"), "GD bias", DECADE),
            bias,
            wrong_exponents(bias),
            hypotheses(law),
        ),
        Check(
            GD_VARIANCE,
            case,
            Curve(x, parts(risks, "variance"), "GD variance", DECADE),
            variance,
            wrong_exponents(variance),
            hypotheses(law),
        ),
    ]


def _law(problem: Problem, a: float, b: float, sketch: int, steps: int, samples: int) -> Law:
    gamma = peak_rate(problem)
    return multi_pass_law(
        a, b, sketch, samples=samples, steps=steps, peak=gamma, batches=BATCH, problem=problem
    )


def _fluctuation(size: CheckSize, a: float, b: float, method: str) -> list[Check[Any]]:
    """Datasets as small as the theorem allows, so that every sample is used many times.

    The mean field accounts for the reuse. The simple recursion is accurate where few degrees of
    freedom are fitted, which these datasets ensure, and reaches runs ten times as long.
    """
    problem = wide_problem(a, b)
    gamma = peak_rate(problem)
    longest = size.longest // 10 if method == "mean-field" else size.longest
    L = step_grid(longest, per_decade=4 if method == "mean-field" else 6)
    values, share = [], 0.0
    for t in L.tolist():
        N, batches = fewest_samples(gamma * t), np.full(t, float(BATCH))
        risk = multi_pass_risk(problem, wsd(t, gamma), batches, samples=N, method=method)
        rho = (N - BATCH) / (BATCH * (N - 1))
        values.append(float(np.max(risk.fluctuation)) / rho)
        share = float(np.max(risk.bias)) / problem.noise_variance
    curve = Curve(
        _horizons(L, gamma),
        np.array(values),
        "fluctuation / rho_eff",
        DECADE,
        withheld=large_bias(share),
    )
    law = Exponent(1.0 / a - 1.0, MEMORY, 0.03, LEARNING)
    passes = longest * BATCH / N
    return [
        Check(
            FLUCTUATION[method],
            named(a, b, L=f"{longest:.0e}", N=f"{N:.1e}", B=BATCH) + f", {passes:.0f} passes",
            curve,
            law,
            {} if curve.withheld else wrong_exponents(law),
            hypotheses(_law(problem, a, b, WIDE, longest, N)),
        )
    ]


def _not_fitted(a: float, b: float, sketch: int, steps: int, samples: int) -> list[Check[Any]]:
    """A case chosen to lie outside theorem 2."""
    problem = wide_problem(a, b, sketch)
    reasons = outside(_law(problem, a, b, sketch, steps, samples))
    return [
        Check(
            NOT_FITTED,
            named(a, b, M=f"{sketch:.0e}", L=f"{steps:.0e}", N=f"{samples:.0e}"),
            OutsideRegime(reasons, "multi-pass risk"),
            NoLaw(expected=bool(reasons)),
        )
    ]


def _in_samples() -> list[Check[Any]]:
    a, b = 2.0, 1.5
    problem = wide_problem(a, b)
    rates = wsd(10_000, peak_rate(problem))
    N = np.geomspace(1e4, 1e7, 9).astype(int)
    risks = [gradient_descent_risk(problem, rates, samples=int(n)) for n in N]
    law = Exponent(-1.0, "N")
    return [
        Check(
            GD_VARIANCE_IN_SAMPLES,
            named(a, b, L=rates.size),
            Curve({"N": N.astype(float)}, parts(risks, "variance"), "GD variance"),
            law,
            wrong_exponents(law),
        )
    ]


def _drawn_gradient_descent(size: CheckSize) -> list[Check[Any]]:
    """The mean field against the average over drawn datasets, exact given each."""
    problem = Problem.power_law(2.0, 1.5, 64, dim=10_000, seed=1).prior_mean()
    rates, N = wsd(2000, peak_rate(problem)), 512
    expected = gradient_descent_risk(problem, rates, samples=N)
    drawn = [
        gradient_descent_risk(problem, rates, (problem.sample(N, seed)[0], None))
        for seed in range(2 * size.datasets)
    ]
    checks = []
    for part, claim in MEAN_FIELD.items():
        ratio = parts(drawn, part) / float(getattr(expected, part))
        error = float(ratio.std(ddof=1) / math.sqrt(ratio.size))
        checks.append(
            Check(
                claim,
                named(2.0, 1.5, M=64, N=N, L=rates.size, datasets=ratio.size),
                Estimate(float(ratio.mean()), f"drawn / mean field, GD {part}", error),
                Value(1.0, 0.03),
                {"a tenth more": Value(1.1, 0.03), "a tenth less": Value(0.9, 0.03)},
            )
        )
    return checks


def _log_factor_of_mean_field() -> list[Check[Any]]:
    problem = wide_problem(2.0, 1.5)
    rates = wsd(2000, peak_rate(problem))
    N = np.geomspace(1e3, 1e6, 8).astype(int)
    values = []
    for n in N:
        risk = multi_pass_risk(problem, rates, np.ones(rates.size), samples=int(n))
        values.append(float(np.max(risk.fluctuation)))
    case = named(2.0, 1.5, L=rates.size, N=f"{N[0]}..{N[-1]}", B=1)
    return [_log_factor_check(N, np.array(values), f"{case}, mean field")]


def _log_factor_on_datasets(size: CheckSize) -> list[Check[Any]]:
    """Exact given drawn datasets, with equal totals of samples at every N, so that errors match."""
    problem = Problem.power_law(2.0, 1.5, 12, dim=4000, seed=2).prior_mean()
    rates = wsd(100, peak_rate(problem))
    N = np.array([128, 256, 512, 1024, 2048, 4096])
    rows = np.zeros((size.datasets, N.size))
    for draw, column in np.ndindex(rows.shape):
        repeats = int(N[-1] // N[column])
        for k in range(repeats):
            data = problem.sample(int(N[column]), np.random.default_rng([7, draw, column, k]))
            risk = multi_pass_risk(problem, rates, np.ones(rates.size), dataset=data)
            rows[draw, column] += float(np.max(risk.fluctuation)) / repeats
    case = named(2.0, 1.5, M=12, L=rates.size, N=f"{N[0]}..{N[-1]}", B=1)
    return [_log_factor_check(N, rows, f"{case}, {rows.shape[0]} x {N[-1]} samples drawn")]


def _log_factor_check(samples: IntArray, fluctuation: FloatArray, case: str) -> Check[Any]:
    """The exponent of log N, between 0 and 1 by the two sides of theorem 2. At B = 1, rho is 1."""
    x, law = np.log(samples), Exponent(0.0, "log N", 0.05)
    return Check(
        NO_LOG_FACTOR,
        case,
        Curve({"log N": x}, fluctuation, "fluctuation / rho_eff", math.log(x[-1] / x[0])),
        law,
        {"log N": replace(law, value=1.0), "sqrt(log N)": replace(law, value=0.5)},
    )
