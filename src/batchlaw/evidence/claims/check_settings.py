"""What the families share: sizes, pairs of exponents, problems, and the names of horizons."""

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

# (a, b) inside b < a + 1: the first six with b <= a, where the approximation settles too.
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

# The sketch is so wide that no schedule here sees its end.
WIDE = 10**12
# gamma tr(Sigma): below the 1/12 of appendix H.
RATE = 0.08
# A window of local regression: one decade.
DECADE = math.log(10.0)

# The conditions on the largest norm of a sample: at a fixed rate no large dataset meets them.
LARGEST_NORM = ("largest-norm", "largest-norm-mean")

# What a row says where all hypotheses of its theorem hold.
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
    """Why a law's exponents should not be fitted here: failed hypotheses, or saturation.

    The bias alone has no lower bound long before the variance saturates. The largest norm is
    left out; ``hypotheses`` reports it.
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
    """A failed check of each claim: the case was meant to lie inside the law's regime."""
    evidence = OutsideRegime(reasons, quantity)
    return [Check(claim, case, evidence, NoLaw(expected=False)) for claim in claims]


def hypotheses(law: Law) -> str:
    """What a row says of its theorem's hypotheses."""
    weak = [c for c in law.conditions if c.verdict != "holds"]
    return "; ".join(f"{c.name} {c.verdict}: {c.measured:.3g}" for c in weak) or ALL_HOLD


def step_grid(longest: int, decades: float = 2.0, each: int = 6) -> IntArray:
    """Numbers of steps, ``each`` to a decade, up to the longest."""
    return np.geomspace(longest / 10.0**decades, longest, round(each * decades) + 1).astype(int)


def horizons(steps: IntArray, peak: float) -> dict[str, FloatArray]:
    """gamma T and gamma T/log T."""
    T = steps.astype(np.float64)
    return {LEARNING: peak * T, MEMORY: peak * T / np.log(T)}


def fewest_samples(mass: float) -> int:
    """N with gamma L log N = N/3: the least reuse-free dataset for which that hypothesis holds.

    With x = 3 gamma L, above e, that is N = -x W(-1/x) on the lower branch of Lambert's W.
    """
    from scipy.special import lambertw

    x = 3.0 * mass
    return math.ceil(-x * float(lambertw(-1.0 / x, k=-1).real))


def named(a: float, b: float | None = None, **more: object) -> str:
    """A case in words."""
    exponents = f"a = {a:g}" if b is None else f"a = {a:g}, b = {b:g}"
    return ", ".join([exponents, *(f"{name} = {value}" for name, value in more.items())])


def parts(risks: Sequence[Risk], name: str) -> FloatArray:
    """One part of every risk, as an array."""
    return np.array([float(np.max(getattr(risk, name))) for risk in risks])
