"""The variance and its derivative in the noise share of every step, by an adjoint recursion.

The share x_t of step t is 1/B_t, or rho_t where batches come from a dataset. The backward pass
needs the forward states in reverse order: they are saved every sqrt(T) steps and recomputed in
between, so that memory grows as M sqrt(T).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from batchlaw._base.kernels.common import REORDER, copy, copy_rows

# Amplitudes below this, and squares below its square, become zero: subnormal numbers are slow.
UNDERFLOW = 1e-145


@njit(nogil=True, forceinline=True)
def _flush(x, floor=UNDERFLOW):  # type: ignore[no-untyped-def]
    return x if abs(x) > floor else 0.0


@njit(nogil=True, fastmath=REORDER, forceinline=True)
def _plain_step(mu, multiplicity, state, s2, g, shrink, share):  # type: ignore[no-untyped-def]
    cov, mean = state[0], state[1]
    e = g * g * share
    trace = shrink * s2
    for j in range(mu.size):
        trace += multiplicity[j] * mu[j] * (cov[j] + shrink * mean[j])
    for j in range(mu.size):
        m = mu[j]
        h = (1.0 - g * m) * (1.0 - g * m)
        cov[j] = h * cov[j] + e * m * (m * (cov[j] + shrink * mean[j]) + trace)
        mean[j] = _flush(h * mean[j], UNDERFLOW * UNDERFLOW)


@njit(nogil=True, fastmath=REORDER, forceinline=True)
def _plain_back(mu, multiplicity, state, a, s2, g, shrink, share):  # type: ignore[no-untyped-def]
    """dVar/d(share) of one step; ``a`` becomes dVar/d(moments before the step)."""
    cov, mean = state[0], state[1]
    trace = shrink * s2
    diagonal = 0.0
    slope_trace = 0.0
    for j in range(mu.size):
        y = cov[j] + shrink * mean[j]
        w = multiplicity[j] * mu[j]
        trace += w * y
        diagonal += w * mu[j] * a[j] * y
        slope_trace += w * a[j]
    e = g * g * share
    for j in range(mu.size):
        m = mu[j]
        h = (1.0 - g * m) * (1.0 - g * m)
        a[j] = h * a[j] + e * m * (m * a[j] + slope_trace)
    return g * g * (diagonal + slope_trace * trace)


@njit(nogil=True, cache=True, fastmath=REORDER)
def plain_slopes(mu, multiplicity, energy, s2, rates, shrink, shares, slopes):  # type: ignore[no-untyped-def]
    """Plain SGD, last iterate: returns Var, fills w_t = dVar/dx_t.

    With h = (1 - g mu)^2, e = g^2 x, D x = mu^2 x + mu (mu . x) and a factor k = ``shrink``
    on the source (1 for one pass):

    C <- h C + e [D C + k (D m^2 + s2 mu)],  m^2 <- h m^2,  Var = mu . C;
    a_T = mu,  w_t = g^2 [a_t . D (C + k m^2) + k s2 a_t . mu],  a_{t-1} = h a_t + e D a_t.
    """
    T = rates.size
    M = mu.size
    block = math.ceil(math.sqrt(T))
    saved = np.empty(((T + block - 1) // block, 2, M))
    state = np.zeros((2, M))
    copy(energy, state[1])
    for t in range(T):
        if t % block == 0:
            copy_rows(state, saved[t // block])
        _plain_step(mu, multiplicity, state, s2, rates[t], shrink[t], shares[t])
    variance = 0.0
    for j in range(M):
        variance += multiplicity[j] * mu[j] * state[0, j]
    a = mu.copy()
    history = np.empty((block, 2, M))
    for k in range(saved.shape[0] - 1, -1, -1):
        first, last = k * block, min((k + 1) * block, T)
        copy_rows(saved[k], history[0])
        for t in range(first, last - 1):
            copy_rows(history[t - first], history[t - first + 1])
            _plain_step(
                mu, multiplicity, history[t - first + 1], s2, rates[t], shrink[t], shares[t]
            )
        for t in range(last - 1, first - 1, -1):
            slopes[t] = _plain_back(
                mu, multiplicity, history[t - first], a, s2, rates[t], shrink[t], shares[t]
            )
    return variance


# Rows of the state of ``general_slopes``: centred second moments of (e, v), then their means.
EE, EV, VV, E, V = range(5)


@njit(nogil=True, fastmath=REORDER, forceinline=True)
def _general_step(mu, multiplicity, state, s2, rule, share):  # type: ignore[no-untyped-def]
    look, keep, gain, drag, push = rule
    trace = s2
    for j in range(mu.size):
        trace += multiplicity[j] * mu[j] * _at_gradient(state, j, look)
    for j in range(mu.size):
        m = mu[j]
        A, B = 1.0 + push * m, drag + push * m * look
        C, D = gain * m, keep + gain * m * look
        n2 = share * m * (m * _at_gradient(state, j, look) + trace)
        ee, ev, vv = state[EE, j], state[EV, j], state[VV, j]
        state[EE, j] = A * A * ee + 2.0 * A * B * ev + B * B * vv + push * push * n2
        state[EV, j] = A * C * ee + (A * D + B * C) * ev + B * D * vv + push * gain * n2
        state[VV, j] = C * C * ee + 2.0 * C * D * ev + D * D * vv + gain * gain * n2
        e, v = state[E, j], state[V, j]
        state[E, j] = _flush(A * e + B * v)
        state[V, j] = _flush(C * e + D * v)


@njit(nogil=True, fastmath=REORDER, forceinline=True)
def _at_gradient(state, j, look):  # type: ignore[no-untyped-def]
    """E y^2 at the point where the gradient is taken."""
    y = state[E, j] + look * state[V, j]
    return state[EE, j] + look * (2.0 * state[EV, j] + look * state[VV, j]) + y * y


@njit(nogil=True, cache=True, fastmath=REORDER)
def general_slopes(mu, multiplicity, energy, s2, rule, average, shares, slopes):  # type: ignore[no-untyped-def]
    """Any update rule and readout: returns Var, fills w_t = dVar/dx_t.

    Var = sum_t sum_j n_j mu_j psi_tj^2 n2_tj with n2_t = x_t (D Y_t + s2 mu), psi the
    readout's response to the noise, and Y_t the second moment at the gradient point, which
    includes the noise of earlier steps. So n2_t acts directly, through psi_t, and through the
    moments (ee, ev, vv) after its step; the slopes in these are a = (a0, a1, a2):

    q_j = mu_j psi_j^2 + push^2 a0 + push gain a1 + gain^2 a2 = dVar/dn2_tj / n_j,
    w_t = q . (D Y_t + s2 mu), and x_t D q is what Y_t adds to the slopes before the step.
    """
    T = rule.shape[0]
    M = mu.size
    block = math.ceil(math.sqrt(T))
    saved = np.empty(((T + block - 1) // block, 5, M))
    state = np.zeros((5, M))
    copy(-np.sqrt(energy), state[E])
    for t in range(T):
        if t % block == 0:
            copy_rows(state, saved[t // block])
        _general_step(mu, multiplicity, state, s2, rule[t], shares[t])
    variance = 0.0
    a = np.zeros((3, M))
    response = np.zeros((2, M))  # of the readout to e_t and v_t
    q = np.empty(M)
    history = np.empty((block, 5, M))
    for k in range(saved.shape[0] - 1, -1, -1):
        first, last = k * block, min((k + 1) * block, T)
        copy_rows(saved[k], history[0])
        for t in range(first, last - 1):
            copy_rows(history[t - first], history[t - first + 1])
            _general_step(mu, multiplicity, history[t - first + 1], s2, rule[t], shares[t])
        for t in range(last - 1, first - 1, -1):
            look, keep, gain, drag, push = rule[t]
            past = history[t - first]
            trace = s2
            direct = diagonal = direct_slope_trace = slope_trace = 0.0
            for j in range(M):
                m = mu[j]
                e, v = response[0, j] + average[t], response[1, j]
                psi = push * e + gain * v
                response[0, j] = _flush(e + m * psi)
                response[1, j] = _flush(drag * e + keep * v + look * m * psi)
                straight = m * psi * psi
                q[j] = straight + push * (push * a[0, j] + gain * a[1, j]) + gain * gain * a[2, j]
                y = _at_gradient(past, j, look)
                w = multiplicity[j] * m
                trace += w * y
                direct += w * m * straight * y
                direct_slope_trace += w * straight
                diagonal += w * m * q[j] * y
                slope_trace += w * q[j]
            slopes[t] = diagonal + slope_trace * trace
            variance += shares[t] * (direct + direct_slope_trace * trace)
            for j in range(M):
                m = mu[j]
                A, B = 1.0 + push * m, drag + push * m * look
                C, D = gain * m, keep + gain * m * look
                y = shares[t] * m * (m * q[j] + slope_trace)
                a0, a1, a2 = a[0, j], a[1, j], a[2, j]
                a[0, j] = A * A * a0 + A * C * a1 + C * C * a2 + y
                a[1, j] = 2.0 * A * B * a0 + (A * D + B * C) * a1 + 2.0 * (C * D * a2 + look * y)
                a[2, j] = B * B * a0 + B * D * a1 + D * D * a2 + look * look * y
    return variance


@njit(nogil=True, cache=True, fastmath=REORDER)
def mean_levels(mu, multiplicity, energy, rule, levels):  # type: ignore[no-untyped-def]
    """mu . y^2 for the mean y at the point where each step takes its gradient."""
    e = -np.sqrt(energy)
    v = np.zeros(mu.size)
    for t in range(rule.shape[0]):
        look, keep, gain, drag, push = rule[t]
        levels[t] = 0.0
        for j in range(mu.size):
            y = e[j] + look * v[j]
            levels[t] += multiplicity[j] * mu[j] * y * y
            e[j] = _flush(e[j] + drag * v[j] + push * mu[j] * y)
            v[j] = _flush(keep * v[j] + gain * mu[j] * y)


@njit(nogil=True, cache=True, fastmath=REORDER)
def fitted(mu, multiplicity, rates, degrees):  # type: ignore[no-untyped-def]
    """df before every step, then at the end: sum_j n_j [1 - prod_{s <= t} (1 - g_s mu_j)]."""
    psi = np.ones(mu.size)
    for t in range(degrees.size):
        total = 0.0
        for j in range(mu.size):
            total += multiplicity[j] * (1.0 - psi[j])
        degrees[t] = total
        if t < rates.size:
            for j in range(mu.size):
                psi[j] = _flush(psi[j] * (1.0 - rates[t] * mu[j]))
