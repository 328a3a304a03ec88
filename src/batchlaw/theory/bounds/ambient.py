"""The ambient problem behind a sketch: covariance H, sketch S, and the matrices they form.

H has eigenvalues lambda_1 >= ... >= lambda_d, and S (M, d) and the target w* are in H's
eigenbasis. A head is the first k coordinates; A_k = S_{k:} H_{k:} S_{k:}' is what the tail
contributes to Sigma.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.theory.bounds.bound import Condition


@dataclass(frozen=True, eq=False)
class Ambient:
    """H and S, checked once, and the matrices that the bounds need.

    Attributes
    ----------
    eigenvalues : (d,) array
        lambda_i of H, non-increasing and positive.
    sketch : (M, d) array
        S in H's eigenbasis.
    covariance : (M, M) array
        Sigma = S H S'.
    """

    eigenvalues: FloatArray
    sketch: FloatArray
    covariance: FloatArray

    @classmethod
    def of(cls, eigenvalues: ArrayLike, sketch: ArrayLike) -> Ambient:
        """Check the arrays and form Sigma."""
        lam = checks.vector("eigenvalues", eigenvalues, positive=True)
        S = np.ascontiguousarray(sketch, dtype=np.float64)
        if S.ndim != 2 or S.shape[1] != lam.size or S.shape[0] > lam.size:
            raise InputError(
                "sketch", f"must be (M, {lam.size}) with M at most {lam.size}", f"shape {S.shape}"
            )
        if (np.diff(lam) > 0.0).any():
            raise InputError("eigenvalues", "must be non-increasing", subject="eigenvalues of H")
        return cls(lam, S, (S * lam) @ S.T)

    @property
    def size(self) -> int:
        """M, the dimension of the sketch."""
        return int(self.sketch.shape[0])

    def head(self, k: int) -> FloatArray:
        """S_{0:k} H_{0:k}."""
        return self.sketch[:, :k] * self.eigenvalues[:k]

    def tail_covariance(self, k: int) -> FloatArray:
        """A_k."""
        tail = self.sketch[:, k:]
        return (tail * self.eigenvalues[k:]) @ tail.T

    def rank_condition(self, k: int) -> Condition:
        """rank(H) >= k + M, so that A_k is invertible."""
        return Condition(
            "rank", "rank(H) >= k + M", self.eigenvalues.size, k + self.size, at_least=True
        )

    def tail_ratio(self, k: int) -> float:
        """mu_{M/2}(A_k) / mu_M(A_k), infinite where A_k is singular."""
        spectrum = np.linalg.eigvalsh(self.tail_covariance(k))[::-1]
        if spectrum[-1] <= np.finfo(float).eps * spectrum[0]:
            return math.inf
        return float(spectrum[max(self.size // 2, 1) - 1] / spectrum[-1])

    def resolvent(self, k: int) -> float:
        """||Sigma^-1 S_{0:k} H_{0:k}||_2."""
        if k == 0:
            return 0.0
        return float(np.linalg.norm(np.linalg.solve(self.covariance, self.head(k)), 2))

    def optimum(self, target: FloatArray) -> FloatArray:
        """u* = Sigma^-1 S H w*."""
        sketched = self.sketch @ (self.eigenvalues * target)
        return np.asarray(np.linalg.solve(self.covariance, sketched), dtype=np.float64)

    def prior_covariance(self, energies: FloatArray) -> FloatArray:
        """Sigma_w = S H H_w H S' for E[w_i^2] = ``energies``."""
        return (self.sketch * (self.eigenvalues**2 * energies)) @ self.sketch.T


def with_target(
    eigenvalues: ArrayLike, sketch: ArrayLike, target: ArrayLike, field: str = "target"
) -> tuple[Ambient, FloatArray]:
    """H and S, and a vector of d entries: a target, or its energies as the argument ``field``."""
    ambient = Ambient.of(eigenvalues, sketch)
    w = np.ascontiguousarray(target, dtype=np.float64)
    if w.shape != ambient.eigenvalues.shape or not np.isfinite(w).all():
        raise InputError(
            field, f"must have {ambient.eigenvalues.size} finite entries", f"shape {w.shape}"
        )
    return ambient, w


def head_conditions(ambient: Ambient, k: int) -> tuple[Condition, ...]:
    """k <= M/3 and rank(H) >= k + M."""
    return (Condition("head-size", "k <= M/3", k, ambient.size / 3), ambient.rank_condition(k))
