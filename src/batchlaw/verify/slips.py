"""Two slips of the paper, shown by measurement."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from batchlaw._check import FloatArray
from batchlaw.allocation import allocate, effective_fluctuation
from batchlaw.influence_weights import influence
from batchlaw.problem import Problem
from batchlaw.rates import cosine, step, wsd
from batchlaw.verify.claim import Check, Curve, Estimate, Exponent, Value
from batchlaw.verify.setting import Size, Task, named

# What the paper prints for experiment 3: the oracle's predicted ratio with data reuse.
PRINTED_RATIO = 0.599
N, L, BUDGET, PEAK = 512, 512, 4096, 0.05


def tasks(size: Size) -> list[Task]:
    """One task a slip."""
    return [lambda: _head_concentration(size), _schedule]


def _head_concentration(size: Size) -> list[Check[Any]]:
    """|mu_1(Sigma_{0:k})/lambda_1 - 1| of k leading coordinates with equal eigenvalues."""
    M = 2 ** np.arange(4, 11)
    return [_head(k, M, 120 if size.quick else 400) for k in (1, 4)]


def _head(k: int, M: Any, draws: int) -> Check[Any]:
    rows = np.empty((draws, M.size))
    for draw in range(draws):
        rng = np.random.default_rng([3, k, draw])
        for at, m in enumerate(M):
            columns = rng.standard_normal((m, k))
            rows[draw, at] = np.abs(np.linalg.eigvalsh(columns.T @ columns / m) - 1.0).max()
    return Check(
        "head concentration is sqrt(k/M), not k/M as printed",
        "lemma aux-G3-E4 (K), corrected",
        named(2.0, k=k, M=f"{M[0]}..{M[-1]}", draws=draws),
        Curve({"M": M.astype(float)}, rows, "largest deviation", math.log(M[-1] / M[0])),
        Exponent(-0.5, "M", 0.1),
        {"k/M as printed": Exponent(-1.0, "M", 0.1)},
    )


def _schedule() -> list[Check[Any]]:
    """The title of A.1 gives data reuse another, smooth schedule; the printed figure is WSD's."""
    problem = Problem.paper()
    ours = _ratio(problem, wsd(L, PEAK))
    others = {
        "cosine decay": cosine(L, PEAK),
        "geometric decay": step(L, PEAK, [k / 9.0 for k in range(1, 9)], 0.5),
    }
    return [
        Check(
            "multi-pass uses WSD, not another smooth schedule",
            "title of appendix A.1; experiment 3",
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
