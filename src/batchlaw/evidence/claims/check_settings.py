"""Shared by the families of claims: check sizes, exponents, problems, and names of horizons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.evidence.claims.claim import Check, Claim, NoLaw, OutsideRegime
from batchlaw.model.problem import Problem
from batchlaw.risk.result import Risk
from batchlaw.theory.laws import Law

# (a, b) with b < a + 1. The first six have b <= a, so that the approximation settles too.
PAIRS = (
    (1.5, 1.25),
    (1.5, 1.5),
    (2.0, 1.5),
    (2.0, 2.0),
    (2.5, 2.0),
    (3.0, 2.5),
    (1.5, 2.2),
    (2.0, 2.6),
)
SPECTRA = (1.5, 2.0, 2.5, 3.0)
# Beyond b = a + 1.
OUTSIDE_PAIR = (1.5, 3.0)

# Sketch width that acts as infinite: no schedule here reaches its last direction.
WIDE = 10**12
# gamma tr(Sigma), below the 1/12 that appendix H requires.
RATE = 0.08
# Width of a local regression window, in log x: one decade.
DECADE = math.log(10.0)

# Ids of the conditions on the largest sample norm: no large dataset meets them at a fixed rate.
LARGEST_NORM = ("largest-norm", "largest-norm-mean")

# Shown in a row where every hypothesis of its theorem holds.
ALL_HOLD = "hold"

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


QUICK = CheckSize(True, 3 * 10**5, 10**5, 3 * 10**4, 128, 8, 6)
FULL = CheckSize(False, 10**6, 10**6, 10**6, 256, 8, 24)


@lru_cache(maxsize=64)
def wide_problem(a: float, b: float, sketch: float = WIDE) -> Problem:
    """The deterministic equivalent of a wide Gaussian sketch, averaged over targets."""
    return Problem.power_law_nodes(a, b, sketch, kind="sketch")


def peak_rate(problem: Problem, rate: float = RATE) -> float:
    """gamma with gamma tr(Sigma) = rate."""
    return rate / problem.trace


def outside(law: Law) -> tuple[str, ...]:
    """Reasons not to fit a law's exponents: failed hypotheses, or saturation.

    The bias loses its own lower bound long before the variance saturates. The largest norm is
    ignored here; ``hypotheses`` reports it.
    """
    failed = [
        f"{c.name} fails: {c.measured:.4g} against {c.limit:.4g}"
        for c in law.conditions
        if c.verdict == "fails" and c.id not in LARGEST_NORM
    ]
    bias = law.bias_alone
    if bias.verdict != "holds":
        failed.append(
            f"saturated, {bias.name} {bias.verdict}: {bias.measured:.4g}, {bias.limit:.4g}"
        )
    return tuple(failed)


def unexpectedly_outside(
    claims: Sequence[Claim], case: str, reasons: tuple[str, ...], quantity: str
) -> list[Check[Any]]:
    """One failed check per claim: the case was meant to lie inside the law's regime."""
    evidence = OutsideRegime(reasons, quantity)
    return [Check(claim, case, evidence, NoLaw(expected=False)) for claim in claims]


def hypotheses(law: Law) -> str:
    """The hypotheses of a law that do not hold, for the claims table; else ``ALL_HOLD``."""
    unmet = [c for c in law.conditions if c.verdict != "holds"]
    return "; ".join(f"{c.name} {c.verdict}: {c.measured:.3g}" for c in unmet) or ALL_HOLD


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
