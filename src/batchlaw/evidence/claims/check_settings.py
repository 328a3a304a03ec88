"""Shared by the families of claims: check sizes, exponents, problems, and names of horizons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.model.problem import Problem
from batchlaw.risk.result import Risk
from batchlaw.theory.bounds.bound import Condition
from batchlaw.theory.bounds.gd_variance import norm_ceiling
from batchlaw.theory.bounds.hypotheses import FAILURE
from batchlaw.theory.laws import Law

# (a, b) with b < a + 1. Where b <= a the approximation settles too.
PAIRS = (
    (1.5, 1.25),
    (1.5, 1.5),
    (2.0, 1.5),
    (2.0, 2.0),
    (2.5, 2.0),
    (3.0, 2.5),
    (1.5, 2.2),
    (2.0, 2.6),
    (1.2, 1.1),
    (1.2, 1.8),
)
SPECTRA = (1.2, 1.5, 2.0, 2.5, 3.0)
# Beyond b = a + 1.
OUTSIDE_PAIR = (1.5, 3.0)

# Sketch width that acts as infinite: no schedule here reaches its last direction.
WIDE = 10**12
# gamma tr(Sigma), below the 1/12 that appendix H requires.
RATE = 0.08
# Width of a local regression window, in log x: one decade.
DECADE = math.log(10.0)

# gamma max ||z_i||^2, the limit of lemma A.9.
LARGEST_NORM = 0.125
# A total is of the noise's order only where the bias is below this share of s2.
SMALL_BIAS = 0.05

LEARNING = "gamma T"
MEMORY = "gamma T/log T"


@dataclass(frozen=True)
class CheckSize:
    """How large the checks are.

    Attributes
    ----------
    longest
        Steps of the longest one-pass schedule.
    longest_reuse
        Steps of the longest schedule on a reused dataset.
    dim, rows, draws
        Coordinates and rows of a drawn sketch, and how many are drawn.
    datasets
        Drawn datasets where an average over them is measured.
    """

    quick: bool
    longest: int
    longest_reuse: int
    dim: int
    rows: int
    draws: int
    datasets: int


QUICK = CheckSize(True, 3 * 10**5, 10**6, 3 * 10**4, 128, 8, 6)
FULL = CheckSize(False, 10**6, 3 * 10**6, 10**6, 256, 8, 24)


@lru_cache(maxsize=64)
def wide_problem(a: float, b: float, sketch: float = WIDE) -> Problem:
    """The deterministic equivalent of a wide Gaussian sketch, averaged over targets."""
    return Problem.power_law_nodes(a, b, sketch, kind="sketch")


def peak_rate(problem: Problem, rate: float = RATE) -> float:
    """gamma with gamma tr(Sigma) = rate."""
    return rate / problem.trace


def reuse_rate(problem: Problem, samples: float) -> float:
    """gamma with gamma max ||z_i||^2 <= 1/8 for N samples, with probability 0.99.

    Theorem 2's gamma <= c/log N, with the constant that lemma A.9 needs.
    """
    ceiling = norm_ceiling(problem.eigenvalues, problem.multiplicity, samples, FAILURE)
    return LARGEST_NORM / ceiling


def hypotheses(*laws: Law) -> tuple[Condition, ...]:
    """The hypotheses of a law, each where it is most strained among several sizes of a case."""
    return tuple(
        max(same, key=lambda condition: condition.strain)
        for same in zip(*(law.conditions for law in laws), strict=True)
    )


def bias_alone(law: Law) -> tuple[Condition, ...]:
    """``hypotheses``, and that the bias alone has a lower bound: M is far above A^(1/a)."""
    return (*hypotheses(law), law.bias_alone)


def small_bias(bias: float, noise_variance: float) -> Condition:
    """That the bias is small against s2, so that label noise dominates a total.

    Otherwise the noise of the features, which falls with the bias, is a part of it.
    """
    return Condition("small-bias", "bias/s2 << 1", bias / noise_variance, SMALL_BIAS)


def last_decade(values: FloatArray, x: FloatArray) -> float:
    """The largest value over the last decade of sizes, where a slope is fitted."""
    return float(values[x >= x[-1] / 10.0].max())


def step_grid(longest: int, decades: float = 2.0, per_decade: int = 6) -> IntArray:
    """Numbers of steps up to the longest, ``per_decade`` of them in each decade."""
    return np.geomspace(longest / 10.0**decades, longest, round(per_decade * decades) + 1).astype(
        int
    )


def horizons(steps: IntArray, peak: float) -> dict[str, FloatArray]:
    """gamma T and gamma T/log T."""
    T = steps.astype(np.float64)
    return {LEARNING: peak * T, MEMORY: peak * T / np.log(T)}


def fewest_samples(mass: float) -> int:
    """Smallest N with gamma L log N <= N/3: from there on that hypothesis holds.

    With x = 3 gamma L > e, equality is at N = -x W(-1/x), on the lower branch of Lambert's W.
    """
    from scipy.special import lambertw

    x = 3.0 * mass
    return math.ceil(-x * float(lambertw(-1.0 / x, k=-1).real))


def named(a: float, b: float | None = None, **sizes: object) -> str:
    """Description of a case, such as "a = 2, b = 1.5, T = 64"."""
    exponents = f"a = {a:g}" if b is None else f"a = {a:g}, b = {b:g}"
    return ", ".join([exponents, *(f"{name} = {value}" for name, value in sizes.items())])


def parts(risks: Sequence[Risk], name: str) -> FloatArray:
    """One part of every risk, as an array."""
    return np.array([float(np.max(getattr(risk, name))) for risk in risks])
