"""Exact risks from moment recursions: no Monte Carlo."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from batchlaw import _check
from batchlaw._kernels import moments
from batchlaw.problem import Problem
from batchlaw.risk import Risk


def one_pass_risk(problem: Problem, rates: ArrayLike, batches: ArrayLike) -> Risk:
    r"""Exact expected risk of one-pass batch SGD, in O(T M) a schedule.

    For Gaussian features only the diagonals of the second moments matter. With
    h = (1 - gamma mu)^2, e = gamma^2/B and D x = mu^2 x + mu (mu . x), per step

        C_noise <- h C_noise + e (D C_noise + s2 mu)
        C_cov   <- h C_cov   + e D (C_cov + m^2)
        m^2     <- h m^2

    and Var = mu . (C_noise + C_cov), Bias = mu . m^2: the split of the paper's appendix F.
    Batches need not be whole numbers here. One schedule gives numbers, many give arrays.

    Parameters
    ----------
    rates : (T,) array
        Step sizes gamma_t.
    batches : (T,) or (S, T) array
        Batch sizes B_t.
    """
    gamma = _check.rates(rates, float(problem.eigenvalues[0]))
    sizes = _check.batches(batches, gamma.size, whole=False)
    parts = moments.one_pass_moments(
        problem.eigenvalues,
        problem.multiplicity,
        problem.target_energy,
        problem.noise_variance,
        gamma,
        sizes,
    )
    if not np.isfinite(parts).all():
        raise ValueError(
            f"peak rate {gamma.max():.6g} is unstable for batches as small as {sizes.min():g}: "
            "the second moment overflows although the mean contracts"
        )
    bias, noise, covariance = parts[0] if _check.is_single(batches) else parts.T
    return Risk(
        procedure="one-pass SGD",
        method="exact",
        irreducible=problem.irreducible,
        approximation=problem.approximation,
        bias=bias,
        variance=noise + covariance,
        variance_noise=noise,
        variance_covariance=covariance,
    )
