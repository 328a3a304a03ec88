"""Covariance of multi-pass SGD on a dataset: the work that is not a matrix product."""

from __future__ import annotations

import numpy as np
from numba import njit

from batchlaw._base.kernels.common import REORDER


@njit(nogil=True, cache=True, fastmath=REORDER)
def covariance_step(C, fresh, strength, decay, product, mean):  # type: ignore[no-untyped-def]
    """C <- (decay - strength product) C + fresh - strength mean, in place.

    C (P, S) holds one packed matrix per schedule, and ``strength`` is g^2 rho. ``decay``,
    ``product`` and ``mean`` run over the entries: (1 - g nu_a)(1 - g nu_b), nu_a nu_b, q_a q_b.
    """
    P, S = C.shape
    for p in range(P):
        for s in range(S):
            e = strength[s]
            C[p, s] = (decay[p] - e * product[p]) * C[p, s] + fresh[p, s] - e * mean[p]


# Rows of the state of ``momentum_covariance_step``: E e_a e_b, E e_a v_b, E v_a e_b, E v_a v_b.
EE, EV, VE, VV = range(4)


@njit(nogil=True, cache=True, fastmath=REORDER)
def momentum_covariance_step(C, noise, rule, first, second):  # type: ignore[no-untyped-def]
    """One step of the covariances C (4, P, S) of errors and velocities, in place.

    Entry p belongs to directions a, b of eigenvalues first[p], second[p]. Along each of them
    e' = A e + B v + push n and v' = D e + F v + gain n; ``noise`` (P, S) is E n_a n_b.
    """
    look, keep, gain, drag, push = rule
    _, P, S = C.shape
    for p in range(P):
        A, A2 = 1.0 + push * first[p], 1.0 + push * second[p]
        B, B2 = drag + push * look * first[p], drag + push * look * second[p]
        D, D2 = gain * first[p], gain * second[p]
        F, F2 = keep + gain * look * first[p], keep + gain * look * second[p]
        for s in range(S):
            ee, ev, ve, vv = C[EE, p, s], C[EV, p, s], C[VE, p, s], C[VV, p, s]
            n = noise[p, s]
            C[EE, p, s] = A * (A2 * ee + B2 * ev) + B * (A2 * ve + B2 * vv) + push * push * n
            C[EV, p, s] = A * (D2 * ee + F2 * ev) + B * (D2 * ve + F2 * vv) + push * gain * n
            C[VE, p, s] = D * (A2 * ee + B2 * ev) + F * (A2 * ve + B2 * vv) + push * gain * n
            C[VV, p, s] = D * (D2 * ee + F2 * ev) + F * (D2 * ve + F2 * vv) + gain * gain * n


@njit(nogil=True, cache=True, fastmath=REORDER)
def epoch_response(z, nu, labels, rates, shares, iterates, gradients, survivals):  # type: ignore[no-untyped-def]
    """Each sample's first-order effect on the end of an epoch, and the shift of the mean.

    The effects are D (N, K): D_i <- A D_i + g share (z_i r_i - q), with A = I - g Sigma_hat.
    The shift is sum_t g share Psi_t sum_i z_i (z_i . D_i), with D before step t and Psi_t the
    product of the A after it. ``share`` is the part of batch t drawn from this epoch.
    """
    N, K = z.shape
    D = np.zeros((N, K))
    shift = np.zeros(K)
    pull = np.empty(K)
    for t in range(rates.size):
        g = rates[t] * shares[t]
        pull[:] = 0.0
        for i in range(N):
            residual = labels[i]
            along = 0.0
            for a in range(K):
                residual -= z[i, a] * iterates[t, a]
                along += z[i, a] * D[i, a]
            for a in range(K):
                pull[a] += z[i, a] * along
                D[i, a] = (1.0 - rates[t] * nu[a]) * D[i, a] + g * (
                    z[i, a] * residual - gradients[t, a]
                )
        for a in range(K):
            shift[a] += g * survivals[t, a] * pull[a]
    return D, shift
