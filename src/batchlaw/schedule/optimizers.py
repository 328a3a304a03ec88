"""Optimizers by name: the word that selects an update rule, and the words of its options.

An optimizer is a registered rule, or a rule with some options preset: ``momentum`` is SGD with
PyTorch's momentum of 0.9, ``adamw`` is Adam with PyTorch's weight decay of 0.01.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from batchlaw._base import checks
from batchlaw._base.words import CHOICE, Word, refuse_unused
from batchlaw.schedule.adam import Adam
from batchlaw.schedule.update_rule import OPTIMIZERS, RULES, WORD, UpdateRule, register_rule

register_rule(Adam, adamw={"weight_decay": 0.01})


def optimizer_word(default: str = "") -> Word:
    """The word that names an optimizer; ``default`` says what it is if not given."""
    names = tuple(OPTIMIZERS)
    default = default or f"{names[0]} by default"
    return Word("optimizer", CHOICE, f"Update rule: {', '.join(names)}; {default}.", names)


def rule_words() -> dict[str, Word]:
    """The options of all rules, by name."""
    return {
        option.name: option.metadata[WORD]
        for kind in RULES.values()
        for option in fields(kind)
        if WORD in option.metadata
    }


def rule_by_words(given: Mapping[str, Any]) -> UpdateRule:
    """The rule of the named optimizer, SGD by default; an option that it does not have is refused.

    An option of the words replaces the optimizer's own.
    """
    name = given.get("optimizer") or next(iter(OPTIMIZERS))
    optimizer = OPTIMIZERS[checks.choice("optimizer", name, OPTIMIZERS)]
    known = {option.name for option in fields(optimizer.kind)}
    refuse_unused(given, (n for n in rule_words() if n not in known), f"optimizer {name}")
    # Not `in (None, False)`: 0 == False, and 0 replaces a preset.
    options = {n: given[n] for n in known if given.get(n) is not None and given[n] is not False}
    return optimizer.kind(**{**optimizer.presets, **options})


def optimizer_of(rule: UpdateRule) -> str:
    """The name of a rule as an optimizer: SGD with any momentum is ``momentum``."""
    for name, optimizer in OPTIMIZERS.items():
        if isinstance(rule, optimizer.kind) and optimizer.mark in rule.changed:
            return name
    return rule.name


def options_of(rule: UpdateRule) -> dict[str, Any]:
    """All options of a rule as plain values, arrays as lists."""
    values = {option.name: getattr(rule, option.name) for option in fields(rule)}
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in values.items()
    }
