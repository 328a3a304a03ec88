"""Bound: a two-sided statement of the paper, with the number between its sides."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray

Number = float | FloatArray

# Relative rounding error of sums of up to 10^6 terms, far below any wrong constant.
ROUNDING = 1e-10

# The largest strain at which a condition holds, and at which it is borderline, by what the
# paper says about its constant.
KINDS: dict[str, tuple[float, float]] = {
    "sharp": (1.0, 1.0),
    "explicit": (1.0, 3.0),
    "small": (1.0 / 3.0, 3.0),
    "order": (3.0, 9.0),
}


@dataclass(frozen=True)
class Condition:
    """A hypothesis of a bound, measured: at most ``limit``, or at least ``limit``.

    Attributes
    ----------
    id
        Hyphenated words, unique among the conditions of a bound.
    name
        The inequality in words, as the paper states it.
    measured, limit
        Its two sides.
    at_least
        Whether ``measured`` must be at least ``limit`` instead of at most.
    kind
        What the paper says about the constant: "explicit" (it is in ``limit``), "sharp" (beyond
        the limit another law holds, so there is no borderline), "small" (it must be small
        enough, or >~; ``limit`` takes 1 for it) or "order" (~ or <~, any constant will do).
    """

    id: str
    name: str
    measured: float
    limit: float
    at_least: bool = False
    kind: str = "explicit"

    @property
    def holds(self) -> bool:
        """Whether the inequality is true with the constant in ``limit``."""
        if self.at_least:
            return self.measured >= self.limit
        return self.measured <= self.limit

    @property
    def strain(self) -> float:
        """The side that must be smaller over the other; the inequality is true up to 1."""
        small, large = (self.limit, self.measured) if self.at_least else (self.measured, self.limit)
        if large == 0.0:
            return math.inf if small > 0.0 else 0.0
        return small / large

    @property
    def verdict(self) -> str:
        """ "holds", "borderline" or "fails", by the strain.

        A sharp condition holds up to 1 and fails beyond. With an explicit constant it holds up
        to 1, is borderline up to 3 and fails beyond. If the constant must be small, it holds up
        to 1/3 and is borderline up to 3; if any constant will do, up to 3 and 9.
        """
        holds_up_to, borderline_up_to = KINDS[self.kind]
        if self.strain <= holds_up_to:
            return "holds"
        return "borderline" if self.strain <= borderline_up_to else "fails"


@dataclass(frozen=True, eq=False)
class Bound:
    """lower <= value <= upper, if the hypotheses hold.

    Attributes
    ----------
    name, where
        What is bounded, and the lemma.
    lower, value, upper
        Numbers, or arrays with one entry per step, direction or schedule. A side that the
        paper does not bound is 0 or infinity; a value that was not computed is NaN.
    constant_explicit
        Whether the sides include their constants. If not, they are the paper's functionals
        alone, and only ``tightness``, the measured constants, is meaningful.
    conditions
        The hypotheses, each measured.
    terms
        Size of the terms of which the value or a side is the difference: its rounding error is
        relative to these. 0 where nothing cancels.
    """

    name: str
    where: str
    lower: Number
    value: Number
    upper: Number
    constant_explicit: bool = True
    conditions: tuple[Condition, ...] = ()
    terms: float = 0.0

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
        value = np.asarray(self.value)
        slack = ROUNDING * np.maximum(np.abs(value), self.terms)
        return bool(np.all(self.lower <= value + slack) and np.all(value - slack <= self.upper))

    @property
    def tightness(self) -> tuple[float, float]:
        """(smallest value / lower, largest value / upper): 1 is sharp, (inf, 0) is vacuous.

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
    """The bound with the smallest upper side over head sizes k, all of them valid.

    Parameters
    ----------
    bound
        Computes the bound for a head size k.
    heads
        The k to try.
    """
    return min(
        (bound(head) for head in heads), key=lambda candidate: float(np.max(candidate.upper))
    )
