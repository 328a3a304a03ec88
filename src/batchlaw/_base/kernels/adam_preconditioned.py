r"""Second moments of Adam in a sketch's own coordinates, O(M^2) per step: basis "sketch-diagonal".

Where noise sets v, v_i is proportional to s_i = Sigma_ii, and Adam has one scale in the coordinates
x = s^1/4 e, in which Sigma is H = s^-1/4 Sigma s^-1/4 = Q diag(nu) Q^T. The mean of the error is
followed in all coordinates, each with its own v; its covariance on H's eigenvectors alone, as C:

    xhat = Q^T x,   ghat = nu xhat,   y = Q ghat                       (two products with Q)
    trace = s2 + sum nu (C + xhat^2),   f = sum nu^2 C / sum nu
    u_i' = beta2 u_i + (1 - beta2) (y_i^2 / s_i^1/2 + f + (y_i^2 / s_i^1/2 + f + trace) / B)
    step_i = rate / (1 - beta1^t) / (sqrt(u_i' / (1 - beta2^t)) + eps / s_i^1/2)
    n' = beta1 n + (1 - beta1) y,   x' = keep x + (1 - keep) x_0 - step n'

u = v / s, n = s^-1/4 m. C and the covariances with m move as in ``adam_diagonal``, with the means
over coordinates of step and step^2. v's spread enters as in ``adam_matrix``.
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

# Rows of the state. On eigenvectors of H: covariances of (e, m, s), s the readout, and the mean of
# m. By coordinate: means of e, m and s, and u with both parts of its variance, its
# tilt and its third cumulant.
EE, EM, MM, ES, MS, SS, MEAN, X, N, R, U, COMMON, OWN, TILT, THIRD = range(15)
ROWS = 15
# What a step is, averaged over coordinates: in the drift, in the noise, its square in the noise and
# by how much that exceeds the square in the drift; then the parts of its variance: kept on an
# eigenvector, and spread over all of them, per unit of tr Cov(n) and by the mean of n;
# and by which factor the noise is raised where it is in doubt.
DRIFT, NOISE, SQUARE, EXCESS, KEPT, LEAK, LEAK_OF_MEAN, LOUDER = range(8)
PARTS = 8


@njit(nogil=True, cache=True)
def clear(target, state):  # type: ignore[no-untyped-def]
    """The state at the start, from the target in the coordinates x."""
    state[:] = 0.0
    for i in range(target.size):
        state[X, i] = -target[i]
        state[R, i] = -target[i]


@njit(nogil=True, cache=True, fastmath=REORDER, error_model="numpy")
def set_steps(  # type: ignore[no-untyped-def]
    nu, roots, likeness, s2, row, eps, batch, spreads, doubt, ratio, xhat, y, x, steps, D
):
    """Update u, its spread and its tilt; fill D with the steps in the drift; returns the trace."""
    rate, _, beta1, beta2, correct1, correct2, _ = row
    M = nu.size
    trace = s2
    square = total = 0.0
    for j in range(M):
        trace += nu[j] * (x[EE, j] + xhat[j] * xhat[j])
        square += nu[j] * nu[j] * x[EE, j]
        total += nu[j]
    pace = spreads * (1.0 - beta2)
    steps[:] = 0.0
    varied = removed = 0.0
    for i in range(M):
        g2 = y[i] * y[i] / roots[i] + square / total
        tilted, common, own = squared_gradient(trace, g2, batch)
        u = beta2 * x[U, i] + (1.0 - beta2) * (g2 + (g2 + trace) / batch)
        tilt = beta1 * beta2 * x[TILT, i] + (1.0 - beta1) * pace * tilted
        common = beta2 * beta2 * x[COMMON, i] + pace * (1.0 - beta2) * common
        own = beta2 * beta2 * x[OWN, i] + pace * (1.0 - beta2) * own
        third = beta2**3 * x[THIRD, i]
        third += pace * (1.0 - beta2) ** 2 * third_cumulant(trace, g2, batch)
        x[THIRD, i] = third
        x[U, i], x[TILT, i], x[COMMON, i], x[OWN, i] = u, tilt, common, own
        second = max(u, NO_GRADIENT)
        floor = eps / roots[i]
        scale = np.sqrt(second * correct2) + floor
        drift_tilt, whole = tilt * correct1 / second, common + own
        drift, noisy, variance = step_factors(
            drift_tilt,
            ratio * drift_tilt,
            whole / second**2,
            third / second**2 / second,
            0.5 * (1.0 - floor / scale),
        )
        base = rate * correct1 / scale
        D[i] = drift * base
        varied += whole / second**2 / M
        removed += 2.0 * D[i] * g2 * roots[i]
        n2 = noisy * base * noisy * base / M
        share = n2 * variance / whole if whole > 0.0 else 0.0
        steps[DRIFT] += D[i] / M
        steps[NOISE] += noisy * base / M
        steps[SQUARE] += n2
        steps[EXCESS] += n2 - D[i] * D[i] / M
        steps[KEPT] += share * (common + own * likeness)
        # The covariance of n is nearly in proportion to H, whose diagonal is s^1/2.
        n = beta1 * x[N, i] + (1.0 - beta1) * y[i]
        leak = share * own * (1.0 - likeness) * M
        steps[LEAK] += leak * roots[i] / total
        steps[LEAK_OF_MEAN] += leak * n * n
    steps[LOUDER] = 1.0 + doubt * coupling(varied, removed, trace - s2, beta2)
    return trace


@njit(nogil=True, cache=True, fastmath=REORDER, error_model="numpy")
def move(nu, leverage, start, row, running, batch, trace, xhat, y, steps, D, x):  # type: ignore[no-untyped-def]
    """One update of the means and of the covariances."""
    keep, beta1 = row[1], row[2]
    hold, weight = running
    r = 1.0 - beta1
    share = steps[LOUDER] / batch
    for i in range(nu.size):
        x[N, i] = beta1 * x[N, i] + r * y[i]
        x[X, i] = keep * x[X, i] + (1.0 - keep) * start[i] - D[i] * x[N, i]
        x[R, i] = hold * x[R, i] + weight * x[X, i]
    moment = 0.0
    for j in range(nu.size):
        u = nu[j]
        g = u * xhat[j]
        c = u * x[EE, j]
        x[MEAN, j] = beta1 * x[MEAN, j] + r * g
        mm = beta1 * (beta1 * x[MM, j] + 2.0 * r * u * x[EM, j])
        mm += r * r * (u * c + share * (u * c + g * g + u * trace))
        x[MM, j] = mm
        x[EM, j] = beta1 * x[EM, j] + r * c
        moment += mm
    d, leak = steps[DRIFT], steps[LEAK] * moment + steps[LEAK_OF_MEAN]
    for j in range(nu.size):
        em, mm, square = x[EM, j], x[MM, j], x[MEAN, j] * x[MEAN, j]
        ms = beta1 * x[MS, j] + r * nu[j] * x[ES, j]
        es = keep * x[ES, j] - d * ms
        ee = keep * keep * x[EE, j] - 2.0 * keep * d * em + steps[SQUARE] * mm
        ee += (steps[KEPT] + steps[EXCESS]) * square + steps[KEPT] * mm + leak * leverage[j]
        em = keep * em - steps[NOISE] * mm + (d - steps[NOISE]) * square
        x[SS, j] = hold * hold * x[SS, j] + weight * (2.0 * hold * es + weight * ee)
        x[ES, j] = hold * es + weight * ee
        x[MS, j] = hold * ms + weight * em
        x[EE, j], x[EM, j] = ee, em


@njit(nogil=True, cache=True)
def products(nu, axes, states, xs, xhat, ghat, y):  # type: ignore[no-untyped-def]
    """Fill xhat, ghat and y (S, M) of all schedules; rows of ``axes`` are the eigenvectors."""
    for s in range(states.shape[0]):
        copy(states[s, X], xs[s])
    np.dot(xs, axes.T, xhat)
    for s in range(states.shape[0]):
        for j in range(nu.size):
            ghat[s, j] = nu[j] * xhat[s, j]
    np.dot(ghat, axes, y)


@njit(nogil=True, cache=True, fastmath=REORDER, error_model="numpy")
def _record(nu, axes, states, xs, xhat, out, k):  # type: ignore[no-untyped-def]
    for s in range(states.shape[0]):
        copy(states[s, R], xs[s])
    np.dot(xs, axes.T, xhat)
    for s in range(states.shape[0]):
        bias = variance = 0.0
        for j in range(nu.size):
            bias += nu[j] * xhat[s, j] * xhat[s, j]
            variance += nu[j] * states[s, SS, j]
        out[s, k, 0] = bias
        out[s, k, 1] = variance


@njit(nogil=True, cache=True)
def preconditioned_moments(  # type: ignore[no-untyped-def]
    problem, table, eps, running, batches, spreads, doubt, out
):
    """Fill ``out`` (S, K, 2) with bias and variance, as ``adam_matrix.adam_moments`` does.

    Rows of ``table`` are those of ``adam_diagonal``. In ``problem``, ``leverage`` is the part of a
    noise in proportion to s^1/2, independent between coordinates, that falls on every eigenvector,
    and ``likeness`` the mean squared correlation of two coordinates.
    """
    nu, axes, roots, leverage, likeness, target, s2 = problem
    S, T = batches.shape
    M = nu.size
    every = out.shape[1] == T + 1
    states = np.empty((S, ROWS, M))
    for s in range(S):
        clear(target, states[s])
    xs, xhat, ghat, y = (np.empty((S, M)), np.empty((S, M)), np.empty((S, M)), np.empty((S, M)))
    start, D, steps = -target, np.empty(M), np.empty(PARTS)
    if every:
        _record(nu, axes, states, xs, xhat, out, 0)
    for t in range(T):
        products(nu, axes, states, xs, xhat, ghat, y)
        row = table[t]
        ratio = noise_over_drift(row[2], row[3], t + 1)
        for s in range(S):
            trace = set_steps(
                nu, roots, likeness, s2, row, eps, batches[s, t], spreads, doubt, ratio,
                xhat[s], y[s], states[s], steps, D,
            )  # fmt: skip
            move(
                nu, leverage, start, row, running[t], batches[s, t], trace,
                xhat[s], y[s], steps, D, states[s],
            )  # fmt: skip
        if every:
            _record(nu, axes, states, xs, xhat, out, t + 1)
    if not every:
        _record(nu, axes, states, xs, xhat, out, 0)
