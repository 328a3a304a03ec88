"""Second moments of Adam where Sigma is diagonal, with v's spread around its mean.

The recursion of ``adam_matrix`` on its diagonal. With a common v, the mean of G_j^2 over
directions, its variance and tilt follow from the same cumulants, summed over directions; it is
taken as lognormal, without a third cumulant.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from batchlaw._base.kernels.adam_spread import (
    NO_GRADIENT,
    coupling,
    noise_over_drift,
    squared_gradient,
    step_factors,
    third_cumulant,
)
from batchlaw._base.kernels.common import REORDER, copy

# Rows of the state: second moments of (e, m, s), s the readout; their means; v, its variance and
# its tilt, in the first column alone where v is common (the tilt in all), and v's third cumulant.
EE, EM, MM, ES, MS, SS, E, M, S, V, SPREAD, TILT, THIRD = range(13)
ROWS = 13


@njit(nogil=True, cache=True, inline="always", error_model="numpy")
def _step(v, spread, third, tilt, ratio, rate, root, eps):  # type: ignore[no-untyped-def]
    """The step in the drift, in the noise, and its mean square."""
    second = max(v, NO_GRADIENT)
    scale = np.sqrt(second * root) + eps
    drift, noise, square = step_factors(
        tilt / second,
        ratio * tilt / second,
        spread / second**2,
        third / second**2 / second,
        0.5 * (1.0 - eps / scale),
    )
    whole = rate / scale
    return drift * whole, noise * whole, noise * noise * whole * whole * (1.0 + square)


@njit(nogil=True, cache=True, fastmath=REORDER, error_model="numpy")
def _own(  # type: ignore[no-untyped-def]
    mu, multiplicity, noise, batch, row, beta1, beta2, eps, spreads, x, D
):
    """Every direction with its own v; returns the mean relative variance."""
    rate, keep, root, ratio = row
    pace = spreads * (1.0 - beta2)
    total = directions = 0.0
    for j in range(mu.size):
        g2, h = mu[j] * mu[j] * x[EE, j], mu[j] * noise
        tilted, common, own = squared_gradient(h, g2, batch)
        v = beta2 * x[V, j] + (1.0 - beta2) * (g2 + (g2 + h) / batch)
        spread = beta2 * beta2 * x[SPREAD, j] + pace * (1.0 - beta2) * (common + own)
        tilt = beta1 * beta2 * x[TILT, j] + (1.0 - beta1) * pace * tilted
        third = beta2**3 * x[THIRD, j]
        third += pace * (1.0 - beta2) ** 2 * third_cumulant(h, g2, batch)
        x[V, j], x[SPREAD, j], x[TILT, j], x[THIRD, j] = v, spread, tilt, third
        D[0, j], D[1, j], D[2, j] = _step(
            v, spread, third, tilt * keep, ratio, rate * keep, root, eps
        )
        total += multiplicity[j] * spread / max(v, NO_GRADIENT) ** 2
        directions += multiplicity[j]
    return total / directions


@njit(nogil=True, cache=True, fastmath=REORDER, error_model="numpy")
def _common(mu, multiplicity, noise, batch, row, beta1, beta2, eps, spreads, x, D):  # type: ignore[no-untyped-def]
    """One v for all directions, which share the terms of the sums H and Q; as ``_own``."""
    rate, keep, root, ratio = row
    b = 1.0 / batch
    H = Q = rest = directions = 0.0
    for j in range(mu.size):
        g2, h = mu[j] * mu[j] * x[EE, j], mu[j] * noise
        H += multiplicity[j] * h
        Q += multiplicity[j] * g2
        rest += multiplicity[j] * h * (h * (2.0 + 4.0 * b) + g2 * (4.0 * batch + 20.0 + 24.0 * b))
        directions += multiplicity[j]
    whole = b * b * rest + b * Q * Q * (4.0 + b * (10.0 + 6.0 * b))
    whole += b * b * H * (2.0 * b * H + Q * (8.0 + 12.0 * b))
    pace = spreads * (1.0 - beta2)
    v = beta2 * x[V, 0] + (1.0 - beta2) * (Q + b * (Q + H)) / directions
    spread = beta2 * beta2 * x[SPREAD, 0] + pace * (1.0 - beta2) * whole / directions**2
    x[V, 0], x[SPREAD, 0] = v, spread
    for j in range(mu.size):
        tilted = b * (2.0 * b * H + Q * (2.0 + 2.0 * b) + mu[j] * noise * (2.0 + 4.0 * b))
        tilt = beta1 * beta2 * x[TILT, j] + (1.0 - beta1) * pace * tilted / directions
        x[TILT, j] = tilt
        D[0, j], D[1, j], D[2, j] = _step(
            v, spread, 0.0, tilt * keep, ratio, rate * keep, root, eps
        )
    return spread / max(v, NO_GRADIENT) ** 2


@njit(nogil=True, cache=True, fastmath=REORDER, error_model="numpy")
def _move(mu, start, noise, share, shrink, beta1, running, x, D):  # type: ignore[no-untyped-def]
    hold, weight = running
    r = 1.0 - beta1
    for j in range(mu.size):
        u, ee = mu[j], x[EE, j]
        pull = (1.0 - shrink) * start[j]
        gg = u * u * ee + share * u * (u * ee + noise)
        em = beta1 * x[EM, j] + r * u * ee
        mm = beta1 * (beta1 * x[MM, j] + 2.0 * r * u * x[EM, j]) + r * r * gg
        ms = beta1 * x[MS, j] + r * u * x[ES, j]
        m = beta1 * x[M, j] + r * u * x[E, j]
        before = shrink * x[E, j] - D[0, j] * m
        es = shrink * x[ES, j] - D[0, j] * ms + x[S, j] * pull
        ee = shrink * shrink * ee - 2.0 * shrink * D[0, j] * em + D[2, j] * mm
        ee += pull * (pull + 2.0 * before)
        em = shrink * em - D[1, j] * mm + m * pull
        x[SS, j] = hold * hold * x[SS, j] + weight * (2.0 * hold * es + weight * ee)
        x[ES, j] = hold * es + weight * ee
        x[MS, j] = hold * ms + weight * em
        x[EE, j], x[EM, j], x[MM, j], x[M, j] = ee, em, mm, m
        x[E, j] = before + pull
        x[S, j] = hold * x[S, j] + weight * x[E, j]


@njit(nogil=True, cache=True, fastmath=REORDER, error_model="numpy")
def _record(mu, multiplicity, x, out):  # type: ignore[no-untyped-def]
    bias = whole = 0.0
    for j in range(mu.size):
        w = multiplicity[j] * mu[j]
        bias += w * x[S, j] * x[S, j]
        whole += w * x[SS, j]
    out[0] = bias
    out[1] = whole - bias


@njit(nogil=True, cache=True, fastmath=REORDER, error_model="numpy")
def adam_diagonal_moments(  # type: ignore[no-untyped-def]
    mu, multiplicity, energy, s2, rates, batches, rule, running, generic, spreads, doubt, out
):
    """As ``adam_matrix.adam_moments``, O(M) per step; with ``generic`` one v for all."""
    S_, T = batches.shape
    every = out.shape[1] == T + 1
    beta1, beta2, eps, decay = rule
    D = np.empty((3, mu.size))
    for s in range(S_):
        x = np.zeros((ROWS, mu.size))
        start = -np.sqrt(energy)
        for k in (E, S):
            copy(start, x[k])
        for k in (EE, ES, SS):
            copy(energy, x[k])
        if every:
            _record(mu, multiplicity, x, out[s, 0])
        for t in range(T):
            noise = s2
            for j in range(mu.size):
                noise += multiplicity[j] * mu[j] * x[EE, j]
            batch = batches[s, t]
            row = (
                rates[t],
                1.0 / (1.0 - beta1 ** (t + 1)),
                1.0 / (1.0 - beta2 ** (t + 1)),
                noise_over_drift(beta1, beta2, t + 1),
            )
            if generic:
                variance = _common(
                    mu, multiplicity, noise, batch, row, beta1, beta2, eps, spreads, x, D
                )
            else:
                variance = _own(
                    mu, multiplicity, noise, batch, row, beta1, beta2, eps, spreads, x, D
                )
            share = 1.0 / batch
            if doubt != 0.0:
                removed = 0.0
                for j in range(mu.size):
                    removed += 2.0 * multiplicity[j] * D[0, j] * mu[j] * mu[j] * x[EE, j]
                share *= 1.0 + doubt * coupling(variance, removed, noise - s2, beta2)
            shrink = 1.0 - rates[t] * decay
            _move(mu, start, noise, share, shrink, beta1, running[t], x, D)
            if every:
                _record(mu, multiplicity, x, out[s, t + 1])
        if not every:
            _record(mu, multiplicity, x, out[s, 0])
