"""Adam's second moments where Sigma is diagonal, and the slopes of the final excess.

Per direction, with error e, first moment m, second moment v at its mean, and the batch
gradient G = mu e + noise of variance n2:

    n2 = x mu (mu E e^2 + s2 + sum_k n_k mu_k E e_k^2),         x = 1/(c B)
    v' = beta2 v + (1 - beta2) (mu^2 E e^2 + c n2)              or the mean of this over directions
    m' = beta1 m + (1 - beta1) G,  e' = keep e + (1 - keep) e_0 - D m',
    D  = rate correct1 / (sqrt(correct2 v') + eps)

A row of ``steps`` is (rate, keep, beta1, beta2, correct1, correct2, c): c updates that are merged
into one have c times the rate, the betas to the power c, and noise of a batch of c B; v sees the
noise of a single update. Rows of ``running`` are (hold, weight) of the readout
s' = hold s + weight e'. ``generic`` takes one v for all directions.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from batchlaw._base.kernels.common import REORDER, copy, copy_rows

# Rows of the state: centred second moments of (e, m, s), s the readout; their means; v, which
# is in the first column alone where it is common to all directions.
EE, EM, MM, ES, MS, SS, E, M, S, V = range(10)
ROWS = 10


@njit(nogil=True, cache=True)
def _start(energy):  # type: ignore[no-untyped-def]
    state = np.zeros((ROWS, energy.size))
    copy(-np.sqrt(energy), state[E])
    copy(state[E], state[S])
    return state


@njit(nogil=True, cache=True, fastmath=REORDER)
def _excess(mu, multiplicity, state):  # type: ignore[no-untyped-def]
    """Of the readout: its bias and its variance."""
    bias = variance = 0.0
    for j in range(mu.size):
        w = multiplicity[j] * mu[j]
        bias += w * state[S, j] * state[S, j]
        variance += w * state[SS, j]
    return bias, variance


@njit(nogil=True, cache=True, fastmath=REORDER)
def _scales(mu, multiplicity, state, s2, row, eps, generic, share, noise, second, scale):  # type: ignore[no-untyped-def]
    """Fill the noise n2, v' and D of every direction; returns the trace."""
    rate, _, _, beta2, correct1, correct2, merged = row
    trace = s2
    for j in range(mu.size):
        trace += multiplicity[j] * mu[j] * (state[EE, j] + state[E, j] * state[E, j])
    directions = common = 0.0
    for j in range(mu.size):
        m = mu[j]
        y = state[EE, j] + state[E, j] * state[E, j]
        noise[j] = share * m * (m * y + trace)
        second[j] = m * m * y + merged * noise[j]
        common += multiplicity[j] * second[j]
        directions += multiplicity[j]
    if generic:
        v = beta2 * state[V, 0] + (1.0 - beta2) * common / directions
        root = math.sqrt(correct2 * v) + eps
        second[:] = v
        scale[:] = rate * correct1 / root if root > 0.0 else 0.0
    else:
        for j in range(mu.size):
            v = beta2 * state[V, j] + (1.0 - beta2) * second[j]
            root = math.sqrt(correct2 * v) + eps
            second[j] = v
            scale[j] = rate * correct1 / root if root > 0.0 else 0.0
    return trace


