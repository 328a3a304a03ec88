"""Bounds on the bias of one-pass SGD and of gradient descent: appendices G and D.

A is the mass of the rates, c0 = gamma mu_1. Both biases are ||Sigma^1/2 C u*||^2 with
C = prod_t (I - gamma_t Sigma), or Sigma_hat in place of Sigma and the mean over datasets.
``features`` are (N, M), or (R, N, M) for R datasets whose average estimates that mean, in the
coordinates of the sketch.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.model.problem import Problem
from batchlaw.schedule.update_rule import check_stable
from batchlaw.theory.bounds.ambient import Ambient, head_conditions, with_target
from batchlaw.theory.bounds.bound import Bound, Condition
from batchlaw.theory.bounds.power_law import power_law_conditions
from batchlaw.theory.bounds.schedule import contraction


def one_pass_bias_simple(problem: Problem, rates: ArrayLike) -> Bound:
    r"""Bias_T <= ||u*||^2 / (2 e A) (lemma batch-bias-upper, last display, G.1).

    The proof's constant: max_x x exp(-2 A x) = 1/(2 e A).
    """
    mu = problem.eigenvalues
    gamma = check_stable(rates, float(mu[0]))
    shrink = np.ones_like(mu)
    for rate in gamma:
        shrink *= (1.0 - rate * mu) ** 2
    energy = problem.multiplicity * problem.target_energy
    return Bound(
        "one-pass bias by ||u*||",
        "G.1, lemma batch-bias-upper (second)",
        0.0,
        float((mu * shrink) @ energy),
        float(energy.sum()) * _peak(gamma),
        conditions=(contraction(float(gamma.max() * mu[0])),),
    )


def one_pass_bias_upper(
    eigenvalues: ArrayLike,
    sketch: ArrayLike,
    target: ArrayLike,
    rates: ArrayLike,
    head: int | None = None,
    *,
    as_printed: bool = False,
) -> Bound:
    r"""Bias_T <= 2 (||w_{0:k}||^2 r_k^2 / (2 e A) + ||w_{k:}||_H^2) (lemma batch-bias-upper, G.1).

    r_k = ||Sigma^-1 S_{0:k} H_{0:k}||, which the paper replaces by mu_{M/2}(A_k)/mu_M(A_k) times
    a constant that it does not give (``as_printed``). Any k up to M/3 is valid.

    Parameters
    ----------
    eigenvalues : (d,) array
        lambda_i of H, non-increasing.
    sketch : (M, d) array
        S in H's eigenbasis.
    target : (d,) array
        w* in H's eigenbasis.
    rates : (T,) array
        gamma_t.
    head
        k; the paper's min(M/3, A^{1/a}) if None.
    as_printed
        Use mu_{M/2}(A_k)/mu_M(A_k) in place of r_k, without constants.
    """
    ambient, w = with_target(eigenvalues, sketch, target)
    mu, basis = np.linalg.eigh(ambient.covariance)
    gamma = check_stable(rates, float(mu[-1]))
    k = default_head(ambient, gamma) if head is None else head
    u = basis.T @ ambient.optimum(w)
    head_energy = float(w[:k] @ w[:k])
    tail_energy = float(ambient.eigenvalues[k:] @ w[k:] ** 2)
    if as_printed:
        upper = head_energy / float(gamma.sum()) * ambient.tail_ratio(k) ** 2 + tail_energy
    else:
        upper = 2.0 * (head_energy * _peak(gamma) * ambient.resolvent(k) ** 2 + tail_energy)
    return Bound(
        f"one-pass bias, head {k}" + " (as printed)" * as_printed,
        "G.1, lemma batch-bias-upper",
        0.0,
        float(mu @ (_products(mu, gamma) * u) ** 2),
        upper,
        constant_explicit=not as_printed,
        conditions=(*head_conditions(ambient, k), contraction(float(gamma.max() * mu[-1]))),
    )


def one_pass_bias_lower(
    eigenvalues: ArrayLike,
    sketch: ArrayLike,
    energies: ArrayLike,
    rates: ArrayLike,
    *,
    cutoff: bool = True,
) -> Bound:
    r"""E_w[Bias_T] >= e^{-C} sum over mu_i < 1/A of mu_i(Sigma_w)/mu_i (G.1).

    Lemma batch-bias-lower; C = 2/(1 - c0) by the product calculus. Without ``cutoff``, the
    proof's sum before it drops the other directions: sum_i exp(-C A mu_i) mu_i(Sigma_w)/mu_i.

    Parameters
    ----------
    eigenvalues : (d,) array
        lambda_i of H, non-increasing.
    sketch : (M, d) array
        S in H's eigenbasis.
    energies : (d,) array
        E[w_i^2].
    rates : (T,) array
        gamma_t.
    cutoff
        Whether to sum over mu_i < 1/A only, as the lemma does.
    """
    ambient, energy = with_target(eigenvalues, sketch, energies, "energies")
    mu, basis = np.linalg.eigh(ambient.covariance)
    gamma = check_stable(rates, float(mu[-1]))
    prior = ambient.prior_covariance(energy)
    terms = np.linalg.eigvalsh(prior) / mu
    c0, mass = float(gamma.max() * mu[-1]), float(gamma.sum())
    C = 2.0 / (1.0 - c0) if c0 < 1.0 else math.inf
    survival = np.where(mu < 1.0 / mass, math.exp(-C), 0.0) if cutoff else np.exp(-C * mass * mu)
    spread = np.einsum("ij,ik,kj->j", basis, prior, basis, optimize=True)
    return Bound(
        "one-pass bias over the prior" + ("" if cutoff else " (no cutoff)"),
        "G.1, lemma batch-bias-lower",
        float(survival @ terms),
        float((_products(mu, gamma) ** 2 / mu) @ spread),
        math.inf,
        conditions=(contraction(c0),),
    )


def gd_bias_upper(
    eigenvalues: ArrayLike,
    sketch: ArrayLike,
    target: ArrayLike,
    rates: ArrayLike,
    features: ArrayLike,
    head: int | None = None,
) -> Bound:
    r"""Bias_GD <= 2 (||w_{0:k}||^2 r_k^2 m_1 + ||w_{k:}||_H^2 m_2) (proof of gd-bias-upper, D.1).

    Given the datasets, with every norm measured instead of bounded: r_k is the resolvent,
    m_1 = (1/(2 e A) + 1/A) ||(Sigma_hat + 1/A)^-1/2 Sigma^1/2||^2 >= ||C Sigma C||, and
    m_2 = ||Sigma^-1/2 C Sigma C Sigma^-1/2||.

    Parameters
    ----------
    eigenvalues : (d,) array
        lambda_i of H, non-increasing.
    sketch : (M, d) array
        S in H's eigenbasis.
    target : (d,) array
        w* in H's eigenbasis.
    rates : (T,) array
        gamma_t.
    features : (N, M) or (R, N, M) array
        One dataset, or R of them to average over, in the sketch's coordinates.
    head
        k; the paper's min(M/3, A^{1/a}) if None.
    """
    ambient, w = with_target(eigenvalues, sketch, target)
    gamma = checks.vector("rates", rates)
    k = default_head(ambient, gamma) if head is None else head
    u = ambient.optimum(w)
    head_factor = float(w[:k] @ w[:k]) * ambient.resolvent(k) ** 2
    tail_energy = float(ambient.eigenvalues[k:] @ w[k:] ** 2)
    ridge = 1.0 / float(gamma.sum())
    half = _root(ambient.covariance)
    value = upper = top = 0.0
    data = stacked(features, ambient.size)
    for Z in data:
        nu, basis = np.linalg.eigh(Z.T @ Z / Z.shape[0])
        C = (basis * _products(nu, gamma)) @ basis.T
        value += float(np.sum((half @ C @ u) ** 2))
        m1 = (_peak(gamma) + ridge) * replacement_norm(ambient.covariance, nu, basis, ridge)
        m2 = float(np.linalg.norm(half @ C @ np.linalg.inv(half), 2)) ** 2
        upper += 2.0 * (head_factor * m1 + tail_energy * m2)
        top = max(top, float(nu[-1]))
    return Bound(
        f"GD bias given the data, head {k}",
        "D.1, proof of lemma gd-bias-upper",
        0.0,
        value / len(data),
        upper / len(data),
        conditions=(ambient.rank_condition(k), contraction(float(gamma.max()) * top)),
    )


def gd_bias_order(
    eigenvalues: ArrayLike,
    sketch: ArrayLike,
    target: ArrayLike,
    rates: ArrayLike,
    features: ArrayLike,
    head: int | None = None,
) -> Bound:
    r"""Bias_GD <~ ||w_{0:k}||^2/A (mu_{M/2}(A_k)/mu_M(A_k))^2 + Bbar ||w_{k:}||_H^2. No constant.

    Lemma gd-bias-upper (D.1). Bbar = 1 + (A^2 + 1)(tr(T)^2/N^2 + ||T||^2 + tr(T^2)/N
    + sqrt(tr(T^4)/N)), where T holds the eigenvalues of Sigma after the first ceil(N/2).

    Parameters
    ----------
    eigenvalues : (d,) array
        lambda_i of H, non-increasing.
    sketch : (M, d) array
        S in H's eigenbasis.
    target : (d,) array
        w* in H's eigenbasis.
    rates : (T,) array
        gamma_t.
    features : (N, M) or (R, N, M) array
        One dataset, or R of them to average over, in the sketch's coordinates.
    head
        k; the paper's min(M/3, A^{1/a}) if None.
    """
    explicit = gd_bias_upper(eigenvalues, sketch, target, rates, features, head)
    ambient, w = with_target(eigenvalues, sketch, target)
    gamma = checks.vector("rates", rates)
    k = default_head(ambient, gamma) if head is None else head
    data = stacked(features, ambient.size)
    N, mass, peak = data.shape[1], float(gamma.sum()), float(gamma.max())
    largest = float(np.einsum("rij,rij->ri", data, data).max())
    a, power_law = power_law_conditions(ambient.eigenvalues)
    T = np.linalg.eigvalsh(ambient.covariance)[::-1][math.ceil(N / 2) :]
    tail = 0.0
    if T.size:
        tail = float(T.sum() ** 2 / N**2 + T[0] ** 2 + (T**2).sum() / N)
        tail += math.sqrt(float((T**4).sum()) / N)
    factor = 1.0 + (mass**2 + 1.0) * tail
    upper = float(w[:k] @ w[:k]) / mass * ambient.tail_ratio(k) ** 2
    upper += factor * float(ambient.eigenvalues[k:] @ w[k:] ** 2)
    dimension = effective_dimension(np.linalg.eigvalsh(ambient.covariance), 1.0 / mass)
    return Bound(
        f"GD bias, head {k}",
        "D.1, lemma gd-bias-upper",
        0.0,
        explicit.value,
        upper,
        constant_explicit=False,
        conditions=(
            *explicit.conditions,
            Condition("head-size", "k <= M/3", k, ambient.size / 3),
            Condition("effective-dimension", "effective dimension at 1/A <= N/4", dimension, N / 4),
            Condition("largest-norm", "gamma max ||z_i||^2 <= 1/8", peak * largest, 0.125),
            Condition("mass-below-spectrum", "A <= N^a", mass ** (1.0 / a), N),
            *power_law,
        ),
    )


def gd_bias_lower(
    eigenvalues: ArrayLike,
    sketch: ArrayLike,
    energies: ArrayLike,
    rates: ArrayLike,
    features: ArrayLike,
) -> Bound:
    r"""E_w[Bias_GD] >= (c^2/4) sum_{i=ceil(2 tau)+1}^{M/3} mu_{3i}(Sigma_w)/mu_i (D.1).

    Lemma gd-bias-lower; c = exp(-1/(4 (1 - c0))) by the product calculus, tau the mean number of
    eigenvalues of Sigma_hat above 1/(4A). It compares means over datasets: with few datasets it
    can fail by chance.

    Parameters
    ----------
    eigenvalues : (d,) array
        lambda_i of H, non-increasing.
    sketch : (M, d) array
        S in H's eigenbasis.
    energies : (d,) array
        E[w_i^2].
    rates : (T,) array
        gamma_t.
    features : (N, M) or (R, N, M) array
        One dataset, or R of them to average over, in the sketch's coordinates.
    """
    ambient, energy = with_target(eigenvalues, sketch, energies, "energies")
    gamma = checks.vector("rates", rates)
    mass, M = float(gamma.sum()), ambient.size
    mu = np.linalg.eigvalsh(ambient.covariance)[::-1]
    prior = ambient.prior_covariance(energy)
    half = _root(ambient.covariance)
    spread = np.linalg.solve(ambient.covariance, np.linalg.solve(ambient.covariance, prior).T)
    value = count = top = 0.0
    data = stacked(features, M)
    for Z in data:
        nu, basis = np.linalg.eigh(Z.T @ Z / Z.shape[0])
        C = half @ (basis * _products(nu, gamma)) @ basis.T
        value += float(np.sum((C @ spread) * C)) / len(data)
        count += float((nu * mass > 0.25).sum()) / len(data)
        top = max(top, float(nu[-1]))
    i = np.arange(math.ceil(2.0 * count) + 1, M // 3 + 1)
    order = float((np.linalg.eigvalsh(prior)[::-1][3 * i - 1] / mu[i - 1]).sum())
    c0 = float(gamma.max()) * top
    share = math.exp(-0.5 / (1.0 - c0)) / 4.0 if c0 < 1.0 else 0.0
    return Bound(
        "GD bias over the prior",
        "D.1, lemma gd-bias-lower",
        share * order,
        value,
        math.inf,
        conditions=(contraction(c0),),
    )


def default_head(ambient: Ambient, rates: FloatArray) -> int:
    """The paper's head size, min(M/3, A^{1/a}), with a read off H's spectrum."""
    lam = ambient.eigenvalues
    a = -math.log(float(lam[-1] / lam[0])) / math.log(lam.size) if lam.size > 1 else 2.0
    learned = float(rates.sum()) ** (1.0 / a) if a > 0.0 else 0.0
    return int(min(ambient.size // 3, lam.size - ambient.size, learned))


def effective_dimension(
    eigenvalues: NDArray[Any], ridge: float, multiplicity: NDArray[Any] | None = None
) -> float:
    """sum_i n_i mu_i/(mu_i + lambda)."""
    n = np.ones_like(eigenvalues) if multiplicity is None else multiplicity
    return float(n @ (eigenvalues / (eigenvalues + ridge)))


def replacement_norm(
    covariance: FloatArray, nu: FloatArray, basis: FloatArray, ridge: float
) -> float:
    """||(Sigma_hat + lambda)^-1/2 Sigma^1/2||^2 from Sigma_hat's eigenvalues and basis."""
    half = basis / np.sqrt(np.maximum(nu, 0.0) + ridge)
    return float(np.linalg.eigvalsh(half.T @ covariance @ half)[-1])


def stacked(features: ArrayLike, size: int) -> FloatArray:
    """One dataset or several as an (R, N, M) array, with M = ``size``."""
    data = np.asarray(features, dtype=np.float64)
    data = data[None] if data.ndim == 2 else data
    if data.ndim != 3 or data.shape[2] != size or not data.size:
        raise InputError(
            "features", f"must be (N, {size}) or (R, N, {size})", f"shape {data.shape}"
        )
    return data


def _products(eigenvalues: FloatArray, rates: FloatArray) -> FloatArray:
    """prod_t (1 - gamma_t x), one entry per eigenvalue x."""
    product = np.ones_like(eigenvalues)
    for rate in rates:
        product *= 1.0 - rate * eigenvalues
    return product


def _peak(rates: FloatArray) -> float:
    """max_x x exp(-2 A x)."""
    return 1.0 / (2.0 * math.e * float(rates.sum()))


def _root(matrix: FloatArray) -> FloatArray:
    values, basis = np.linalg.eigh(matrix)
    return np.asarray((basis * np.sqrt(values)) @ basis.T, dtype=np.float64)
