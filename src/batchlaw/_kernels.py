"""Every compiled loop: arrays in, arrays out, no checks.

Letters as in the paper: M directions with eigenvalues ``mu``, T steps with step
sizes ``rates`` (gamma_t), S schedules. ``many`` is the multiplicity n_j of direction j.

REORDER lets the compiler vectorise sums. It is left out where rounding errors are
tracked on purpose.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from batchlaw._check import FloatArray

REORDER = {"reassoc", "contract", "nsz"}

# Below this a survival factor counts as zero: its square is under the smallest normal number.
NEGLIGIBLE = 1e-155


def aligned_zeros(*shape: int) -> FloatArray:
    """Zeros that start on a cache line: loads that straddle two lines cost 30 % of a sweep."""
    size = math.prod(shape)
    buffer = np.zeros(size + 8)
    start = -buffer.ctypes.data % 64 // 8
    return buffer[start : start + size].reshape(shape)


@intrinsic
def _fma(context: Any, a: Any, b: Any, c: Any) -> Any:
    """a b + c with one rounding, so that fma(a, b, -a b) is the product's exact error."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return types.float64(types.float64, types.float64, types.float64), generate


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
            x_low = _fma(g, mu[j], -x)
            factor = 1.0 - x
            back = factor - 1.0
            factor_low = ((1.0 - (factor - back)) + (-x - back)) - x_low
            product = q[j] * factor
            error = _fma(q[j], factor, -product)
            low[j] = _fma(low[j], factor, _fma(q[j], factor_low, error))
            q[j] = product if abs(product) > NEGLIGIBLE else 0.0
            low[j] = low[j] if abs(product) > NEGLIGIBLE else 0.0
        while first < M and q[first] == 0.0:
            first += 1
    return kappa


@njit(nogil=True, cache=True, fastmath=REORDER)
def one_pass_moments(mu, many, energy, residual_variance, rates, batches):  # type: ignore[no-untyped-def]
    """Bias, noise variance and covariance variance of one-pass SGD, one row a schedule.

    With h = (1 - g mu)^2, e = g^2 / B and D x = mu^2 x + mu (mu . x):
        Cn <- h Cn + e (D Cn + s2 mu),  Cc <- h Cc + e D (Cc + m^2),  m^2 <- h m^2.
    """
    S, T = batches.shape
    M = mu.size
    out = np.empty((S, 3))
    for s in range(S):
        noise = np.zeros(M)
        cov = np.zeros(M)
        mean = energy.copy()
        for t in range(T):
            g = rates[t]
            e = g * g / batches[s, t]
            noise_trace = 0.0
            cov_trace = 0.0
            for j in range(M):
                w = many[j] * mu[j]
                noise_trace += w * noise[j]
                cov_trace += w * (cov[j] + mean[j])
            for j in range(M):
                h = (1.0 - g * mu[j]) ** 2
                square = mu[j] * mu[j]
                noise[j] = h * noise[j] + e * (
                    square * noise[j] + mu[j] * (noise_trace + residual_variance)
                )
                cov[j] = h * cov[j] + e * (square * (cov[j] + mean[j]) + mu[j] * cov_trace)
                mean[j] = h * mean[j]
        out[s] = 0.0
        for j in range(M):
            w = many[j] * mu[j]
            out[s, 0] += w * mean[j]
            out[s, 1] += w * noise[j]
            out[s, 2] += w * cov[j]
    return out


@njit(nogil=True, cache=True, fastmath=REORDER)
def gaussian_samples(rng, scale, optimum, residual_scale, features, labels):  # type: ignore[no-untyped-def]
    """Rows z = scale * gaussian and labels z . u* + residual_scale * gaussian, row by row."""
    n, M = features.shape
    for i in range(n):
        label = 0.0
        for j in range(M):
            features[i, j] = scale[j] * rng.standard_normal()
        for j in range(M):
            label += features[i, j] * optimum[j]
        labels[i] = label + residual_scale * rng.standard_normal()