@njit(nogil=True, cache=True, fastmath=REORDER)
def _move(mu, start, state, row, running, noise, second, scale):  # type: ignore[no-untyped-def]
    keep, beta1 = row[1], row[2]
    hold, weight = running
    r = 1.0 - beta1
    for j in range(mu.size):
        u, d = mu[j], scale[j]
        em = beta1 * state[EM, j] + r * u * state[EE, j]
        mm = beta1 * (beta1 * state[MM, j] + 2.0 * r * u * state[EM, j])
        mm += r * r * (u * u * state[EE, j] + noise[j])
        ms = beta1 * state[MS, j] + r * u * state[ES, j]
        es = keep * state[ES, j] - d * ms
        ee = keep * keep * state[EE, j] - 2.0 * keep * d * em + d * d * mm
        em = keep * em - d * mm
        state[SS, j] = hold * hold * state[SS, j] + weight * (2.0 * hold * es + weight * ee)
        state[ES, j] = hold * es + weight * ee
        state[MS, j] = hold * ms + weight * em
        state[EE, j] = ee
        state[EM, j] = em
        state[MM, j] = mm
        m = beta1 * state[M, j] + r * u * state[E, j]
        state[E, j] = keep * state[E, j] + (1.0 - keep) * start[j] - d * m
        state[M, j] = m
        state[S, j] = hold * state[S, j] + weight * state[E, j]
        state[V, j] = second[j]


