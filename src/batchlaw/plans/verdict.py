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
# Only in plans by a law of training runs.
_BY_LAW = ("differences", "settings")
# Updates, peak rate, mean batch, predicted final loss, and the difference to that of the given
# updates and peak: low end of its band, prediction, high end.
SETTING = ("steps", "peak", "batch", "loss", "low", "change", "high")
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
    differences
        Of plans by a law of training runs: the rules' final loss less the constant batch's, at
        equal samples; the low end of the band, the prediction and the high end.
    settings
        Of such plans, where updates or peak rate were to be chosen: ``SETTING`` of each that was
        tried, with a constant batch.
    """

    optimizer: str
    recommendation: str
    worth: str
    evidence: str
    rules: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    steps: Mapping[str, int] = field(default_factory=dict)
    regrets: Mapping[str, float] = field(default_factory=dict)
    differences: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    settings: tuple[Mapping[str, float], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a plan's JSON."""
        rules = {name: list(row) for name, row in self.rules.items()}
        known = asdict(self) | {
            "rules": rules,
            "steps": dict(self.steps),
            "regrets": dict(self.regrets),
            "differences": {name: list(row) for name, row in self.differences.items()},
            "settings": [dict(row) for row in self.settings],
        }
        return {name: v for name, v in known.items() if v or name not in _BY_LAW}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Verdict:
        """From a plan's JSON; an entry that is unknown, missing or wrong is refused."""
        texts = [values.get(name) for name in _TEXTS]
        rules: Any = values.get("rules")
        steps: Any = values.get("steps")
        regrets: Any = values.get("regrets", {})  # files of earlier versions have none
        differences: Any = values.get("differences", {})
        settings: Any = values.get("settings", [])
        optional = {"regrets", *_BY_LAW}
        known = set(values) | optional == {*_TEXTS, "rules", "steps", *optional}
        known = known and all(isinstance(text, str) for text in texts)
        known = known and isinstance(regrets, dict) and all(map(_is_number, regrets.values()))
        known = known and _are_ranges(rules) and _are_ranges(differences)
        if not (known and _are_steps(steps, {**rules, **differences}) and _are_settings(settings)):
            raise InputError(
                "verdict",
                f"must have {', '.join(_TEXTS)}, rules, each rule with three numbers, steps, "
                "whole numbers for some of the rules, and regrets, numbers",
                subject="plan field verdict",
            )
        numbers = {name: float(value) for name, value in regrets.items()}
        return cls(
            **{name: values[name] for name in _TEXTS},
            rules=_ranges(rules),
            steps=dict(steps),
            regrets=numbers,
            differences=_ranges(differences),
            settings=tuple({name: row[name] for name in SETTING} for row in settings),
        )


def _ranges(rules: Mapping[str, Any]) -> dict[str, tuple[float, float, float]]:
    return {name: (float(a), float(b), float(c)) for name, (a, b, c) in rules.items()}


def _are_settings(rows: Any) -> bool:
    return isinstance(rows, list) and all(
        isinstance(row, dict) and set(row) == set(SETTING) and all(map(_is_number, row.values()))
        for row in rows
    )


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
