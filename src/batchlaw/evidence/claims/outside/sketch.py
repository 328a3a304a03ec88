"""Outside the Gaussian sketch: signs, sparse columns, count sketches, Hadamard transforms.

H is diagonal, and a sparse or structured S is aligned with it. Approx and the spectrum of
every draw are computed densely, with the target averaged over its prior, and compared with
the deterministic equivalent of the Gaussian sketch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.evidence.claims import ensembles
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
from batchlaw.evidence.claims.ensembles import Ensemble
from batchlaw.evidence.claims.outside.departure import Departure
from batchlaw.model.nodes import power_sum_after
from batchlaw.model.power_law import power_law
from batchlaw.model.problem import Problem

A = 2.0
# b for which M^(1-b) falls slower, and faster, than the chance 1/M that two head coordinates
# collide.
SLOW, FAST = 1.5, 2.5
SEED = 21
# Exponent in M of Approx over the Gaussian sketch's, for the larger b.
FLAT, COUNT_GROWTH = 0.0, 0.5


def _sketch(id_: str, name: str) -> Departure:
    return Departure(id_, name, "outside section 2, Gaussian sketch")


COUNT = _sketch("count-sketch", "count sketch")
EMPTY = _sketch("nearly-empty-sketch", "sketch of density 1/sqrt(d)")
EMPTY_LEVEL = EMPTY.claim("level", "Approx keeps what columns without entries lose")


@dataclass(frozen=True)
class SketchPlan:
    """Sizes and draws of an ensemble, and what to expect of it.

    Attributes
    ----------
    departure
        From the paper's Gaussian sketch.
    sizes
        log2 of the smallest and the largest M, quick and full.
    draws
        Number of draws, quick and full.
    least_ratios
        Lower bounds on Approx over the Gaussian sketch's, for the two b; None where the Gaussian
        sketch's level is expected.
    """

    departure: Departure
    ensemble: Ensemble
    sizes: tuple[tuple[int, int], tuple[int, int]]
    draws: tuple[int, int]
    least_ratios: tuple[float, float] | None = None


PLANS = (
    SketchPlan(
        _sketch("gaussian-sketch", "Gaussian sketch"),
        ensembles.gaussian,
        ((3, 7), (4, 8)),
        (20, 16),
    ),
    SketchPlan(
        _sketch("rademacher-sketch", "Rademacher sketch"),
        ensembles.rademacher,
        ((3, 7), (4, 8)),
        (20, 16),
    ),
    SketchPlan(
        _sketch("thinned-sketch", "sketch with two thirds zeros"),
        ensembles.thinned(1 / 3),
        ((3, 7), (4, 8)),
        (20, 16),
    ),
    SketchPlan(
        _sketch("three-sign-sketch", "three signs a column"),
        ensembles.column_sparse(3),
        ((3, 7), (4, 8)),
        (24, 48),
    ),
    SketchPlan(
        _sketch("shuffled-hadamard-sketch", "shuffled Hadamard sketch"),
        ensembles.shuffled_hadamard,
        ((3, 7), (5, 9)),
        (20, 20),
    ),
    SketchPlan(
        _sketch("hadamard-sketch", "Hadamard sketch"),
        ensembles.hadamard,
        ((5, 8), (6, 9)),
        (40, 40),
        (1.1, 1.4),
    ),
)


def tasks(quick: bool) -> list[Task]:
    """One task per ensemble, one for the count sketch, and one for the nearly empty sketch."""
    count = (ratio_claim(COUNT, COUNT_GROWTH), level_claim(COUNT, above=True))
    return [
        *(
            Task(plan.departure.id, ensemble_claims(plan), partial(ensemble_checks, plan, quick))
            for plan in PLANS
        ),
        Task(COUNT.id, count, partial(count_checks, quick)),
        Task(EMPTY.id, (EMPTY_LEVEL,), partial(empty_checks, quick)),
    ]


def ensemble_claims(plan: SketchPlan) -> tuple[Claim, ...]:
    """The claims about every ensemble."""
    sketch = plan.departure
    return (
        exponent_claim(sketch),
        ratio_claim(sketch, FLAT),
        level_claim(sketch, above=plan.least_ratios is not None),
        spectrum_claim(sketch),
    )


def exponent_claim(sketch: Departure) -> Claim:
    """The claim on Approx for the smaller b."""
    return sketch.claim("exponent", "the exponent of Approx survives")


def ratio_claim(sketch: Departure, exponent: float) -> Claim:
    """The claim on Approx for the larger b."""
    words = f"M^{exponent:g}" if exponent else "no power of M"
    return sketch.claim("ratio", f"Approx over the Gaussian sketch's is {words}")


def level_claim(sketch: Departure, *, above: bool) -> Claim:
    """The claim on the level of Approx."""
    where = "above" if above else "at"
    return sketch.claim("level", f"Approx is {where} the Gaussian sketch's level")


def spectrum_claim(sketch: Departure) -> Claim:
    """The claim on the eigenvalues of Sigma."""
    return sketch.claim("spectrum", "the exponent of the spectrum survives")


def sketch_sizes(low: int, high: int) -> IntArray:
    """Numbers of rows, two per octave."""
    return np.round(2.0 ** np.arange(low, high + 0.1, 0.5)).astype(np.int64)


def approximations(
    ensemble: Ensemble, rows: int, dim: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Approx for the two b, and the covariance, of one sketch with ``rows`` rows.

    Approx = sum_i i^-b - tr(Sigma^-1 Sigma_w). The coordinates past ``dim`` are many and
    small enough to act through their mean, a multiple of the identity.
    """
    powers = (A, A + SLOW, A + FAST)
    weights = np.stack([power_law(s, 1, dim) for s in powers])
    rest = np.array([power_sum_after(s, dim) for s in powers]) / rows
    sigma, *targets = ensemble(rows, weights, rng) + rest[:, None, None] * np.eye(rows)
    inverse = np.linalg.inv(sigma)
    explained = [float((inverse * target).sum()) for target in targets]
    return np.array([power_sum_after(b, 0) for b in (SLOW, FAST)]) - explained, sigma


