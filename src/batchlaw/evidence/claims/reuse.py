"""Theorem 2, term by term: gradient descent's bias and variance, and the fluctuation around it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.evidence.claims.check_settings import (
    DECADE,
    OUTSIDE_PAIR,
    PAIRS,
    WIDE,
    CheckSize,
    fewest_samples,
    hypotheses,
    last_decade,
    named,
    parts,
    peak_rate,
    reuse_rate,
    small_bias,
    step_grid,
    wide_problem,
)
from batchlaw.evidence.claims.claim import (
    Check,
    Claim,
    Curve,
    Estimate,
    Exponent,
    Task,
    Value,
    task_name,
    wrong_exponents,
)
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
# The fluctuation of the first four falls with the bias at these sizes: outside, with the bias
# measured.
LARGE_BIAS_PAIRS = ((1.5, 1.25), (1.5, 1.5), (2.0, 1.5), (1.2, 1.1))
SMALL_BIAS_PAIRS = tuple(pair for pair in PAIRS if pair not in LARGE_BIAS_PAIRS)
# Pairs that are also measured at gamma tr(Sigma) = 0.08, beyond what the largest norm allows.
HIGH_RATE_PAIRS = ((2.0, 2.0), (1.5, 2.2))
# (a, b, M, L, N) outside theorem 2, by the source, the width and the samples.
OUTSIDE_CASES = (
    (*OUTSIDE_PAIR, WIDE, 10**5, 10**7),
    (2.0, 1.5, 16, 10**5, 10**7),
    (2.0, 1.5, WIDE, 10**5, 10**3),
)
# Runs per row: the decade that is fitted and the window before it, from where gamma tau_d is
# above 3 at a rate that the largest norm allows.
DECADES, PER_DECADE = 1.6, 5
MEAN_FIELD_LONGEST = 10**6
# Batch of the fluctuation checks: every sample is used dozens of times.
BATCH = 64
# (a, b) of the checks in N at a fixed run.
IN_SAMPLES = ((2.0, 1.5), (1.5, 2.2))


def tasks(size: CheckSize) -> list[Task]:
    """One task per pair and part of the theorem; a few on drawn datasets."""
    pairs = PAIRS[::4] if size.quick else PAIRS
    mean_field_pairs = ((2.0, 2.6),) if size.quick else SMALL_BIAS_PAIRS
    return [
        *(
            Task(task_name("gd", a=a, b=b), GD_TERMS, partial(_gradient_descent, size, a, b))
            for a, b in pairs
        ),
        *(
            Task(
                task_name("gd at a high rate", a=a, b=b),
                GD_TERMS,
                partial(_gradient_descent, size, a, b, high_rate=True),
            )
            for a, b in HIGH_RATE_PAIRS
        ),
        *(_fluctuation_task(size, a, b, "mean-field") for a, b in mean_field_pairs),
        *(_fluctuation_task(size, a, b, "simple") for a, b in PAIRS),
        *(_fluctuation_task(size, a, b, "simple", high_rate=True) for a, b in HIGH_RATE_PAIRS),
        *(
            Task(
                task_name("outside", a=a, b=b, M=M, L=L, N=N),
                (GD_BIAS,),
                partial(_outside, a, b, M, L, N),
            )
            for a, b, M, L, N in OUTSIDE_CASES
        ),
        *(
            Task(
                task_name("gd in samples", a=a, b=b),
                (GD_VARIANCE_IN_SAMPLES,),
                partial(_in_samples, a, b),
            )
            for a, b in IN_SAMPLES
        ),
        *(
            Task(
                task_name("drawn gd", a=a, b=b),
                tuple(MEAN_FIELD.values()),
                partial(_drawn_gradient_descent, size, a, b),
            )
            for a, b in IN_SAMPLES
        ),
        *(
            Task(
                task_name("log factor of the mean field", a=a, b=b),
                (NO_LOG_FACTOR,),
                partial(_log_factor_of_mean_field, a, b),
            )
            for a, b in IN_SAMPLES
        ),
        *_drawn_log_factor_tasks(size),
    ]


def _fluctuation_task(
    size: CheckSize, a: float, b: float, method: str, *, high_rate: bool = False
) -> Task:
    name = task_name(f"fluctuation {method}{' at a high rate' * high_rate}", a=a, b=b)
    run = partial(_fluctuation, size, a, b, method, high_rate=high_rate)
    return Task(name, (FLUCTUATION[method],), run)


def _horizons(L: IntArray, gamma: float) -> dict[str, FloatArray]:
    steps = L.astype(np.float64)
    return {LEARNING: gamma * steps, MEMORY: gamma * steps / np.log(steps)}


def _rate(problem: Problem, longest: int, *, high: bool = False) -> float:
    """The largest rate that the norms of N <= L samples allow; or a high one, as for one pass."""
    return peak_rate(problem) if high else reuse_rate(problem, longest)


def _law(
    problem: Problem, a: float, b: float, sketch: int, steps: int, samples: int, gamma: float
) -> Law:
    return multi_pass_law(
        a, b, sketch, samples=samples, steps=steps, peak=gamma, batches=BATCH, problem=problem
    )


def _laws(problem: Problem, a: float, b: float, steps: IntArray, gamma: float) -> list[Law]:
    """The law at both ends of a range of runs, each with the fewest samples that it allows."""
    return [
        _law(problem, a, b, WIDE, t, fewest_samples(gamma * t), gamma)
        for t in (int(steps[0]), int(steps[-1]))
    ]


def _gradient_descent(
    size: CheckSize, a: float, b: float, *, high_rate: bool = False
) -> list[Check[Any]]:
    """Runs of any length on the fewest samples that the theorem allows for each."""
    problem = wide_problem(a, b)
    longest = size.longest if high_rate else size.longest_reuse
    gamma = _rate(problem, longest, high=high_rate)
    L = step_grid(longest, DECADES, PER_DECADE)
    N = np.array([fewest_samples(gamma * t) for t in L])
    risks = [
        gradient_descent_risk(problem, wsd(int(t), gamma), samples=int(n))
        for t, n in zip(L, N, strict=True)
    ]
    x = _horizons(L, gamma)
    laws = _laws(problem, a, b, L, gamma)
    variance = Exponent(1.0 / a, LEARNING, 0.02, MEMORY)
    case = named(a, b, L=f"{longest:.0e}", N=f"{N[-1]:.1e}", gamma=f"{gamma:.2g}")
    return [
        _gd_bias_check(case, x, parts(risks, "bias"), laws),
        Check(
            GD_VARIANCE,
            case,
            Curve(x, N * parts(risks, "variance"), "N GD variance", DECADE),
            variance,
            wrong_exponents(variance),
            hypotheses(*laws),
        ),
    ]


def _gd_bias_check(
    case: str, x: dict[str, FloatArray], bias: FloatArray, laws: Sequence[Law]
) -> Check[Any]:
    a, b = laws[-1].setting.a, laws[-1].setting.b
    exponent = Exponent((1.0 - b) / a, LEARNING, 0.02, MEMORY)
    evidence = Curve(x, bias, "GD bias", DECADE)
    conditions = (*hypotheses(*laws), laws[-1].bias_alone)
    return Check(GD_BIAS, case, evidence, exponent, wrong_exponents(exponent), conditions)


def _outside(a: float, b: float, sketch: int, longest: int, samples: int) -> list[Check[Any]]:
    """A case chosen to lie outside theorem 2."""
    problem = wide_problem(a, b, sketch)
    gamma = reuse_rate(problem, samples)
    L = step_grid(longest, DECADES, PER_DECADE)
    risks = [gradient_descent_risk(problem, wsd(int(t), gamma), samples=samples) for t in L]
    case = named(a, b, M=f"{sketch:.0e}", L=f"{longest:.0e}", N=f"{samples:.0e}")
    law = _law(problem, a, b, sketch, longest, samples, gamma)
    return [_gd_bias_check(case, _horizons(L, gamma), parts(risks, "bias"), [law])]


def _fluctuation(
    size: CheckSize, a: float, b: float, method: str, *, high_rate: bool = False
) -> list[Check[Any]]:
    """Datasets as small as the theorem allows, so that every sample is used many times.

    The mean field accounts for the reuse. The simple recursion is accurate where few degrees of
    freedom are fitted, which these datasets ensure, and reaches longer runs.
    """
    problem = wide_problem(a, b)
    longest = size.longest if high_rate else size.longest_reuse
    if method == "mean-field":
        longest = min(longest, MEAN_FIELD_LONGEST)
    gamma = _rate(problem, longest, high=high_rate)
    L = step_grid(longest, DECADES, PER_DECADE)
    values, biases = [], []
    for t in L.tolist():
        N, batches = fewest_samples(gamma * t), np.full(t, float(BATCH))
        risk = multi_pass_risk(problem, wsd(t, gamma), batches, samples=N, method=method)
        rho = (N - BATCH) / (BATCH * (N - 1))
        values.append(float(np.max(risk.fluctuation)) / rho)
        biases.append(float(np.max(risk.bias)))
    x = _horizons(L, gamma)
    law = Exponent(1.0 / a - 1.0, MEMORY, 0.03, LEARNING)
    bias = last_decade(np.array(biases), x[LEARNING])
    sizes = named(a, b, L=f"{longest:.0e}", N=f"{N:.1e}", gamma=f"{gamma:.2g}", B=BATCH)
    return [
        Check(
            FLUCTUATION[method],
            f"{sizes}, {longest * BATCH / N:.0f} passes",
            Curve(x, np.array(values), "fluctuation / rho_eff", DECADE),
            law,
            wrong_exponents(law),
            (
                *hypotheses(*_laws(problem, a, b, L, gamma)),
                small_bias(bias, problem.noise_variance),
            ),
        )
    ]


def _in_samples(a: float, b: float) -> list[Check[Any]]:
    problem = wide_problem(a, b)
    largest = 10**7
    gamma, steps = reuse_rate(problem, largest), 10**5
    N = np.geomspace(fewest_samples(gamma * steps), largest, 9).astype(int)
    rates = wsd(steps, gamma)
    risks = [gradient_descent_risk(problem, rates, samples=int(n)) for n in N]
    law = Exponent(-1.0, "N")
    return [
        Check(
            GD_VARIANCE_IN_SAMPLES,
            named(a, b, L=rates.size, N=f"{N[0]}..{N[-1]}"),
            Curve({"N": N.astype(float)}, parts(risks, "variance"), "GD variance"),
            law,
            wrong_exponents(law),
            hypotheses(*(_law(problem, a, b, WIDE, steps, int(n), gamma) for n in N[[0, -1]])),
        )
    ]


def _drawn_gradient_descent(size: CheckSize, a: float, b: float) -> list[Check[Any]]:
    """The mean field against the average over drawn datasets, exact given each."""
    problem = Problem.power_law(a, b, 64, dim=10_000, seed=1).prior_mean()
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
                named(a, b, M=64, N=N, L=rates.size, datasets=ratio.size),
                Estimate(float(ratio.mean()), f"drawn / mean field, GD {part}", error),
                Value(1.0, 0.03),
                {"a tenth more": Value(1.1, 0.03), "a tenth less": Value(0.9, 0.03)},
            )
        )
    return checks


def _log_factor_of_mean_field(a: float, b: float) -> list[Check[Any]]:
    problem = wide_problem(a, b)
    largest, steps = 10**6, 3 * 10**4
    gamma = reuse_rate(problem, largest)
    rates = wsd(steps, gamma)
    N = np.geomspace(fewest_samples(gamma * steps), largest, 8).astype(int)
    values = []
    for n in N:
        risk = multi_pass_risk(problem, rates, np.ones(rates.size), samples=int(n))
        values.append(float(np.max(risk.fluctuation)))
    case = named(a, b, L=rates.size, N=f"{N[0]}..{N[-1]}", B=1)
    laws = [_law(problem, a, b, WIDE, steps, int(n), gamma) for n in N[[0, -1]]]
    return [_log_factor_check(N, np.array(values), f"{case}, mean field", laws)]


def _drawn_log_factor_tasks(size: CheckSize) -> list[Task]:
    """Short runs, outside the theorem; at full size also runs that are long enough."""
    few = (12, 100, 128 * 2 ** np.arange(6))
    many = (16, 20_000, np.geomspace(1800, 7200, 7).astype(int))
    short = partial(_log_factor_on_datasets, 2.0, 1.5, *few, size.datasets, high_rate=True)
    long = partial(_log_factor_on_datasets, 3.0, 2.5, *many, size.datasets // 6)
    return [
        Task("log factor on datasets, short runs", (NO_LOG_FACTOR,), short),
        *([] if size.quick else [Task("log factor on datasets", (NO_LOG_FACTOR,), long)]),
    ]


def _log_factor_on_datasets(
    a: float,
    b: float,
    sketch: int,
    steps: int,
    N: IntArray,
    draws: int,
    *,
    high_rate: bool = False,
) -> list[Check[Any]]:
    """Exact given drawn datasets, with equal totals of samples at every N, so that errors match."""
    problem = Problem.power_law(a, b, sketch, dim=4000, seed=2).prior_mean()
    gamma = _rate(problem, int(N[-1]), high=high_rate)
    rates = wsd(steps, gamma)
    rows = np.zeros((draws, N.size))
    for draw, column in np.ndindex(rows.shape):
        repeats = max(round(N[-1] / N[column]), 1)
        for k in range(repeats):
            data = problem.sample(int(N[column]), np.random.default_rng([7, draw, column, k]))
            risk = multi_pass_risk(problem, rates, np.ones(rates.size), dataset=data)
            rows[draw, column] += float(np.max(risk.fluctuation)) / repeats
    case = named(a, b, M=sketch, L=steps, N=f"{N[0]}..{N[-1]}", B=1)
    laws = [_law(problem, a, b, sketch, steps, int(n), gamma) for n in N[[0, -1]]]
    return [_log_factor_check(N, rows, f"{case}, {draws} x {N[-1]} samples drawn", laws)]


def _log_factor_check(
    samples: IntArray, fluctuation: FloatArray, case: str, laws: Sequence[Law]
) -> Check[Any]:
    """The exponent of log N, between 0 and 1 by the two sides of theorem 2. At B = 1, rho is 1."""
    x, law = np.log(samples), Exponent(0.0, "log N", 0.05)
    return Check(
        NO_LOG_FACTOR,
        case,
        Curve({"log N": x}, fluctuation, "fluctuation / rho_eff", math.log(x[-1] / x[0])),
        law,
        {"log N": replace(law, value=1.0), "sqrt(log N)": replace(law, value=0.5)},
        hypotheses(*laws),
    )
