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
    bias_alone,
    horizons,
    hypotheses,
    last_decade,
    named,
    parts,
    peak_rate,
    small_bias,
    step_grid,
    wide_problem,
)
from batchlaw.evidence.claims.claim import (
    Check,
    Claim,
    Collapse,
    Curve,
    Exponent,
    Proportional,
    Task,
    task_name,
    wrong_exponents,
)
from batchlaw.model.nodes import power_sum_after, truncation_nodes
from batchlaw.model.problem import Problem
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.risk.result import Risk
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
TERMS = (BIAS, NOISE, VARIANCE)

# Spectra that decay slowly enough to have many directions before the cutoff at 10^6 steps.
CUTOFF_SPECTRA = (1.2, 1.5, 2.0)
# Pairs whose approximation and bias are followed from unsaturated to saturated.
CROSSED = ((1.5, 1.5), (2.0, 1.5), (2.0, 2.0), (3.0, 2.5), (1.2, 1.1))
# (a, b, M, gamma tr(Sigma)) outside theorem 1, by the source, two widths and the rate.
OUTSIDE_CASES = (
    (*OUTSIDE_PAIR, WIDE, RATE),
    (2.0, 1.5, 16, RATE),
    (2.0, 1.5, 200, RATE),
    (2.0, 1.5, WIDE, 0.8),
)
NODES = 200
# b of the spectra whose variance alone is measured.
SOURCE = 2.0
BOTH, LEARNED, SKETCHED = "both terms", "the bias term alone", "the approximation term alone"
# Largest deviation of approximation + bias from the two terms with their own constants, where
# they cross: the bias of a saturated sketch falls below its term.
CROSSING_TOLERANCE = 0.35
# gamma T over M^a from which the bias is far below the approximation.
LEARNED_ENTIRELY = 10.0


def tasks(size: CheckSize) -> list[Task]:
    """One task per pair of exponents, and one per spectrum for the cutoff."""
    crossed = CROSSED[:2] if size.quick else CROSSED
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
            for a, b in crossed
        ),
        *(
            Task(
                task_name("outside", a=a, b=b, M=sketch, rate=rate),
                (BIAS,),
                partial(_outside, size, a, b, sketch, rate),
            )
            for a, b, sketch, rate in OUTSIDE_CASES
        ),
    ]


def _law(size: CheckSize, a: float, b: float, sketch: int, rate: float) -> Law:
    problem = wide_problem(a, b, sketch)
    gamma = peak_rate(problem, rate)
    return one_pass_law(a, b, sketch, steps=size.longest, peak=gamma, batches=1, problem=problem)


def _risks(size: CheckSize, law: Law) -> tuple[dict[str, FloatArray], list[Risk]]:
    """The horizons and the risks of a law's setting, for runs up to the longest."""
    problem, gamma = law.setting.problem, law.setting.peak
    T = step_grid(size.longest)
    return horizons(T, gamma), [one_pass_risk(problem, wsd(int(t), gamma), np.ones(t)) for t in T]


def _terms(size: CheckSize, a: float, b: float) -> list[Check[Any]]:
    law = _law(size, a, b, WIDE, RATE)
    x, risks = _risks(size, law)
    noise_law = Exponent(1.0 / a - 1.0, MEMORY, 0.03, LEARNING)
    bias, s2 = parts(risks, "bias"), law.setting.problem.noise_variance
    case = named(a, b, T=f"{size.longest:.0e}", B=1)
    return [
        _bias_check(case, x, bias, law),
        Check(
            NOISE,
            case,
            Curve(x, parts(risks, "variance_noise"), "variance from label noise", DECADE),
            noise_law,
            wrong_exponents(noise_law),
            hypotheses(law),
        ),
        Check(
            VARIANCE,
            case,
            Curve(x, parts(risks, "variance"), "variance", DECADE),
            noise_law,
            wrong_exponents(noise_law),
            (*hypotheses(law), small_bias(last_decade(bias, x[LEARNING]), s2)),
        ),
    ]


def _bias_check(case: str, x: dict[str, FloatArray], bias: FloatArray, law: Law) -> Check[Any]:
    a, b = law.setting.a, law.setting.b
    exponent = Exponent((1.0 - b) / a, LEARNING, 0.02, MEMORY)
    evidence = Curve(x, bias, "bias", DECADE)
    return Check(BIAS, case, evidence, exponent, wrong_exponents(exponent), bias_alone(law))


