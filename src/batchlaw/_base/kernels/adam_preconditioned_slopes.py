"""Slopes of the final excess of ``adam_preconditioned`` in every batch, v at its mean."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from batchlaw._base.kernels.adam_preconditioned import (
    DRIFT,
    EE,
    EM,
    MM,
    PARTS,
    ROWS,
    SQUARE,
    N,
    U,
    X,
    clear,
    move,
    products,
    set_steps,
)
from batchlaw._base.kernels.common import REORDER, copy, copy_rows

# Row of a saved state with xhat of the update that follows it; the next row has y.
SPARE = ROWS


@njit(nogil=True, cache=True, fastmath=REORDER, error_model="numpy")
def _back(nu, roots, row, eps, share, trace, steps, D, now, n, a, to_y, to_xhat):  # type: ignore[no-untyped-def]
    """Slopes in the share 1/B of one step, through v and by the noise.

    ``now`` is the state before the step but for u, n the mean of m after it; ``a``, the slopes
    in the state after the step, become those before it, but for the two products: fills to_y, and
    to_xhat without what comes through y.
    """
    _, keep, beta1, beta2, _, correct2, _ = row
    xhat, y = now[SPARE], now[SPARE + 1]
    r, M = 1.0 - beta1, nu.size
    d, square = steps[DRIFT], steps[SQUARE]
    to_d = to_square = by_noise = to_trace = total = 0.0
    for j in range(M):
        u, g = nu[j], nu[j] * xhat[j]
        c = u * now[EE, j]
        unit = u * c + g * g + u * trace
        em = beta1 * now[EM, j] + r * c
        mm = beta1 * (beta1 * now[MM, j] + 2.0 * r * u * now[EM, j])
        mm += r * r * (u * c + share * unit)
        to_d -= 2.0 * keep * a[EE, j] * em + a[EM, j] * mm
        to_square += a[EE, j] * mm
        into_em = keep * (a[EM, j] - 2.0 * d * a[EE, j])
        into_mm = square * a[EE, j] - d * a[EM, j] + a[MM, j]
        noise = r * r * into_mm
        by_noise += noise * unit
        to_trace += share * noise * u
        to_xhat[j] = 2.0 * share * noise * g * u
        a[EE, j] = keep * keep * a[EE, j] + r * u * into_em + (1.0 + share) * noise * u * u
        a[EM, j] = beta1 * (into_em + 2.0 * r * u * into_mm)
        a[MM, j] = beta1 * beta1 * into_mm
        total += u
    by_v = to_f = 0.0
    for i in range(M):
        to_step = (to_d + 2.0 * D[i] * to_square) / M - a[X, i] * n[i]
        into_n = a[N, i] - D[i] * a[X, i]
        second = now[U, i]
        root = math.sqrt(correct2 * second)
        below = 2.0 * second * (root + eps / roots[i])
        to_u = a[U, i]
        if below > 0.0:
            to_u -= to_step * D[i] * root / below
        into_v = (1.0 - beta2) * to_u
        # The mean square of the gradient is (trace + g2)/B + g2, and f is part of g2.
        size = y[i] * y[i] / roots[i]
        by_v += into_v * (trace + size)
        to_trace += share * into_v
        to_f += into_v
        to_y[i] = 2.0 * y[i] / roots[i] * (1.0 + share) * into_v + r * into_n
        a[X, i] *= keep
        a[N, i] = beta1 * into_n
        a[U, i] = beta2 * to_u
    f = 0.0
    for j in range(M):
        f += nu[j] * nu[j] * now[EE, j] / total
        a[EE, j] += nu[j] * (to_trace + nu[j] * (1.0 + share) * to_f / total)
        to_xhat[j] += 2.0 * nu[j] * xhat[j] * to_trace
    return by_v + f * to_f, by_noise


@njit(nogil=True, cache=True)
def _run(problem, table, eps, running, batches, first, last, history, traces, steps, D):  # type: ignore[no-untyped-def]
    """Updates ``first`` to ``last`` from the state in ``history[0]``, keeping what is on the way.

    Row i of ``history`` is the state before an update, but for u, that is after it.
    """
    nu, axes, roots, leverage, likeness, target, s2 = problem
    states = np.empty((1, ROWS, nu.size))
    xs, ghat = np.empty((1, nu.size)), np.empty((1, nu.size))
    xhat, y = np.empty((1, nu.size)), np.empty((1, nu.size))
    state, start = states[0], -target
    copy_rows(history[0], state)
    for t in range(first, last):
        i = t - first
        products(nu, axes, states, xs, xhat, ghat, y)
        traces[i] = set_steps(
            nu, roots, likeness, s2, table[t], eps, batches[t], 0.0, 0.0, 1.0,
            xhat[0], y[0], state, steps[i], D[i],
        )  # fmt: skip
        copy(state[U], history[i, U])
        copy(xhat[0], history[i, SPARE])
        copy(y[0], history[i, SPARE + 1])
        move(
            nu, leverage, start, table[t], running[t], batches[t], traces[i],
            xhat[0], y[0], steps[i], D[i], state,
        )  # fmt: skip
        copy_rows(state, history[i + 1])


@njit(nogil=True, cache=True)
def preconditioned_slopes(problem, table, eps, running, batches, slopes):  # type: ignore[no-untyped-def]
    """The final excess; fills ``slopes`` (T, 2): its derivative in 1/B_t, through v and the noise.

    ``problem`` is that of ``preconditioned_moments``. The forward states are saved every sqrt(T)
    steps and recomputed in between.
    """
    nu, axes, roots = problem[0], problem[1], problem[2]
    T, M = batches.size, nu.size
    block = math.ceil(math.sqrt(T))
    blocks = (T + block - 1) // block
    saved = np.empty((blocks, ROWS, M))
    history = np.empty((block + 1, ROWS + 2, M))
    traces, steps, D = np.empty(block), np.empty((block, PARTS)), np.empty((block, M))
    clear(problem[5], saved[0])
    a = np.zeros((ROWS, M))
    to_y, to_xhat, into = np.empty(M), np.empty(M), np.empty(M)
    excess = 0.0
    # Forward through all blocks, then back through them; the last one is run once.
    for k in range(2 * blocks - 1):
        back = k >= blocks - 1
        now = 2 * blocks - 2 - k if back else k
        first, last = now * block, min((now + 1) * block, T)
        copy_rows(saved[now], history[0])
        _run(problem, table, eps, running, batches, first, last, history, traces, steps, D)
        end = history[last - first]
        if not back:
            copy_rows(end, saved[now + 1])
            continue
        if k == blocks - 1:
            np.dot(axes, end[X], into)
            for j in range(M):
                excess += nu[j] * (end[EE, j] + into[j] * into[j])
                a[EE, j] = nu[j]
                to_xhat[j] = 2.0 * nu[j] * into[j]
            np.dot(to_xhat, axes, into)
            copy(into, a[X])
        for t in range(last - 1, first - 1, -1):
            i = t - first
            slopes[t, 0], slopes[t, 1] = _back(
                nu, roots, table[t], eps, 1.0 / batches[t], traces[i], steps[i], D[i],
                history[i], history[i + 1, N], a, to_y, to_xhat,
            )  # fmt: skip
            np.dot(axes, to_y, into)
            for j in range(M):
                to_xhat[j] += nu[j] * into[j]
            np.dot(to_xhat, axes, into)
            for j in range(M):
                a[X, j] += into[j]
    return excess
