"""Bounds on what a sketch does to the spectrum and the target: appendices C and K.

Notation is that of ``ambient``: H, S, w*, heads and A_k.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.theory.bounds.ambient import Ambient, head_conditions, with_target
from batchlaw.theory.bounds.bound import Bound, Condition
from batchlaw.theory.bounds.power_law import power_law_conditions


def approximation_upper(
    eigenvalues: ArrayLike, sketch: ArrayLike, target: ArrayLike, head: int | None = None
) -> Bound:
    r"""Approx <= 2 (||w_{k:}||_H^2 + w_{0:k}' (H_{0:k}^-1 + S_{0:k}' A_k^-1 S_{0:k})^-1 w_{0:k}).

    Lemma approx-upper (C.1), deterministic; 2 is the proof's constant.

    Parameters
    ----------
    eigenvalues : (d,) array
        lambda_i of H, non-increasing.
    sketch : (M, d) array
        S in H's eigenbasis.
    target : (d,) array
        w* in H's eigenbasis.
    head
        k; the paper's floor(M/2) if None.
    """
    ambient, w = with_target(eigenvalues, sketch, target)
    k = ambient.size // 2 if head is None else head
    signal = ambient.eigenvalues * w**2
    u = ambient.optimum(w)
    missed = _head_matrix(ambient, k)
    upper = 2.0 * (float(signal[k:].sum()) + float(w[:k] @ missed @ w[:k]))
    return Bound(
        f"approximation error, head {k}",
        "C.1, lemma approx-upper",
        0.0,
        float(signal.sum() - u @ ambient.covariance @ u),
        upper,
        conditions=(ambient.rank_condition(k),),
        terms=float(signal.sum()),
    )


def approximation_spectral(
    eigenvalues: ArrayLike, sketch: ArrayLike, target: ArrayLike, head: int | None = None
) -> Bound:
    r"""Approx <~ ||w_{k:}||_H^2 + beta_k ||w_{0:k}||^2 (second part of lemma approx-upper, C.1).

    No constant. beta_k = sum_{i>k} lambda_i / M + lambda_{k+1} + sqrt(sum_{i>k} lambda_i^2 / M).

    Parameters
    ----------
    eigenvalues : (d,) array
        lambda_i of H, non-increasing.
    sketch : (M, d) array
        S in H's eigenbasis.
    target : (d,) array
        w* in H's eigenbasis.
    head
        k; the paper's floor(M/2) if None.
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
        terms=float(signal.sum()),
    )


def expected_approximation(
    eigenvalues: ArrayLike, sketch: ArrayLike, energies: ArrayLike, head: int | None = None
) -> Bound:
    r"""The approximation error averaged over targets with E[w_i^2] = ``energies``, uncorrelated.

    Below, the sum of all but the M largest lambda_i E[w_i^2] (lemma approx-lower, C.2); above,
    lemma approx-upper without its factor 2, since the cross terms average out. Deterministic.

    Parameters
    ----------
    eigenvalues : (d,) array
        lambda_i of H, non-increasing.
    sketch : (M, d) array
        S in H's eigenbasis.
    energies : (d,) array
        E[w_i^2].
    head
        k; the paper's floor(M/2) if None.
    """
    ambient, energy = with_target(eigenvalues, sketch, energies, "energies")
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
        terms=float(signal.sum()),
    )


def approximation_order(eigenvalues: ArrayLike, sketch: ArrayLike, b: float) -> Bound:
    """E[Approx] ~ M^{1-b} for lambda_i E[w_i^2] = i^-b (lemma approx-final, C.3). No constant.

    Needs b < a + 1 with lambda_i ~ i^-a (assumption of C.3; lemma aux-C5-E7 omits it): beyond,
    what the sketch loses of the first coordinates, of order M^-a, is more.

    Parameters
    ----------
    eigenvalues : (d,) array
        lambda_i of H, non-increasing.
    sketch : (M, d) array
        S in H's eigenbasis.
    b
        Source exponent, lambda_i E[w_i^2] = i^-b.
    """
    lam = checks.vector("eigenvalues", eigenvalues, positive=True)
    index = np.arange(1, lam.size + 1, dtype=np.float64)
    exact = expected_approximation(lam, sketch, index**-b / lam)
    a, power_law = power_law_conditions(lam)
    order = float(np.shape(sketch)[0]) ** (1.0 - b)
    return Bound(
        "approximation error by the source exponent",
        "C.3, lemma approx-final; K, lemma aux-C5-E7",
        order,
        exact.value,
        order,
        constant_explicit=False,
        conditions=(
            Condition("source-exponent", "b > 1", b, math.nextafter(1.0, 2.0), at_least=True),
            Condition("source-below-spectrum", "b < a + 1", b, math.nextafter(a + 1.0, 0.0)),
            *power_law,
            *exact.conditions,
        ),
        terms=exact.terms,
    )


