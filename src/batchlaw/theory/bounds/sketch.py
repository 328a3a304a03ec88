"""Bounds on what a sketch does to the spectrum and the target: appendices C and K.

These need the ambient problem: the eigenvalues lambda_1 >= ... >= lambda_d of H, the sketch S
(M, d) in H's eigenbasis, and the target there. A head is the first k coordinates; A_k = S_{k:}
H_{k:} S_{k:}' is what the tail contributes to Sigma.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.theory.bounds.bound import Bound, Condition


@dataclass(frozen=True, eq=False)
class Ambient:
    """H and S, checked once, and the matrices that every bound of this file needs.

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
        seen = self.sketch @ (self.eigenvalues * target)
        return np.asarray(np.linalg.solve(self.covariance, seen), dtype=np.float64)

    def prior_covariance(self, energies: FloatArray) -> FloatArray:
        """Sigma_w = S H H_w H S' for E[w_i^2] = ``energies``."""
        return (self.sketch * (self.eigenvalues**2 * energies)) @ self.sketch.T


def approximation_upper(
    eigenvalues: ArrayLike, sketch: ArrayLike, target: ArrayLike, head: int | None = None
) -> Bound:
    r"""Approx <= 2 (||w_{k:}||_H^2 + w_{0:k}' (H_{0:k}^-1 + S_{0:k}' A_k^-1 S_{0:k})^-1 w_{0:k}).

    Lemma approx-upper (C.1), deterministic; 2 is the proof's constant. ``head`` is k, by
    default the paper's floor(M/2).
    """
    ambient, w = with_target(eigenvalues, sketch, target)
    k = ambient.size // 2 if head is None else head
    signal = ambient.eigenvalues * w**2
    u = ambient.optimum(w)
    kept = _head_matrix(ambient, k)
    upper = 2.0 * (float(signal[k:].sum()) + float(w[:k] @ kept @ w[:k]))
    return Bound(
        f"approximation error, head {k}",
        "C.1, lemma approx-upper",
        0.0,
        float(signal.sum() - u @ ambient.covariance @ u),
        upper,
        conditions=(ambient.rank_condition(k),),
    )


def approximation_spectral(
    eigenvalues: ArrayLike, sketch: ArrayLike, target: ArrayLike, head: int | None = None
) -> Bound:
    r"""Approx <~ ||w_{k:}||_H^2 + beta_k ||w_{0:k}||^2 (second part of lemma approx-upper, C.1).

    No constant. beta_k = sum_{i>k} lambda_i / M + lambda_{k+1} + sqrt(sum_{i>k} lambda_i^2 / M).
    """
    ambient, w = with_target(eigenvalues, sketch, target)
    k = ambient.size // 2 if head is None else head
    signal = ambient.eigenvalues * w**2
    u = ambient.optimum(w)
    return Bound(
        f"approximation error by the spectrum, head {k}",
        "C.1, lemma approx-upper (Gaussian sketch)",
        0.0,
        float(signal.sum() - u @ ambient.covariance @ u),
        float(signal[k:].sum()) + tail_scale(ambient, k) * float(w[:k] @ w[:k]),
        constant_explicit=False,
        conditions=(
            ambient.rank_condition(k),
            Condition("head-size", "k <= M/2", k, ambient.size / 2),
        ),
    )


def expected_approximation(
    eigenvalues: ArrayLike, sketch: ArrayLike, energies: ArrayLike, head: int | None = None
) -> Bound:
    r"""The approximation error averaged over targets with E[w_i^2] = ``energies``, uncorrelated.

    Below, the sum of all but the M largest lambda_i E[w_i^2] (lemma approx-lower, C.2); above,
    lemma approx-upper without its factor 2, since the cross terms average out. Deterministic.
    """
    ambient, energy = with_target(eigenvalues, sketch, energies)
    if (energy < 0.0).any():
        raise InputError("energies", "must be >= 0", hint="they are the means of w_i^2")
    k = ambient.size // 2 if head is None else head
    signal = ambient.eigenvalues * energy
    explained = np.linalg.solve(ambient.covariance, ambient.prior_covariance(energy))
    return Bound(
        f"approximation error over the prior, head {k}",
        "C.2, lemma approx-lower; C.1, lemma approx-upper",
        float(np.sort(signal)[::-1][ambient.size :].sum()),
        float(signal.sum() - np.trace(explained)),
        float(signal[k:].sum() + np.diag(_head_matrix(ambient, k)) @ energy[:k]),
        conditions=(ambient.rank_condition(k),),
    )