def _outside(size: CheckSize, a: float, b: float, sketch: int, rate: float) -> list[Check[Any]]:
    """A case chosen to lie outside theorem 1."""
    law = _law(size, a, b, sketch, rate)
    x, risks = _risks(size, law)
    case = named(a, b, M=f"{sketch:.0e}", gamma=f"{law.setting.peak:.2g}")
    return [_bias_check(case, x, parts(risks, "bias"), law)]


def _deterministic(size: CheckSize, a: float, b: float) -> list[Check[Any]]:
    """Approximation + bias where either term dominates, and where they cross.

    Along M after a long run the sum has the approximation's exponent, along T with a wide sketch
    the bias's. In between it is of the order of the two terms, with the constants that they have
    there; past A^(1/a) = M the bias alone is not of its order.
    """
    gamma = peak_rate(wide_problem(a, b))
    longest = 3 * size.longest
    in_m = _after_long_runs(a, b, longest, gamma)
    steps = step_grid(size.longest, decades=2.0, per_decade=6)
    in_t = np.array([_sum_of_terms(a, b, WIDE, int(t), gamma) for t in steps])
    sizes, values = in_m.abscissae["M"], {}
    widths = np.geomspace(sizes[-1] / 8.0, 8.0 * sizes[-1], 7).astype(int)
    for M in widths.tolist():
        for t in steps[::2].tolist():
            values[M, t] = _sum_of_terms(a, b, M, t, gamma)
    x = horizons(steps, gamma)
    along_m = Exponent(1.0 - b, "M", 0.03)
    along_t = Exponent((1.0 - b) / a, LEARNING, 0.02, MEMORY)
    last = (float(sizes[-1]), float(in_m.y[-1])), (gamma * float(steps[-1]), float(in_t[-1]))
    return [
        Check(
            APPROXIMATION_AND_BIAS,
            named(a, b, T=f"{longest:.0e}", M=f"{sizes[0]:g}..{sizes[-1]:g}"),
            in_m,
            along_m,
            wrong_exponents(along_m) | wrong_exponents(along_m, shift=0.3),
            hypotheses(
                *(_crossing_law(a, b, int(M), longest, gamma) for M in (sizes[0], sizes[-1]))
            ),
        ),
        Check(
            APPROXIMATION_AND_BIAS,
            named(a, b, M=f"{WIDE:.0e}", T=f"{steps[-1]:.0e}"),
            Curve(x, in_t, "approximation + bias", DECADE),
            along_t,
            wrong_exponents(along_t),
            hypotheses(_crossing_law(a, b, WIDE, int(steps[-1]), gamma)),
        ),
        _crossing(a, b, gamma, values, last),
    ]


def _crossing(
    a: float,
    b: float,
    gamma: float,
    values: dict[tuple[int, int], float],
    last: tuple[tuple[float, float], tuple[float, float]],
) -> Check[Any]:
    """The sum over a grid of M and T against the two terms, each with its constant."""
    M, T = np.array(list(values), dtype=np.float64).T

    def summary(in_m: float, in_t: float, terms: str = BOTH) -> FloatArray:
        (largest, approximation), (mass, bias) = last
        sketched = approximation * (M / largest) ** in_m
        learned = bias * (gamma * T / mass) ** in_t
        return np.asarray({BOTH: sketched + learned, LEARNED: learned, SKETCHED: sketched}[terms])

    in_m, in_t = 1.0 - b, (1.0 - b) / a
    summaries = {name: summary(in_m, in_t, name) for name in (BOTH, LEARNED, SKETCHED)}
    for shift in (-0.3, 0.3):
        summaries[f"exponent of M {shift:+g}"] = summary(in_m + shift, in_t)
    ends = [(int(m), int(t)) for m in (M.min(), M.max()) for t in (T.min(), T.max())]
    return Check(
        APPROXIMATION_AND_BIAS,
        named(a, b, M=f"{M.min():g}..{M.max():g}", T=f"{T.min():.0e}..{T.max():.0e}"),
        Collapse(np.array(list(values.values())), summaries, "approximation + bias"),
        Proportional(BOTH, CROSSING_TOLERANCE),
        {name: Proportional(name, CROSSING_TOLERANCE) for name in summaries if name != BOTH},
        hypotheses(*(_crossing_law(a, b, m, t, gamma) for m, t in ends)),
    )


def _crossing_law(a: float, b: float, sketch: int, steps: int, gamma: float) -> Law:
    problem = wide_problem(a, b, sketch)
    return one_pass_law(a, b, sketch, steps=steps, peak=gamma, batches=1, problem=problem)


