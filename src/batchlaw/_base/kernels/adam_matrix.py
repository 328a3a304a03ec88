"""Second moments of Adam in the coordinates in which it works, Sigma a full matrix."""

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
from batchlaw._base.kernels.common import REORDER, copy_rows


@njit(nogil=True, cache=True, fastmath=REORDER, error_model="numpy")
def _trace(a, b):  # type: ignore[no-untyped-def]
    """tr(a b) of symmetric matrices."""
    total = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            total += a[i, j] * b[i, j]
    return total


@njit(nogil=True, cache=True, fastmath=REORDER, error_model="numpy")
def _steps(  # type: ignore[no-untyped-def]
    sigma, signal, noise, batch, rate, step, rule, spreads, spread, v, tilt, D
):
    """Update v, its spread and its tilt, and fill D; returns the mean relative variance of v.

    Rows of ``spread`` are Var(v), the part that all coordinates of a batch share and the rest,
    and the third cumulant of v. Rows of D are the step in the drift and in the noise, and two
    whose products over a pair of coordinates are the steps' relative covariance from either part.
    """
    beta1, beta2, eps, _ = rule
    keep, root = 1.0 / (1.0 - beta1**step), 1.0 / (1.0 - beta2**step)
    ratio = noise_over_drift(beta1, beta2, step)
    pace = spreads * (1.0 - beta2)
    total = 0.0
    for i in range(v.size):
        g2, h = signal[i, i], sigma[i, i] * noise
        tilted, common, own = squared_gradient(h, g2, batch)
        v[i] = beta2 * v[i] + (1.0 - beta2) * (g2 + (g2 + h) / batch)
        tilt[i] = beta1 * beta2 * tilt[i] + (1.0 - beta1) * pace * tilted
        spread[0, i] = beta2 * beta2 * spread[0, i] + pace * (1.0 - beta2) * common
        spread[1, i] = beta2 * beta2 * spread[1, i] + pace * (1.0 - beta2) * own
        spread[2, i] = beta2**3 * spread[2, i] + pace * (1.0 - beta2) ** 2 * third_cumulant(
            h, g2, batch
        )
        second = max(v[i], NO_GRADIENT)
        scale = np.sqrt(second * root) + eps
        drift_tilt = tilt[i] * keep / second
        whole = spread[0, i] + spread[1, i]
        variance = whole / second**2
        total += variance
        drift, noisy, square = step_factors(
            drift_tilt,
            ratio * drift_tilt,
            variance,
            spread[2, i] / second**2 / second,
            0.5 * (1.0 - eps / scale),
        )
        D[0, i] = drift * rate * keep / scale
        D[1, i] = noisy * rate * keep / scale
        share = square / whole if whole > 0.0 else 0.0
        D[2, i] = np.sqrt(share * spread[0, i])
        D[3, i] = np.sqrt(share * spread[1, i])
    return total / v.size


