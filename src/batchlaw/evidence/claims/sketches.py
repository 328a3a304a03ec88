"""Gaussian sketches: approximation, spectrum and spread, drawn at d = 10^6 and in the limit.

The rows of a drawn sketch are independent, so its leading M rows are a sketch of M rows, and
disjoint groups of rows are independent sketches: one draw serves every M, and one matrix of
Gaussians every (a, b). What lies beyond coordinate d is added in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.evidence.claims.check_settings import (
    DECADE,
    PAIRS,
    SPECTRA,
    CheckSize,
    named,
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
from batchlaw.evidence.claims.ensembles import gaussian
from batchlaw.from_data.slopes import fit_slope
from batchlaw.model.nodes import power_sum_after
from batchlaw.model.power_law import power_law
from batchlaw.theory.bounds.bound import Condition

APPROXIMATION = Claim(
    "sketches/approximation",
    "approximation ~ M^(1-b)",
    "theorems 1 and 2; lemma approx-final (C.3)",
)
SPECTRUM = Claim("sketches/spectrum", "sketched spectrum mu_j ~ j^-a", "lemma aux-G4-E5 (K)")
SAMPLE_SPECTRUM = Claim(
    "sketches/sample-spectrum",
    "empirical spectrum mu_j(Sigma_hat) ~ j^-a for j <= N/8",
    "lemma aux-2025-E8 (K)",
)
DRAWN_APPROXIMATION = Claim(
    "sketches/drawn-approximation",
    "approximation ~ M^(1-b), drawn sketches",
    "theorems 1 and 2; lemma approx-final (C.3)",
)
EQUIVALENT = Claim(
    "sketches/equivalent",
    "drawn sketches have the approximation of the deterministic equivalent",
    "ours: sketch_equivalent",
)
SPREAD = Claim(
    "sketches/spread",
    "the spread over sketches shrinks at least like M^(-1/2)",
    "ours: the paper bounds the probability of a bad sketch, not the spread",
)
DRAWN_SPECTRUM = Claim(
    "sketches/drawn-spectrum",
    "the constants of mu_j ~ j^-a, j <= M, do not come apart with M",
    "lemma aux-G4-E5 (K)",
)
DRAWN = (DRAWN_APPROXIMATION, EQUIVALENT, SPREAD, DRAWN_SPECTRUM)

SMALLEST_SKETCH = 6
WIDEST_SKETCH = 10**6
SEED = 20


def tasks(size: CheckSize) -> list[Task]:
    """One task per pair or spectrum in the limit, and one for all drawn sketches."""
    settled = [pair for pair in PAIRS if pair[1] <= pair[0]]
    drawn = settled[1:4] if size.quick else settled
    return [
        *(
            Task(
                task_name("approximation", a=a, b=b),
                (APPROXIMATION,),
                partial(_approximation, a, b),
            )
            for a, b in (PAIRS[::2] if size.quick else PAIRS)
        ),
        *(Task(task_name("spectrum", a=a), (SPECTRUM,), partial(_spectrum, a)) for a in SPECTRA),
        *(
            Task(
                task_name("sample spectrum", a=a),
                (SAMPLE_SPECTRUM,),
                partial(_sample_spectrum, size, a),
            )
            for a in SPECTRA
        ),
        Task("drawn sketches", DRAWN, partial(_drawn, size, drawn)),
    ]


def _approximation(a: float, b: float) -> list[Check[Any]]:
    """By the deterministic equivalent, exact up to relative order 1/M."""
    M = np.geomspace(1e4, WIDEST_SKETCH, 7).round()
    y = np.array([wide_problem(a, b, int(m)).approximation for m in M])
    law = Exponent(1.0 - b, "M")
    return [
        Check(
            APPROXIMATION,
            named(a, b, M=f"{WIDEST_SKETCH:.0e}", d="infinite"),
            Curve({"M": M}, y, "approximation", DECADE),
            law,
            wrong_exponents(law) | wrong_exponents(law, shift=0.3),
            (_source_condition(a, b),),
        )
    ]


def _source_condition(a: float, b: float) -> Condition:
    """b < a + 1, without which the approximation is of another order (C.3)."""
    return Condition("source-exponent", "b < a + 1", b, math.nextafter(a + 1.0, 0.0), kind="sharp")


def _spectrum(a: float) -> list[Check[Any]]:
    """Eigenvalues j = 100 .. M/100 of a sketch, by the deterministic equivalent."""
    problem = wide_problem(a, 2.0, WIDEST_SKETCH)
    index = np.cumsum(problem.multiplicity) - 0.5 * problem.multiplicity
    inside = (index > 100.0) & (index < WIDEST_SKETCH / 100.0)
    curve = Curve({"j": index[inside]}, problem.eigenvalues[inside], "eigenvalue", DECADE)
    law = Exponent(-a, "j")
    return [
        Check(
            SPECTRUM,
            named(a, M=f"{WIDEST_SKETCH:.0e}"),
            curve,
            law,
            wrong_exponents(law),
        )
    ]


def _sample_spectrum(size: CheckSize, a: float) -> list[Check[Any]]:
    """Eigenvalues j = 4 .. N/8 of drawn sample covariances of M = 4 N directions.

    The directions after j add their mean, of order j/N of mu_j: a correction of the fit.
    """
    N, M, draws = (512, 2048, 32) if size.quick else (1024, 4096, 16)
    scale = power_law(0.5 * a, 1, M)
    indices = np.unique(np.geomspace(4, N // 8, 12).astype(int))
    rows = []
    for seed in range(draws):
        half = np.random.default_rng([SEED, 1, seed]).standard_normal((N, M)) * scale
        rows.append(np.linalg.eigvalsh(half @ half.T / N)[::-1][indices - 1])
    j = indices.astype(np.float64)
    law = Exponent(-a, "j", 0.03)
    return [
        Check(
            SAMPLE_SPECTRUM,
            named(a, N=N, M=M, draws=len(rows)),
            Curve({"j": j}, np.array(rows), "eigenvalue", corrections=(j / N,)),
            law,
            wrong_exponents(law),
        )
    ]


@dataclass(frozen=True, eq=False)
class Grams:
    """sum_i i^-s x_i x_i^T over the d columns x_i of one matrix of Gaussians, for several s."""

    rows: int
    dim: int
    by_power: dict[float, FloatArray]

    @classmethod
    def draw(cls, rows: int, dim: int, powers: Sequence[float], seed: int) -> Grams:
        weights = np.stack([power_law(power, 1, dim) for power in powers])
        grams = rows * gaussian(rows, weights, np.random.default_rng([SEED, seed]))
        # The coordinates past d are many and small enough to act through their mean.
        beyond = np.array([power_sum_after(power, dim) for power in powers])
        grams += beyond[:, None, None] * np.eye(rows)
        return cls(rows, dim, dict(zip(powers, grams, strict=True)))

    def groups(self, sketch: int) -> list[slice]:
        """Disjoint groups of rows: independent sketches."""
        return [slice(k, k + sketch) for k in range(0, self.rows - sketch + 1, sketch)]

    def approximations(self, a: float, b: float, sketch: int) -> FloatArray:
        """sum_i i^-b - tr(Sigma^-1 Sigma_w) of each group, averaged over the target."""
        captured = [
            np.trace(np.linalg.solve(self.by_power[a][g, g], self.by_power[a + b][g, g]))
            for g in self.groups(sketch)
        ]
        return power_sum_after(b, 0) - np.array(captured)

    def eigenvalues(self, a: float, sketch: int) -> FloatArray:
        """Eigenvalues of Sigma, descending, one row per group."""
        return np.array(
            [np.linalg.eigvalsh(self.by_power[a][g, g] / sketch)[::-1] for g in self.groups(sketch)]
        )


def _drawn(size: CheckSize, pairs: Sequence[tuple[float, float]]) -> list[Check[Any]]:
    powers = sorted({a for a, _ in pairs} | {a + b for a, b in pairs})
    draws = [Grams.draw(size.rows, size.dim, powers, seed) for seed in range(size.draws)]
    M = (
        SMALLEST_SKETCH * 2.0 ** np.arange(0.0, math.log2(size.rows / SMALLEST_SKETCH), 0.5)
    ).astype(int)
    checks = []
    for a, b in pairs:
        approximations = [[draw.approximations(a, b, int(m)) for m in M] for draw in draws]
        checks += _drawn_approximation(size, a, b, M, approximations)
        checks.append(_spread(size, a, b, M, approximations))
    for a in sorted({a for a, _ in pairs}):
        checks.append(_drawn_spectrum(size, a, M, draws))
    return checks


def _case(size: CheckSize, a: float, b: float | None, M: IntArray) -> str:
    return named(a, b, d=f"{size.dim:.0e}", M=f"{M[0]}..{M[-1]}", draws=size.draws)


def _drawn_approximation(
    size: CheckSize, a: float, b: float, M: IntArray, approximations: list[list[FloatArray]]
) -> list[Check[Any]]:
    means = np.array([[values.mean() for values in row] for row in approximations])
    law = Exponent(1.0 - b, "M")
    sizes = M.astype(np.float64)
    limit = wide_problem(a, b, int(M[-1])).approximation
    ratio = means[:, -1] / limit
    error = float(ratio.std(ddof=1) / math.sqrt(ratio.size))
    return [
        Check(
            DRAWN_APPROXIMATION,
            _case(size, a, b, M),
            Curve({"M": sizes}, means, "approximation", corrections=(1.0 / sizes,)),
            law,
            wrong_exponents(law) | wrong_exponents(law, shift=0.3),
            (_source_condition(a, b),),
        ),
        Check(
            EQUIVALENT,
            named(a, b, d=f"{size.dim:.0e}", M=M[-1], draws=size.draws),
            Estimate(float(ratio.mean()), "drawn / equivalent", error),
            Value(1.0, 0.02),
            {"a tenth more": Value(1.1, 0.02), "a tenth less": Value(0.9, 0.02)},
        ),
    ]


def _spread(
    size: CheckSize, a: float, b: float, M: IntArray, approximations: list[list[FloatArray]]
) -> Check[Any]:
    """Relative standard deviation over sketches, for sizes with at least three in a draw."""
    sizes = M[size.rows // M >= 3]
    grand_means = [np.mean([row[k].mean() for row in approximations]) for k in range(sizes.size)]
    variance = np.array(
        [
            [np.mean((row[k] / grand_means[k] - 1.0) ** 2) for k in range(sizes.size)]
            for row in approximations
        ]
    )
    x = sizes.astype(np.float64)
    slope = fit_slope(x, variance, width=math.log(x[-1] / x[0]))
    deviation = math.sqrt(variance.mean(axis=0)[-1])
    return Check(
        SPREAD,
        _case(size, a, b, sizes),
        Estimate(
            0.5 * slope.value,
            "exponent of the relative standard deviation",
            0.5 * slope.error,
            0.5 * slope.drift,
            detail=f"{deviation:.2%} at M = {sizes[-1]}",
        ),
        Value(-0.5, 0.0, "at_most"),
        {"the spread stays": Value(-0.1, 0.0, "at_least")},
    )


def _drawn_spectrum(size: CheckSize, a: float, M: IntArray, draws: list[Grams]) -> Check[Any]:
    """Largest over smallest constant of mu_j ~ j^-a, over all j up to M, including the last."""
    rows = np.array([[_ratio_of_constants(draw, a, int(m)) for m in M] for draw in draws])
    slope = fit_slope(M.astype(np.float64), rows, width=math.log(M[-1] / M[0]))
    return Check(
        DRAWN_SPECTRUM,
        _case(size, a, None, M),
        Estimate(
            slope.value,
            "exponent of largest / smallest constant",
            slope.error,
            slope.drift,
            detail=f"largest / smallest is {rows.mean(axis=0)[-1]:.3g} at M = {M[-1]}",
        ),
        Value(0.1, 0.0, "at_most"),
        {"they do": Value(0.3, 0.0, "at_least")},
    )


def _ratio_of_constants(draw: Grams, a: float, sketch: int) -> float:
    scaled = draw.eigenvalues(a, sketch) * np.arange(1.0, sketch + 1.0) ** a
    return float((scaled.max(axis=1) / scaled.min(axis=1)).mean())
