"""A claim, the evidence for it, and the verdict: what every family of checks is made of.

Evidence does not depend on the law, so it can judge any law of its kind. A check that would also
confirm a wrong law proves nothing, so each check carries wrong laws that its evidence must
contradict. The verdict of a check follows from its data alone, in ``Check.judge``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.evidence.claims.finite_size import fit_corrected_slope
from batchlaw.from_data.slopes import SPREAD, Slope, fit_slope
from batchlaw.theory.bounds.bound import Condition

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
    corrections
        Finite-size corrections, (K,) each, such as 1/x: vanishing terms of log y whose
        coefficients are fitted together with the exponent, over all points.
    """

    abscissae: Mapping[str, FloatArray]
    y: FloatArray
    quantity: str
    width: float | None = None
    corrections: tuple[FloatArray, ...] = ()

    def slope(self, against: str) -> Slope:
        """The exponent against one abscissa."""
        if self.corrections:
            return fit_corrected_slope(self.abscissae[against], self.y, self.corrections)
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
        The hypotheses of the law, each measured on the setting; none for laws without any.
    """

    claim: Claim
    case: str
    evidence: Evidence[LawT]
    law: LawT
    wrong: Mapping[str, LawT] = field(default_factory=dict)
    hypotheses: tuple[Condition, ...] = ()

    @property
    def unmet(self) -> tuple[Condition, ...]:
        """The hypotheses that do not hold: with any of them the law says nothing here."""
        return tuple(condition for condition in self.hypotheses if not is_met(condition))

    def judge(self) -> Judgement:
        """What the evidence says about the law, and the verdict of this row.

        ``OUTSIDE`` if a hypothesis does not hold, whatever was measured. Otherwise the evidence's
        own verdict, except that a law is not confirmed by evidence that leaves a wrong law
        standing, or that was given none to reject.
        """
        judgement = self.evidence.judge(self.law)
        if self.unmet:
            return _with(judgement, OUTSIDE, *map(describe, self.unmet))
        left = [name for name, rejected in self.rejected().items() if not rejected]
        if judgement.verdict == CONTRADICTED or (self.wrong and not left):
            return judgement
        reason = f"does not reject {', '.join(left)}" if left else "no wrong law to reject"
        return _with(judgement, OPEN, reason)

    def rejected(self) -> dict[str, bool]:
        """Whether each wrong law is contradicted; empty outside the law's regime."""
        if self.unmet:
            return {}
        return {
            name: self.evidence.judge(law).verdict == CONTRADICTED
            for name, law in self.wrong.items()
        }


def is_met(condition: Condition) -> bool:
    """Whether a hypothesis holds for a claim.

    Where the paper allows any constant (kind "order"), one up to 9 will do; where the constant is
    stated or must be small, borderline is not enough.
    """
    return condition.verdict == "holds" or (
        condition.kind == "order" and condition.verdict == "borderline"
    )


def describe(condition: Condition) -> str:
    """A hypothesis with its verdict and both sides."""
    return (
        f"{condition.name} {condition.verdict}: "
        f"{condition.measured:.3g} against {condition.limit:.3g}"
    )


def _with(judgement: Judgement, verdict: str, *remarks: str) -> Judgement:
    detail = "; ".join(text for text in (judgement.detail, *remarks) if text)
    return replace(judgement, verdict=verdict, detail=detail)


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


def wrong_exponents(law: Exponent, *, shift: float = 0.1) -> dict[str, Exponent]:
    """The exponent off by ``shift`` either way, and the horizons swapped where there are two."""
    wrong = {
        f"exponent {sign * shift:+g}": replace(law, value=law.value + sign * shift)
        for sign in (1.0, -1.0)
    }
    if law.rival is not None:
        wrong["horizons swapped"] = Exponent(law.value, law.rival, law.tolerance, law.against)
    return wrong
