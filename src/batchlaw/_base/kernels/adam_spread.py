r"""How v's spread around its mean changes Adam's steps, per coordinate.

v is an average of squared gradients, and each of them has a variance and is correlated with the
step that it scales. With G = g + n the batch gradient of a coordinate, g its mean given the
weights, h = Sigma_ii (excess + s2) and Gaussian data, one sample has the cumulants

    k2 = h + g^2,   k3 = g (6 h + 2 g^2),   k4 = 6 h^2 + 36 h g^2 + 6 g^4,

and a batch of B has k_n / B^(n-1). So E[G (G^2 - E G^2)] = g tilt with tilt = k3/(g B^2) + 2 k2/B,
and Var(G^2) = k4/B^3 + 4 g k3/B^2 + 4 g^2 k2/B + 2 k2^2/B^2.
"""

from __future__ import annotations

import math

from numba import njit

# v below which it counts as zero: its square must not underflow.
NO_GRADIENT = 1e-150
# Half a skewness below which a difference of roots would lose digits.
SMALL_SKEWNESS = 1e-3


@njit(nogil=True, cache=True, inline="always", error_model="numpy")
def squared_gradient(h, g2, batch):  # type: ignore[no-untyped-def]
    """(tilt, common, own): the tilt, and the variance of G^2 in two parts.

    ``common`` is shared by all coordinates of a batch (from the size of its residuals); ``own``
    is shared by two coordinates in proportion to their squared correlation.
    """
    b = 1.0 / batch
    k2 = h + g2
    tilt = b * (2.0 * k2 + b * (6.0 * h + 2.0 * g2))
    whole = b * (
        4.0 * g2 * k2
        + b * (2.0 * k2 * k2 + g2 * (24.0 * h + 8.0 * g2))
        + b * b * (6.0 * h * h + 36.0 * h * g2 + 6.0 * g2 * g2)
    )
    common = 2.0 * b * b * b * h * h
    return tilt, common, whole - common


@njit(nogil=True, cache=True)
def noise_over_drift(beta1, beta2, step):  # type: ignore[no-untyped-def]
    """The tilt of v in E[m^2 / v] over that in E[m / sqrt v], after ``step`` updates.

    With the weights w1, w2 of the two averages: (sum w1^2 w2 / sum w1^2)/(sum w1 w2 / sum w1).
    """
    square, both = beta1 * beta1, beta1 * beta2
    noise = (1.0 - (square * beta2) ** step) / (1.0 - square * beta2)
    noise *= (1.0 - square) / (1.0 - square**step)
    drift = (1.0 - both**step) / (1.0 - both) * (1.0 - beta1) / (1.0 - beta1**step)
    return noise / drift


@njit(nogil=True, cache=True, inline="always", error_model="numpy")
def third_cumulant(h, g2, batch):  # type: ignore[no-untyped-def]
    """Third cumulant of G^2: exact without signal, Gaussian in the part that g adds.

    Without signal G^2 = h z^2 s/B with z normal and s a chi square of B degrees over B, so that
    E G^6 = 15 (h/B)^3 (1 + 2/B)(1 + 4/B). A Gaussian of mean g and variance k has
    8 k^3 + 24 g^2 k^2.
    """
    b = 1.0 / batch
    k = b * (h + g2)
    return (b * h) ** 3 * (8.0 + b * (72.0 + b * 120.0)) + 24.0 * g2 * k * k


@njit(nogil=True, cache=True, inline="always", error_model="numpy")
def inverse_roots(variance, third):  # type: ignore[no-untyped-def]
    """E[v^-1/2] and E[v^-1] of v with mean 1, from its variance and third cumulant.

    v is lognormal: (1 + V)^(3/8) and 1 + V. Where its skewness is larger than a lognormal's, v is
    a + (1 - a) L with L lognormal: a few heavy squares on top of many light ones. The skewness
    3 w + w^3 of L gives its relative variance w^2, and a = 1 - sqrt(V)/w. The averages over log L
    are Gauss-Hermite sums of three nodes.
    """
    root = math.sqrt(variance)
    if third <= variance * variance * (3.0 + variance):
        quarter = math.sqrt(math.sqrt(1.0 + variance))
        return quarter * math.sqrt(quarter), 1.0 + variance
    # w = 2 sinh(asinh(x)/3), without hyperbolic functions where x is not small.
    x = 0.5 * third / (variance * root)
    if x > SMALL_SKEWNESS:
        c = math.exp(math.log(x + math.sqrt(1.0 + x * x)) / 3.0)
        w = c - 1.0 / c
    else:
        w = 2.0 * math.sinh(math.asinh(x) / 3.0)
    part = root / w
    middle, reach = 1.0 / math.sqrt(1.0 + w * w), math.exp(math.sqrt(3.0 * math.log1p(w * w)))
    low = 1.0 - part + part * middle / reach
    mid = 1.0 - part + part * middle
    high = 1.0 - part + part * middle * reach
    first = 4.0 / math.sqrt(mid) + 1.0 / math.sqrt(low) + 1.0 / math.sqrt(high)
    return first / 6.0, (4.0 / mid + 1.0 / low + 1.0 / high) / 6.0


@njit(nogil=True, cache=True, inline="always", error_model="numpy")
def step_factors(drift_tilt, noise_tilt, variance, third, power):  # type: ignore[no-untyped-def]
    """Factors on the step D ~ v^-power: in the drift, in the noise, and of its squares.

    Tilts, variance and third cumulant are relative to v. For power 1/2 v has the mean 1 + tilt
    where the gradients in m weigh it, so that E[v^-1/2] = (1 + tilt)^-1/2 r1 with r1, r2 =
    ``inverse_roots``. A lognormal's steps have the covariance (1 + Cov(v_i, v_j)/(v_i v_j))^(1/4)
    - 1; the third number is r2/r1^2 - 1, that for i = j. With eps the power p is smaller, and the
    factors are those of 1/2 moved towards 1, right to first order: 1 - p tilt + p (p + 1)/2 V,
    and p^2 V.
    """
    first, second = inverse_roots(variance, third)
    shared = 1.0 + 4.0 / 3.0 * power * (power + 1.0) * (first - 1.0)
    drift = shared / (1.0 + 2.0 * power * (math.sqrt(1.0 + drift_tilt) - 1.0))
    noise = shared / (1.0 + 2.0 * power * (math.sqrt(1.0 + noise_tilt) - 1.0))
    return drift, noise, 4.0 * power * power * (second / (first * first) - 1.0)


@njit(nogil=True, cache=True, inline="always", error_model="numpy")
def coupling(variance, removed, excess, beta2):  # type: ignore[no-untyped-def]
    """How far v and the error are from independent: a number from 0 to 1.

    The recursion takes v as independent of the weights, given their moments. That is right where v
    hardly varies, or where the error moves slowly against v's memory of 1/(1 - beta2) updates.
    ``variance`` is that of v, relative; ``removed`` what a step along the gradient takes from the
    excess.
    """
    pace = (1.0 - beta2) * excess
    return variance / (1.0 + variance) * removed / (removed + pace) if removed > 0.0 else 0.0
