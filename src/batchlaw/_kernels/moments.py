"""Forward recursions of second moments."""

from __future__ import annotations

import numpy as np
from numba import njit

from batchlaw._kernels.common import REORDER


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
