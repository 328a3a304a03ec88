"""Gradient noise that changes along a run, and the influence weighted by it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.kernels import adjoint
from batchlaw.model.problem import Problem
from batchlaw.schedule.update_rule import UpdateRule, check_stable, linear


def model_noise(
    problem: Problem, rates: ArrayLike, *, rule: UpdateRule | None = None
) -> FloatArray:
    """s2 + bias_t before each step: the model's mean squared residual without batch noise.

    The bias is that of the mean iterate, at the point where the step takes its gradient. For
    ``plan_weights``; a pilot run's loss before each step serves as well.

    Parameters
    ----------
    problem
        Its noise variance s2 and target set the level.
    rates : (T,) array
        Step sizes gamma_t.
    rule
        The update rule, ``bl.sgd(...)``; plain SGD by default.
    """
    update = linear(rule, "the model's noise")
    gamma = check_stable(rates, float(problem.eigenvalues[0]), update)
    levels = np.empty(gamma.size)
    state = (problem.eigenvalues, problem.multiplicity, problem.target_energy)
    adjoint.mean_levels(*state, update.coefficients(gamma), levels)
    return problem.noise_variance + levels


def plan_weights(influence: ArrayLike, noise: ArrayLike) -> FloatArray:
    """kappa_t times the noise level of step t: ``allocate`` then follows sqrt(kappa_t noise_t).

    The oracle takes the noise as constant; along a run it falls with the training
    residual. Only ratios between steps matter, so any quantity proportional to the loss will do.

    Parameters
    ----------
    influence : (T,) array
        kappa_t.
    noise : (T,) array
        Noise level of each step, up to a factor; ``model_noise`` or a pilot run's loss.
    """
    kappa = checks.vector("influence", influence)
    level = checks.vector("noise", noise)
    checks.same_length("noise", level.size, kappa.size, "steps")
    # Scaled first, so that neither factor can overflow the product.
    return np.asarray(kappa / max(kappa.max(), np.finfo(float).tiny) * level)
