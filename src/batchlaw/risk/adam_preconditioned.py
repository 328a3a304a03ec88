"""Adam's mean field in a sketch's coordinates with a diagonal covariance: basis "sketch-diagonal".

The problem after preconditioning by diag(Sigma)^-1/2, in which Adam has one scale where noise sets
v; moments of many schedules, and slopes in the batches, in O(T M^2) per schedule.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw._base.kernels import adam_preconditioned as kernels
from batchlaw._base.kernels import adam_preconditioned_slopes as slopes_kernel
from batchlaw.model.problem import Problem
from batchlaw.risk.adam_diagonal import step_table
from batchlaw.schedule.adam import Adam
from batchlaw.schedule.averages import running_readout


class Preconditioned(NamedTuple):
    """H = s^-1/4 Sigma s^-1/4 with s = diag(Sigma), and the target in its coordinates.

    ``axes`` has an eigenvector of H per row and ``roots`` is s^1/2; for the rest see the kernel.
    """

    eigenvalues: FloatArray
    axes: FloatArray
    roots: FloatArray
    leverage: FloatArray
    likeness: float
    target: FloatArray
    residual_variance: float

    @classmethod
    def of(cls, problem: Problem) -> Preconditioned:
        sigma = problem.covariance
        roots = np.sqrt(np.diag(sigma))
        scale = np.sqrt(roots)
        H = sigma / np.outer(scale, scale)
        nu, vectors = np.linalg.eigh(H)
        axes = np.ascontiguousarray(vectors.T[::-1])
        squares = (sigma / np.outer(roots, roots)) ** 2
        M = roots.size
        return cls(
            np.maximum(nu[::-1], 0.0),
            axes,
            roots,
            axes**2 @ roots / roots.sum(),
            float(squares.sum() - M) / max(M * (M - 1), 1),
            scale * problem.target,
            problem.noise_variance,
        )


@lru_cache(maxsize=8)
def preconditioned(problem: Problem) -> Preconditioned:
    """That of a drawn problem; kept, because a search asks for it at every evaluation."""
    return Preconditioned.of(problem)


def preconditioned_moments(
    problem: Problem,
    rates: FloatArray,
    batches: FloatArray,
    rule: Adam,
    trajectory: bool = False,
    spread: bool = True,
    doubt: float = 0.0,
) -> FloatArray:
    """Bias and variance of Adam's readout, (S, 2) or with a trajectory (S, T + 1, 2).

    Without ``spread`` v is at its mean, as in ``preconditioned_slopes``; ``doubt`` is that of
    ``adam_matrix``.
    """
    out = np.empty((batches.shape[0], rates.size + 1 if trajectory else 1, 2))
    readout = running_readout(rule.readout(rates.size), rates.size)
    kernels.preconditioned_moments(
        tuple(preconditioned(problem)), step_table(rates, rule), rule.eps, readout, batches,
        float(spread), doubt, out,
    )  # fmt: skip
    return out if trajectory else out[:, 0]


def preconditioned_slopes(
    problem: Problem, rates: FloatArray, batches: FloatArray, rule: Adam
) -> tuple[float, FloatArray]:
    """The final excess with v at its mean, and its derivative in 1/B_t as (2, T): v, the noise."""
    if rule.averages:
        raise InputError("average", "needs basis eigen or generic for slopes in the batches")
    slopes = np.empty((rates.size, 2))
    readout = running_readout(None, rates.size)
    excess = slopes_kernel.preconditioned_slopes(
        tuple(preconditioned(problem)), step_table(rates, rule), rule.eps, readout, batches, slopes
    )
    return float(excess), slopes.T
