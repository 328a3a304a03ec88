"""The eigenbasis of a dataset's covariance, where gradient descent is elementwise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError, Unstable
from batchlaw.model.problem import Problem
from batchlaw.risk.runs import Dataset, check_dataset


@dataclass(frozen=True, eq=False)
class Empirical:
    """Features in the eigenbasis of Sigma_hat = Z^T Z / N, K = min(N, M) directions.

    Directions outside the basis are orthogonal to every sample: no step moves along them.

    Attributes
    ----------
    basis : (M, K) array
        Eigenvectors V.
    eigenvalues : (K,) array
        nu of Sigma_hat, descending.
    features : (N, K) array
        Z V.
    root : (K, M) array
        V^T Sigma^{1/2}: the norm |Sigma^{1/2} V x| is |x root|.
    """

    basis: FloatArray
    eigenvalues: FloatArray
    features: FloatArray
    root: FloatArray

    @classmethod
    def of(cls, problem: Problem, features: FloatArray) -> Empirical:
        left, singular, right = np.linalg.svd(features, full_matrices=False)
        return cls(
            basis=right.T,
            eigenvalues=singular**2 / features.shape[0],
            features=np.ascontiguousarray(left * singular),
            root=right * np.sqrt(problem.eigenvalues),
        )

    @property
    def covariance(self) -> FloatArray:
        """Sigma's block V^T Sigma V."""
        return self.root @ self.root.T

    def correlation(self, labels: FloatArray) -> FloatArray:
        """V^T b_hat for labels (N,)."""
        return self.features.T @ labels / labels.size


def filters(eigenvalues: FloatArray, rates: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Share of an initial error that GD leaves, f = prod_t (1 - gamma_t nu), and (1 - f)/nu.

    The response h = (1 - f)/nu is iterated, h <- (1 - gamma nu) h + gamma, without a division,
    so nu = 0 needs no special case.
    """
    survival, response = np.ones_like(eigenvalues), np.zeros_like(eigenvalues)
    for g in rates:
        factor = 1.0 - g * eigenvalues
        survival *= factor
        response = factor * response + g
    return survival, response


def responses(eigenvalues: FloatArray, rates: FloatArray) -> FloatArray:
    """The response (1 - f)/nu before each step, as a (T, K) array: theta_{t-1} = h_t b_hat."""
    before = np.zeros((rates.size, eigenvalues.size))
    for t in range(1, rates.size):
        before[t] = (1.0 - rates[t - 1] * eigenvalues) * before[t - 1] + rates[t - 1]
    return before


def survivals(eigenvalues: FloatArray, rates: FloatArray) -> FloatArray:
    """prod_{s>t} (1 - gamma_s nu) for every step, as a (T, K) array."""
    factors = np.ones((rates.size, eigenvalues.size))
    factors[:-1] = 1.0 - rates[1:, None] * eigenvalues
    return np.asarray(np.cumprod(factors[::-1], axis=0)[::-1], dtype=np.float64)


def check_features(problem: Problem, features: FloatArray) -> None:
    """Features must be coordinates in the eigenbasis of this problem."""
    M = problem.eigenvalues.size
    if features.shape[1] != M:
        raise InputError(
            "features",
            f"must have one column for each of the problem's {M} directions",
            f"{features.shape[1]}",
        )


def check_reused(problem: Problem, dataset: Dataset) -> Dataset:
    """The dataset as arrays, in the eigenbasis of this problem."""
    features, labels = check_dataset(dataset)
    check_features(problem, features)
    return features, labels


def check_finite(parts: FloatArray, rates: FloatArray, nu: FloatArray) -> None:
    """Refuse rates that are stable for Sigma but not for the covariance of this dataset."""
    if not np.isfinite(parts).all():
        raise Unstable(
            "rates",
            "is unstable on this dataset",
            hint=f"2 / largest eigenvalue of its covariance is {2.0 / nu[0]:.6g}, "
            "and batches scatter around it; the risk overflows",
            subject=f"peak rate {rates.max():.6g}",
        )