def draws_of(
    ensemble: Ensemble, sizes: IntArray, dim: int, draws: int
) -> tuple[FloatArray, FloatArray]:
    """Approx (2, draws, sizes), and the eigenvalues of the largest size (draws, M)."""
    approx = np.empty((2, draws, sizes.size))
    spectra = np.empty((draws, int(sizes[-1])))
    for r, stream in enumerate(np.random.SeedSequence(SEED).spawn(draws)):
        rng = np.random.default_rng(stream)
        for k, rows in enumerate(sizes):
            approx[:, r, k], sigma = approximations(ensemble, int(rows), dim, rng)
        spectra[r] = np.linalg.eigvalsh(sigma)[::-1]
    return approx, spectra


def gaussian_levels(b: float, sizes: IntArray) -> FloatArray:
    """Approx of the Gaussian sketch by its deterministic equivalent."""
    return np.array([_gaussian_level(b, int(M)) for M in sizes])


@cache
def _gaussian_level(b: float, rows: int) -> float:
    return Problem.power_law_nodes(A, b, rows, kind="sketch", nodes=16).approximation


def ensemble_checks(plan: SketchPlan, quick: bool) -> list[Check[Any]]:
    """Exponent and level of Approx, and the exponent of the spectrum."""
    size = 0 if quick else 1
    sizes = sketch_sizes(*plan.sizes[size])
    dim = max(2**12 if quick else 2**15, int(8 * sizes[-1]))
    draws = plan.draws[size]
    approx, spectra = draws_of(plan.ensemble, sizes, dim, draws)
    case = f"a = 2, M = {sizes[0]} to {sizes[-1]}, d = {dim}, {draws} draws"
    ratios = [f / gaussian_levels(b, sizes) for f, b in zip(approx, (SLOW, FAST), strict=True)]
    sketch = plan.departure
    return [
        exponent_check(sketch, f"b = {SLOW}, {case}", sizes, approx[0]),
        ratio_check(sketch, f"b = {FAST}, {case}", sizes, ratios[1], FLAT),
        *(
            level_check(
                sketch,
                f"b = {b}, {case}",
                ratios[k],
                plan.least_ratios and plan.least_ratios[k],
                tolerance,
            )
            for k, (b, tolerance) in enumerate(((SLOW, 0.02), (FAST, 0.06)))
        ),
        spectrum_check(sketch, f"j = 4 to {sizes[-1] // 4}, {case}", spectra),
    ]


def exponent_check(sketch: Departure, case: str, sizes: IntArray, approx: FloatArray) -> Check[Any]:
    """Approx ~ M^(1-b)."""
    law = Exponent(1.0 - SLOW, "M", 0.03)
    evidence = Curve({"M": sizes.astype(np.float64)}, approx, "Approx", _width(sizes))
    return Check(exponent_claim(sketch), case, evidence, law, wrong_exponents(law))


def ratio_check(
    sketch: Departure, case: str, sizes: IntArray, ratios: FloatArray, exponent: float
) -> Check[Any]:
    """Approx over the Gaussian sketch's, whose own exponent settles slowly for b near a + 1."""
    evidence = Curve({"M": sizes.astype(np.float64)}, ratios, "Approx ratio", _width(sizes))
    law, other = Exponent(exponent, "M", 0.1), 0.5 - exponent
    wrong = wrong_exponents(law, shift=0.3) | {f"M^{other:g}": replace(law, value=other)}
    return Check(ratio_claim(sketch, exponent), case, evidence, law, wrong)


