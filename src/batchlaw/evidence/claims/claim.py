"""A claim, the evidence for it, and the verdict: what every family of checks is made of.

Evidence does not depend on the law, so it can judge any law of its kind. A check that would also
confirm a wrong law proves nothing, so each check carries wrong laws that its evidence must
contradict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.from_data.slopes import SPREAD, Slope, fit_slope

CONFIRMED = "confirmed"
OPEN = "not settled at this size"
CONTRADICTED = "contradicted"
OUTSIDE = "outside the law's regime"
VERDICTS = (CONFIRMED, OPEN, CONTRADICTED, OUTSIDE)


@dataclass(frozen=True)
class Claim:
    """A statement that is measured.

    Attributes
    ----------
    id
        "family/name", in lower case with hyphens; used in tables, documents and tests.
    sentence
        What is claimed.
    where
        Where the paper, or another work, states it.
    """

    id: str
    sentence: str
    where: str

    @property
    def family(self) -> str:
        """The first half of the id."""
        return self.id.partition("/")[0]


@dataclass(frozen=True)
class Judgement:
    """What a law predicts, what was measured, the interval around it, and the verdict."""

    predicted: str
    measured: float
    low: float
    high: float
    verdict: str
    detail: str = ""


LawT = TypeVar("LawT")
LawT_contra = TypeVar("LawT_contra", contravariant=True)


class Evidence(Protocol[LawT_contra]):
    """A measurement that can judge any law of its kind."""

    def judge(self, law: LawT_contra) -> Judgement:
        """The verdict on one law."""
        ...


@dataclass(frozen=True)
class Exponent:
    """y ~ x^value, with x one of the evidence's abscissae.

    ``tolerance`` is how far a settled slope may be off. With a ``rival`` abscissa, the law must
    also fit at least twice as closely against its own abscissa as against the rival.
    """

    value: float
    against: str
    tolerance: float = 0.02
    rival: str | None = None


@dataclass(frozen=True, eq=False)
class Curve:
    """Values over sizes, with every abscissa that a law could use.

    Attributes
    ----------
    y
        (K,), or (R, K) with one row per draw.
    width
        Width of the local regression windows, in log x.
    withheld
        Why there is no verdict although a slope can be fitted; empty otherwise.
    """

    abscissae: Mapping[str, FloatArray]
    y: FloatArray
    quantity: str
    width: float | None = None
    withheld: str = ""

    def slope(self, against: str) -> Slope:
        """The exponent against one abscissa."""
        return fit_slope(self.abscissae[against], self.y, width=self.width)

    def judge(self, law: Exponent) -> Judgement:
        """Contradicted outside interval and tolerance; confirmed when settled inside."""
        slope = self.slope(law.against)
        distance = abs(slope.value - law.value)
        verdict = three_way(distance, slope.slack, law.tolerance)
        notes = [f"standard error {slope.error:.1e}"] if slope.error else []
        notes.append(f"drift {slope.drift:.1e}")
        if law.rival is not None:
            rival_distance = abs(self.slope(law.rival).value - law.value)
            notes.append(f"off by {distance:.1e}, by {rival_distance:.1e} against {law.rival}")
            if distance > 2.0 * rival_distance + SPREAD * slope.error:
                verdict = CONTRADICTED
            elif rival_distance < 2.0 * distance and verdict == CONFIRMED:
                verdict = OPEN
        if self.withheld:
            verdict = OPEN
            notes.append(self.withheld)
        low, high = slope.interval
        predicted = f"exponent {law.value:.4g} against {law.against}"
        return Judgement(predicted, slope.value, low, high, verdict, ", ".join(notes))


@dataclass(frozen=True)
class Proportional:
    """Values are proportional to this summary, up to a relative ``tolerance``."""

    summary: str
    tolerance: float


@dataclass(frozen=True, eq=False)
class Collapse:
    """One value per schedule, and the summaries that might explain them all.

    ``error`` is the relative standard error of a value.
    """

    values: FloatArray
    summaries: Mapping[str, FloatArray]
    quantity: str
    error: float = 0.0

    def deviations(self, summary: str) -> FloatArray:
        """value / summary over its geometric mean, minus one."""
        ratio = np.log(self.values / self.summaries[summary])
        return np.asarray(np.expm1(ratio - ratio.mean()))

    def judge(self, law: Proportional) -> Judgement:
        """Verdict by the largest deviation from proportionality."""
        largest = float(np.abs(self.deviations(law.summary)).max())
        slack = SPREAD * self.error
        verdict = three_way(largest, slack, law.tolerance)
        return Judgement(
            f"proportional to {law.summary} within {law.tolerance:.3g}",
            largest,
            max(largest - slack, 0.0),
            largest + slack,
            verdict,
            f"largest of {self.values.size} deviations",
        )


@dataclass(frozen=True)
class Value:
    """The estimate equals ``value`` within ``tolerance``; or is ``at_most`` / ``at_least`` it."""

    value: float
    tolerance: float = 0.0
    side: str = "equal"


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error, and a bound on its systematic error, ``bias``."""

    value: float
    quantity: str
    error: float = 0.0
    bias: float = 0.0
    detail: str = ""

    def judge(self, law: Value) -> Judgement:
        """Verdict by how far the estimate lies on the wrong side of the value."""
        distance = {
            "equal": abs(self.value - law.value),
            "at_most": self.value - law.value,
            "at_least": law.value - self.value,
        }[law.side]
        slack = SPREAD * self.error + self.bias
        if law.side == "equal":
            verdict = three_way(distance, slack, law.tolerance)
        elif abs(distance - law.tolerance) <= slack:
            verdict = OPEN
        else:
            verdict = CONTRADICTED if distance > law.tolerance else CONFIRMED
        prefix = {"equal": "", "at_most": "at most ", "at_least": "at least "}[law.side]
        suffix = f" within {law.tolerance:.3g}" if law.side == "equal" and law.tolerance else ""
        return Judgement(
            f"{prefix}{law.value:.4g}{suffix}",
            self.value,
            self.value - slack,
            self.value + slack,
            verdict,
            self.detail,
        )


