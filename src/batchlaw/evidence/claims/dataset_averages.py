"""Which average over datasets theorem 2 is about: outlying datasets, the event, the median."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.evidence.claims.check_settings import CheckSize, fewest_samples, named
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
from batchlaw.model.norm_tail import log_largest_norm_tail
from batchlaw.model.problem import Problem
from batchlaw.risk.multi_pass import multi_pass_risk
from batchlaw.schedule.rates import wsd
from batchlaw.theory.outlier_datasets import OutlierDatasets, growth_of, outlier_datasets

PLAIN = Claim(
    "slips/plain-expectation",
    "theorem 2's plain expectation is decided by datasets that are never drawn",
    "theorem 2; I.4 takes the expectation of a bound that holds on the max-norm event",
)
GROWTH = Claim(
    "slips/outlier-growth",
    "an outlying sample multiplies the fluctuation by the product in outlier_datasets",
    "ours: theory/outlier_datasets.py",
)
MEDIAN = Claim(
    "slips/median-over-datasets",
    "the median over datasets is the mean field's fluctuation where the plain mean is not",
    "theorem 2, corrected",
)
EVENT = Claim(
    "slips/average-on-the-event",
    "the average on the max-norm event is the mean field's fluctuation where the plain mean is not",
    "theorem 2, corrected",
)
NORM_TAIL = Claim(
    "slips/largest-norm-tail",
    "P(largest squared norm > C log N) falls like N^(1 - C/(2 mu_1)) over sqrt(log N), not exp(-N)",
    "I.4, lower bound: 1 - exp(-Omega(N)); A.9: 1 - N^-c",
)
AVERAGES_IN_STEPS = Claim(
    "slips/averages-in-steps",
    "median and average on the event over the mean field's fluctuation do not change with L",
    "theorem 2, corrected",
)
NOT_EXPONENTIAL = Claim(
    "slips/largest-norm-not-exponential",
    "log P(largest squared norm > C log N) doubles when N is squared",
    "I.4, lower bound: 1 - exp(-Omega(N)); A.9: 1 - N^-c",
)
NORM_TAIL_DRAWN = Claim(
    "slips/largest-norm-drawn",
    "the largest squared norm of drawn datasets exceeds C log N as often as computed",
    "I.4, lower bound: 1 - exp(-Omega(N)); A.9: 1 - N^-c",
)

A, B, PEAK = 2.0, 2.6, 0.08
# (M, N, L): the counter-example, and two with gamma L log N <= N/3.
OUTLIER_CASES = ((17, 300, 400), (17, fewest_samples(PEAK * 400), 400), (17, 929, 566))
# exp of more than this is near the largest double.
LOG_LARGEST = 650.0
MEMORY = "gamma L/log L"
SKETCH, SEED = 17, 41


def tasks(size: CheckSize) -> list[Task]:
    """Outliers by the exact solver, the median and the event, and the tail of the largest norm."""
    cases = OUTLIER_CASES[:1] if size.quick else OUTLIER_CASES
    # An exponent needs more datasets and longer runs than the quick size has.
    averages = (MEDIAN, EVENT) if size.quick else (MEDIAN, EVENT, AVERAGES_IN_STEPS)
    return [
        *(
            Task(
                task_name("outlying datasets", M=M, N=N, L=L),
                (PLAIN, GROWTH),
                partial(_outliers, M, N, L),
            )
            for M, N, L in cases
        ),
        Task("averages over datasets", averages, partial(_averages, size)),
        Task("tail of the largest norm", (NORM_TAIL, NOT_EXPONENTIAL), _norm_tail),
        Task("drawn largest norms", (NORM_TAIL_DRAWN,), partial(_drawn_norms, size)),
    ]


def _outliers(M: int, N: int, L: int) -> list[Check[Any]]:
    """One sample replaced by sqrt(r) in the first direction, solved exactly given the dataset."""
    problem, rates = Problem.power_law_nodes(A, B, M), wsd(L, PEAK)
    outliers = outlier_datasets(problem, rates, np.ones(L), N)
    norm = _heaviest_double(outliers)
    ordinary, half, whole = (
        np.array([math.log(_fluctuation(problem, rates, N, seed, r)) for seed in range(4)])
        for r in (None, norm / 2.0, norm)
    )
    rarity = log_largest_norm_tail(problem, N, [norm])[0]
    added = (whole + rarity - ordinary.mean()) / math.log(10.0)
    rise = whole - half
    grow = growth_of(problem, rates, np.ones(L), N)
    case = named(A, B, M=M, N=N, L=L, B=1) + f", squared norm {norm:.0f}"
    return [
        Check(
            PLAIN,
            case,
            Estimate(
                float(added.mean()),
                "log10(fluctuation x probability / ordinary fluctuation)",
                _error(added),
                detail=f"fluctuation 1e{whole.mean() / math.log(10.0):.0f}",
            ),
            Value(0.0, 0.0, "at_least"),
            {
                "they add less than the rest": Value(0.0, 0.0, "at_most"),
                "they add the theorem's log N": Value(math.log10(math.log(N)), 0.0, "at_most"),
            },
        ),
        Check(
            GROWTH,
            case,
            Estimate(float(rise.mean()), "log of the rise from half the norm", _error(rise)),
            Value(grow(norm) - grow(norm / 2.0), 2.0),
            {
                "without the other samples": Value(
                    _alone(rates, N, norm) - _alone(rates, N, norm / 2.0), 2.0
                ),
                "no growth": Value(0.0, 2.0),
            },
        ),
    ]


def _heaviest_double(outliers: OutlierDatasets) -> float:
    """The norm that adds most, among those whose growth is a double."""
    weights = np.where(outliers.log_growth < LOG_LARGEST, outliers.log_weights, -np.inf)
    return float(outliers.norms[int(weights.argmax())])


def _fluctuation(
    problem: Problem, rates: FloatArray, N: int, seed: int, norm: float | None = None
) -> float:
    """Exact given a drawn dataset; with a ``norm``, one sample lies along the first direction."""
    features, labels = problem.sample(N, seed)
    if norm is not None:
        residual = labels - features @ problem.optimum
        features[0] = 0.0
        features[0, 0] = math.sqrt(norm)
        labels = features @ problem.optimum + residual
    risk = multi_pass_risk(problem, rates, np.ones(rates.size), dataset=(features, labels))
    return float(np.max(risk.fluctuation))


def _alone(rates: FloatArray, N: int, norm: float) -> float:
    """log of prod_t [(1 - x)^2 + (N - 1) x^2], x = gamma r/N, to the end from the best step."""
    x = rates * norm / N
    return float(np.cumsum(np.log((1.0 - x) ** 2 + (N - 1) * x * x)[::-1]).max())


def _averages(size: CheckSize) -> list[Check[Any]]:
    """Datasets as small as theorem 2 allows; every run is exact given its dataset.

    Runs that datasets allow are too short for the exponent of the law itself: at these sizes the
    mean field, which leaves outlying datasets out and follows the law up to 10^5 steps, is what
    median and average are held against.
    """
    problem = Problem.power_law_nodes(A, B, SKETCH)
    L = np.round((400.0,) if size.quick else np.geomspace(200, 1600, 7)).astype(int)
    shape = (4, 5) if size.quick else (4, 10)
    ratio = np.full((*shape, L.size), np.nan)
    added = 0.0
    for column, steps in enumerate(L.tolist()):
        rates, batches, N = wsd(steps, PEAK), np.ones(steps), fewest_samples(PEAK * steps)
        field = float(np.max(multi_pass_risk(problem, rates, batches, samples=N).fluctuation))
        outliers = outlier_datasets(problem, rates, batches, N)
        added = outliers.log_weight / math.log(10.0)
        for group, draw in np.ndindex(shape):
            data = problem.sample(N, np.random.default_rng([SEED, group, draw, steps]))
            if (data[0] ** 2).sum(axis=1).max() <= outliers.largest_norm:
                risk = multi_pass_risk(problem, rates, batches, dataset=data)
                ratio[group, draw, column] = float(np.max(risk.fluctuation)) / field
    memory = PEAK * L / np.log(L)
    sizes = f"{L[0]}..{L[-1]}" if L.size > 1 else f"{L[0]}"
    case = named(A, B, M=SKETCH, L=sizes, N=N, B=1, datasets=math.prod(shape))
    case += f", others add 1e{added:.0f}"
    checks: list[Check[Any]] = []
    for claim, average, what in ((MEDIAN, np.nanmedian, "median"), (EVENT, np.nanmean, "mean")):
        name, level = f"{what} / mean field", average(ratio[..., -1], axis=1)
        checks.append(
            Check(
                claim,
                f"{case}, at L = {L[-1]}",
                Estimate(float(level.mean()), name, _error(level)),
                Value(1.0, 0.1),
                {"a third more": Value(4.0 / 3.0, 0.1), "a third less": Value(2.0 / 3.0, 0.1)},
            )
        )
        if not size.quick:
            law = Exponent(0.0, MEMORY, 0.05)
            wrong = {f"{sign}0.2": replace(law, value=float(f"{sign}0.2")) for sign in "+-"}
            width = math.log(memory[-1] / memory[0])
            curve = Curve({MEMORY: memory}, average(ratio, axis=1), name, width)
            checks.append(Check(AVERAGES_IN_STEPS, f"{what}, {case}", curve, law, wrong))
    return checks


def _norm_tail() -> list[Check[Any]]:
    """Computed to rounding; the square root of log N is that of a chi-square's tail."""
    problem = Problem.paper()
    top = float(problem.eigenvalues[0])
    N = np.geomspace(1e2, 1e6, 13)
    checks: list[Check[Any]] = []
    for C in (4.0, 6.0):
        tail = np.array([log_largest_norm_tail(problem, n, [C * top * math.log(n)])[0] for n in N])
        law = Exponent(1.0 - C / 2.0, "N", 0.02)
        case = f"the paper's instance, C = {C:g} mu_1, N = {N[0]:.0e}..{N[-1]:.0e}"
        ratio = float(tail[6] / tail[0])
        checks += [
            Check(
                NORM_TAIL,
                case,
                Curve({"N": N}, np.exp(tail) * np.sqrt(np.log(N)), "P sqrt(log N)"),
                law,
                wrong_exponents(law),
            ),
            Check(
                NOT_EXPONENTIAL,
                case,
                Estimate(ratio, "log P(N^2) / log P(N) at N = 100"),
                Value(2.0, 0.3),
                {"exp(-c N)": Value(100.0, 0.3), "exp(-c sqrt(N))": Value(10.0, 0.3)},
            ),
        ]
    return checks


def _drawn_norms(size: CheckSize) -> list[Check[Any]]:
    problem = Problem.power_law_nodes(A, B, 8)
    draws = 3000 if size.quick else 8000
    checks: list[Check[Any]] = []
    for N in (32, 256):
        limit = 3.0 * float(problem.eigenvalues[0]) * math.log(N)
        rng = np.random.default_rng([SEED, N])
        hits = sum(
            bool((problem.sample(N, rng)[0] ** 2).sum(axis=1).max() > limit) for _ in range(draws)
        )
        expected = math.exp(log_largest_norm_tail(problem, N, [limit])[0])
        error = math.sqrt(hits) / (draws * expected)
        checks.append(
            Check(
                NORM_TAIL_DRAWN,
                f"a = {A:g}, M = 8, N = {N}, C = 3 mu_1, draws = {draws}",
                Estimate(hits / (draws * expected), "drawn / computed frequency", error),
                Value(1.0, 0.5),
                {"exp(-N)": Value(0.0, 0.0), "three times as often": Value(3.0, 0.5)},
            )
        )
    return checks


def _error(values: FloatArray) -> float:
    return float(values.std(ddof=1) / math.sqrt(values.size))
