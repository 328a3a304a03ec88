"""Where reuse bites: GD's terms and the fluctuation with the number of epochs as the variable.

Inside theorem 2, on the fewest samples that its hypotheses allow, df/N is below 0.1 or so, and
the laws are judged. Beyond, at df/N from 0.1 to 1, the claims are ours: what replaces the law, as
functions of df/N (``theory.reuse_limit``), and theorem 2's law is one that the evidence rejects.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.evidence.claims.check_settings import (
    DECADE,
    WIDE,
    CheckSize,
    bias_alone,
    fewest_samples,
    hypotheses,
    named,
    parts,
    peak_rate,
    reuse_rate,
    step_grid,
    wide_problem,
)
from batchlaw.evidence.claims.claim import (
    Check,
    Claim,
    Collapse,
    Curve,
    Estimate,
    Exponent,
    Proportional,
    Task,
    Value,
    task_name,
    wrong_exponents,
)
from batchlaw.evidence.claims.outside.departure import Departure
from batchlaw.evidence.claims.reuse_runs import (
    BATCH,
    ReuseRuns,
    drawn_risks,
    reuse_runs,
    steps_for,
)
from batchlaw.from_data.slopes import fit_slope
from batchlaw.model.problem import Problem
from batchlaw.risk.multi_pass import gradient_descent_risk, multi_pass_risk
from batchlaw.schedule.rates import wsd
from batchlaw.theory.laws import multi_pass_law
from batchlaw.theory.reuse_limit import gd_bias_factor, gd_variance_factor, training_residual

INSIDE_BIAS = Claim(
    "reuse/inside-gd-bias",
    "GD bias ~ (gamma L)^((1-b)/a), in epochs on the fewest samples",
    "theorem 2; lemma gd-bias-source (D.2)",
)
INSIDE_VARIANCE = Claim(
    "reuse/inside-gd-variance",
    "GD variance ~ (gamma L)^(1/a)/N, in epochs on the fewest samples",
    "theorem 2; lemma gd-var-source (E.2)",
)
INSIDE_BATCHES = Claim(
    "reuse/inside-batches",
    "fluctuation ~ rho_eff in epochs at fixed updates, on the fewest samples",
    "theorem 2; corollary wor-batch-fluc (J)",
)
BEYOND = Departure(
    "beyond", "df/N to 1", "beyond theorem 2's gamma L log N <= c N; ours", family="reuse"
)
FACTOR = {
    part: BEYOND.claim(
        f"gd-{part}", f"GD {part} over one pass's is a function of df/N, the limit's"
    )
    for part in ("bias", "variance")
}
FLUCTUATION = BEYOND.claim(
    "fluctuation", "fluctuation over one pass's ~ what is left of the training residual, a <= 2"
)
STEEP = BEYOND.claim(
    "fluctuation-steep", "at a = 3 the fluctuation stays above what is left of the residual"
)
EXPONENT = {
    part: BEYOND.claim(
        f"{name}-exponent", f"the exponent of {label} in epochs is the limit's, not theorem 2's"
    )
    for part, name, label in (
        ("bias", "gd-bias", "GD bias"),
        ("variance", "gd-variance", "GD variance"),
        ("fluctuation", "fluctuation", "the fluctuation"),
    )
}
DRAWN = {
    part: Claim(
        f"reuse/drawn-{name}",
        f"mean field's {label} at df/N to 1 is the average over drawn datasets",
        "ours: docs/mean_field.md",
    )
    for part, name, label in (
        ("bias", "gd-bias", "GD bias"),
        ("variance", "gd-variance", "GD variance"),
        ("fluctuation", "fluctuation", "fluctuation"),
    )
}

STEEP_CLAIMS = (*FACTOR.values(), STEEP, EXPONENT["bias"], EXPONENT["variance"])

# df/N of the runs beyond the theorem; the exponents are those of the last four.
SHARES = np.geomspace(0.1, 1.0, 9)
EXPONENT_RUNS = 4
# (a, b) and the size of the dataset: as large as a few seconds of mean field allow.
BEYOND_CASES = (
    (1.2, 1.1, 1024),
    (1.2, 2.0, 1024),
    (1.5, 1.5, 256),
    (1.5, 2.2, 256),
    (2.0, 1.5, 128),
    (2.0, 2.6, 128),
)
QUICK_CASES = ((1.2, 2.0, 256), (1.5, 1.5, 256), (2.0, 2.6, 128))
STEEP_CASE = (3.0, 2.5, 32)
INSIDE_PAIRS = (
    (1.2, 2.0),
    (1.5, 2.2),
    (1.2, 1.1),
    (1.2, 1.5),
    (2.0, 1.5),
    (2.0, 2.6),
    (3.0, 2.5),
)
# (a, b) of the batches that grow, and gamma L: long enough for the decay to have some mass.
BATCH_PAIRS = ((2.0, 2.6), (3.0, 2.5))
BATCHES_MASS = 80.0
# (a, b) and df/N of the drawn datasets.
DRAWN_CASES = ((1.2, 2.0, 0.9), (1.5, 1.5, 0.3), (1.5, 1.5, 0.9))
# Samples per update inside the theorem: every sample is used hundreds of times.
INSIDE_BATCH = 64

EPOCHS, MEMORY = "epochs", "epochs/log L"


def tasks(size: CheckSize) -> list[Task]:
    """One task per pair inside the theorem, one per pair and dataset beyond, one drawn."""
    inside = INSIDE_PAIRS[:2] if size.quick else INSIDE_PAIRS
    beyond = QUICK_CASES if size.quick else BEYOND_CASES
    return [
        *(
            Task(
                task_name("inside", a=a, b=b),
                (INSIDE_BIAS, INSIDE_VARIANCE),
                partial(_inside, size, a, b),
            )
            for a, b in inside
        ),
        *(
            Task(
                task_name("inside batches", a=a, b=b),
                (INSIDE_BATCHES,),
                partial(_inside_batches, a, b),
            )
            for a, b in (BATCH_PAIRS[:1] if size.quick else BATCH_PAIRS)
        ),
        *(
            Task(
                task_name("beyond", a=a, b=b, N=N),
                (*FACTOR.values(), FLUCTUATION, *EXPONENT.values()),
                partial(_beyond, a, b, N),
            )
            for a, b, N in beyond
        ),
        *([] if size.quick else [Task("beyond steep", STEEP_CLAIMS, _steep)]),
        Task("drawn", tuple(DRAWN.values()), partial(_drawn, size)),
    ]


def _inside(size: CheckSize, a: float, b: float) -> list[Check[Any]]:
    """Exponents in epochs at N = 3 gamma L log N of the longest run, and gamma max |z|^2 <= 1/8.

    With fresh samples, N = B L, the variance would fall with the number of updates. At so small a
    rate the fluctuation's memory is too short for its exponent to settle.
    """
    problem = wide_problem(a, b)
    mass = 3000.0 if size.quick else 10_000.0
    N = fewest_samples(mass)
    gamma = reuse_rate(problem, N)
    L = step_grid(round(mass / gamma), per_decade=4)
    law = multi_pass_law(
        a, b, WIDE, samples=N, steps=int(L[-1]), peak=gamma, batches=INSIDE_BATCH, problem=problem
    )
    epochs = INSIDE_BATCH * L / N
    case = named(a, b, N=N, L=L[-1], B=INSIDE_BATCH) + f", to {epochs[-1]:.0f} epochs"
    risks = [gradient_descent_risk(problem, wsd(t, gamma), samples=N) for t in L.tolist()]
    x = {EPOCHS: epochs, MEMORY: epochs / np.log(L)}
    bias = Exponent((1.0 - b) / a, EPOCHS, 0.03, MEMORY)
    variance = Exponent(1.0 / a, EPOCHS, 0.03, MEMORY)
    fresh = {"fresh samples, N = BL": replace(variance, value=variance.value - 1.0)}
    return [
        Check(
            INSIDE_BIAS,
            case,
            Curve(x, parts(risks, "bias"), "GD bias", DECADE),
            bias,
            wrong_exponents(bias),
            bias_alone(law),
        ),
        Check(
            INSIDE_VARIANCE,
            case,
            Curve(x, parts(risks, "variance"), "GD variance", DECADE),
            variance,
            wrong_exponents(variance) | fresh,
            hypotheses(law),
        ),
    ]


def _inside_batches(a: float, b: float) -> list[Check[Any]]:
    """The same updates with ever larger batches: more epochs, until a batch is most of the data."""
    problem = wide_problem(a, b)
    N = fewest_samples(BATCHES_MASS)
    gamma = reuse_rate(problem, N)
    L = round(BATCHES_MASS / gamma)
    law = multi_pass_law(a, b, WIDE, samples=N, steps=L, peak=gamma, batches=1, problem=problem)
    batches = np.unique(np.geomspace(1, 0.9 * N, 10).round())
    risk = multi_pass_risk(problem, wsd(L, gamma), np.tile(batches[:, None], L), samples=N)
    summaries = {
        "rho_eff": (N - batches) / (batches * (N - 1)),
        "rho_eff, N = BL": (batches * L - batches) / (batches * (batches * L - 1)),
        "1/epochs": N / (batches * L),
    }
    case = named(a, b, N=N, L=L) + f", {L / N:.0f} to {batches[-1] * L / N:.0f} epochs"
    return [
        Check(
            INSIDE_BATCHES,
            case,
            Collapse(np.asarray(risk.fluctuation), summaries, "fluctuation"),
            Proportional("rho_eff", 0.03),
            {
                "fresh samples, N = BL": Proportional("rho_eff, N = BL", 0.03),
                "1/epochs": Proportional("1/epochs", 0.03),
            },
            hypotheses(law),
        )
    ]


def _beyond(a: float, b: float, samples: int) -> list[Check[Any]]:
    runs = reuse_runs(a, b, samples, SHARES)
    residual = training_residual(runs.share, a)
    summaries = {
        "the training residual": residual,
        "one pass": np.ones_like(residual),
        "(1 - df/N)^2": (1.0 - runs.share) ** 2,
        "exp(-df/N)": np.exp(-runs.share),
    }
    collapse = Collapse(runs.fluctuation_factor, summaries, "fluctuation over one pass's")
    names = [name for name in summaries if name != "the training residual"]
    return [
        *_factors(runs),
        Check(
            FLUCTUATION,
            _case(runs),
            collapse,
            Proportional("the training residual", 0.1),
            {name: Proportional(name, 0.1) for name in names},
        ),
        *_descent_exponents(runs),
        _exponent(runs, "fluctuation", residual, 0.05),
    ]


def _steep() -> list[Check[Any]]:
    """At a = 3 noise is kept in so many directions that the kernel's own reuse counts."""
    runs = reuse_runs(*STEEP_CASE, SHARES)
    ratio = runs.fluctuation_factor / training_residual(runs.share, runs.a)
    return [
        *_factors(runs),
        Check(
            STEEP,
            _case(runs),
            Estimate(float(ratio[-1]), "fluctuation over residual at df/N = 1", bias=runs.error),
            Value(1.1, side="at_least"),
            {"as the residual": Value(1.0, 0.05)},
        ),
        *_descent_exponents(runs),
    ]