@dataclass(frozen=True)
class NoLaw:
    """No law applies; ``expected`` if the case was chosen to show that."""

    expected: bool


@dataclass(frozen=True)
class OutsideRegime:
    """In place of a measurement: the reasons why a fit would be meaningless."""

    reasons: tuple[str, ...]
    quantity: str

    def judge(self, law: NoLaw) -> Judgement:
        """``OUTSIDE``, with the reasons."""
        nan = float("nan")
        return Judgement("nothing", nan, nan, nan, OUTSIDE, "; ".join(self.reasons))


@dataclass(frozen=True, eq=False)
class Check(Generic[LawT]):
    """One row of the claims table: a claim in one case, its law, and wrong laws.

    Attributes
    ----------
    case
        The setting: exponents, sizes.
    evidence, law
        What was measured, and the law that it judges.
    wrong
        Name -> a law that the same evidence must contradict.
    hypotheses
        The theorem's hypotheses that do not hold, with numbers; empty where none were tested.
    """

    claim: Claim
    case: str
    evidence: Evidence[LawT]
    law: LawT
    wrong: Mapping[str, LawT] = field(default_factory=dict)
    hypotheses: str = ""

    def judge(self) -> Judgement:
        """The verdict on the law."""
        return self.evidence.judge(self.law)

    def rejected(self) -> dict[str, bool]:
        """Whether each wrong law is contradicted."""
        return {
            name: self.evidence.judge(law).verdict == CONTRADICTED
            for name, law in self.wrong.items()
        }


@dataclass(frozen=True, eq=False)
class Task:
    """A unit of work: the checks of one case, or of a few cases that share computations.

    Attributes
    ----------
    name
        Unique in its family; part of the task's key in the store.
    claims
        The claims that its checks cover: each at least once, and no others.
    run
        Computes the checks.
    """

    name: str
    claims: tuple[Claim, ...]
    run: Callable[[], list[Check[Any]]]


def task_name(what: str, **values: float) -> str:
    """Name of a task with its parameters: "terms a=1.5 b=1.25"."""
    return " ".join([what, *(f"{name}={value:g}" for name, value in values.items())])


def three_way(distance: float, slack: float, tolerance: float) -> str:
    """Contradicted past tolerance + slack; confirmed if distance and slack are within tolerance."""
    if distance > tolerance + slack:
        return CONTRADICTED
    return CONFIRMED if distance <= tolerance and slack <= tolerance else OPEN


def wrong_exponents(law: Exponent) -> dict[str, Exponent]:
    """The exponent off by 0.1 either way, and the horizons swapped where there are two."""
    wrong = {
        f"exponent {sign}0.1": Exponent(
            law.value + float(f"{sign}0.1"), law.against, law.tolerance, law.rival
        )
        for sign in ("+", "-")
    }
    if law.rival is not None:
        wrong["horizons swapped"] = Exponent(law.value, law.rival, law.tolerance, law.against)
    return wrong
