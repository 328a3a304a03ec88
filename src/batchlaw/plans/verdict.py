"""What a plan recommends, what that is worth, and how good the evidence is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError

_TEXTS = ("optimizer", "recommendation", "worth", "evidence")
_RANGE = 3
# Names beside those of rules in ``Verdict.regrets``.
PLAN, CONSTANT_BATCH = "this plan", "constant batch"


@dataclass(frozen=True)
class Verdict:
    """The first lines of a plan, as sentences, and the rules that it was compared with.

    Attributes
    ----------
    optimizer
        What the plan is for.
    recommendation
        The schedule, or to keep the batch constant, and why.
    worth
        What that changes, in the quantity that is known, with its range.
    evidence
        What the recommendation rests on.
    rules
        Smallest, median and largest excess over a constant batch's of rules that people use, at
        equal samples.
    steps
        Updates of those rules that change the rates; the others have the plan's rates and updates.
    regrets
        By what a plan over a range was chosen: the largest excess, over all problems, relative to
        that of the best schedule found for the problem alone. Of the rules, ``PLAN`` and
        ``CONSTANT_BATCH``; empty for plans that were not chosen so.
    """

    optimizer: str
    recommendation: str
    worth: str
    evidence: str
    rules: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    steps: Mapping[str, int] = field(default_factory=dict)
    regrets: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a plan's JSON."""
        rules = {name: list(row) for name, row in self.rules.items()}
        return asdict(self) | {
            "rules": rules,
            "steps": dict(self.steps),
            "regrets": dict(self.regrets),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Verdict:
        """From a plan's JSON; an entry that is unknown, missing or wrong is refused."""
        texts = [values.get(name) for name in _TEXTS]
        rules: Any = values.get("rules")
        steps: Any = values.get("steps")
        regrets: Any = values.get("regrets", {})  # files of earlier versions have none
        known = set(values) | {"regrets"} == {*_TEXTS, "rules", "steps", "regrets"}
        known = known and all(isinstance(text, str) for text in texts)
        known = known and isinstance(regrets, dict) and all(map(_is_number, regrets.values()))
        if not (known and _are_ranges(rules) and _are_steps(steps, rules)):
            raise InputError(
                "verdict",
                f"must have {', '.join(_TEXTS)}, rules, each rule with three numbers, steps, "
                "whole numbers for some of the rules, and regrets, numbers",
                subject="plan field verdict",
            )
        ranges = {name: (float(a), float(b), float(c)) for name, (a, b, c) in rules.items()}
        known_texts = {name: values[name] for name in _TEXTS}
        numbers = {name: float(value) for name, value in regrets.items()}
        return cls(**known_texts, rules=ranges, steps=dict(steps), regrets=numbers)


def _are_ranges(rules: Any) -> bool:
    return isinstance(rules, dict) and all(map(_is_range, rules.values()))


def _are_steps(steps: Any, rules: Mapping[str, Any]) -> bool:
    whole = isinstance(steps, dict) and all(type(n) is int and n > 0 for n in steps.values())
    return whole and set(steps) <= set(rules)


def _is_range(value: Any) -> bool:
    return isinstance(value, list) and len(value) == _RANGE and all(map(_is_number, value))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def range_of(ratios: FloatArray) -> tuple[float, float, float]:
    """Smallest, median and largest."""
    low, middle, high = np.quantile(ratios, [0.0, 0.5, 1.0])
    return float(low), float(middle), float(high)
