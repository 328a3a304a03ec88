"""Two slips in the paper, shown by measurement."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.batches.allocation import allocate
from batchlaw.batches.effective import effective_fluctuation
from batchlaw.evidence.claims.check_settings import CheckSize
from batchlaw.evidence.claims.claim import (
    Check,
    Claim,
    Curve,
    Estimate,
    Exponent,
    Task,
    Value,
    wrong_exponents,
)
from batchlaw.influences.weights import influence
from batchlaw.model.problem import Problem
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
    "title of appendix A.1; experiment 3",
)

# The oracle's predicted ratio with data reuse, as the paper prints it for experiment 3.
PRINTED_RATIO = 0.599
N, L, BUDGET, PEAK = 512, 512, 4096, 0.05


def tasks(size: CheckSize) -> list[Task]:
    """One task per slip."""
    head = (HEAD_IN_M, HEAD_IN_K)
    return [
        Task("head concentration", head, partial(_head_concentration, size)),
        Task("schedule of multi-pass", (SCHEDULE,), _schedule),
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
    """The title of A.1 names another smooth schedule for data reuse; the printed ratio is WSD's."""
    problem = Problem.paper()
    ours = _ratio(problem, wsd(L, PEAK))
    others = {
        "cosine decay": cosine(L, PEAK),
        "geometric decay": step(L, PEAK, [k / 9.0 for k in range(1, 9)], 0.5),
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
