"""Backward recursions: what survives of the noise of each step."""

from __future__ import annotations

import numpy as np
from numba import njit

from batchlaw._kernels.common import REORDER, fma

# Below this a survival factor counts as zero: its square is under the smallest normal number.
NEGLIGIBLE = 1e-155


@njit(nogil=True, cache=True)
def influence(mu, many, rates):  # type: ignore[no-untyped-def]
    """kappa_t = gamma_t^2 sum_j n_j mu_j^2 prod_{s>t} (1 - gamma_s mu_j)^2.

    Runs backwards with q_j = prod (1 - gamma_s mu_j). A plain product is not enough:
    at a constant rate the same rounding error enters at every step, and over 10^6 steps
    costs up to 1.1e-10. So q_j carries its accumulated error, q_j + low_j, to first order.
    """
    M = mu.size
    T = rates.size
    kappa = np.zeros(T)
    weight = many * mu * mu
    q = np.ones(M)
    low = np.zeros(M)
    first = 0
    for t in range(T - 1, -1, -1):
        g = rates[t]
        total = 0.0
        for j in range(first, M):
            survival = q[j] + low[j]
            total += weight[j] * survival * survival
        kappa[t] = g * g * total
        for j in range(first, M):
            x = g * mu[j]
            x_low = fma(g, mu[j], -x)
            factor = 1.0 - x
            back = factor - 1.0
            factor_low = ((1.0 - (factor - back)) + (-x - back)) - x_low
            product = q[j] * factor
            error = fma(q[j], factor, -product)
            low[j] = fma(low[j], factor, fma(q[j], factor_low, error))
            q[j] = product if abs(product) > NEGLIGIBLE else 0.0
            low[j] = low[j] if abs(product) > NEGLIGIBLE else 0.0
        while first < M and q[first] == 0.0:
            first += 1
    return kappa


@njit(nogil=True, cache=True, fastmath=REORDER)
def general_influence(mu, many, rule, average):  # type: ignore[no-untyped-def]
    """kappa_t for any update rule and readout, by the adjoint of the recursion.

    (at_e, at_v) is the readout's response to e_t and v_t; the noise of step t enters e
    with ``push`` and v with ``gain``, so psi_t = push at_e + gain at_v and
    kappa_t = sum_j n_j mu_j^2 psi_tj^2.
    """
    T = rule.shape[0]
    M = mu.size
    at_e = np.zeros(M)
    at_v = np.zeros(M)
    kappa = np.zeros(T)
    for t in range(T - 1, -1, -1):
        look, keep, gain, drag, push = rule[t]
        total = 0.0
        for j in range(M):
            e = at_e[j] + average[t]
            v = at_v[j]
            psi = push * e + gain * v
            total += many[j] * mu[j] * mu[j] * psi * psi
            # Response to e and v before the step; below NEGLIGIBLE it is gone for good.
            e_before = e + mu[j] * psi
            v_before = drag * e + keep * v + look * mu[j] * psi
            at_e[j] = e_before if abs(e_before) > NEGLIGIBLE else 0.0
            at_v[j] = v_before if abs(v_before) > NEGLIGIBLE else 0.0
        kappa[t] = total
    return kappa