def approximation_order(eigenvalues: ArrayLike, sketch: ArrayLike, b: float) -> Bound:
    """E[Approx] ~ M^{1-b} for lambda_i E[w_i^2] = i^-b (lemma approx-final, C.3). No constant."""
    lam = checks.vector("eigenvalues", eigenvalues, positive=True)
    index = np.arange(1, lam.size + 1, dtype=np.float64)
    exact = expected_approximation(lam, sketch, index**-b / lam)
    order = float(np.shape(sketch)[0]) ** (1.0 - b)
    return Bound(
        "approximation error by the source exponent",
        "C.3, lemma approx-final; K, lemma aux-C5-E7",
        order,
        exact.value,
        order,
        constant_explicit=False,
        conditions=(Condition("source-exponent", "b > 1", b, 1.0, at_least=True),),
    )


def tail_concentration(eigenvalues: ArrayLike, sketch: ArrayLike, head: int) -> Bound:
    r"""||A_k - (sum_{i>k} lambda_i / M) I|| <~ lambda_{k+1} + sqrt(sum_{i>k} lambda_i^2 / M).

    Lemma aux-G2-E3 (K), with high probability over a Gaussian sketch. No constant.
    """
    ambient = Ambient.of(eigenvalues, sketch)
    tail = ambient.eigenvalues[head:]
    level = float(tail.sum()) / ambient.size
    spectrum = np.linalg.eigvalsh(ambient.tail_covariance(head)) - level
    return Bound(
        f"tail of the sketched covariance, head {head}",
        "K, lemma aux-G2-E3",
        0.0,
        float(np.abs(spectrum).max()),
        float(tail[0]) + math.sqrt(float(tail @ tail) / ambient.size),
        constant_explicit=False,
    )


def head_concentration(
    eigenvalues: ArrayLike, sketch: ArrayLike, head: int, *, as_printed: bool = False
) -> Bound:
    r"""max_{j<=k} |mu_j(Sigma_{0:k})/lambda_j - 1| <~ sqrt(k/M) + k/M.

    Lemma aux-G3-E4 (K). No constant. The paper prints k/M alone (``as_printed``), which is too
    small: at k = 1 the ratio is a chi-square with M degrees of freedom over M, whose spread is
    sqrt(2/M).
    """
    ambient = Ambient.of(eigenvalues, sketch)
    lam = ambient.eigenvalues[:head]
    # The k x k Gram matrix has the non-zero spectrum of Sigma_{0:k}.
    half = ambient.sketch[:, :head] * np.sqrt(lam)
    spectrum = np.linalg.eigvalsh(half.T @ half)[::-1]
    share = head / ambient.size
    return Bound(
        f"head of the sketched spectrum, head {head}" + " (as printed)" * as_printed,
        "K, lemma aux-G3-E4" + ("" if as_printed else ", corrected"),
        0.0,
        float(np.abs(spectrum / lam - 1.0).max()),
        share if as_printed else math.sqrt(share) + share,
        constant_explicit=False,
        conditions=(Condition("head-size", "k <= M", head, ambient.size),),
    )


def head_tail_comparison(
    eigenvalues: ArrayLike, sketch: ArrayLike, head: int, *, as_printed: bool = False
) -> Bound:
    r"""|mu_j(Sigma) - lambda_j - sum_{i>k} lambda_i / M| <~ s lambda_j + lambda_{k+1} + sqrt(...).

    Lemma aux-G1-E2 (K), one entry an eigenvalue, no constant. s = sqrt(k/M) + k/M; the paper
    prints k/M (``as_printed``), the same slip as in the head concentration.
    """
    ambient = Ambient.of(eigenvalues, sketch)
    lam, M = ambient.eigenvalues, ambient.size
    mu = np.linalg.eigvalsh(ambient.covariance)[::-1]
    tail = lam[head:]
    share = head / M if as_printed else math.sqrt(head / M) + head / M
    rest = float(tail[0]) + math.sqrt(float(tail @ tail) / M)
    return Bound(
        f"sketched eigenvalues, head {head}" + " (as printed)" * as_printed,
        "K, lemma aux-G1-E2" + ("" if as_printed else ", corrected"),
        np.zeros(M),
        np.abs(mu - lam[:M] - float(tail.sum()) / M),
        share * lam[:M] + rest,
        constant_explicit=False,
        conditions=(Condition("head-size", "k <= M", head, M),),
    )


