"""Samples, plain SGD and plain GD on datasets: one repetition per call."""

from __future__ import annotations

import numpy as np
from numba import njit

from batchlaw._base.kernels.common import REORDER
from batchlaw._base.kernels.sampling import draw_rows


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

    All residuals come first, then u changes in place, so no gradient array is needed. Rows are
    subtracted four at a time, which reads and writes u once per four rows. The caller divides
    ``share`` = rate/batch: the compiler would move a division here into the loops.
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
    """Run every schedule over the batches that lie entirely in this window of the sample stream.

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


@njit(nogil=True, cache=True)
def without_replacement(features, labels, rates, batches, rng, u):  # type: ignore[no-untyped-def]
    """Multi-pass SGD: each batch is a fresh uniform subset of the rows."""
    S, T = batches.shape
    rows = np.arange(labels.size).astype(np.uint64)
    residuals = np.empty(batches.max())
    for s in range(S):
        iterate = u[s]
        for t in range(T):
            batch = batches[s, t]
            draw_rows(rng, rows, batch)
            _sgd_step(features, labels, rows, 0, batch, rates[t] / batch, iterate, residuals)


@njit(nogil=True, cache=True)
def with_replacement(features, labels, rates, batches, rng, u):  # type: ignore[no-untyped-def]
    """Multi-pass SGD: each batch consists of independent uniform rows."""
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
    """Random reshuffling: a fresh order of all rows per epoch; batches may span two epochs."""
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
                    draw_rows(rng, rows, N)
                    used = 0
                picked[k] = rows[used]
                used += 1
            _sgd_step(features, labels, picked, 0, batch, rates[t] / batch, iterate, residuals)


@njit(nogil=True, cache=True, fastmath=REORDER)
def second_moments(features, right):  # type: ignore[no-untyped-def]
    """Z^T Z / N, and Z^T r / N for each row r of ``right``, in one pass over the features."""
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

    ``theta`` and ``forcing`` are (K, M). Sigma_hat is symmetric; its rows are used four at a time.
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
