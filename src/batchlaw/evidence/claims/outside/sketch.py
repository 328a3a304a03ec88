"""Outside the Gaussian sketch: signs, sparse columns, count sketches, Hadamard transforms.

H is diagonal, and a sparse or structured S is aligned with it. Approx and the spectrum of
every draw are computed densely, with the target averaged over its prior, and compared with
the deterministic equivalent of the Gaussian sketch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.evidence.claims import ensembles
from batchlaw.evidence.claims.claim import Check, Curve, Estimate, Exponent, Value, wrong_exponents
from batchlaw.evidence.claims.ensembles import Ensemble
from batchlaw.evidence.claims.settings import Task
from batchlaw.model.nodes import power_sum_after
from batchlaw.model.power_law import power_law
from batchlaw.model.problem import Problem

A = 2.0
# Where M^(1-b) falls slower and faster than the chance 1/M that two head coordinates collide.
SLOW, FAST = 1.5, 2.5
SEED = 21
WHERE = "outside section 2, Gaussian sketch"


@dataclass(frozen=True)
class Plan:
    """How large, how many, and what to expect of an ensemble.

    Attributes
    ----------
    sizes
        log2 of the smallest and the largest M, quick and full.
    draws
        Quick and full.
    least
        None where the Gaussian sketch's level is expected; else how far above it Approx is at
        least, for the two b.
    """

    ensemble: Ensemble
    sizes: tuple[tuple[int, int], tuple[int, int]]
    draws: tuple[int, int]
    least: tuple[float, float] | None = None


PLANS: Mapping[str, Plan] = {
    "Gaussian sketch": Plan(ensembles.gaussian, ((3, 7), (4, 8)), (20, 16)),
    "Rademacher sketch": Plan(ensembles.rademacher, ((3, 7), (4, 8)), (20, 16)),
    "sketch with two thirds zeros": Plan(ensembles.thinned(1 / 3), ((3, 7), (4, 8)), (20, 16)),
    "three signs a column": Plan(ensembles.column_sparse(3), ((3, 7), (4, 8)), (24, 48)),
    "shuffled Hadamard sketch": Plan(ensembles.shuffled_hadamard, ((3, 7), (5, 9)), (20, 20)),
    "Hadamard sketch": Plan(ensembles.hadamard, ((5, 8), (6, 9)), (40, 40), (1.1, 1.4)),
}


def tasks(quick: bool) -> list[Task]:
    """One an ensemble; the count sketch and the nearly empty sketch apart."""
    return [
        *(partial(ensemble_checks, name, quick) for name in PLANS),
        partial(count_checks, quick),
        partial(empty_checks, quick),
    ]


def sketch_sizes(low: int, high: int) -> IntArray:
    """Two an octave."""
    return np.round(2.0 ** np.arange(low, high + 0.1, 0.5)).astype(np.int64)


def approximations(
    ensemble: Ensemble, rows: int, dim: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Approx for the two b, and the covariance, of one sketch with ``rows`` rows.

    Approx = sum_i i^-b - tr(Sigma^-1 Sigma_w). The coordinates past ``dim`` are so many and
    so small that they act through their mean: a multiple of the identity.
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
    found = np.empty((2, draws, sizes.size))
    spectra = np.empty((draws, int(sizes[-1])))
    for r, stream in enumerate(np.random.SeedSequence(SEED).spawn(draws)):
        rng = np.random.default_rng(stream)
        for k, rows in enumerate(sizes):
            found[:, r, k], sigma = approximations(ensemble, int(rows), dim, rng)
        spectra[r] = np.linalg.eigvalsh(sigma)[::-1]
    return found, spectra


def gaussian_levels(b: float, sizes: IntArray) -> FloatArray:
    """Approx of the Gaussian sketch by its deterministic equivalent."""
    return np.array([_gaussian_level(b, int(M)) for M in sizes])


@cache
def _gaussian_level(b: float, rows: int) -> float:
    return Problem.power_law_nodes(A, b, rows, kind="sketch", nodes=16).approximation


def ensemble_checks(name: str, quick: bool) -> list[Check[Any]]:
    """Exponent and level of Approx, and the exponent of the spectrum."""
    plan = PLANS[name]
    size = 0 if quick else 1
    sizes = sketch_sizes(*plan.sizes[size])
    dim = max(2**12 if quick else 2**15, int(8 * sizes[-1]))
    draws = plan.draws[size]
    found, spectra = draws_of(plan.ensemble, sizes, dim, draws)
    case = f"a = 2, M = {sizes[0]} to {sizes[-1]}, d = {dim}, {draws} draws"
    ratios = [f / gaussian_levels(b, sizes) for f, b in zip(found, (SLOW, FAST), strict=True)]
    return [
        exponent_check(name, f"b = {SLOW}, {case}", sizes, found[0]),
        ratio_check(name, f"b = {FAST}, {case}", sizes, ratios[1], Exponent(0.0, "M", 0.1)),
        *(
            level_check(name, f"b = {b}, {case}", ratios[k], plan.least and plan.least[k], near)
            for k, (b, near) in enumerate(((SLOW, 0.02), (FAST, 0.06)))
        ),
        spectrum_check(name, f"j = 4 to {sizes[-1] // 4}, {case}", spectra),
    ]


def exponent_check(name: str, case: str, sizes: IntArray, found: FloatArray) -> Check[Any]:
    """Approx ~ M^(1-b)."""
    law = Exponent(1.0 - SLOW, "M", 0.03)
    evidence = Curve({"M": sizes.astype(np.float64)}, found, "Approx", _width(sizes))
    claim = f"outside: {name}: the exponent of Approx survives"
    return Check(claim, WHERE, case, evidence, law, wrong_exponents(law))


def ratio_check(
    name: str, case: str, sizes: IntArray, ratios: FloatArray, law: Exponent
) -> Check[Any]:
    """Approx over the Gaussian sketch's, whose own exponent settles slowly for b near a + 1."""
    evidence = Curve({"M": sizes.astype(np.float64)}, ratios, "Approx ratio", _width(sizes))
    other = 0.5 - law.value
    words = "no power of M" if law.value == 0.0 else f"M^{law.value:g}"
    return Check(
        f"outside: {name}: Approx over the Gaussian sketch's is {words}",
        WHERE,
        case,
        evidence,
        law,
        {f"M^{other:g}": Exponent(other, "M", 0.1), f"M^{-0.5:g}": Exponent(-0.5, "M", 0.1)},
    )