def _case(runs: ReuseRuns) -> str:
    return (
        f"{named(runs.a, runs.b, N=runs.samples, B=BATCH)}, {runs.epochs[0]:.0f} to "
        f"{runs.epochs[-1]:.0f} epochs, df/N {runs.share[0]:.2f} to {runs.share[-1]:.2f}"
    )


def _limits(runs: ReuseRuns) -> dict[str, FloatArray]:
    return {
        "bias": gd_bias_factor(runs.share, runs.a, runs.b),
        "variance": gd_variance_factor(runs.share, runs.a),
    }


def _factors(runs: ReuseRuns) -> list[Check[Any]]:
    """The departure, factor minus one, regressed through zero on the limit's: its scale is 1."""
    checks: list[Check[Any]] = []
    for part, limit in _limits(runs).items():
        factor, expected = getattr(runs, f"{part}_factor"), limit - 1.0
        scale = float((factor - 1.0) @ expected / (expected @ expected))
        error = runs.descent_error / float(np.abs(expected).max())
        off = float(np.abs(factor / limit - 1.0).max())
        detail = f"factor {factor[-1]:.3f} at df/N = {runs.share[-1]:.2f}; limit within {off:.1%}"
        checks.append(
            Check(
                FACTOR[part],
                _case(runs),
                Estimate(
                    scale, f"departure of GD {part} over the limit's", bias=error, detail=detail
                ),
                Value(1.0, 0.1),
                {
                    "one pass": Value(0.0, 0.1),
                    "departure x 4/3": Value(4.0 / 3.0, 0.1),
                    "departure x 2/3": Value(2.0 / 3.0, 0.1),
                },
            )
        )
    return checks


