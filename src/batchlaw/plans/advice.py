"""What a plan is made for, and what comes out before it is written as stages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.batches.limits import Limits
from batchlaw.from_data.laws.training_law import TrainingLaw
from batchlaw.model.spectrum import Spectrum
from batchlaw.plans.verdict import Verdict
from batchlaw.plans.worth import LossLevel
from batchlaw.risk.procedure import Procedure
from batchlaw.schedule.update_rule import UpdateRule


@dataclass(frozen=True, eq=False)
class PlanTask:
    """The arguments of ``plan``, checked; ``rule`` is None where an influence includes it."""

    gamma: FloatArray
    samples: int
    limits: Limits
    run: Procedure
    rule: UpdateRule | None
    spectrum: Spectrum | None
    noise: ArrayLike | str | None
    whole_risk: bool
    score_rules: bool
    bold: bool
    loss: LossLevel | None
    law: TrainingLaw | None = None
    choose_steps: bool = False
    choose_peak: bool = False


@dataclass(frozen=True, eq=False)
class Advice:
    """Batches, their prediction by name, what it assumes, and the verdict.

    ``constant`` is the constant batch that the limits allow, with which all is compared, at equal
    samples where it can't spend them all. ``rates`` are those to use where they are not the given
    ones.
    """

    batches: FloatArray | IntArray
    constant: IntArray
    prediction: dict[str, float]
    assumptions: tuple[str, ...]
    verdict: Verdict
    rates: FloatArray | None = None


def equal_samples(constant: IntArray, batches: FloatArray | IntArray) -> FloatArray:
    """The constant batch, scaled to the samples of a schedule."""
    return np.asarray(constant * (float(batches.sum()) / float(constant.sum())))


def constant_words(constant: IntArray, samples: int) -> str:
    """The constant batch, and how much of the budget it leaves where that is more than 1 %."""
    low, high = int(constant.min()), int(constant.max())
    size = f"{low}" if low == high else f"{low} to {high}"
    spent = float(constant.sum()) / samples
    left = f" (it spends {100 * spent:.0f} % of the samples; compared at equal samples)"
    return f"against a constant batch of {size}{'' if spent > 0.99 else left}"
