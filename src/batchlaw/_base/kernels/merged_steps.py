"""Second moments over many updates at once, for plans: one scale D for all directions.

A row of ``steps`` stands for c updates with one rate, one batch and one D. Within it a direction
relaxes exponentially and its noise reaches the level that momentum beta gives at a fixed rate:

    N_j = x mu_j (mu_j E e_j^2 + s2 + sum_k n_k mu_k E e_k^2),   x = 1/B
    v'  = keep2 v + (1 - keep2) sum_j n_j (mu_j^2 E e_j^2 + N_j) / sum_j n_j
    D   = rate correct1 / (sqrt(correct2 v') + eps),   z_j = D mu_j + shrink,   h_j = exp(-c z_j)
    level_j   = (1 + beta) / (2 (1 + beta) - (1 - beta) D mu_j)
    e_j'      = h_j e_j + (1 - h_j) e_j(0) shrink / z_j
    Var e_j'  = h_j^2 Var e_j + (1 - h_j^2) D^2 N_j level_j / z_j

so that directions of any stiffness are stable where single updates are. ``shrink`` is rate times
weight decay. Without a second moment (``adaptive`` false) D is the rate.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from batchlaw._base.kernels.common import REORDER

# Columns of ``steps``.
RATE, SHRINK, KEEP2, CORRECT1, CORRECT2, COUNT = range(6)
# Next to the largest stable step the noise level is cut off at this multiple of a small step's:
# with a larger step the noise raises v, which lowers D again.
LARGEST_LEVEL = 25.0
# c z below which 1 - exp(-2 c z) is expanded.
SMALL = 1e-2


@njit(nogil=True, cache=True, fastmath=REORDER, inline="always")
def _relax(count, z):  # type: ignore[no-untyped-def]
    """exp(-c z), (1 - exp(-2 c z))/z and the derivative of the latter in z."""
    u = count * z
    h = math.exp(-u)
    if u < SMALL:
        q = 2.0 * count * (1.0 - u * (1.0 - u * (2.0 / 3.0 - u * (1.0 / 3.0 - u * 2.0 / 15.0))))
        slope = -2.0 * count * count * (1.0 - u * (4.0 / 3.0 - u * (1.0 - u * 8.0 / 15.0)))
    else:
        q = (1.0 - h * h) / z
        slope = (2.0 * count * h * h - q) / z
    return h, q, slope


@njit(nogil=True, cache=True, fastmath=REORDER, inline="always")
def _momentum_level(beta, x):  # type: ignore[no-untyped-def]
    """Stationary variance over D^2 N / z at the step x = D mu, and its derivative in x."""
    room = 2.0 * (1.0 + beta) - (1.0 - beta) * x
    if room * LARGEST_LEVEL <= 2.0 * (1.0 + beta):
        return 0.5 * LARGEST_LEVEL, 0.0
    level = (1.0 + beta) / room
    return level, level * (1.0 - beta) / room


@njit(nogil=True, cache=True, fastmath=REORDER, inline="always")
def _levels(mu, multiplicity, var, mean, s2, row, share, v, eps, adaptive, noise):  # type: ignore[no-untyped-def]
    """Fill N; returns the trace, v' and D."""
    trace = s2
    for j in range(mu.size):
        trace += multiplicity[j] * mu[j] * (var[j] + mean[j] * mean[j])
    square = directions = 0.0
    for j in range(mu.size):
        m = mu[j]
        y = var[j] + mean[j] * mean[j]
        noise[j] = share * m * (m * y + trace)
        square += multiplicity[j] * (m * m * y + noise[j])
        directions += multiplicity[j]
    if not adaptive:
        return trace, 0.0, row[RATE]
    v = row[KEEP2] * v + (1.0 - row[KEEP2]) * square / directions
    root = math.sqrt(row[CORRECT2] * v) + eps
    return trace, v, row[RATE] * row[CORRECT1] / root


@njit(nogil=True, cache=True, fastmath=REORDER)
def merged_excess(mu, multiplicity, energy, s2, steps, beta, eps, adaptive, shares, saved):  # type: ignore[no-untyped-def]
    """The final excess; infinite where a direction of SGD is unstable.

    ``saved`` (T + 1, 2, M + 1) is filled with variances and means before each row and at the end;
    v is in column M of the variances.
    """
    size = mu.size
    noise = np.empty(size)
    v = 0.0
    for j in range(size):
        saved[0, 0, j] = 0.0
        saved[0, 1, j] = -math.sqrt(energy[j])
    saved[0, 0, size] = 0.0
    for t in range(steps.shape[0]):
        row = steps[t]
        var, mean, after = saved[t, 0], saved[t, 1], saved[t + 1]
        _, v, d = _levels(mu, multiplicity, var, mean, s2, row, shares[t], v, eps, adaptive, noise)
        after[0, size] = v
        if not adaptive and (1.0 - beta) * d * mu[0] >= 2.0 * (1.0 + beta):
            return math.inf
        for j in range(size):
            x = d * mu[j]
            z = x + row[SHRINK]
            h, q, _ = _relax(row[COUNT], z)
            level, _ = _momentum_level(beta, x)
            pull = row[SHRINK] / z if z > 0.0 else 0.0
            after[0, j] = h * h * var[j] + q * d * d * noise[j] * level
            after[1, j] = h * mean[j] + (1.0 - h) * pull * saved[0, 1, j]
    last = saved[steps.shape[0]]
    excess = 0.0
    for j in range(size):
        excess += multiplicity[j] * mu[j] * (last[0, j] + last[1, j] * last[1, j])
    return excess


