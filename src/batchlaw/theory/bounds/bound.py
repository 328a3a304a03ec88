"""Bound: a two-sided statement of the paper, with the number that it brackets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray

Number = float | FloatArray

# Rounding of sums of up to 10^6 terms; a planted error of one per cent is far above it.
ROUNDING = 1e-10

# How much of its limit a condition may use before it no longer holds, and before it fails:
# by what the paper says of the constant in it.
KINDS: dict[str, tuple[float, float]] = {
    "sharp": (1.0, 1.0),
    "explicit": (1.0, 3.0),
    "small": (1.0 / 3.0, 3.0),
    "order": (3.0, 9.0),
}


@dataclass(frozen=True)
class Condition:
    """A hypothesis of a bound, measured: at most ``limit``, or at least it.

    Attributes
    ----------
    id
        What it is about, in a word or a few with hyphens: unique among the conditions of a bound.
    name
        The inequality in words, as the paper states it.
    measured, limit
        Its two sides.
    at_least
        Whether ``measured`` must reach the limit instead of staying below it.
    kind
        What the paper says of the constant: "explicit" (it is in ``limit``), "sharp" (beyond
        it another law holds, so that near is not near enough), "small" (a constant that must be
        small enough, or >~; ``limit`` has 1 for it) or "order" (~ or <~, any constant does).
    """

    id: str
    name: str
    measured: float
    limit: float
    at_least: bool = False
    kind: str = "explicit"

    @property
    def holds(self) -> bool:
        """Whether the inequality is true, with the constant that is in ``limit``."""
        if self.at_least:
            return self.measured >= self.limit
        return self.measured <= self.limit

    @property
    def strain(self) -> float:
        """The side that must be smaller over the other one: the inequality is true up to 1."""
        small, large = (self.limit, self.measured) if self.at_least else (self.measured, self.limit)
        if large == 0.0:
            return math.inf if small > 0.0 else 0.0
        return small / large

    @property
    def verdict(self) -> str:
        """ "holds", "borderline" or "fails", by the strain.

        A sharp condition holds up to 1 and fails beyond. With an explicit constant it holds up
        to 1, is borderline up to 3 and fails beyond. Where the constant must only be small, it
        holds up to 1/3 and is borderline up to 3; where any constant does, up to 3 and 9.
        """
        good, bad = KINDS[self.kind]
        if self.strain <= good:
            return "holds"
        return "borderline" if self.strain <= bad else "fails"


@dataclass(frozen=True, eq=False)
class Bound:
    """lower <= value <= upper, where the hypotheses hold.

    Attributes
    ----------
    name, where
        What is bounded, and the lemma that says so.
    lower, value, upper
        Numbers, or arrays with one entry a step, direction or schedule. A side that the
        paper does not bound is 0 or infinity; a value that nobody computed is NaN.
    constant_explicit
        Whether the sides carry their constants. If not, they are the paper's functionals
        alone and only ``tightness``, the measured constants, means anything.
    conditions
        The hypotheses, each measured.
    """

    name: str
    where: str
    lower: Number
    value: Number
    upper: Number
    constant_explicit: bool = True
    conditions: tuple[Condition, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every hypothesis holds; if not, the bound promises nothing."""
        return not self.failed

    @property
    def failed(self) -> tuple[Condition, ...]:
        """The hypotheses that do not hold."""
        return tuple(condition for condition in self.conditions if not condition.holds)

    @property
    def inside(self) -> bool:
        """Whether the value lies between the two sides, up to rounding."""
        below = np.asarray(self.lower) <= np.asarray(self.value) * (1.0 + ROUNDING)
        above = np.asarray(self.value) <= np.asarray(self.upper) * (1.0 + ROUNDING)
        return bool(np.all(below) and np.all(above))

    @property
    def tightness(self) -> tuple[float, float]:
        """(smallest value / lower, largest value / upper): 1 is sharp, (inf, 0) says nothing.

        Without explicit constants these are the best constants c and C for which
        c lower <= value <= C upper.
        """
        lower, value, upper = np.broadcast_arrays(self.lower, self.value, self.upper)
        if np.isnan(value).any():
            return math.nan, math.nan
        with np.errstate(divide="ignore", invalid="ignore"):
            over = np.where(lower > 0.0, value / lower, math.inf)
            under = np.where(value > 0.0, value / upper, 0.0)
        return float(over.min()), float(under.max())


def tightest(bound: Callable[[int], Bound], heads: Iterable[int]) -> Bound:
    """The bound with the smallest upper side over the head sizes k, each valid by itself."""
    return min((bound(head) for head in heads), key=lambda found: float(np.max(found.upper)))