@njit(nogil=True, cache=True)
def diagonal_moments(mu, multiplicity, energy, s2, steps, running, eps, generic, shares, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (schedules, K, 2): bias and variance at the start and every step, or at the end.

    ``shares`` (schedules, T) are x_t = 1/(c B_t). K = T + 1 records all, K = 1 the end only.
    """
    T = steps.shape[0]
    every = out.shape[1] == T + 1
    noise, second, scale = np.empty(mu.size), np.empty(mu.size), np.empty(mu.size)
    for k in range(shares.shape[0]):
        state = _start(energy)
        start = state[E].copy()
        if every:
            out[k, 0, 0], out[k, 0, 1] = _excess(mu, multiplicity, state)
        for t in range(T):
            _scales(
                mu, multiplicity, state, s2, steps[t], eps, generic, shares[k, t],
                noise, second, scale,
            )  # fmt: skip
            _move(mu, start, state, steps[t], running[t], noise, second, scale)
            if every:
                out[k, t + 1, 0], out[k, t + 1, 1] = _excess(mu, multiplicity, state)
        if not every:
            out[k, 0, 0], out[k, 0, 1] = _excess(mu, multiplicity, state)


@njit(nogil=True, cache=True, fastmath=REORDER)
def _back(mu, multiplicity, start, state, a, s2, row, running, eps, generic, share, work):  # type: ignore[no-untyped-def]
    """Slopes in the share of one step, through v and through the noise.

    ``state`` is before the step; ``a``, the slopes in the state after it, become those before.
    """
    _, keep, beta1, beta2, _, correct2, merged = row
    hold, weight = running
    r = 1.0 - beta1
    noise, second, scale, slope = work[0], work[1], work[2], work[3]
    trace = _scales(
        mu, multiplicity, state, s2, row, eps, generic, share, noise, second, scale
    )  # fmt: skip
    common = directions = 0.0
    for j in range(mu.size):
        u, d = mu[j], scale[j]
        ee, em_before, e = state[EE, j], state[EM, j], state[E, j]
        em = beta1 * em_before + r * u * ee
        mm = beta1 * (beta1 * state[MM, j] + 2.0 * r * u * em_before)
        mm += r * r * (u * u * ee + noise[j])
        ms = beta1 * state[MS, j] + r * u * state[ES, j]
        m = beta1 * state[M, j] + r * u * e
        # Slopes in e', its moments, and the readout's.
        to_e = a[E, j] + weight * a[S, j]
        to_es = hold * (a[ES, j] + 2.0 * weight * a[SS, j])
        to_ee = a[EE, j] + weight * (a[ES, j] + weight * a[SS, j])
        to_em = a[EM, j] + weight * a[MS, j]
        to_ms = hold * a[MS, j] - d * to_es
        # In D, then in m' and its moments.
        to_d = 2.0 * to_ee * (d * mm - keep * em) - to_em * mm - to_e * m - to_es * ms
        into_em = keep * (to_em - 2.0 * d * to_ee)
        into_mm = d * (d * to_ee - to_em) + a[MM, j]
        into_m = a[M, j] - d * to_e
        a[SS, j] *= hold * hold
        a[S, j] *= hold
        a[ES, j] = keep * to_es + r * u * to_ms
        a[MS, j] = beta1 * to_ms
        a[EE, j] = keep * keep * to_ee + r * u * (into_em + r * u * into_mm)
        a[EM, j] = beta1 * (into_em + 2.0 * r * u * into_mm)
        a[MM, j] = beta1 * beta1 * into_mm
        a[E, j] = keep * to_e + r * u * into_m
        a[M, j] = beta1 * into_m
        slope[j] = r * r * into_mm  # in n2, by the noise alone
        # dD/dv' = -D sqrt(correct2/v') / (2 (sqrt(correct2 v') + eps)).
        v = second[j]
        to_v = 0.0
        if v > 0.0:
            root = math.sqrt(correct2 * v)
            to_v = -to_d * d * root / (2.0 * v * (root + eps))
        a[V, j] = a[V, j] + to_v
        common += a[V, j]
        directions += multiplicity[j]
    by_v = by_noise = to_trace = 0.0
    for j in range(mu.size):
        u = mu[j]
        in_v = a[V, j]
        if generic:
            in_v = common * multiplicity[j] / directions
        in_v *= 1.0 - beta2
        y = state[EE, j] + state[E, j] * state[E, j]
        unit = u * (u * y + trace)
        by_noise += slope[j] * unit
        by_v += merged * in_v * unit
        in_noise = slope[j] + merged * in_v
        to_trace += share * u * in_noise
        slope[j] = u * u * (in_v + share * in_noise)  # in E e^2, without the trace
    for j in range(mu.size):
        in_y = slope[j] + multiplicity[j] * mu[j] * to_trace
        a[EE, j] += in_y
        a[E, j] += 2.0 * state[E, j] * in_y
        a[V, j] *= beta2
    if generic:
        a[V, :] = 0.0
        a[V, 0] = beta2 * common
    return by_v, by_noise


@njit(nogil=True, cache=True)
def diagonal_slopes(mu, multiplicity, energy, s2, steps, running, eps, generic, shares, slopes):  # type: ignore[no-untyped-def]
    """The final excess; fills ``slopes`` (T, 2): its derivative in x_t, through v and the noise.

    The forward states are saved every sqrt(T) steps and recomputed in between.
    """
    T = steps.shape[0]
    size = mu.size
    block = math.ceil(math.sqrt(T))
    saved = np.empty(((T + block - 1) // block, ROWS, size))
    work = np.empty((4, size))
    state = _start(energy)
    start = state[E].copy()
    for t in range(T):
        if t % block == 0:
            copy_rows(state, saved[t // block])
        _scales(
            mu, multiplicity, state, s2, steps[t], eps, generic, shares[t],
            work[0], work[1], work[2],
        )  # fmt: skip
        _move(mu, start, state, steps[t], running[t], work[0], work[1], work[2])
    bias, variance = _excess(mu, multiplicity, state)
    a = np.zeros((ROWS, size))
    copy(multiplicity * mu, a[SS])
    copy(2.0 * multiplicity * mu * state[S], a[S])
    history = np.empty((block, ROWS, size))
    for k in range(saved.shape[0] - 1, -1, -1):
        first, last = k * block, min((k + 1) * block, T)
        copy_rows(saved[k], history[0])
        for t in range(first, last - 1):
            now = history[t - first + 1]
            copy_rows(history[t - first], now)
            _scales(
                mu, multiplicity, now, s2, steps[t], eps, generic, shares[t],
                work[0], work[1], work[2],
            )  # fmt: skip
            _move(mu, start, now, steps[t], running[t], work[0], work[1], work[2])
        for t in range(last - 1, first - 1, -1):
            slopes[t, 0], slopes[t, 1] = _back(
                mu, multiplicity, start, history[t - first], a, s2, steps[t], running[t],
                eps, generic, shares[t], work,
            )  # fmt: skip
    return bias + variance