def _descent_exponents(runs: ReuseRuns) -> list[Check[Any]]:
    return [_exponent(runs, part, limit, 0.01) for part, limit in _limits(runs).items()]


def _exponent(runs: ReuseRuns, part: str, limit: FloatArray, tolerance: float) -> Check[Any]:
    """Slope in epochs between the last runs, where theorem 2 has one pass's slope or its own."""
    epochs, term = runs.epochs, getattr(runs, part)
    width = math.log(epochs[-1] / epochs[-EXPONENT_RUNS])
    fresh = term / getattr(runs, f"{part}_factor")
    measured, expected, one_pass = (
        fit_slope(epochs, y, width=1.01 * width).value for y in (term, limit * fresh, fresh)
    )
    law = {"bias": (1.0 - runs.b) / runs.a, "variance": 1.0 / runs.a}.get(part, one_pass)
    share = runs.share[-EXPONENT_RUNS]
    error = runs.error if part == "fluctuation" else runs.descent_error
    return Check(
        EXPONENT[part],
        _case(runs),
        Estimate(
            measured,
            "exponent in epochs",
            bias=2.0 * error / width,
            detail=f"df/N {share:.2f} to {runs.share[-1]:.2f}; one pass {one_pass:.3f}",
        ),
        Value(expected, tolerance),
        {
            "theorem 2" if part != "fluctuation" else "one pass": Value(law, tolerance),
            "exponent +0.1": Value(expected + 0.1, tolerance),
            "exponent -0.1": Value(expected - 0.1, tolerance),
        },
    )


