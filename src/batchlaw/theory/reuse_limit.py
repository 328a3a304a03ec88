r"""Gradient descent on a reused dataset, for a power law and many samples: functions of df/N.

Theorem 2 needs gamma L log N <= c N. Beyond it, let N and the mass A = sum_t gamma_t grow with

    x = df/N,    df = sum_j [1 - exp(-A mu_j)] = Gamma(1 - 1/a) A^(1/a),    mu_j = j^-a.

Ridge regression with penalty l on N samples acts like l -> k on the population, where
k = l + k df_1(k)/N and df_1(k) = sum_j mu_j/(mu_j + k) = D k^(-1/a),
D = Gamma(1 - 1/a) Gamma(1 + 1/a). Hence u = k/l solves u = 1 + y u^(1 - 1/a) with
y = D l^(-1/a)/N, and Lagrange's inversion gives the powers of u as series in y. exp(-A S) is the
inverse Laplace transform of the resolvent 1/(S + l) in l, so l^(-q-1) becomes A^q/Gamma(1 + q),
and series in y become series in x that converge for every x. This is ours, not the paper's.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError

# Terms of a series; the last ones are far below rounding wherever the sum is accurate.
TERMS = 120
# Largest relative error by cancellation that a sum may have.
MAX_ERROR = 1e-8


def gd_variance(share: ArrayLike, a: float) -> FloatArray:
    r"""Variance of GD over s2, as a function of ``share`` = df/N; it tends to a - 1.

    tr(S (1 - e^(-A S_hat))^2 / S_hat)/N = [2 G(A) - G(2 A)]/N, with G(A)/N the inverse
    transform of (u - 1)/l.
    """
    x, alpha = _arguments(share, a)
    powers = _multiples(alpha)
    terms = _power(1.0, alpha) * (2.0 - 2.0**powers) * _reciprocal_gamma(1.0 + powers)
    return _sum(terms[1:], math.gamma(1.0 + alpha) * x, first=1)


def gd_variance_factor(share: ArrayLike, a: float) -> FloatArray:
    """``gd_variance`` over its limit for df/N = 0 at the same df, (2 - 2^(1/a)) df/N."""
    x, alpha = _arguments(share, a)
    return np.asarray(gd_variance(x, a) / ((2.0 - 2.0**alpha) * x))


def training_residual(share: ArrayLike, a: float) -> FloatArray:
    """Share of s2 that is left in the mean squared training residual of GD.

    1 - tr(1 - e^(-2 A S_hat))/N, the inverse transform of 1/(l u) at 2 A. The batches' noise is
    made of these residuals. For small df/N it is 1 - 2^(1/a) df/N.
    """
    x, alpha = _arguments(share, a)
    terms = _power(-1.0, alpha) * _reciprocal_gamma(1.0 + _multiples(alpha))
    return _sum(terms, 2.0**alpha * math.gamma(1.0 + alpha) * x)


def gd_bias_factor(share: ArrayLike, a: float, b: float) -> FloatArray:
    r"""Bias of GD over that of one pass with the same rates, for 1 < b < a + 1.

    With two penalties the equivalent of l1 l2 (S_hat + l1)^-1 S (S_hat + l2)^-1 has the factor
    (k1 - k2)/(l1 - l2). With b' = (b - 1)/a, P the inverse transform of k^b'/l and Q of u - 1,
    the bias is, up to a constant,

        P(2 A) + int_0^A [P(2 A - s) Q(s) - Q(2 A - s) P(s)] ds.
    """
    x, alpha = _arguments(share, a)
    b = checks.real("b", b, above=1.0)
    if b >= a + 1.0:
        raise InputError("b", "must be below a + 1", f"{b:g}")
    return np.array([_bias_factor(float(z), alpha, (b - 1.0) * alpha) for z in x.flat]).reshape(
        x.shape
    )


def first_order_variance(a: float) -> float:
    """Slope of ``gd_variance_factor`` at df/N = 0: negative below a = 2, positive above.

    (1 - 1/a) Gamma(1 + 1/a)^2 (2 - 2^(2/a)) / [Gamma(1 + 2/a) (2 - 2^(1/a))].
    """
    alpha = 1.0 / checks.real("a", a, above=1.0)
    spread = (2.0 - 4.0**alpha) / (2.0 - 2.0**alpha)
    ratio = math.gamma(1.0 + alpha) ** 2 / math.gamma(1.0 + 2.0 * alpha)
    return float((1.0 - alpha) * ratio * spread)


def first_order_bias(a: float, b: float) -> float:
    r"""Slope of ``gd_bias_factor`` at df/N = 0, which is positive.

    With b' = (b - 1)/a,

        2^b'/a { 2 b' int_0^1 s (1 - s)^(1/a - 1) (1 + s)^(-b' - 1) ds
                 + (1 - 1/a) int_0^2 min(w, 2 - w) w^-b' (2 - w)^(1/a - 2) dw }.

    The first integral is the shift of each direction's decay, the second the part of the target
    that moves to other directions.
    """
    from scipy.integrate import quad

    alpha, beta = 1.0 / checks.real("a", a, above=1.0), (b - 1.0) / a
    end = {"weight": "alg", "wvar": (0.0, alpha - 1.0)}
    shift = quad(lambda s: s * (1.0 + s) ** (-beta - 1.0), 0.0, 1.0, **end)[0]
    start = {"weight": "alg", "wvar": (1.0 - beta, 0.0)}
    moved = quad(lambda w: (2.0 - w) ** (alpha - 2.0), 0.0, 1.0, **start)[0]
    moved += quad(lambda w: w**-beta, 1.0, 2.0, **end)[0]
    return float(2.0**beta * alpha * (2.0 * beta * shift + (1.0 - alpha) * moved))


def _arguments(share: ArrayLike, a: float) -> tuple[FloatArray, float]:
    x = np.asarray(share, dtype=np.float64)
    if not (np.isfinite(x).all() and (x > 0.0).all()):
        raise InputError("share", "must be positive", f"{float(x.min()):g}")
    return x, 1.0 / checks.real("a", a, above=1.0)


@lru_cache(maxsize=256)
def _power(exponent: float, alpha: float) -> FloatArray:
    """Coefficients of y^k, k = 0..TERMS, in u^exponent, for u = 1 + y u^(1 - alpha).

    Lagrange: (exponent/k!) d^(k-1)/dw^(k-1) w^(exponent - 1 + k (1 - alpha)) at w = 1.
    """
    coefficients = np.ones(TERMS + 1)
    for k in range(1, TERMS + 1):
        # The falling product over k!, factor by factor: neither overflows.
        factors = exponent - 1.0 + k * (1.0 - alpha) - np.arange(k - 1)
        coefficients[k] = exponent / k * np.prod(factors / np.arange(1, k))
    return coefficients


def _multiples(alpha: float) -> FloatArray:
    """k alpha, k = 0..TERMS: the powers of A in a series."""
    return np.asarray(alpha * np.arange(TERMS + 1), dtype=np.float64)


def _reciprocal_gamma(z: FloatArray) -> FloatArray:
    from scipy.special import rgamma

    return np.asarray(rgamma(z), dtype=np.float64)


def _sum(coefficients: FloatArray, x: FloatArray, *, first: int = 0) -> FloatArray:
    """sum_k c_k x^k from k = ``first``, refused where cancellation spoils it."""
    with np.errstate(over="ignore", invalid="ignore"):
        terms = coefficients * x[..., None] ** np.arange(first, first + coefficients.size)
        value, largest = terms.sum(axis=-1), np.abs(terms).max(axis=-1)
        # For whole a every a-th coefficient may vanish, so one small last term says nothing.
        left = np.abs(terms[..., -TERMS // 4 :]).max(axis=-1)
        lost = np.finfo(float).eps * largest + left > MAX_ERROR * np.abs(value)
    if (lost | ~np.isfinite(value)).any():
        raise InputError(
            "share", f"must be smaller: rounding costs the series {MAX_ERROR:g} or more"
        )
    return np.asarray(value)


def _bias_factor(x: float, alpha: float, beta: float) -> float:
    """The integral of ``gd_bias_factor`` at A = 1, over P(2) of df/N = 0.

    With s = w^(1/alpha) the series are in w, and ds/dw cancels the singularity of Q at 0.
    """
    from scipy.integrate import quad

    powers = _multiples(alpha)
    scale = math.gamma(1.0 + alpha) * x
    p_terms = _power(beta, alpha) * _reciprocal_gamma(1.0 + powers - beta)
    q_terms = scale * (_power(1.0, alpha) * _reciprocal_gamma(powers))[1:]

    # P(s) s^beta and Q(s) s^(1 - alpha) at s = w^(1/alpha), and both at 2 - s.
    def p(w: float) -> float:
        return float(_sum(p_terms, np.array(scale * w)))

    def q(w: float) -> float:
        return float(_sum(q_terms, np.array(scale * w)))

    def later_p(w: float) -> float:
        rest = 2.0 - w ** (1.0 / alpha)
        return float(rest**-beta) * p(rest**alpha)

    def later_q(w: float) -> float:
        rest = 2.0 - w ** (1.0 / alpha)
        return float(rest ** (alpha - 1.0)) * q(rest**alpha)

    start = (1.0 - alpha - beta) / alpha
    gained = quad(lambda w: later_p(w) * q(w), 0.0, 1.0)[0]
    lost = quad(lambda w: later_q(w) * p(w), 0.0, 1.0, weight="alg", wvar=(start, 0.0))[0]
    without_reuse = 2.0**-beta * float(_reciprocal_gamma(np.array(1.0 - beta)))
    return float((later_p(0.0) + (gained - lost) / alpha) / without_reuse)
