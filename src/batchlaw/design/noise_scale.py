"""The gradient noise scale: trace of the sample gradients' covariance over ``|mean|^2``."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base.checks import FloatArray
from batchlaw.model.problem import Problem
from batchlaw.schedule.update_rule import check_stable


def noise_scale_at(problem: Problem, squares: FloatArray) -> FloatArray:
    """B_noise at iterates whose errors m have these squares; infinite where the mean is zero.

    For Gaussian features the covariance of z (z.m - r) is Sigma (m.Sigma m + s2) +
    Sigma m m^T Sigma, and the mean is Sigma m.

    Parameters
    ----------
    problem
        Spectrum and noise.
    squares : (..., M) array
        m_j^2, or its expectation, per direction.
    """
    mu, multiplicity = problem.eigenvalues, problem.multiplicity
    mean = np.asarray(squares @ (multiplicity * mu**2))
    residual = squares @ (multiplicity * mu) + problem.noise_variance
    scale = np.full_like(mean, np.inf)
    np.divide(problem.trace * residual + mean, mean, out=scale, where=mean > 0.0)
    return scale


def noise_scales(problem: Problem, rates: ArrayLike) -> FloatArray:
    """B_noise of the mean iterate of plain SGD before every step.

    Parameters
    ----------
    problem
        Spectrum, target and noise.
    rates : (T,) array
        Step sizes gamma_t.
    """
    gamma = check_stable(rates, float(problem.eigenvalues[0]))
    square = problem.target_energy.copy()
    scale = np.empty(gamma.size)
    for t, g in enumerate(gamma):
        scale[t] = noise_scale_at(problem, square)
        square *= (1.0 - g * problem.eigenvalues) ** 2
    return scale
