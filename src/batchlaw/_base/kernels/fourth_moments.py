"""The one-pass recursion for features with non-Gaussian fourth moments."""

from __future__ import annotations

import numpy as np
from numba import njit

from batchlaw._base.kernels.common import REORDER


@njit(nogil=True, cache=True, fastmath=REORDER)
def fourth_moment_moments(  # type: ignore[no-untyped-def]
    mu, multiplicity, energy, source, diagonal, rank_one, rates, batches, out
):
    """As ``moments.one_pass_moments``, but D x = diagonal mu^2 x + rank_one mu (mu . x).


    Cn <- h Cn + e (D Cn + source),  Cc <- h Cc + e D (Cc + m^2),  m^2 <- h m^2, for any source.
    ``out`` is (S, 3): bias, noise variance, covariance variance at the end.
    """
    S, T = batches.shape
    M = mu.size
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
                w = multiplicity[j] * mu[j]
                noise_trace += w * noise[j]
                cov_trace += w * (cov[j] + mean[j])
            noise_trace *= e * rank_one
            cov_trace *= e * rank_one
            for j in range(M):
                m = mu[j]
                h = (1.0 - g * m) * (1.0 - g * m)
                f = h + e * diagonal * m * m
                noise[j] = f * noise[j] + m * noise_trace + e * source[j]
                cov[j] = f * cov[j] + e * diagonal * m * m * mean[j] + m * cov_trace
                mean[j] = h * mean[j]
        a = b = c = 0.0
        for j in range(M):
            w = multiplicity[j] * mu[j]
            a += w * mean[j]
            b += w * noise[j]
            c += w * cov[j]
        out[s, 0] = a
        out[s, 1] = b
        out[s, 2] = c