def level_check(
    sketch: Departure, case: str, ratios: FloatArray, least_ratio: float | None, tolerance: float
) -> Check[Any]:
    """Level of Approx against the Gaussian sketch's, over the four largest sizes."""
    level = ratios[:, -4:].mean(axis=1)
    error = float(level.std(ddof=1) / math.sqrt(level.size))
    evidence = Estimate(float(level.mean()), "Approx over the Gaussian sketch's", error)
    gaussian = Value(1.0, tolerance)
    claim = level_claim(sketch, above=least_ratio is not None)
    if least_ratio is None:
        wrong = {f"{5.0 * tolerance:.0%} more": Value(1.0 + 5.0 * tolerance, tolerance)}
        return Check(claim, case, evidence, gaussian, wrong)
    law = Value(least_ratio, side="at_least")
    return Check(claim, case, evidence, law, {"the Gaussian level": gaussian})


def spectrum_check(sketch: Departure, case: str, spectra: FloatArray) -> Check[Any]:
    """mu_j ~ j^-a from j = 4 to M/4, in half octaves of geometric means."""
    edges = np.round(2.0 ** np.arange(2.0, math.log2(spectra.shape[1] / 4) + 0.1, 0.5)).astype(int)
    j = np.log(np.arange(1, spectra.shape[1] + 1))
    cells = [slice(low - 1, high - 1) for low, high in pairwise(edges)]
    centres = np.exp([j[cell].mean() for cell in cells])
    means = np.exp([np.log(spectra[:, cell]).mean(axis=1) for cell in cells]).T
    law = Exponent(-A, "j", 0.05)
    evidence = Curve({"j": centres}, means, "mu_j", math.log(centres[-1] / centres[0]))
    return Check(spectrum_claim(sketch), case, evidence, law, wrong_exponents(law))


def count_checks(quick: bool) -> list[Check[Any]]:
    """The count sketch: two coordinates collide with chance 1/M, which costs 1/M."""
    sizes, dim, draws = sketch_sizes(3, 7), 2**11, 1_200 if quick else 6_000
    approx = np.empty((2, draws, sizes.size))
    for k, stream in enumerate(np.random.SeedSequence(SEED).spawn(sizes.size)):
        rng = np.random.default_rng(stream)
        approx[:, :, k] = count_approximations(int(sizes[k]), dim, draws, rng)
    slow, fast = (f / gaussian_levels(b, sizes) for f, b in zip(approx, (SLOW, FAST), strict=True))
    case = f"a = 2, M = {sizes[0]} to {sizes[-1]}, d = {dim}, {draws} draws"
    return [
        ratio_check(COUNT, f"b = {FAST}, {case}", sizes, fast, COUNT_GROWTH),
        level_check(COUNT, f"b = {SLOW}, {case}", slow, 1.2, 0.02),
    ]


def count_approximations(rows: int, dim: int, draws: int, rng: np.random.Generator) -> FloatArray:
    """Approx (2, draws) of many count sketches: Sigma is diagonal, with one sum per bucket.

    A bucket explains sum lambda_i i^-b / sum lambda_i. Rare collisions of head coordinates
    dominate the mean, so many draws are needed; they are cheap.
    """
    bucket = rng.integers(0, rows, (draws, dim)) + rows * np.arange(draws)[:, None]
    total, *targets = (
        np.bincount(bucket.ravel(), np.tile(power_law(s, 1, dim), draws), rows * draws)
        + power_sum_after(s, dim) / rows
        for s in (A, A + SLOW, A + FAST)
    )
    explained = [(t / total).reshape(draws, rows).sum(axis=1) for t in targets]
    signal = np.array([power_sum_after(b, 0) for b in (SLOW, FAST)])
    return np.asarray(signal[:, None] - explained)


def empty_checks(quick: bool) -> list[Check[Any]]:
    """Density 1/sqrt(d): a coordinate has no entry with chance (1 - density)^M, and is lost."""
    rows, dim, draws = 32, 2**12 if quick else 2**14, 100
    density = dim**-0.5
    approx, _ = draws_of(ensembles.thinned(density), np.array([rows]), dim, draws)
    values = approx[0, :, 0]
    error = float(values.std(ddof=1) / math.sqrt(draws))
    lost = (1.0 - density) ** rows * power_sum_after(SLOW, 0)
    gaussian = float(gaussian_levels(SLOW, np.array([rows]))[0])
    return [
        Check(
            EMPTY_LEVEL,
            f"a = 2, b = {SLOW}, M = {rows}, d = {dim}, {draws} draws",
            Estimate(float(values.mean()), "Approx", error, detail=f"lost {lost:.4f}"),
            Value(lost, side="at_least"),
            {"the Gaussian level": Value(gaussian, 0.02 * gaussian)},
        )
    ]


def _width(sizes: IntArray) -> float:
    return 0.75 * math.log(sizes[-1] / sizes[0])