def tail_concentration(eigenvalues: ArrayLike, sketch: ArrayLike, head: int) -> Bound:
    r"""||A_k - (sum_{i>k} lambda_i / M) I|| <~ lambda_{k+1} + sqrt(sum_{i>k} lambda_i^2 / M).

    Lemma aux-G2-E3 (K), with high probability over a Gaussian sketch. No constant.

    Parameters
    ----------
    eigenvalues : (d,) array
        lambda_i of H, non-increasing.
    sketch : (M, d) array
        S in H's eigenbasis.
    head
        k, the number of coordinates in the head.
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
    r"""``max_{j<=k} |mu_j(Sigma_{0:k})/lambda_j - 1| <~ sqrt(k/M) + k/M``.

    Lemma aux-G3-E4 (K). No constant. The paper prints k/M alone (``as_printed``), which is too
    small: at k = 1 the ratio is a chi-square with M degrees of freedom over M, with standard
    deviation sqrt(2/M).

    Parameters
    ----------
    eigenvalues : (d,) array
        lambda_i of H, non-increasing.
    sketch : (M, d) array
        S in H's eigenbasis.
    head
        k, the number of coordinates in the head.
    as_printed
        The paper's k/M alone for the upper side.
    """
    ambient = Ambient.of(eigenvalues, sketch)
    lam = ambient.eigenvalues[:head]
    # The k x k Gram matrix has the nonzero eigenvalues of Sigma_{0:k}.
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
        terms=1.0,
    )


def head_tail_comparison(
    eigenvalues: ArrayLike, sketch: ArrayLike, head: int, *, as_printed: bool = False
) -> Bound:
    r"""Distance of mu_j(Sigma) from lambda_j + sum_{i>k} lambda_i / M, one entry per eigenvalue.

    It is <~ s lambda_j + lambda_{k+1} + sqrt(sum_{i>k} lambda_i^2 / M), without a constant (lemma
    aux-G1-E2, K). s = sqrt(k/M) + k/M; the paper prints k/M (``as_printed``), the same slip as
    in ``head_concentration``.

    Parameters
    ----------
    eigenvalues : (d,) array
        lambda_i of H, non-increasing.
    sketch : (M, d) array
        S in H's eigenbasis.
    head
        k, the number of coordinates in the head.
    as_printed
        The paper's s = k/M.
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
        terms=float(mu[0]),
    )


def head_tail_resolvent(
    eigenvalues: ArrayLike, sketch: ArrayLike, head: int | None = None
) -> Bound:
    """||Sigma^-1 S_{0:k} H_{0:k}|| <~ mu_{M/2}(A_k)/mu_M(A_k) (K). No constant.

    Lemma aux-head-tail-resolvent, with high probability over a Gaussian sketch.

    Parameters
    ----------
    eigenvalues : (d,) array
        lambda_i of H, non-increasing.
    sketch : (M, d) array
        S in H's eigenbasis.
    head
        k; floor(M/3) if None.
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
    """mu_j ~ j^-a (lemmas aux-G4-E5 and aux-2025-E8), one entry per eigenvalue. No constant.

    ``eigenvalues`` are those of Sigma, or the min(M, N) largest of Sigma_hat.
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
    """mu_{M/2}(A_k)/mu_M(A_k) <= c for a power law (lemma aux-G5-E6). The constant is not given.

    Parameters
    ----------
    eigenvalues : (d,) array
        lambda_i of H, non-increasing.
    sketch : (M, d) array
        S in H's eigenbasis.
    head
        k, the number of coordinates in the head.
    """
    ambient = Ambient.of(eigenvalues, sketch)
    return Bound(
        f"spread of the tail's spectrum, head {head}",
        "K, lemma aux-G5-E6",
        1.0,
        ambient.tail_ratio(head),
        1.0,
        constant_explicit=False,
        conditions=(
            ambient.rank_condition(head),
            *power_law_conditions(ambient.eigenvalues)[1],
        ),
    )


def tail_scale(ambient: Ambient, k: int) -> float:
    """beta_k of lemma approx-upper."""
    tail = ambient.eigenvalues[k:]
    M = ambient.size
    return float(tail.sum()) / M + float(tail[0]) + math.sqrt(float(tail @ tail) / M)


def _head_matrix(ambient: Ambient, k: int) -> FloatArray:
    """(H_{0:k}^-1 + S_{0:k}' A_k^-1 S_{0:k})^-1.

    By Woodbury H_{0:k} - H_{0:k} S_{0:k}' Sigma^-1 S_{0:k} H_{0:k}, which exists even if A_k is
    singular.
    """
    head = ambient.head(k)
    explained = head.T @ np.linalg.solve(ambient.covariance, head)
    return np.asarray(np.diag(ambient.eigenvalues[:k]) - explained, dtype=np.float64)
