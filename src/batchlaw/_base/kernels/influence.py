"""Backward recursions for the surviving part of each step's noise."""

from __future__ import annotations

import numpy as np
from numba import njit

from batchlaw._base.kernels.common import REORDER, fma

# Survival factors below this are set to zero: their squares would be subnormal, which is slow.
UNDERFLOW = 1e-155
BLOCK = 256


@njit(nogil=True, fastmath=REORDER, forceinline=True)
def _sum_of_squares(weight, q):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(q.size):
        total += weight[j] * q[j] * q[j]
    return total


@njit(nogil=True)
def _influence_block(mu, weight, q, rates, kappa):  # type: ignore[no-untyped-def]
    for t in range(rates.size - 1, -1, -1):
        g = rates[t]
        kappa[t] = g * g * _sum_of_squares(weight, q)
        for j in range(mu.size):
            x = g * mu[j]
            factor = 1.0 - x
            # Exact: 1 - x has no rounding error for x >= 1/2, and otherwise 1 is the larger term.
            rounding = ((1.0 - factor) - x) - fma(g, mu[j], -x)
            product = fma(q[j], factor, q[j] * rounding)
            q[j] = product if abs(product) > UNDERFLOW else 0.0


@njit(nogil=True, cache=True)
def influence(mu, multiplicity, rates):  # type: ignore[no-untyped-def]
    """kappa_t = gamma_t^2 sum_j n_j mu_j^2 prod_{s>t} (1 - gamma_s mu_j)^2.

    Runs backwards with q_j = prod (1 - gamma_s mu_j). A plain product is not accurate enough:
    at a constant rate 1 - gamma mu is rounded the same way at every step, and over 10^6 steps
    that costs up to 1.1e-10. So its rounding error is added back each time; the rounding of q
    itself has no preferred sign and stays near 1e-13. Directions are sorted by decreasing
    eigenvalue; between blocks, those whose q has reached zero are dropped from the front.
    """
    T = rates.size
    kappa = np.zeros(T)
    weight = multiplicity * mu * mu
    q = np.ones(mu.size)
    first = 0
    end = T
    while end > 0:
        start = max(end - BLOCK, 0)
        _influence_block(mu[first:], weight[first:], q[first:], rates[start:end], kappa[start:end])
        while first < mu.size and q[first] == 0.0:
            first += 1
        end = start
    return kappa


@njit(nogil=True, cache=True, fastmath=REORDER)
def general_influence(mu, multiplicity, rule, average):  # type: ignore[no-untyped-def]
    """kappa_t for any update rule and readout, by the adjoint of the recursion.

    (to_e, to_v) is the readout's response to e_t and v_t; the noise of step t enters e
    with ``push`` and v with ``gain``, so psi_t = push to_e + gain to_v and
    kappa_t = sum_j n_j mu_j^2 psi_tj^2.
    """
    T = rule.shape[0]
    M = mu.size
    to_e = np.zeros(M)
    to_v = np.zeros(M)
    kappa = np.zeros(T)
    for t in range(T - 1, -1, -1):
        look, keep, gain, drag, push = rule[t]
        total = 0.0
        for j in range(M):
            e = to_e[j] + average[t]
            v = to_v[j]
            psi = push * e + gain * v
            total += multiplicity[j] * mu[j] * mu[j] * psi * psi
            # Response to e and v before the step.
            e_before = e + mu[j] * psi
            v_before = drag * e + keep * v + look * mu[j] * psi
            to_e[j] = e_before if abs(e_before) > UNDERFLOW else 0.0
            to_v[j] = v_before if abs(v_before) > UNDERFLOW else 0.0
        kappa[t] = total
    return kappa