def _drawn(size: CheckSize) -> list[Check[Any]]:
    """The mean field against datasets of 32 samples, exact given each, at df/N = 0.3 and 0.9."""
    N, M = 32, 96
    checks: list[Check[Any]] = []
    for a, b, share in DRAWN_CASES[:2] if size.quick else DRAWN_CASES:
        problem = Problem.power_law(a, b, M, dim=4000, seed=3).prior_mean()
        gamma = peak_rate(problem)
        rates = wsd(steps_for(problem, gamma, share * N), gamma)
        batches = np.full(rates.size, float(BATCH))
        expected = multi_pass_risk(problem, rates, batches, samples=N)
        drawn = drawn_risks(problem, rates, N, 10 * size.datasets, seed=5)
        for part, claim in DRAWN.items():
            ratio = drawn[part] / float(np.max(getattr(expected, part)))
            error = float(ratio.std(ddof=1) / math.sqrt(ratio.size))
            checks.append(
                Check(
                    claim,
                    named(a, b, M=M, N=N, L=rates.size, B=BATCH, datasets=ratio.size)
                    + f", df/N = {share:g}",
                    Estimate(float(ratio.mean()), f"drawn / mean field, {part}", error),
                    Value(1.0, 0.1),
                    {"a third more": Value(4.0 / 3.0, 0.1), "a third less": Value(2.0 / 3.0, 0.1)},
                )
            )
    return checks
