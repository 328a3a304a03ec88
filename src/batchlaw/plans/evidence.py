"""How good the evidence for a plan is, for an optimizer and a shape of the rates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.batches.limits import Limits
from batchlaw.schedule.adam import Adam
from batchlaw.schedule.optimizers import optimizer_of
from batchlaw.schedule.rates import constant, cosine, step, wsd
from batchlaw.schedule.update_rule import UpdateRule

# The shapes of the rates under which AdamW was trained.
EXPONENTIAL, SHORT = "exponential second half", "exponential last 30 %"
LINEAR, COSINE = "linear last fifth", "cosine"
FLAT, DROP = "constant", "one drop by ten"
TRAINED_SHAPES: dict[str, Callable[[int], FloatArray]] = {
    EXPONENTIAL: lambda steps: wsd(steps, 1.0),
    SHORT: lambda steps: wsd(steps, 1.0, stable=0.7),
    LINEAR: lambda steps: wsd(steps, 1.0, stable=0.8, decay="linear"),
    COSINE: lambda steps: cosine(steps, 1.0, warmup=0.1),
    FLAT: lambda steps: constant(steps, 1.0, warmup=0.1),
    DROP: lambda steps: step(steps, 1.0, drops=(0.8,), warmup=0.1),
}
# Mean distance from a trained shape, as a share of the peak, up to which rates count as that shape.
SAME_SHAPE = 0.05
# Fewest steps that have a shape.
SHORTEST = 20
# Memories 1 / (1 - beta) that differ by more than this factor are not the same.
SAME_MEMORY = 3.0
# The trained runs: their mean batch, weight decay, first beta, and limits of their plans.
MEAN_BATCH, WEIGHT_DECAY, BETA1 = 8, 0.01, 0.9
LIMITS = Limits(stages=8)
RUNS = (
    "trained with AdamW on one transformer of 69 000 parameters "
    f"(mean batch {MEAN_BATCH}, up to {LIMITS.stages} stages)"
)
# Where the runs of so many updates are described.
PAGES = {800: "docs/adam.md", 3000: "docs/study.md"}
MOMENTUM = "momentum"
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

    Of the small transformer, in benchmarks/trained_plans.csv (800 updates) and in the benchmark of
    batch schedules (3000); ``worst`` and ``best`` are means over seeds. Where the plan is a
    constant batch they are those of the other schedules that were trained.
    """

    steps: int
    beta2: float
    shape: str
    departs: bool
    best: float
    worst: float

    def difference(self) -> str:
        """By how much the loss changed, and where that is described."""
        ends = dict.fromkeys(f"{end:+.3f}" for end in (self.best, self.worst))
        return f"by {' to '.join(ends)} in {self.steps} updates ({PAGES[self.steps]})"

    def are_of(self, rule: Adam, answer: Answer) -> bool:
        """Whether these very settings were trained, up to the peak rate."""
        gamma, T = answer.gamma, answer.gamma.size
        if self.steps != T or answer.samples != MEAN_BATCH * T or answer.bold:
            return False
        trained = BETA1, self.beta2, WEIGHT_DECAY, LIMITS, self.departs
        return (
            (rule.beta1, rule.beta2, rule.weight_decay, answer.limits, answer.departs) == trained
        ) and bool(np.allclose(gamma / gamma.max(), TRAINED_SHAPES[self.shape](T), atol=1e-9))


TRAINED = (
    Trained(800, 0.999, EXPONENTIAL, True, -0.068, -0.043),
    Trained(3000, 0.999, EXPONENTIAL, True, -0.051, -0.051),
    Trained(800, 0.999, SHORT, True, -0.029, -0.019),
    Trained(800, 0.999, LINEAR, False, 0.030, 0.224),
    Trained(3000, 0.999, LINEAR, False, -0.007, 0.127),
    Trained(800, 0.999, COSINE, False, -0.060, 0.245),
    Trained(3000, 0.999, COSINE, False, -0.020, 0.211),
    Trained(3000, 0.999, FLAT, False, -0.085, 0.299),
    Trained(3000, 0.999, DROP, False, -0.013, 0.157),
    Trained(800, 0.95, EXPONENTIAL, True, -0.038, -0.017),
    Trained(3000, 0.95, EXPONENTIAL, True, -0.025, -0.025),
    Trained(3000, 0.95, LINEAR, False, 0.021, 0.146),
    Trained(3000, 0.95, COSINE, False, -0.028, 0.202),
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
        untested = f"no training run has tested these rates with {rule.label} and such betas"
        shown = _shown(found, rule, answer) if found else untested
    return f"{source}; {shown}"


def _shown(found: tuple[Trained, ...], rule: Adam, answer: Answer) -> str:
    """What the runs showed, and whether that was for this answer; all have the same answer."""
    if not found[0].departs:
        what = "other schedules in place of a constant batch, the answer there,"
    elif answer.departs:
        what = "the plan for such rates"
    else:
        what = "a schedule, the answer there for such rates,"
    changed = " and ".join(runs.difference() for runs in found)
    itself = "" if any(runs.are_of(rule, answer) for runs in found) else f"; {UNTRAINED}"
    return f"{RUNS}, {what} changed the validation loss {changed}{itself}"


def influence_evidence(rule: UpdateRule | None, source: str) -> str:
    """The same for a plan that follows an influence: of a form of SGD, or a given one."""
    if rule is None:
        return f"{source}; no training run has tested a plan from a given influence"
    shown = (
        f"{source}; trained, plans made from a measured spectrum lowered the loss of linear "
        "regressions by 0.1 to 4 % and were mixed on a small transformer (docs/small_study.md)"
    )
    if optimizer_of(rule) == MOMENTUM:
        shown += "; with momentum, plans over the range changed nothing there (docs/study.md)"
    return f"{shown}; {UNTRAINED}"


def trained_with(rule: Adam, gamma: FloatArray) -> tuple[Trained, ...]:
    """The runs with about these rates and these memories of both moments."""
    shape = shape_of(gamma)
    return tuple(
        runs
        for runs in TRAINED
        if runs.shape == shape
        and _same_memory(rule.beta1, BETA1)
        and _same_memory(rule.beta2, runs.beta2)
    )


def _same_memory(beta: float, trained: float) -> bool:
    ratio = (1.0 - beta) / (1.0 - trained)
    return abs(math.log(ratio)) <= math.log(SAME_MEMORY)