@njit(nogil=True, cache=True, fastmath=REORDER)
def fixed_excess(mu, multiplicity, energy, s2, steps, beta, shares, saved, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (S,): ``merged_excess`` of SGD without weight decay, for shares (S, R).

    D is the rate, so that what a row keeps and injects, and the means, are the same for all
    schedules. ``saved`` (S, R, M) is filled with E e_j^2 before each row; with no rows it is not.
    """
    size, R = mu.size, steps.shape[0]
    every = saved.shape[1] == R
    weight, square, keep, inject = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    var = np.zeros((shares.shape[0], size))
    for j in range(size):
        weight[j] = multiplicity[j] * mu[j]
        square[j] = energy[j]
    for t in range(R):
        d, count = steps[t, RATE], steps[t, COUNT]
        if (1.0 - beta) * d * mu[0] >= 2.0 * (1.0 + beta):
            out[:] = math.inf
            return
        for j in range(size):
            x = d * mu[j]
            h, q, _ = _relax(count, x)
            level, _ = _momentum_level(beta, x)
            keep[j], inject[j] = h * h, q * d * d * level * mu[j]
        for s in range(shares.shape[0]):
            share, of = shares[s, t], var[s]
            trace = s2
            for j in range(size):
                y = of[j] + square[j]
                trace += weight[j] * y
                if every:
                    saved[s, t, j] = y
            for j in range(size):
                noise = share * (mu[j] * (of[j] + square[j]) + trace)
                of[j] = keep[j] * of[j] + inject[j] * noise
        for j in range(size):
            square[j] *= keep[j]
    for s in range(shares.shape[0]):
        excess = 0.0
        for j in range(size):
            excess += weight[j] * (var[s, j] + square[j])
        out[s] = excess


@njit(nogil=True, cache=True, fastmath=REORDER)
def merged_slopes(mu, multiplicity, energy, s2, steps, beta, eps, adaptive, shares, saved, slopes):  # type: ignore[no-untyped-def]
    """The final excess; fills ``slopes`` (T,) with its derivative in every share x_t."""
    excess = merged_excess(mu, multiplicity, energy, s2, steps, beta, eps, adaptive, shares, saved)
    T, size = steps.shape[0], mu.size
    if not excess < math.inf:
        slopes[:] = 0.0
        return excess
    noise = np.empty(size)
    to_noise, to_var, to_mean = np.empty(size), np.empty(size), np.empty(size)
    for j in range(size):
        to_var[j] = multiplicity[j] * mu[j]
        to_mean[j] = 2.0 * to_var[j] * saved[T, 1, j]
    directions = multiplicity.sum()
    to_v = 0.0
    for t in range(T - 1, -1, -1):
        row, share = steps[t], shares[t]
        var, mean = saved[t, 0], saved[t, 1]
        trace, v, d = _levels(
            mu, multiplicity, var, mean, s2, row, share, saved[t, 0, size], eps, adaptive, noise
        )
        to_d = 0.0
        for j in range(size):
            m = mu[j]
            x = d * m
            z = x + row[SHRINK]
            h, q, q_slope = _relax(row[COUNT], z)
            level, level_slope = _momentum_level(beta, x)
            pull = row[SHRINK] / z if z > 0.0 else 0.0
            start = saved[0, 1, j]
            decay = -row[COUNT] * h  # dh/dz
            to_z = to_mean[j] * decay * (mean[j] - pull * start)
            if z > 0.0:
                to_z -= to_mean[j] * (1.0 - h) * start * pull / z
            to_z += to_var[j] * (2.0 * h * decay * var[j] + q_slope * d * d * noise[j] * level)
            to_d += m * (to_z + to_var[j] * q * d * d * noise[j] * level_slope)
            to_d += to_var[j] * q * 2.0 * d * noise[j] * level
            to_noise[j] = to_var[j] * q * d * d * level
            to_var[j] *= h * h
            to_mean[j] *= h
        in_v = 0.0
        if adaptive:
            root = math.sqrt(row[CORRECT2] * v)
            to_v -= to_d * d * root / (2.0 * v * (root + eps))
            in_v = (1.0 - row[KEEP2]) * to_v / directions
            to_v *= row[KEEP2]
        slope = to_trace = 0.0
        for j in range(size):
            m = mu[j]
            y = var[j] + mean[j] * mean[j]
            to_noise[j] += multiplicity[j] * in_v
            slope += to_noise[j] * m * (m * y + trace)
            to_trace += to_noise[j] * share * m
        slopes[t] = slope
        for j in range(size):
            m = mu[j]
            to_y = m * m * (share * to_noise[j] + multiplicity[j] * in_v)
            to_y += multiplicity[j] * m * to_trace
            to_var[j] += to_y
            to_mean[j] += 2.0 * mean[j] * to_y
    return excess
