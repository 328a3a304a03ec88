"""Bounds on gradient descent's variance, and on Sigma_hat against Sigma: appendices E and K.

Var_GD is per unit of noise: (1/N) tr(Sigma V Sigma_hat^-1 V) with V = I - prod_t (I - gamma_t
Sigma_hat), averaged over datasets. ``features`` are (N, M) or (R, N, M), in Sigma's eigenbasis.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.theory.bounds.bias import effective_dimension, replacement_norm, stacked
from batchlaw.theory.bounds.bound import Bound, Condition
from batchlaw.theory.bounds.kernels import mass_below_spectrum
from batchlaw.theory.bounds.power_law import power_law_conditions
from batchlaw.theory.bounds.schedule import contraction


def gd_variance(
    eigenvalues: ArrayLike, rates: ArrayLike, features: ArrayLike, *, form: str = "repaired"
) -> Bound:
    r"""Var_GD between the two sides of the proof of lemma gd-var-upper-lower (E.1), deterministic.

    Above, 5 R D_U / N with R = ||(Sigma_hat + 1/A)^-1/2 Sigma^1/2||^2 measured: v(x) <= min(1, A x)
    gives tr(V^2 + V^2 Sigma_hat^-1/A) <= 5 D_U. Below, with f(x) = (v(x)/x)^2 and by ``form``:

    - "printed": the proof's trace inequality, sum_i mu_i(Sigma) nu_i f(nu_{2i-M}) / N over
      i > M/2. The paper then takes f at nu_i and sums over all i, which does not follow.
    - "repaired": sum_i nu_i f(nu_i) [(nu_i + lambda)/r - lambda]_+ / N with lambda = 1/A and
      Sigma_hat + lambda <= r (Sigma + lambda), as the paper argues for its cross-kernel (I.3).

    Parameters
    ----------
    features : (N, M) or (R, N, M) array
        One dataset, or R of them to average over, in Sigma's eigenbasis.
    form
        Lower side: "repaired" or "printed".
    """
    checks.choice("form", form, ("repaired", "printed"))
    mu, gamma, data = _inputs(eigenvalues, rates, features)
    M, N, ridge = mu.size, data.shape[1], 1.0 / float(gamma.sum())
    totals = np.zeros(3)
    top = 0.0
    for Z in data:
        nu, basis, gain = _filter(Z, gamma)
        weight = np.einsum("ja,j,ja->a", basis, mu, basis)
        if form == "printed":
            i = np.arange(M // 2 + 1, M + 1)
            below = mu[i - 1] * nu[i - 1] * gain[2 * i - M - 1] ** 2
        else:
            r = float(_relative(mu, Z, ridge)[-1])
            below = gain**2 * nu * np.maximum((nu + ridge) / r - ridge, 0.0)
        norm = replacement_norm(np.diag(mu), nu, basis, ridge)
        above = 5.0 * norm * upper_dimension(nu, float(gamma.sum()))
        totals += [below.sum(), weight @ (gain**2 * nu), above]
        top = max(top, float(nu[0]))
    lower, value, upper = totals / (len(data) * N)
    return Bound(
        f"GD variance given the data ({form})",
        "E.1, proof of lemma gd-var-upper-lower",
        float(lower),
        float(value),
        float(upper),
        conditions=(contraction(float(gamma.max()) * top),),
    )


def gd_variance_order(eigenvalues: ArrayLike, rates: ArrayLike, features: ArrayLike) -> Bound:
    r"""D_L/N <~ Var_GD <~ D_U/N (lemma gd-var-upper-lower, E.1). No constants.

    D_U counts the eigenvalues nu of Sigma_hat above 1/(4A) and adds A nu for the others;
    D_L = A^2 sum mu_i nu_i below 1/(4A) + (1/5) sum mu_i/nu_i above.

    Parameters
    ----------
    features : (N, M) or (R, N, M) array
        One dataset, or R of them to average over, in Sigma's eigenbasis.
    """
    mu, gamma, data = _inputs(eigenvalues, rates, features)
    mass, N = float(gamma.sum()), data.shape[1]
    exact = gd_variance(mu, gamma, data)
    lower = upper = 0.0
    for Z in data:
        nu = _filter(Z, gamma)[0]
        large = nu * mass > 0.25
        lower += float(mass**2 * (mu * nu)[~large].sum() + 0.2 * (mu[large] / nu[large]).sum())
        upper += upper_dimension(nu, mass)
    return Bound(
        "GD variance",
        "E.1, lemma gd-var-upper-lower",
        lower / (len(data) * N),
        exact.value,
        upper / (len(data) * N),
        constant_explicit=False,
        conditions=_gd_conditions(mu, gamma, data),
    )


def gd_variance_spectral(eigenvalues: ArrayLike, rates: ArrayLike, features: ArrayLike) -> Bound:
    """Var_GD ~ (1/N) sum_j min{1, (A mu_j)^2} (lemma gd-var-source, E.2). No constants.

    Parameters
    ----------
    features : (N, M) or (R, N, M) array
        One dataset, or R of them to average over, in Sigma's eigenbasis.
    """
    mu, gamma, data = _inputs(eigenvalues, rates, features)
    exact = gd_variance(mu, gamma, data)
    order = float(np.minimum(1.0, (float(gamma.sum()) * mu) ** 2).sum()) / data.shape[1]
    return Bound(
        "GD variance by the spectrum",
        "E.2, lemma gd-var-source",
        order,
        exact.value,
        order,
        constant_explicit=False,
        conditions=_gd_conditions(mu, gamma, data),
    )


def covariance_replacement(eigenvalues: ArrayLike, features: ArrayLike, ridge: float) -> Bound:
    r"""||(Sigma_hat + lambda)^-1/2 (Sigma + lambda)^1/2|| <= 3 (lemma aux-2025-E1, K).

    With probability 1 - exp(-Omega(N)) if the effective dimension at lambda is at most N/4. One
    entry per dataset.

    Parameters
    ----------
    features : (N, M) or (R, N, M) array
        One dataset or R of them, in Sigma's eigenbasis.
    ridge
        lambda, positive.
    """
    mu = checks.vector("eigenvalues", eigenvalues, positive=True)
    ridge = checks.real("ridge", ridge, above=0.0)
    data = stacked(features, mu.size)
    values = np.array([1.0 / math.sqrt(_relative(mu, Z, ridge)[0]) for Z in data])
    return Bound(
        "covariance replacement",
        "K, lemma aux-2025-E1",
        0.0,
        values,
        3.0,
        conditions=(_dimension_condition(mu, ridge, data.shape[1], 0.25),),
    )


def regularized_comparison(eigenvalues: ArrayLike, features: ArrayLike, ridge: float) -> Bound:
    r"""(Sigma + lambda)/2 <= Sigma_hat + lambda <= 3 (Sigma + lambda)/2 (K).

    Lemma aux-two-sided-covariance, with high probability if the effective dimension is at most
    c0 N. The paper does not give c0; here 0.05, for which (1 + sqrt(c0))^2 - 1 = 1/2, the deviation
    that its proof needs. The values are the smallest and largest relative eigenvalue per dataset.

    Parameters
    ----------
    features : (N, M) or (R, N, M) array
        One dataset or R of them, in Sigma's eigenbasis.
    ridge
        lambda, positive.
    """
    mu = checks.vector("eigenvalues", eigenvalues, positive=True)
    ridge = checks.real("ridge", ridge, above=0.0)
    data = stacked(features, mu.size)
    values = np.array([_relative(mu, Z, ridge)[[0, -1]] for Z in data])
    return Bound(
        "regularised covariance comparison",
        "K, lemma aux-two-sided-covariance",
        0.5,
        values.ravel(),
        1.5,
        conditions=(_dimension_condition(mu, ridge, data.shape[1], 0.05),),
    )


def largest_norm(eigenvalues: ArrayLike, features: ArrayLike, failure: float = 0.01) -> Bound:
    r"""max_i ||z_i||^2 <= tr + 2 sqrt(tr(Sigma^2) u) + 2 mu_1 u with u = log(N/failure).

    The Gaussian quadratic-form inequality in the proof of lemma app-derived-multipass-regularity
    (A.9), with probability 1 - ``failure``. It shows whether gamma max ||z||^2 <= 1/8 can hold.

    Parameters
    ----------
    features : (N, M) or (R, N, M) array
        One dataset or R of them, in Sigma's eigenbasis.
    failure
        Probability that the bound is exceeded.
    """
    mu = checks.vector("eigenvalues", eigenvalues, positive=True)
    data = stacked(features, mu.size)
    failure = checks.real("failure", failure, above=0.0, at_most=1.0)
    upper = norm_ceiling(mu, np.ones_like(mu), data.shape[1], failure)
    norms = np.einsum("rnj,rnj->rn", data, data).max(axis=1)
    return Bound(
        "largest squared norm of a sample",
        "A.9, lemma app-derived-multipass-regularity",
        0.0,
        norms,
        upper,
    )


def regularity(
    eigenvalues: ArrayLike, features: ArrayLike, rates: ArrayLike
) -> tuple[Condition, ...]:
    r"""What appendices D to J use of lemma app-derived-multipass-regularity (A.9), measured.

    The effective dimension at 1/(gamma L), the largest sample, contraction on the data, and the
    horizon A log N <= c0 N with c0 = 1 (the paper only says small).

    Parameters
    ----------
    features : (N, M) or (R, N, M) array
        One dataset, or R of them of which the worst counts, in Sigma's eigenbasis.
    """
    mu, gamma, data = _inputs(eigenvalues, rates, features)
    N, peak = data.shape[1], float(gamma.max())
    top = max(float(np.linalg.eigvalsh(Z.T @ Z / N)[-1]) for Z in data)
    largest = float(np.einsum("rij,rij->ri", data, data).max())
    return (
        _dimension_condition(mu, 1.0 / (peak * gamma.size), N, 0.25),
        Condition("largest-norm", "gamma max ||z_i||^2 <= 1/8", peak * largest, 0.125),
        contraction(peak * top),
        Condition("mass-below-samples", "A log N <= N", float(gamma.sum()) * math.log(N), N),
    )


def _gd_conditions(mu: FloatArray, rates: FloatArray, data: FloatArray) -> tuple[Condition, ...]:
    """What lemmas gd-var-upper-lower and gd-var-source assume, every constant 1."""
    a, power_law = power_law_conditions(mu)
    N = data.shape[1]
    return (
        *regularity(mu, data, rates),
        rate_log_samples(float(rates.max()), N),
        mass_below_spectrum(float(rates.sum()), N, a),
        *power_law,
    )


def rate_log_samples(peak: float, samples: float) -> Condition:
    """gamma log N <= c, with constant 1."""
    return Condition("rate-log-samples", "gamma log N <= 1", peak * math.log(samples), 1.0)


def norm_ceiling(
    eigenvalues: FloatArray, multiplicity: FloatArray, samples: float, failure: float
) -> float:
    """The upper side of ``largest_norm``, which needs no data."""
    u = math.log(samples / failure)
    trace, squares = float(multiplicity @ eigenvalues), float(multiplicity @ eigenvalues**2)
    return trace + 2.0 * math.sqrt(squares * u) + 2.0 * float(eigenvalues.max()) * u


def upper_dimension(nu: FloatArray, mass: float) -> float:
    """D_U of one dataset."""
    large = nu * mass > 0.25
    return float(large.sum() + mass * nu[~large].sum())


def _inputs(
    eigenvalues: ArrayLike, rates: ArrayLike, features: ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    mu = checks.vector("eigenvalues", eigenvalues, positive=True)
    if (np.diff(mu) > 0.0).any():
        raise InputError("eigenvalues", "must be non-increasing", subject="eigenvalues of Sigma")
    return mu, checks.vector("rates", rates), stacked(features, mu.size)


def _filter(Z: FloatArray, rates: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sigma_hat's eigenvalues (decreasing), its basis, and v(x)/x at each of them.

    v(x)/x = sum_t gamma_t prod_{s>t} (1 - gamma_s x), by its recursion, finite at x = 0.
    """
    nu, basis = np.linalg.eigh(Z.T @ Z / Z.shape[0])
    nu, basis = np.maximum(nu[::-1], 0.0), basis[:, ::-1]
    gain = np.zeros_like(nu)
    for rate in rates:
        gain = gain * (1.0 - rate * nu) + rate
    return nu, basis, gain


def _relative(mu: FloatArray, Z: FloatArray, ridge: float) -> FloatArray:
    """Eigenvalues of (Sigma + lambda)^-1/2 (Sigma_hat + lambda) (Sigma + lambda)^-1/2."""
    scale = 1.0 / np.sqrt(mu + ridge)
    middle = Z.T @ Z / Z.shape[0] + ridge * np.eye(mu.size)
    relative: FloatArray = np.linalg.eigvalsh(scale[:, None] * middle * scale)
    return relative


def _dimension_condition(mu: FloatArray, ridge: float, samples: int, share: float) -> Condition:
    measured = effective_dimension(mu, ridge)
    return Condition(
        "effective-dimension", f"effective dimension <= {share:g} N", measured, share * samples
    )