def _after_long_runs(a: float, b: float, steps: int, gamma: float) -> Curve:
    """Approximation + bias along M, up to an M that the run learns entirely."""
    widest = (gamma * steps / LEARNED_ENTIRELY) ** (1.0 / a)
    widths = np.unique(np.geomspace(max(widest / 8.0, 4.0), widest, 12).astype(int))
    y = np.array([_sum_of_terms(a, b, int(M), steps, gamma) for M in widths])
    M = widths.astype(np.float64)
    return Curve({"M": M}, y, "approximation + bias", corrections=(1.0 / M,))


def _sum_of_terms(a: float, b: float, sketch: int, steps: int, gamma: float) -> float:
    problem = wide_problem(a, b, sketch)
    risk = one_pass_risk(problem, wsd(steps, gamma), np.ones(steps))
    return risk.approximation + float(risk.bias)


def _cutoff(size: CheckSize, a: float) -> list[Check[Any]]:
    """With few directions the variance is M log T/T past gamma T/log T = M^a."""
    gamma = RATE / power_sum_after(a, 0)
    T = step_grid(3 * size.longest, decades=4.0, per_decade=10)
    x = horizons(T, gamma)
    unlimited = _noise(a, math.inf, T, gamma)
    # The largest width whose cutoff is well inside the range, and widths below it.
    widest = int((0.4 * x[MEMORY][-1]) ** (1.0 / a))
    widths = np.unique(np.geomspace(max(widest / 20.0, 5.0), widest, 16).astype(int))
    log_x = np.log(x[MEMORY])
    cutoffs = np.array(
        [_half_point(log_x, _noise(a, int(M), T, gamma) / unlimited) for M in widths]
    )
    narrow = max(widest // 10, 2)
    saturated = Curve(x, _noise(a, narrow, T, gamma), "variance from label noise", 0.5 * DECADE)
    law = Exponent(-1.0, MEMORY, 0.02, LEARNING)
    cutoff_law = Exponent(a, "M", 0.03)
    return [
        Check(
            SATURATED,
            named(a, M=narrow, T=f"{T[-1]:.0e}"),
            saturated,
            law,
            wrong_exponents(law) | {"unsaturated law": Exponent(1.0 / a - 1.0, MEMORY)},
            hypotheses(_cutoff_law(a, narrow, int(T[-1]), gamma)),
        ),
        Check(
            CUTOFF,
            named(a, M=f"{widths[0]}..{widths[-1]}"),
            _cutoff_curve(a, widths, cutoffs, np.interp(cutoffs, log_x, np.log(T))),
            cutoff_law,
            wrong_exponents(cutoff_law) | wrong_exponents(cutoff_law, shift=0.3),
            hypotheses(*(_cutoff_law(a, int(M), int(T[-1]), gamma) for M in widths)),
        ),
    ]


def _cutoff_curve(a: float, widths: IntArray, cutoffs: FloatArray, log_steps: FloatArray) -> Curve:
    """gamma T/log T at the cutoff, against M.

    Two corrections are fitted: a shift of M, and the end of the stable phase, which is log T
    decay times long and leaves out a share (log T)^(1/a - 1) of an unlimited sum.
    """
    M = widths.astype(np.float64)
    corrections = (1.0 / M, log_steps ** (1.0 / a - 1.0))
    return Curve({"M": M}, np.exp(cutoffs), "gamma T/log T at the cutoff", corrections=corrections)


def _cutoff_law(a: float, sketch: int, steps: int, gamma: float) -> Law:
    problem = _leading(a, sketch)
    return one_pass_law(a, SOURCE, sketch, steps=steps, peak=gamma, batches=1, problem=problem)


def _leading(a: float, sketch: float) -> Problem:
    """The leading directions of a power law, with unit label noise and nothing to learn."""
    nodes = truncation_nodes(a, SOURCE, sketch, NODES)
    return Problem.from_spectrum(
        nodes.eigenvalues, np.zeros_like(nodes.eigenvalues), 1.0, nodes.multiplicity
    )


def _noise(a: float, sketch: float, steps: IntArray, peak: float) -> FloatArray:
    """Variance from unit label noise for the leading directions of a power law."""
    problem = _leading(a, sketch)
    risks = [one_pass_risk(problem, wsd(int(t), peak), np.ones(t)) for t in steps]
    return parts(risks, "variance_noise")


def _half_point(x: FloatArray, ratio: FloatArray) -> float:
    """Where a falling ratio passes 1/2, by a monotone cubic."""
    from scipy.interpolate import PchipInterpolator

    falling = np.flatnonzero(np.diff(ratio) < 0.0)
    kept = slice(falling[0], None)
    return float(PchipInterpolator(-ratio[kept], x[kept])(-0.5))
