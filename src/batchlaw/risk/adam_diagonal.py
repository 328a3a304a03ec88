"""Adam's mean field where Sigma is diagonal: moments of many schedules, and slopes in the batches.

Serves ``basis="eigen"`` and ``basis="generic"``, on directions or nodes, in O(T M) per schedule.
"""

from __future__ import annotations

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw._base.kernels import adam_diagonal as kernels
from batchlaw._base.kernels.adam_diagonal_spread import adam_diagonal_moments
from batchlaw.model.problem import Problem
from batchlaw.schedule.adam import GENERIC, Adam
from batchlaw.schedule.averages import running_readout


def step_table(rates: FloatArray, rule: Adam, merged: FloatArray | None = None) -> FloatArray:
    """Rows (rate, keep, beta1, beta2, correct1, correct2, c) of the compiled loops.

    Parameters
    ----------
    rates : (T,) array
        Step sizes; where updates are merged, their mean within each row.
    rule
        Betas and weight decay.
    merged : (T,) array, optional
        c, how many updates each row stands for; 1 by default.
    """
    c = np.ones_like(rates) if merged is None else merged
    updates = np.cumsum(c)
    beta1, beta2 = rule.beta1**c, rule.beta2**c
    correct1 = 1.0 / -np.expm1(updates * np.log(rule.beta1)) if rule.beta1 else np.ones_like(c)
    correct2 = 1.0 / -np.expm1(updates * np.log(rule.beta2)) if rule.beta2 else np.ones_like(c)
    keep = (1.0 - rates * rule.weight_decay) ** c
    return np.stack([c * rates, keep, beta1, beta2, correct1, correct2, c], axis=1)


def diagonal_moments(
    problem: Problem,
    rates: FloatArray,
    batches: FloatArray,
    rule: Adam,
    trajectory: bool = False,
    spread: bool = False,
    doubt: float = 0.0,
) -> FloatArray:
    """Bias and variance of Adam's readout, (S, 2) or with a trajectory (S, T + 1, 2).

    With ``spread`` v varies around its mean, with ``doubt`` as in ``adam_matrix``; without, it is
    at its mean, as in ``diagonal_slopes``.
    """
    out = np.empty((batches.shape[0], rates.size + 1 if trajectory else 1, 2))
    readout = running_readout(rule.readout(rates.size), rates.size)
    generic = rule.basis == GENERIC
    if spread:
        betas = (rule.beta1, rule.beta2, rule.eps, rule.weight_decay)
        adam_diagonal_moments(
            *_state(problem), rates, batches, betas, readout, generic, 1.0, doubt, out
        )  # fmt: skip
    else:
        kernels.diagonal_moments(
            *_state(problem), step_table(rates, rule), readout, rule.eps, generic,
            1.0 / batches, out,
        )  # fmt: skip
    return out if trajectory else out[:, 0]


def diagonal_slopes(
    problem: Problem, rates: FloatArray, batches: FloatArray, rule: Adam
) -> tuple[float, FloatArray]:
    """The final excess, and its derivative in 1/B_t as a (2, T) array: through v, by the noise."""
    slopes = np.empty((rates.size, 2))
    readout = running_readout(rule.readout(rates.size), rates.size)
    excess = kernels.diagonal_slopes(
        *_state(problem), step_table(rates, rule), readout, rule.eps, rule.basis == GENERIC,
        1.0 / batches, slopes,
    )  # fmt: skip
    return float(excess), slopes.T


def _state(problem: Problem) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    multiplicity = np.asarray(problem.multiplicity, dtype=np.float64)
    return problem.eigenvalues, multiplicity, problem.target_energy, problem.noise_variance
