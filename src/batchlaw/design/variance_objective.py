"""What ``optimal_batches`` minimises, with its slopes in all batch sizes at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw._base.kernels import adjoint
from batchlaw.model.problem import Problem
from batchlaw.risk.simple_recursion import LARGEST_SHARE


@dataclass(frozen=True)
class Objective:
    """Var and w_t = dVar/dx_t as functions of the batches, through shares x_t = scale/B_t - offset.

    Attributes
    ----------
    of_shares
        (T,) shares -> (Var, (T,) array w).
    scale
        1 for x_t = 1/B_t.
    offset
        0 for x_t = 1/B_t.
    """

    of_shares: Callable[[FloatArray], tuple[float, FloatArray]]
    scale: float = 1.0
    offset: float = 0.0

    def shares(self, batches: FloatArray) -> FloatArray:
        """x_t; rounding must not make a share negative."""
        return np.maximum(self.scale / batches - self.offset, 0.0)

    def __call__(self, batches: FloatArray) -> tuple[float, FloatArray]:
        return self.of_shares(self.shares(batches))


def plain_objective(
    problem: Problem,
    gamma: FloatArray,
    samples: int | None = None,
    replacement: bool = False,
) -> Objective:
    """Plain SGD: one-pass variance, or the expected fluctuation of multi-pass on N samples."""
    mu, n = problem.eigenvalues, problem.multiplicity
    shrink = (
        np.ones_like(gamma) if samples is None else _residual_shrinkage(problem, gamma, samples)
    )

    def of_shares(shares: FloatArray) -> tuple[float, FloatArray]:
        w = np.empty_like(gamma)
        state = (mu, n, problem.target_energy, problem.noise_variance)
        return float(adjoint.plain_slopes(*state, gamma, shrink, shares, w)), w

    if samples is None or replacement:
        return Objective(of_shares)
    # x_t = rho_t = (N - B)/(B (N - 1)).
    return Objective(of_shares, samples / (samples - 1.0), 1.0 / (samples - 1.0))


def _residual_shrinkage(problem: Problem, gamma: FloatArray, samples: int) -> FloatArray:
    """(1 - df_t/N)^2 before each step: training residuals are that much smaller than fresh ones."""
    degrees = np.empty(gamma.size + 1)
    adjoint.fitted(problem.eigenvalues, problem.multiplicity, gamma, degrees)
    if degrees[-1] > LARGEST_SHARE * samples:
        raise InputError(
            "samples",
            f"must be more for the expected fluctuation: it needs df/N of at most {LARGEST_SHARE}",
            f"{degrees[-1] / samples:.3g} with {samples}",
        )
    shrinkage: FloatArray = (1.0 - degrees[:-1] / samples) ** 2
    return shrinkage


def general_objective(problem: Problem, rule: FloatArray, weights: FloatArray) -> Objective:
    """One-pass variance with momentum (coefficients ``rule``) and averaging (``weights``)."""

    def of_shares(shares: FloatArray) -> tuple[float, FloatArray]:
        w = np.empty(shares.size)
        state = (problem.eigenvalues, problem.multiplicity, problem.target_energy)
        variance = adjoint.general_slopes(*state, problem.noise_variance, rule, weights, shares, w)
        return float(variance), w

    return Objective(of_shares)
