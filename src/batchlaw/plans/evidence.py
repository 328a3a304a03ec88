"""How good the evidence for a plan is, for an optimizer and a shape of the rates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.batches.limits import Limits
from batchlaw.schedule.adam import Adam
from batchlaw.schedule.rates import cosine, wsd
from batchlaw.schedule.update_rule import UpdateRule

# The shapes of the rates under which AdamW was trained.
EXPONENTIAL, SHORT = "exponential second half", "exponential last 30 %"
LINEAR, COSINE = "linear last fifth", "cosine"
TRAINED_SHAPES: dict[str, Callable[[int], FloatArray]] = {
    EXPONENTIAL: lambda steps: wsd(steps, 1.0),
    SHORT: lambda steps: wsd(steps, 1.0, stable=0.7),
    LINEAR: lambda steps: wsd(steps, 1.0, stable=0.8, decay="linear"),
    COSINE: lambda steps: cosine(steps, 1.0, warmup=0.1),
}
# Mean distance from a trained shape, as a share of the peak, up to which rates count as that shape.
SAME_SHAPE = 0.05
# Fewest steps that have a shape.
SHORTEST = 20
# Memories 1 / (1 - beta2) that differ by more than this factor are not the same.
SAME_MEMORY = 3.0
# The trained runs: their updates, mean batch, weight decay, first beta, and limits of their plans.
STEPS, MEAN_BATCH, WEIGHT_DECAY, BETA1 = 800, 8, 0.01, 0.9
LIMITS = Limits(stages=8)
RUNS = (
    f"trained on one transformer of 69 000 parameters ({STEPS} updates, mean batch {MEAN_BATCH}, "
    f"up to {LIMITS.stages} stages)"
)
UNTRAINED = "this answer itself was not trained"


@dataclass(frozen=True, eq=False)
class Answer:
    """What a plan came to, as far as its evidence depends on it.

    Attributes
    ----------
    gamma : (T,) array
        Step sizes.
    samples
        The budget.
    limits
        Constraints on the batches.
    departs
        Whether the batches differ from the constant ones that the limits allow.
    over_range
        Whether the plan was made for the whole range of problems, without a spectrum.
    bold
        Whether a schedule was asked for in any case.
    """

    gamma: FloatArray
    samples: int
    limits: Limits
    departs: bool
    over_range: bool = False
    bold: bool = False


@dataclass(frozen=True)
class Trained:
    """Differences of the validation loss to a constant batch's, over peak rates and schedules.

    Of the small transformer, in benchmarks/trained_plans.csv; ``worst`` and ``best`` are means over
    seeds. Where the plan is a constant batch they are those of rules that people use.
    """

    beta2: float
    shape: str
    departs: bool
    best: float
    worst: float

    def words(self, rule: Adam, answer: Answer) -> str:
        """What the runs showed, and whether that was for this answer."""
        changes = f"changed the validation loss by {self.best:+.3f} to {self.worst:+.3f}"
        if not self.departs:
            what = f"four rules in place of a constant batch, the answer there, {changes}"
        elif answer.departs:
            what = f"the plan for such rates {changes}"
        else:
            what = f"a schedule, the answer there for such rates, {changes}"
        itself = "" if self.are_of(rule, answer) else f"; {UNTRAINED}"
        return f"{RUNS}, {what} (docs/adam.md){itself}"

    def are_of(self, rule: Adam, answer: Answer) -> bool:
        """Whether these very settings were trained, up to the peak rate."""
        gamma, T = answer.gamma, answer.gamma.size
        if T != STEPS or answer.samples != MEAN_BATCH * STEPS or answer.bold:
            return False
        trained = BETA1, self.beta2, WEIGHT_DECAY, LIMITS, self.departs
        return (
            (rule.beta1, rule.beta2, rule.weight_decay, answer.limits, answer.departs) == trained
        ) and bool(np.allclose(gamma / gamma.max(), TRAINED_SHAPES[self.shape](T), atol=1e-9))


TRAINED = (
    Trained(0.999, EXPONENTIAL, True, -0.068, -0.043),
    Trained(0.999, SHORT, True, -0.029, -0.019),
    Trained(0.999, LINEAR, False, 0.030, 0.224),
    Trained(0.999, COSINE, False, -0.060, 0.245),
    Trained(0.95, EXPONENTIAL, True, -0.038, -0.017),
)


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


def adam_evidence(rule: Adam, source: str, answer: Answer) -> str:
    """What a plan for Adam rests on, ``source``, and what training has shown of such plans."""
    if not answer.over_range:
        shown = "no training run has tested a plan for a given problem or exponent with Adam"
    else:
        found = trained_with(rule, answer.gamma)
        shown = "no training run has tested these rates with Adam"
        shown = shown if found is None else found.words(rule, answer)
    return f"{source}; {shown}"


def influence_evidence(rule: UpdateRule | None, source: str) -> str:
    """The same for a plan that follows an influence: of a form of SGD, or a given one."""
    if rule is None:
        return f"{source}; no training run has tested a plan from a given influence"
    return (
        f"{source}; trained, plans made from a measured spectrum lowered the loss of linear "
        "regressions by 0.1 to 4 % and were mixed on a small transformer (docs/small_study.md); "
        f"{UNTRAINED}"
    )


def trained_with(rule: Adam, gamma: FloatArray) -> Trained | None:
    """The runs with about these rates and this memory of the second moments."""
    shape = shape_of(gamma)
    for runs in TRAINED:
        ratio = (1.0 - rule.beta2) / (1.0 - runs.beta2)
        if runs.shape == shape and abs(math.log(ratio)) <= math.log(SAME_MEMORY):
            return runs
    return None
