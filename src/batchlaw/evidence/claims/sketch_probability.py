"""With probability 1 - exp(-Omega(M)): how often a drawn sketch breaks mu_j ~ j^-a.

The paper's bounds hold on the event c j^-a <= mu_j(Sigma) <= C j^-a for all j <= M (lemma
aux-G4-E5). The constants are fixed by draws at one M, so that a sketch of that size breaks a side
once in twenty; the frequency at other M is then counted on other draws. Rows of a Gaussian sketch
are independent, so that one matrix of Gaussians holds many sketches of few rows.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.evidence.claims.check_settings import CheckSize, named
from batchlaw.evidence.claims.claim import Check, Claim, Estimate, Task, Value, task_name
from batchlaw.model.nodes import power_sum_after
from batchlaw.model.power_law import power_law

SIDES = {
    "largest": Claim(
        "probability/largest-constant",
        "some mu_j above C j^-a has probability exp(-Omega(M))",
        "lemma aux-G4-E5 (K); theorems 1 and 2",
    ),
    "smallest": Claim(
        "probability/smallest-constant",
        "some mu_j below c j^-a has probability exp(-Omega(M))",
        "lemma aux-G4-E5 (K); theorems 1 and 2",
    ),
}
SEED = 31
# Coordinates that are drawn; those beyond enter by their mean, which hardly fluctuates.
DIM = 1024
ROWS = 48
SKETCHES = np.array([4, 6, 8, 12, 16, 24, 48])
# The exponent is that of the largest sizes, from this M on: below, the decay still slows down.
SETTLED = 12
# The constants are broken with this probability at this M.
REFERENCE, BROKEN = 8, 0.05
# Powers q of M in the exponent that are compared; 0 stands for log M.
POWERS = np.linspace(0.0, 3.0, 301)


def tasks(size: CheckSize) -> list[Task]:
    """One task per spectrum, with both constants."""
    both = tuple(SIDES)
    return [
        Task(
            task_name("bad sketches", a=a),
            tuple(SIDES.values()),
            partial(_bad_sketches, a, both, 3000 if size.quick else 20_000),
        )
        for a in ((2.0,) if size.quick else (1.5, 2.0, 3.0))
    ]


def _bad_sketches(a: float, sides: tuple[str, ...], draws: int) -> list[Check[Any]]:
    checks: list[Check[Any]] = []
    for side, (limit, bad, total) in bad_sketches(a, sides, draws).items():
        large = SKETCHES >= SETTLED
        power, error = exponent_of_decay(SKETCHES[large], bad[large], total[large])
        shown = ", ".join(
            f"{k}/{n} at M = {m}" for m, k, n in zip(SKETCHES, bad, total, strict=True)
        )
        checks.append(
            Check(
                SIDES[side],
                named(a, M=f"{SETTLED}..{SKETCHES[-1]}", draws=draws),
                Estimate(
                    power,
                    "q in log frequency = const - beta M^q",
                    error,
                    detail=f"constant {limit:.3f}; {shown}",
                ),
                Value(1.0, 0.2),
                {
                    "exp(-c sqrt M)": Value(0.5, 0.2),
                    "a power of M": Value(0.0, 0.2),
                    "exp(-c M^2)": Value(2.0, 0.2),
                },
            )
        )
    return checks


def bad_sketches(
    a: float, sides: tuple[str, ...], draws: int
) -> dict[str, tuple[float, IntArray, IntArray]]:
    """For each side: its constant, and the numbers of bad sketches and of all, by M."""
    reference = constants(a, draws // 3, [REFERENCE], [SEED, 0])
    counted = constants(a, draws, SKETCHES.tolist(), [SEED, 1])
    found = {}
    for side in sides:
        sign = 1.0 if side == "largest" else -1.0
        limit = float(np.quantile(sign * reference[side][REFERENCE], 1.0 - BROKEN))
        values = [sign * counted[side][int(m)] for m in SKETCHES]
        bad = np.array([(v > limit).sum() for v in values])
        found[side] = sign * limit, bad, np.array([v.size for v in values])
    return found


def constants(
    a: float, draws: int, sizes: list[int], seed: list[int]
) -> dict[str, dict[int, FloatArray]]:
    """max_j and min_j of mu_j j^a of every sketch in ``draws`` matrices of Gaussians, by M."""
    scale, tail = power_law(0.5 * a, 1, DIM), power_sum_after(a, DIM)
    found: dict[str, dict[int, list[FloatArray]]] = {side: {m: [] for m in sizes} for side in SIDES}
    for draw in range(draws):
        half = np.random.default_rng([*seed, draw]).standard_normal((ROWS, DIM)) * scale
        gram = half @ half.T + tail * np.eye(ROWS)
        for m in sizes:
            groups = np.stack([gram[k : k + m, k : k + m] for k in range(0, ROWS - m + 1, m)])
            mu = np.linalg.eigvalsh(groups / m)[:, ::-1]
            scaled = mu * np.arange(1.0, m + 1.0) ** a
            found["largest"][m].append(scaled.max(axis=1))
            found["smallest"][m].append(scaled.min(axis=1))
    return {
        side: {m: np.concatenate(values) for m, values in by_size.items()}
        for side, by_size in found.items()
    }


def exponent_of_decay(sizes: IntArray, bad: IntArray, total: IntArray) -> tuple[float, float]:
    """q of log f = alpha - beta (M^q - 1)/q by maximum likelihood, and its standard error.

    The likelihood is binomial; the error is half of the range in which its logarithm, maximised
    over alpha and beta, is within 1/2 of the best. A best q at the end of ``POWERS`` has an
    infinite error: no such law describes the counts.
    """
    profile = np.array([_likelihood(q, sizes, bad, total) for q in POWERS])
    if profile.argmax() == POWERS.size - 1:
        return float(POWERS[-1]), math.inf
    inside = POWERS[profile > profile.max() - 0.5]
    return float(POWERS[profile.argmax()]), 0.5 * float(inside[-1] - inside[0])


def _likelihood(power: float, sizes: IntArray, bad: IntArray, total: IntArray) -> float:
    """Largest binomial log likelihood at one q, by Newton's method in alpha and beta."""
    M = sizes.astype(np.float64)
    x = np.log(M) if power == 0.0 else (M**power - 1.0) / power
    design = np.stack([np.ones_like(x), -x / x.max()], axis=1)
    # Start from a regression of the smoothed frequencies.
    log_f = np.log((bad + 0.5) / (total + 1.0))
    weights = np.sqrt(bad + 0.5)
    theta = np.linalg.lstsq(design * weights[:, None], log_f * weights, rcond=None)[0]
    for _ in range(100):
        f = np.exp(np.minimum(design @ theta, -1e-6))
        gradient = design.T @ (bad - (total - bad) * f / (1.0 - f))
        hessian = design.T @ (design * ((total - bad) * f / (1.0 - f) ** 2)[:, None])
        step = np.linalg.solve(hessian, gradient)
        theta = theta + step
        if np.abs(step).max() < 1e-9:
            break
    log_f = np.minimum(design @ theta, -1e-6)
    return float(bad @ log_f + (total - bad) @ np.log1p(-np.exp(log_f)))