@njit(nogil=True, fastmath=REORDER, forceinline=True)
def _sgd_step(features, labels, rows, start, batch, share, u, residuals):  # type: ignore[no-untyped-def]
    """u <- u - share sum_i z_i (z_i . u - y_i) over rows[start : start + batch].

    All residuals first, then u in place: no gradient array to clear and apply. Rows are
    subtracted in fours, which reads and writes u once for four of them. ``share`` is
    rate/batch, divided by the caller: here the compiler would move the division into the
    loops.
    """
    M = u.size
    for k in range(batch):
        a = rows[start + k]
        residual = -labels[a]
        for j in range(M):
            residual += features[a, j] * u[j]
        residuals[k] = share * residual
    for four in range(batch // 4):
        k = 4 * four
        a, b, c, d = rows[start + k], rows[start + k + 1], rows[start + k + 2], rows[start + k + 3]
        ra, rb, rc, rd = residuals[k], residuals[k + 1], residuals[k + 2], residuals[k + 3]
        for j in range(M):
            u[j] -= (
                ra * features[a, j]
                + rb * features[b, j]
                + rc * features[c, j]
                + rd * features[d, j]
            )
    for k in range(batch - batch % 4, batch):
        a = rows[start + k]
        ra = residuals[k]
        for j in range(M):
            u[j] -= ra * features[a, j]


@njit(nogil=True, cache=True)
def one_pass(features, labels, offset, rates, batches, done, position, u):  # type: ignore[no-untyped-def]
    """Run every schedule as far as its whole batches lie in this window of the sample stream.

    The window holds samples offset, offset + 1, ...; ``done`` (steps taken) and
    ``position`` (samples used) of each schedule are updated in place, as is ``u``.
    """
    S, T = batches.shape
    end = offset + labels.size
    rows = np.arange(labels.size).astype(np.uint64)
    residuals = np.empty(labels.size)
    for s in range(S):
        iterate = u[s]
        while done[s] < T and position[s] + batches[s, done[s]] <= end:
            t = done[s]
            batch = batches[s, t]
            start = position[s] - offset
            _sgd_step(features, labels, rows, start, batch, rates[t] / batch, iterate, residuals)
            position[s] += batch
            done[s] = t + 1


@njit(nogil=True, forceinline=True)
def _draw_rows(rng, rows, batch):  # type: ignore[no-untyped-def]
    """Move a uniform subset to rows[:batch]: the first steps of a Fisher-Yates shuffle.

    The order left behind by earlier draws is no matter: the subset is uniform from any
    start.
    """
    N = rows.size
    for k in range(batch):
        p = np.uint64(k) + np.uint64(rng.random() * (N - k))
        row = rows[p]
        rows[p] = rows[k]
        rows[k] = row


@njit(nogil=True, cache=True)
def without_replacement(features, labels, rates, batches, rng, u):  # type: ignore[no-untyped-def]
    """Multi-pass SGD: each batch a fresh uniform subset of the rows."""
    S, T = batches.shape
    rows = np.arange(labels.size).astype(np.uint64)
    residuals = np.empty(batches.max())
    for s in range(S):
        iterate = u[s]
        for t in range(T):
            batch = batches[s, t]
            _draw_rows(rng, rows, batch)
            _sgd_step(features, labels, rows, 0, batch, rates[t] / batch, iterate, residuals)


@njit(nogil=True, cache=True)
def with_replacement(features, labels, rates, batches, rng, u):  # type: ignore[no-untyped-def]
    """Multi-pass SGD: each batch made of independent uniform rows."""
    S, T = batches.shape
    N = labels.size
    widest = batches.max()
    picked = np.empty(widest, dtype=np.uint64)
    residuals = np.empty(widest)
    for s in range(S):
        iterate = u[s]
        for t in range(T):
            batch = batches[s, t]
            for k in range(batch):
                picked[k] = np.uint64(rng.random() * N)
            _sgd_step(features, labels, picked, 0, batch, rates[t] / batch, iterate, residuals)


@njit(nogil=True, cache=True)
def reshuffled(features, labels, rates, batches, rng, u):  # type: ignore[no-untyped-def]
    """Random reshuffling: each epoch is a fresh order of all rows; batches run across its end."""
    S, T = batches.shape
    N = labels.size
    rows = np.arange(N).astype(np.uint64)
    widest = batches.max()
    picked = np.empty(widest, dtype=np.uint64)
    residuals = np.empty(widest)
    for s in range(S):
        iterate = u[s]
        used = N
        for t in range(T):
            batch = batches[s, t]
            for k in range(batch):
                if used == N:
                    _draw_rows(rng, rows, N)
                    used = 0
                picked[k] = rows[used]
                used += 1
            _sgd_step(features, labels, picked, 0, batch, rates[t] / batch, iterate, residuals)


@njit(nogil=True, cache=True, fastmath=REORDER)
def second_moments(features, right):  # type: ignore[no-untyped-def]
    """Z^T Z / N, and Z^T r / N for each row r of ``right``: one pass over the features."""
    N, M = features.shape
    K = right.shape[0]
    covariance = np.zeros((M, M))
    correlation = np.zeros((K, M))
    for i in range(N):
        for k in range(K):
            for j in range(M):
                correlation[k, j] += right[k, i] * features[i, j]
    for i in range(0, N - N % 4, 4):
        for r in range(M):
            a, b = features[i, r], features[i + 1, r]
            c, d = features[i + 2, r], features[i + 3, r]
            for j in range(M):
                covariance[r, j] += (
                    a * features[i, j]
                    + b * features[i + 1, j]
                    + c * features[i + 2, j]
                    + d * features[i + 3, j]
                )
    for i in range(N - N % 4, N):
        for r in range(M):
            for j in range(M):
                covariance[r, j] += features[i, r] * features[i, j]
    return covariance / N, correlation / N


@njit(nogil=True, cache=True, fastmath=REORDER)
def gradient_descent(covariance, forcing, rates, theta):  # type: ignore[no-untyped-def]
    """theta <- theta - gamma_t (Sigma_hat theta - b_hat), for K right-hand sides at once.

    ``theta`` and ``forcing`` are (K, M). Sigma_hat is symmetric: its rows go in fours.
    """
    K, M = theta.shape
    fours = M - M % 4
    change = np.empty(M)
    for k in range(K):
        x = theta[k]
        for t in range(rates.size):
            for j in range(M):
                change[j] = forcing[k, j]
            for i in range(0, fours, 4):
                a, b, c, d = x[i], x[i + 1], x[i + 2], x[i + 3]
                for j in range(M):
                    change[j] -= (
                        a * covariance[i, j]
                        + b * covariance[i + 1, j]
                        + c * covariance[i + 2, j]
                        + d * covariance[i + 3, j]
                    )
            for i in range(fours, M):
                for j in range(M):
                    change[j] -= x[i] * covariance[i, j]
            for j in range(M):
                x[j] += rates[t] * change[j]