def level_check(
    name: str, case: str, ratios: FloatArray, least: float | None, near: float
) -> Check[Any]:
    """Level of Approx against the Gaussian sketch's, over the four largest sizes."""
    level = ratios[:, -4:].mean(axis=1)
    error = float(level.std(ddof=1) / math.sqrt(level.size))
    evidence = Estimate(float(level.mean()), "Approx over the Gaussian sketch's", error)
    gaussian = Value(1.0, near)
    if least is None:
        claim = f"outside: {name}: Approx is at the Gaussian sketch's level"
        wrong = {f"{5.0 * near:.0%} more": Value(1.0 + 5.0 * near, near)}
        return Check(claim, WHERE, case, evidence, gaussian, wrong)
    claim = f"outside: {name}: Approx is above the Gaussian sketch's level"
    law = Value(least, side="at_least")
    return Check(claim, WHERE, case, evidence, law, {"the Gaussian level": gaussian})


def spectrum_check(name: str, case: str, spectra: FloatArray) -> Check[Any]:
    """mu_j ~ j^-a from j = 4 to M/4, in half octaves of geometric means."""
    edges = np.round(2.0 ** np.arange(2.0, math.log2(spectra.shape[1] / 4) + 0.1, 0.5)).astype(int)
    j = np.log(np.arange(1, spectra.shape[1] + 1))
    cells = [slice(low - 1, high - 1) for low, high in pairwise(edges)]
    centres = np.exp([j[cell].mean() for cell in cells])
    means = np.exp([np.log(spectra[:, cell]).mean(axis=1) for cell in cells]).T
    law = Exponent(-A, "j", 0.05)
    evidence = Curve({"j": centres}, means, "mu_j", math.log(centres[-1] / centres[0]))
    claim = f"outside: {name}: the exponent of the spectrum survives"
    return Check(claim, WHERE, case, evidence, law, wrong_exponents(law))


def count_checks(quick: bool) -> list[Check[Any]]:
    """The count sketch: coordinates collide in pairs with chance 1/M, which costs 1/M."""
    sizes, dim, draws = sketch_sizes(3, 7), 2**11, 1_200 if quick else 6_000
    found = np.empty((2, draws, sizes.size))
    for k, stream in enumerate(np.random.SeedSequence(SEED).spawn(sizes.size)):
        rng = np.random.default_rng(stream)
        found[:, :, k] = count_approximations(int(sizes[k]), dim, draws, rng)
    slow, fast = (f / gaussian_levels(b, sizes) for f, b in zip(found, (SLOW, FAST), strict=True))
    case = f"a = 2, M = {sizes[0]} to {sizes[-1]}, d = {dim}, {draws} draws"
    return [
        ratio_check("count sketch", f"b = {FAST}, {case}", sizes, fast, Exponent(0.5, "M", 0.1)),
        level_check("count sketch", f"b = {SLOW}, {case}", slow, 1.2, 0.02),
    ]


def count_approximations(rows: int, dim: int, draws: int, rng: np.random.Generator) -> FloatArray:
    """Approx (2, draws) of many count sketches: Sigma is diagonal, a sum a bucket.

    A bucket explains sum lambda_i i^-b / sum lambda_i. Rare collisions of head coordinates
    carry the mean, so many draws are needed, and draws are cheap.
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
    found, _ = draws_of(ensembles.thinned(density), np.array([rows]), dim, draws)
    values = found[0, :, 0]
    error = float(values.std(ddof=1) / math.sqrt(draws))
    lost = (1.0 - density) ** rows * power_sum_after(SLOW, 0)
    gaussian = float(gaussian_levels(SLOW, np.array([rows]))[0])
    return [
        Check(
            "outside: sketch of density 1/sqrt(d): Approx keeps what columns without entries lose",
            WHERE,
            f"a = 2, b = {SLOW}, M = {rows}, d = {dim}, {draws} draws",
            Estimate(float(values.mean()), "Approx", error, detail=f"lost {lost:.4f}"),
            Value(lost, side="at_least"),
            {"the Gaussian level": Value(gaussian, 0.02 * gaussian)},
        )
    ]


def _width(sizes: IntArray) -> float:
    return 0.75 * math.log(sizes[-1] / sizes[0])
