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
def step_factors(drift_tilt, noise_tilt, variance, power):  # type: ignore[no-untyped-def]
    """Factors on the step D ~ v^-power: in the drift, in the noise, and of its squares.

    Tilts and variance are relative to v. For power 1/2 v is lognormal with relative variance V
    and has the mean 1 + tilt where the gradients in m weigh it, so that
    E[v^-1/2] = (1 + tilt)^-1/2 (1 + V)^(3/8). Two steps have the covariance
    (1 + Cov(v_i, v_j)/(v_i v_j))^(1/4) - 1, the third number for i = j. With eps the power p is
    smaller, and the factors are those of 1/2 moved towards 1, right to first order:
    1 - p tilt + p (p + 1)/2 V, and p^2 V.
    """
    fourth = math.sqrt(math.sqrt(1.0 + variance))
    shared = 1.0 + 4.0 / 3.0 * power * (power + 1.0) * (fourth * math.sqrt(fourth) - 1.0)
    drift = shared / (1.0 + 2.0 * power * (math.sqrt(1.0 + drift_tilt) - 1.0))
    noise = shared / (1.0 + 2.0 * power * (math.sqrt(1.0 + noise_tilt) - 1.0))
    return drift, noise, 4.0 * power * power * (fourth - 1.0)