@njit(nogil=True, cache=True, fastmath=REORDER, error_model="numpy")
def adam_moments(  # type: ignore[no-untyped-def]
    sigma, target, residual_variance, rates, batches, rule, running, spreads, doubt, out
):
    """The mean field of docs/adam_mean_field.md. ``out`` is (S, K, 2): bias and variance.

    K = T + 1 records the start and every step, K = 1 the end only. ``rule`` is (beta1, beta2,
    eps, weight_decay), rows of ``running`` are (hold, weight) of the readout s' = hold s +
    weight e', ``spreads`` is 1, or 0 for v at its mean. The noise of every step is 1 + ``doubt``
    times its ``coupling`` of what it is. Per schedule the state is E[e e'], E[m e'],
    E[m m'], the means of e and m, and v; with an average E[s e'], E[s m'], tr(Sigma E[s s']) too.
    """
    S, T = batches.shape
    M = target.size
    every = out.shape[1] == T + 1
    beta1, decay = rule[0], rule[3]
    gain = 1.0 - beta1
    rows = 2 * M if beta1 > 0.0 else M
    averaged = False
    for t in range(T):
        averaged = averaged or running[t, 0] != 0.0
    likeness = np.empty((M, M))
    for i in range(M):
        for j in range(M):
            likeness[i, j] = sigma[i, j] ** 2 / (sigma[i, i] * sigma[j, j])
    state = np.empty((2 * M, M))  # E[e e'] over E[m e']
    ee, me = state[:M], state[M:]
    product = np.zeros((2 * M, M))  # the same times Sigma: E[e G'] over E[m G']
    eg, mg = product[:M], product[M:]
    gg = np.empty((M, M))
    mm = np.empty((M, M))
    se, sm, sg = np.empty((M, M)), np.empty((M, M)), np.empty((M, M))
    D = np.empty((4, M))
    before = np.empty(M)
    for s in range(S):
        e, m, v, tilt = -target, np.zeros(M), np.zeros(M), np.zeros(M)
        spread = np.zeros((3, M))
        for i in range(M):
            for j in range(M):
                ee[i, j] = target[i] * target[j]
        me[:] = 0.0
        mm[:] = 0.0
        copy_rows(ee, se)
        sm[:] = 0.0
        mean = e.copy()
        square = _trace(sigma, ee)
        if every:
            out[s, 0, 0] = mean @ (sigma @ mean)
            out[s, 0, 1] = 0.0
        for t in range(T):
            batch = batches[s, t]
            np.dot(state[:rows], sigma, product[:rows])
            np.dot(sigma, eg, gg)
            noise = np.trace(eg) + residual_variance
            variance = _steps(
                sigma, gg, noise, batch, rates[t], t + 1, rule, spreads, spread, v, tilt, D
            )
            shrink = 1.0 - rates[t] * decay
            pull = rates[t] * decay * target
            m = beta1 * m + gain * (sigma @ e)
            before = shrink * e - D[0] * m
            for i in range(M):
                for j in range(M):
                    me[i, j] = beta1 * me[i, j] + gain * eg[j, i]
            louder = 1.0 / batch
            if doubt != 0.0:
                removed = 0.0
                for i in range(M):
                    removed += 2.0 * D[0, i] * gg[i, i]
                louder *= 1.0 + doubt * coupling(
                    variance, removed, noise - residual_variance, rule[1]
                )
            own, shared = gain * gain * (1.0 + louder), gain * gain * noise * louder
            for i in range(M):
                for j in range(i + 1):
                    x = own * gg[i, j] + shared * sigma[i, j]
                    x += beta1 * (beta1 * mm[i, j] + gain * (mg[i, j] + mg[j, i]))
                    pair = 1.0 + D[2, i] * D[2, j] + D[3, i] * D[3, j] * likeness[i, j]
                    y = shrink * shrink * ee[i, j] + D[1, i] * D[1, j] * pair * x
                    y -= shrink * (D[0, i] * me[i, j] + D[0, j] * me[j, i])
                    y += pull[i] * pull[j] - before[i] * pull[j] - pull[i] * before[j]
                    mm[i, j] = x
                    mm[j, i] = x
                    ee[i, j] = y
                    ee[j, i] = y
            hold, weight = running[t]
            if averaged:
                # Old readout times new e and m first; then weight e' is added to it.
                np.dot(se, sigma, sg)
                for i in range(M):
                    for j in range(M):
                        sm[i, j] = beta1 * sm[i, j] + gain * sg[i, j]
                        se[i, j] = shrink * se[i, j] - sm[i, j] * D[0, j] - mean[i] * pull[j]
                square = hold * hold * square + 2.0 * hold * weight * _trace(sigma, se)
                square += weight * weight * _trace(sigma, ee)
            for i in range(M):
                for j in range(M):
                    me[i, j] = shrink * me[i, j] - mm[i, j] * D[1, j] - m[i] * pull[j]
            e = before - pull
            mean = hold * mean + weight * e
            if averaged:
                for i in range(M):
                    for j in range(M):
                        se[i, j] = hold * se[i, j] + weight * ee[i, j]
                        sm[i, j] = hold * sm[i, j] + weight * me[j, i]
            if every or t == T - 1:
                k = t + 1 if every else 0
                whole = square if averaged else _trace(sigma, ee)
                out[s, k, 0] = mean @ (sigma @ mean)
                out[s, k, 1] = whole - out[s, k, 0]
