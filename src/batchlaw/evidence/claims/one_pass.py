"""Theorem 1, term by term: bias, variance and its cutoff at M, along exact risks."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.evidence.claims.check_settings import (
    DECADE,
    LEARNING,
    MEMORY,
    OUTSIDE_PAIR,
    PAIRS,
    RATE,
    WIDE,
    CheckSize,
    horizons,
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
    Collapse,
    Curve,
    Exponent,
    NoLaw,
    OutsideRegime,
    Proportional,
    Task,
    task_name,
    wrong_exponents,
)
from batchlaw.model.nodes import power_sum_after, truncation_nodes
from batchlaw.model.problem import Problem
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.schedule.rates import wsd
from batchlaw.theory.laws import Law, one_pass_law

CUTOFF_WHERE = "theorem 1, min{M, .}; lemma batch-var-E2 (H.5)"
BIAS = Claim(
    "one-pass/bias",
    "one-pass bias ~ (gamma T)^((1-b)/a)",
    "theorem 1; lemma batch-bias-source (G.2)",
)
NOISE = Claim(
    "one-pass/noise",
    "one-pass variance from label noise ~ (log T/T)(gamma T/log T)^(1/a)",
    "theorem 1; lemma batch-var-source (H.4)",
)
VARIANCE = Claim(
    "one-pass/variance",
    "one-pass variance ~ (log T/T)(gamma T/log T)^(1/a)",
    "theorem 1; lemma batch-var-source (H.4)",
)
SATURATED = Claim(
    "one-pass/saturated-variance", "saturated one-pass variance ~ M log T/T", CUTOFF_WHERE
)
CUTOFF = Claim("one-pass/cutoff", "the variance's cutoff is at gamma T/log T ~ M^a", CUTOFF_WHERE)
APPROXIMATION_AND_BIAS = Claim(
    "one-pass/approximation-and-bias",
    "approximation + bias ~ M^(1-b) + (gamma T)^((1-b)/a), saturated or not",
    "theorem 1; proof in B.1",
)
NOT_FITTED = Claim(
    "one-pass/not-fitted",
    "theorem 1's exponents are not fitted outside its regime",
    "theorem 1",
)
TERMS = (BIAS, NOISE, VARIANCE)

# The total variance is of the noise's order only where the bias is below this share of s2.
SMALL_BIAS = 0.05
# Spectra that decay slowly enough to have many directions before the cutoff at 10^6 steps.
CUTOFF_SPECTRA = (1.5, 2.0)
# Pairs whose approximation and bias are followed from unsaturated to saturated.
CROSSED = ((1.5, 1.5), (2.0, 1.5), (2.0, 2.0), (3.0, 2.5))
# (a, b, M, gamma tr(Sigma)) outside theorem 1, by the source, two widths and the rate.
OUTSIDE_CASES = (
    (*OUTSIDE_PAIR, WIDE, RATE),
    (2.0, 1.5, 16, RATE),
    (2.0, 1.5, 200, RATE),
    (2.0, 1.5, WIDE, 0.8),
)
NODES = 200
BOTH, LEARNED, SKETCHED = "both terms", "the bias term alone", "the approximation term alone"
# Relative tolerance: the constants of the two terms may differ by a factor of two.
TOLERANCE = 1.0


def tasks(size: CheckSize) -> list[Task]:
    """One task per pair of exponents, and one per spectrum for the cutoff."""
    return [
        *(Task(task_name("terms", a=a, b=b), TERMS, partial(_terms, size, a, b)) for a, b in PAIRS),
        *(
            Task(task_name("cutoff", a=a), (SATURATED, CUTOFF), partial(_cutoff, size, a))
            for a in CUTOFF_SPECTRA
        ),
        *(
            Task(
                task_name("approximation and bias", a=a, b=b),
                (APPROXIMATION_AND_BIAS,),
                partial(_deterministic, size, a, b),
            )
            for a, b in CROSSED
        ),
        *(
            Task(
                task_name("not fitted", a=a, b=b, M=sketch, rate=rate),
                (NOT_FITTED,),
                partial(_not_fitted, size, a, b, sketch, rate),
            )
            for a, b, sketch, rate in OUTSIDE_CASES
        ),
    ]


def _law(size: CheckSize, a: float, b: float, sketch: int, rate: float) -> Law:
    problem = wide_problem(a, b, sketch)
    gamma = peak_rate(problem, rate)
    return one_pass_law(a, b, sketch, steps=size.longest, peak=gamma, batches=1, problem=problem)


def _not_fitted(size: CheckSize, a: float, b: float, sketch: int, rate: float) -> list[Check[Any]]:
    """A case chosen to lie outside theorem 1."""
    law = _law(size, a, b, sketch, rate)
    reasons = outside(law)
    return [
        Check(
            NOT_FITTED,
            named(a, b, M=f"{sketch:.0e}", gamma=f"{law.setting.peak:.2g}"),
            OutsideRegime(reasons, "one-pass risk"),
            NoLaw(expected=bool(reasons)),
        )
    ]


def _terms(size: CheckSize, a: float, b: float) -> list[Check[Any]]:
    law = _law(size, a, b, WIDE, RATE)
    problem, gamma = law.setting.problem, law.setting.peak
    case = named(a, b, T=f"{size.longest:.0e}", B=1)
    if reasons := outside(law):
        return unexpectedly_outside(TERMS, case, reasons, "one-pass risk")
    T = step_grid(size.longest)
    risks = [one_pass_risk(problem, wsd(int(t), gamma), np.ones(t)) for t in T]
    x = horizons(T, gamma)
    bias = Curve(x, parts(risks, "bias"), "bias", DECADE)
    noise = Curve(x, parts(risks, "variance_noise"), "variance from label noise", DECADE)
    share = float(risks[-1].bias) / problem.noise_variance
    total = Curve(x, parts(risks, "variance"), "variance", DECADE, withheld=large_bias(share))
    bias_law = Exponent((1.0 - b) / a, LEARNING, 0.02, MEMORY)
    noise_law = Exponent(1.0 / a - 1.0, MEMORY, 0.03, LEARNING)
    return [
        Check(
            BIAS,
            case,
            bias,
            bias_law,
            wrong_exponents(bias_law),
            hypotheses(law),
        ),
        Check(
            NOISE,
            case,
            noise,
            noise_law,
            wrong_exponents(noise_law),
            hypotheses(law),
        ),
        Check(
            VARIANCE,
            case,
            total,
            noise_law,
            {} if total.withheld else wrong_exponents(noise_law),
            hypotheses(law),
        ),
    ]


def _deterministic(size: CheckSize, a: float, b: float) -> list[Check[Any]]:
    """Approximation + bias on both sides of A^(1/a) = M: of the stated order throughout.

    Past that point the bias alone is not. The two terms have different constants, so the sum
    follows the law within a factor, not within a few per cent.
    """
    sizes, steps = (8, 32, 128, 512), step_grid(size.longest // 10, decades=3.0, per_decade=2)
    bias, total, terms = [], [], []
    for M in sizes:
        problem = wide_problem(a, b, M)
        gamma = peak_rate(problem)
        for T in steps:
            risk = one_pass_risk(problem, wsd(int(T), gamma), np.ones(T))
            terms.append((M ** (1.0 - b), (gamma * T) ** ((1.0 - b) / a)))
            bias.append(float(risk.bias))
            total.append(risk.approximation + float(risk.bias))
    approximation, learning = np.array(terms).T
    law = Proportional(BOTH, TOLERANCE)
    summaries = {BOTH: approximation + learning, LEARNED: learning, SKETCHED: approximation}
    wrong = {name: Proportional(name, TOLERANCE) for name in (LEARNED, SKETCHED)}
    return [
        Check(
            APPROXIMATION_AND_BIAS,
            named(a, b, M=f"{sizes[0]}..{sizes[-1]}", T=f"{steps[0]}..{steps[-1]}"),
            Collapse(np.array(total), summaries, "approximation + bias"),
            law,
            wrong,
        )
    ]


def large_bias(share: float) -> str:
    """Why the slope of a total is withheld; empty if it is not."""
    if share <= SMALL_BIAS:
        return ""
    return f"bias is {share:.0%} of s2 at the largest size, above {SMALL_BIAS:.0%}"


def _cutoff(size: CheckSize, a: float) -> list[Check[Any]]:
    """With few directions the variance is M log T/T past gamma T/log T = M^a."""
    gamma = RATE / power_sum_after(a, 0)
    T = step_grid(size.longest, decades=3.0, per_decade=8)
    x = horizons(T, gamma)
    unlimited = _noise(a, math.inf, T, gamma)
    # The largest width whose cutoff is well inside the range, and widths below it.
    widest = int((0.4 * x[MEMORY][-1]) ** (1.0 / a))
    widths = np.unique(np.geomspace(widest / 4.0, widest, 8).astype(int))
    curves = {int(M): _noise(a, int(M), T, gamma) for M in widths}
    narrow = max(widest // 10, 2)
    curve = _noise(a, narrow, T, gamma)
    saturated = Curve(x, curve, "variance from label noise", 0.5 * DECADE)
    cutoffs = [_half_point(np.log(x[MEMORY]), curve / unlimited) for curve in curves.values()]
    law = Exponent(-1.0, MEMORY, 0.02, LEARNING)
    # Direction M is the last one: the cutoff lies between it and the next.
    cutoff_law = Exponent(a, "M + 1/2", 0.03)
    return [
        Check(
            SATURATED,
            named(a, M=narrow, T=f"{size.longest:.0e}"),
            saturated,
            law,
            wrong_exponents(law) | {"unsaturated law": Exponent(1.0 / a - 1.0, MEMORY)},
        ),
        Check(
            CUTOFF,
            named(a, M=f"{widths[0]}..{widths[-1]}"),
            Curve({"M + 1/2": widths + 0.5}, np.exp(cutoffs), "gamma T/log T at the cutoff"),
            cutoff_law,
            wrong_exponents(cutoff_law),
        ),
    ]


def _noise(a: float, sketch: float, steps: IntArray, peak: float) -> FloatArray:
    """Variance from unit label noise for the leading directions of a power law."""
    nodes = truncation_nodes(a, 2.0, sketch, NODES)
    problem = Problem.from_spectrum(
        nodes.eigenvalues, np.zeros_like(nodes.eigenvalues), 1.0, nodes.multiplicity
    )
    risks = [one_pass_risk(problem, wsd(int(t), peak), np.ones(t)) for t in steps]
    return parts(risks, "variance_noise")


def _half_point(x: FloatArray, ratio: FloatArray) -> float:
    """Where a falling ratio passes 1/2."""
    return float(np.interp(-0.5, -ratio, x))
