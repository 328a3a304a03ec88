"""Slips in the paper, shown by measurement; ``dataset_averages`` has those about theorem 2."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.batches.allocation import allocate
from batchlaw.batches.effective import effective_fluctuation
from batchlaw.evidence.claims import dataset_averages
from batchlaw.evidence.claims.check_settings import (
    DECADE,
    LEARNING,
    MEMORY,
    CheckSize,
    horizons,
    named,
    parts,
    peak_rate,
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
from batchlaw.influences.weights import influence
from batchlaw.model.problem import Problem
from batchlaw.risk.multi_pass import gradient_descent_risk
from batchlaw.schedule.rates import cosine, step, wsd

HEAD_IN_M = Claim(
    "slips/head-concentration-in-m",
    "head concentration is sqrt(k/M), not k/M as printed: in M",
    "lemma aux-G3-E4 (K), corrected",
)
HEAD_IN_K = Claim(
    "slips/head-concentration-in-k",
    "head concentration is sqrt(k/M), not k/M as printed: in k",
    "lemma aux-G3-E4 (K), corrected",
)
SCHEDULE = Claim(
    "slips/multi-pass-schedule",
    "multi-pass uses WSD, not another smooth schedule",
    "title of A.1, last sentence of A.4; experiment 3",
)
GEOMETRIC = Claim(
    "slips/geometric-schedule",
    "with A.4's smooth geometric schedule GD bias ~ (gamma L/log L)^((1-b)/a), not theorem 2's "
    "(gamma L)^((1-b)/a)",
    "last sentence of A.4; theorem 2",
)
SATURATED = Claim(
    "slips/approximation-beyond",
    "approximation ~ M^-a for b > a + 1, not M^(1-b) as printed",
    "lemma aux-C5-E7 (K), which omits the b < a + 1 of C.3",
)
SATURATED_DRAWN = Claim(
    "slips/approximation-beyond-drawn",
    "for b > a + 1 drawn sketches have the approximation of the equivalent, not M^(1-b)",
    "lemma aux-C5-E7 (K), which omits the b < a + 1 of C.3",
)

# The oracle's predicted ratio with data reuse, as the paper prints it for experiment 3.
PRINTED_RATIO = 0.599
N, L, BUDGET, PEAK = 512, 512, 4096, 0.05
# Pairs beyond b = a + 1, and pairs inside for the schedules.
BEYOND = ((1.5, 3.0), (2.0, 3.5), (1.2, 2.6))
SCHEDULE_PAIRS = ((2.0, 1.5), (1.5, 2.2))
# Enough samples for GD's bias to be that of the population.
SAMPLES = 10**9


def tasks(size: CheckSize) -> list[Task]:
    """One task per slip and case."""
    head = (HEAD_IN_M, HEAD_IN_K)
    return [
        Task("head concentration", head, partial(_head_concentration, size)),
        Task("schedule of multi-pass", (SCHEDULE,), _schedule),
        *(
            Task(
                task_name("geometric schedule", a=a, b=b),
                (GEOMETRIC,),
                partial(_geometric, a, b),
            )
            for a, b in SCHEDULE_PAIRS
        ),
        *(
            Task(task_name("beyond", a=a, b=b), (SATURATED,), partial(_saturated, a, b))
            for a, b in BEYOND
        ),
        Task("beyond, drawn", (SATURATED_DRAWN,), partial(_saturated_drawn, size)),
        *dataset_averages.tasks(size),
    ]


def _head_concentration(size: CheckSize) -> list[Check[Any]]:
    draws = 600 if size.quick else 2000
    rows = 2 ** np.arange(5, 11)
    heads = 2 ** np.arange(2, 8)
    return [
        *(_head("M", [(k, int(m)) for m in rows], -0.5, draws) for k in (1, 4)),
        *(_head("k", [(int(k), M) for k in heads], 0.5, draws // 15) for M in (8192, 16384)),
    ]


def _head(along: str, sizes: list[tuple[int, int]], exponent: float, draws: int) -> Check[Any]:
    """Largest |mu_j(Sigma_{0:k})/lambda_j - 1| for k coordinates with equal eigenvalues."""
    deviation = np.empty((draws, len(sizes)))
    for draw, column in np.ndindex(deviation.shape):
        k, M = sizes[column]
        columns = np.random.default_rng([3, draw, k, M]).standard_normal((M, k))
        deviation[draw, column] = np.abs(np.linalg.eigvalsh(columns.T @ columns / M) - 1.0).max()
    x = np.array([k if along == "k" else M for k, M in sizes], dtype=np.float64)
    law = Exponent(exponent, along, 0.05)
    fixed = f"M = {sizes[0][1]}" if along == "k" else f"k = {sizes[0][0]}"
    return Check(
        HEAD_IN_K if along == "k" else HEAD_IN_M,
        f"{fixed}, {along} = {x[0]:g}..{x[-1]:g}, draws = {draws}",
        Curve(
            {along: x},
            deviation,
            "largest deviation",
            math.log(x[-1] / x[0]),
            # The largest of k eigenvalues falls short of the spectrum's edge by k^(-2/3).
            corrections=(x ** (-2.0 / 3.0),) if along == "k" else (),
        ),
        law,
        wrong_exponents(law) | {"k/M as printed": Exponent(2.0 * exponent, along, 0.05)},
    )


def _schedule() -> list[Check[Any]]:
    """A.1's title and A.4 name another schedule for data reuse; the printed ratio is WSD's."""
    problem = Problem.paper()
    ours = _ratio(problem, wsd(L, PEAK))
    others = {
        "cosine decay": cosine(L, PEAK),
        "geometric decay in steps": step(L, PEAK, [k / 9.0 for k in range(1, 9)], 0.5),
        "smooth geometric decay": _smooth_geometric(L, PEAK),
    }
    return [
        Check(
            SCHEDULE,
            f"the paper's instance, N = {N}, L = {L}, D_grad = {BUDGET}",
            Estimate(ours, "predicted oracle / constant"),
            Value(PRINTED_RATIO, 0.0006),
            {name: Value(_ratio(problem, rates), 0.0006) for name, rates in others.items()},
        )
    ]


def _ratio(problem: Problem, rates: FloatArray) -> float:
    """rho_eff of the paper's oracle over that of the constant schedule."""
    kappa = influence(problem, rates)
    schedules = [allocate(kappa, BUDGET, method="paper"), np.full(L, BUDGET // L)]
    oracle, constant = np.asarray(effective_fluctuation(kappa, schedules, N))
    return float(oracle / constant)


def _smooth_geometric(steps: int, peak: float) -> FloatArray:
    """gamma exp(-t log L/L): WSD's decay from the first step on, without the two other phases."""
    return np.asarray(peak * np.exp(-np.arange(1, steps + 1) * (math.log(steps) / steps)))


def _geometric(a: float, b: float) -> list[Check[Any]]:
    """Without a stable phase the total rate is gamma L/log L, and learning has that horizon."""
    problem = wide_problem(a, b)
    gamma = peak_rate(problem)
    steps = step_grid(10**5, per_decade=4)
    risks = [
        gradient_descent_risk(problem, _smooth_geometric(int(t), gamma), samples=SAMPLES)
        for t in steps
    ]
    law = Exponent((1.0 - b) / a, MEMORY, 0.02, LEARNING)
    return [
        Check(
            GEOMETRIC,
            named(a, b, L=f"{steps[-1]:.0e}"),
            Curve(horizons(steps, gamma), parts(risks, "bias"), "GD bias", DECADE),
            law,
            wrong_exponents(law),
        )
    ]


def _saturated(a: float, b: float) -> list[Check[Any]]:
    """C.3's beta_k ~ M^-a times sum_{i <= k} i^(a-b), which for b > a + 1 does not grow with M."""
    M = np.geomspace(1e4, 1e6, 7).round()
    y = np.array([wide_problem(a, b, int(m)).approximation for m in M])
    law = Exponent(-a, "M")
    wrong = wrong_exponents(law) | {"M^(1-b) as printed": Exponent(1.0 - b, "M")}
    curve = Curve({"M": M}, y, "approximation", DECADE)
    return [Check(SATURATED, named(a, b, M=f"{M[-1]:.0e}", d="infinite"), curve, law, wrong)]


def _saturated_drawn(size: CheckSize) -> list[Check[Any]]:
    """Such sketches are too small for the exponent itself, so the equivalent's value is checked.

    The printed law is carried on from a small sketch, as M^(1-b). At a = 2 the coordinates beyond
    10^4, which are not drawn, are 3 % of those beyond M.
    """
    a, b = BEYOND[1]
    small, M = 16, 256
    draws = 4 if size.quick else 12
    drawn = [Problem.power_law(a, b, M, seed=k).prior_mean().approximation for k in range(draws)]
    limit = wide_problem(a, b, M).approximation
    ratio = np.array(drawn) / limit
    printed = wide_problem(a, b, small).approximation * (M / small) ** (1.0 - b) / limit
    return [
        Check(
            SATURATED_DRAWN,
            named(a, b, M=M, draws=draws),
            Estimate(
                float(ratio.mean()),
                "drawn / equivalent",
                float(ratio.std(ddof=1) / math.sqrt(draws)),
            ),
            Value(1.0, 0.1),
            {
                "M^(1-b) as printed, from M = 16": Value(printed, 0.1),
                "a third more": Value(4.0 / 3.0, 0.1),
                "a third less": Value(2.0 / 3.0, 0.1),
            },
        )
    ]
