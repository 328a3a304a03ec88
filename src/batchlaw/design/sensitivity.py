"""How the final excess responds to the batch of every update."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw.design.variance_objective import general_objective, plain_objective
from batchlaw.model.problem import Problem
from batchlaw.risk.adam_bases import SOLVERS
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.schedule.adam import Adam
from batchlaw.schedule.update_rule import UpdateRule, check_stable, linear, rule_of


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """Derivatives of the final excess in every batch B_t.

    Attributes
    ----------
    excess
        The final excess itself.
    deterministic : (T,) array
        Through the second moment v, by which Adam divides its steps; zero for SGD.
    noise : (T,) array
        Through the noise that the update injects.
    """

    excess: float
    deterministic: FloatArray
    noise: FloatArray

    @property
    def total(self) -> FloatArray:
        """d excess / d B_t."""
        return self.deterministic + self.noise

    def in_log(self, batches: ArrayLike) -> Sensitivity:
        """d excess / d log B_t, at the batches that it was computed for."""
        sizes = checks.batches(batches, self.noise.size, whole=False)[0]
        return Sensitivity(self.excess, sizes * self.deterministic, sizes * self.noise)


def sensitivity(
    problem: Problem, rates: ArrayLike, batches: ArrayLike, *, rule: UpdateRule | None = None
) -> Sensitivity:
    """d excess / d B_t for every update, by an adjoint recursion, split by cause.

    Exact for SGD. For Adam it is that of the mean field with v at its mean; what a batch does
    later, to v through the error and to the noise of other updates, is part of each.

    Parameters
    ----------
    problem
        Spectrum, target and noise; drawn, for Adam in the sketch's coordinates.
    rates : (T,) array
        Step sizes gamma_t.
    batches : (T,) array
        Batch sizes B_t.
    rule
        The update rule; plain SGD by default.
    """
    rule = rule_of(rule)
    if isinstance(rule, Adam):
        gamma = checks.vector("rates", rates)
        sizes = checks.batches(batches, gamma.size, whole=False)[0]
        excess, slopes = adam_slopes(problem, gamma, sizes, rule)
        by_v, by_noise = -slopes / sizes**2
        return Sensitivity(excess, by_v, by_noise)
    update = linear(rule, "the sensitivity")
    gamma = check_stable(rates, float(problem.eigenvalues[0]), update)
    sizes = checks.batches(batches, gamma.size, whole=False)[0]
    if update.plain:
        objective = plain_objective(problem, gamma)
    else:
        objective = general_objective(
            problem, update.coefficients(gamma), update.weights(gamma.size)
        )
    variance, w = objective(sizes)
    risk = one_pass_risk(problem, gamma, sizes, rule=update)
    return Sensitivity(float(risk.bias) + variance, np.zeros_like(w), -w / sizes**2)


def adam_slopes(
    problem: Problem, gamma: FloatArray, sizes: FloatArray, rule: Adam
) -> tuple[float, FloatArray]:
    """The excess with v at its mean and its slopes in 1/B_t, (2, T), in the rule's basis."""
    return SOLVERS[rule.basis].slopes(problem, gamma, sizes, rule)