def head_tail_resolvent(
    eigenvalues: ArrayLike, sketch: ArrayLike, head: int | None = None
) -> Bound:
    """||Sigma^-1 S_{0:k} H_{0:k}|| <~ mu_{M/2}(A_k)/mu_M(A_k) (K). No constant.

    Lemma aux-head-tail-resolvent, with high probability over a Gaussian sketch.
    """
    ambient = Ambient.of(eigenvalues, sketch)
    k = ambient.size // 3 if head is None else head
    return Bound(
        f"resolvent on the head, head {k}",
        "K, lemma aux-head-tail-resolvent",
        0.0,
        ambient.resolvent(k),
        ambient.tail_ratio(k),
        constant_explicit=False,
        conditions=head_conditions(ambient, k),
    )


def power_law_spectrum(eigenvalues: ArrayLike, a: float) -> Bound:
    """mu_j ~ j^-a (lemmas aux-G4-E5 and aux-2025-E8), one entry an eigenvalue. No constant.

    For Sigma, or for Sigma_hat with its min(M, N) largest eigenvalues.
    """
    mu = np.sort(checks.vector("eigenvalues", eigenvalues))[::-1]
    order = np.arange(1, mu.size + 1, dtype=np.float64) ** -a
    return Bound(
        "power law of the spectrum",
        "K, lemmas aux-G4-E5 and aux-2025-E8",
        order,
        mu,
        order,
        constant_explicit=False,
    )


def tail_spectral_ratio(eigenvalues: ArrayLike, sketch: ArrayLike, head: int) -> Bound:
    """mu_{M/2}(A_k)/mu_M(A_k) <= c for a power law (lemma aux-G5-E6). The constant is not given."""
    ambient = Ambient.of(eigenvalues, sketch)
    return Bound(
        f"spread of the tail's spectrum, head {head}",
        "K, lemma aux-G5-E6",
        1.0,
        ambient.tail_ratio(head),
        1.0,
        constant_explicit=False,
        conditions=(ambient.rank_condition(head),),
    )


def head_conditions(ambient: Ambient, k: int) -> tuple[Condition, ...]:
    """k <= M/3 and rank(H) >= k + M."""
    return (Condition("head-size", "k <= M/3", k, ambient.size / 3), ambient.rank_condition(k))


def tail_scale(ambient: Ambient, k: int) -> float:
    """beta_k of lemma approx-upper."""
    tail = ambient.eigenvalues[k:]
    M = ambient.size
    return float(tail.sum()) / M + float(tail[0]) + math.sqrt(float(tail @ tail) / M)


def _head_matrix(ambient: Ambient, k: int) -> FloatArray:
    """(H_{0:k}^-1 + S_{0:k}' A_k^-1 S_{0:k})^-1.

    By Woodbury H_{0:k} - H_{0:k} S_{0:k}' Sigma^-1 S_{0:k} H_{0:k}, which exists even where A_k is
    singular.
    """
    head = ambient.head(k)
    seen = head.T @ np.linalg.solve(ambient.covariance, head)
    return np.asarray(np.diag(ambient.eigenvalues[:k]) - seen, dtype=np.float64)


def with_target(
    eigenvalues: ArrayLike, sketch: ArrayLike, target: ArrayLike
) -> tuple[Ambient, FloatArray]:
    """H and S, and a vector of d entries: a target, or its energies."""
    ambient = Ambient.of(eigenvalues, sketch)
    w = np.ascontiguousarray(target, dtype=np.float64)
    if w.shape != ambient.eigenvalues.shape or not np.isfinite(w).all():
        raise InputError(
            "target", f"must have {ambient.eigenvalues.size} finite entries", f"shape {w.shape}"
        )
    return ambient, w
