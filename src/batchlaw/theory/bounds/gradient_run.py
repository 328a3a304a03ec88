"""Gradient descent on one dataset: the run that multi-pass SGD fluctuates around."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.model.problem import Problem
from batchlaw.risk.runs import Dataset, check_dataset
from batchlaw.theory.bounds.kernels import EmpiricalSpectrum, step_survival


@dataclass(frozen=True, eq=False)
class GradientRun:
    """Gradient descent on a dataset.

    Attributes
    ----------
    features, labels, rates
        The data in Sigma's eigenbasis, and gamma_t.
    spectrum
        Sigma_hat, and the features in its eigenbasis.
    residuals : (T, N) array
        y - Z theta_{t-1} before every step.
    noise_ceiling
        sigma_xi^2 = 2 max_{i,t} [(z_i . (theta_{t-1} - u*))^2 + e_i^2] with e = y - Z u*.
    """

    features: FloatArray
    labels: FloatArray
    rates: FloatArray
    spectrum: EmpiricalSpectrum
    residuals: FloatArray
    noise_ceiling: float

    @classmethod
    def of(cls, problem: Problem, dataset: Dataset, rates: ArrayLike) -> GradientRun:
        """Check the dataset and run all steps from zero."""
        features, labels = check_dataset(dataset)
        gamma = checks.vector("rates", rates)
        check_width(problem, features)
        spectrum = EmpiricalSpectrum.of(features)
        forcing = spectrum.features.T @ labels / labels.size
        theta = np.zeros_like(forcing)
        residuals = np.empty((gamma.size, labels.size))
        for t, rate in enumerate(gamma):
            residuals[t] = labels - spectrum.features @ theta
            theta = theta - rate * (spectrum.eigenvalues * theta - forcing)
        noise = labels - features @ problem.optimum
        # z . (theta - u*) = e - residual.
        ceiling = 2.0 * float(((noise - residuals) ** 2 + noise**2).max())
        return cls(features, labels, gamma, spectrum, residuals, ceiling)

    def first_order(self, eigenvalues: FloatArray) -> FloatArray:
        """tr(Sigma P_t G_t P_t) at every step; G_t = Z' diag(r^2) Z/N - q q', q = Z' r/N."""
        Z, N = self.spectrum.features, self.labels.size
        sigma = (self.spectrum.basis.T * eigenvalues) @ self.spectrum.basis
        survival = step_survival(self.spectrum.eigenvalues, self.rates)
        traces = np.empty(self.rates.size)
        for t, residual in enumerate(self.residuals):
            adjoint = np.outer(survival[t], survival[t]) * sigma
            q = residual @ Z / N
            weights = np.einsum("ij,ij->i", Z @ adjoint, Z)
            traces[t] = float(residual**2 @ weights) / N - float(q @ adjoint @ q)
        return traces


def check_width(problem: Problem, features: FloatArray, field: str = "dataset") -> None:
    """Refuse features that do not have one column per direction of the problem."""
    if features.shape[1] != problem.eigenvalues.size:
        raise InputError(
            field, f"must have {problem.eigenvalues.size} features", f"{features.shape[1]}"
        )
