"""How good the evidence for a plan is, for an optimizer and a shape of the rates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.schedule.adam import Adam
from batchlaw.schedule.rates import cosine, wsd
from batchlaw.schedule.update_rule import UpdateRule

# The shapes of the rates that plans were trained under.
EXPONENTIAL, LINEAR, COSINE = "exponential second half", "linear last fifth", "cosine"
TRAINED_SHAPES: dict[str, Callable[[int], FloatArray]] = {
    EXPONENTIAL: lambda steps: wsd(steps, 1.0),
    LINEAR: lambda steps: wsd(steps, 1.0, stable=0.8, decay="linear"),
    COSINE: lambda steps: cosine(steps, 1.0, warmup=0.1),
}
# Mean distance from a trained shape, as a share of the peak, up to which rates count as that shape.
SAME_SHAPE = 0.05
# Fewest steps that have a shape.
SHORTEST = 20


def shape_of(gamma: FloatArray) -> str | None:
    """The trained shape that the rates are nearest to, or None where none is near."""
    if gamma.size < SHORTEST:
        return None
    rates = gamma / gamma.max()
    distances = {
        name: float(np.abs(rates - shape(gamma.size)).mean())
        for name, shape in TRAINED_SHAPES.items()
    }
    nearest = min(distances, key=lambda name: distances[name])
    return nearest if distances[nearest] <= SAME_SHAPE else None


def evidence(rule: UpdateRule | None, gamma: FloatArray, source: str) -> str:
    """What the plan rests on, ``source``, and what training has shown of such plans."""
    return f"{source}; {_trained(rule, shape_of(gamma))}"


def _trained(rule: UpdateRule | None, shape: str | None) -> str:
    if rule is None:
        return "no training run has tested a plan from a given influence"
    if isinstance(rule, Adam):
        return "no training run has tested this plan"
    return (
        "trained, such plans made from a measured spectrum lowered the loss of linear regressions "
        "by 0.1 to 4 % and were mixed on a small transformer (docs/study.md)"
    )
