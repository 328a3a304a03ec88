"""Adam's mean field in the coordinates of a drawn problem's sketch: moments of many schedules."""

from __future__ import annotations

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw._base.kernels.adam_matrix import adam_moments
from batchlaw.model.problem import Problem
from batchlaw.schedule.adam import Adam
from batchlaw.schedule.averages import running_readout


def matrix_moments(
    problem: Problem,
    rates: FloatArray,
    batches: FloatArray,
    rule: Adam,
    trajectory: bool = False,
    spread: bool = True,
    doubt: float = 0.0,
) -> FloatArray:
    """Bias and variance of Adam's readout, (S, 2) or with a trajectory (S, T + 1, 2).

    Without ``spread`` v is at its mean. ``doubt`` raises the noise where v and the error are not
    independent, by that share at most. A step costs three products with Sigma, two without
    momentum, and one more with an average.
    """
    out = np.empty((batches.shape[0], rates.size + 1 if trajectory else 1, 2))
    adam_moments(
        problem.covariance,
        problem.target,
        problem.noise_variance,
        rates,
        batches,
        (rule.beta1, rule.beta2, rule.eps, rule.weight_decay),
        running_readout(rule.readout(rates.size), rates.size),
        float(spread),
        doubt,
        out,
    )
    return out if trajectory else out[:, 0]
