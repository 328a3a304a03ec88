"""Recursions for multi-pass SGD averaged over datasets.

Complex arrays hold one entry for each point z_k of a contour around the spectrum of the
sample covariance; only its upper half is stored, and sums are twice their real part.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from batchlaw._kernels.common import REORDER


@njit(nogil=True, cache=True, fastmath=REORDER)
def simple_fluctuation(mu, many, energy, residual_variance, rates, rho, samples):  # type: ignore[no-untyped-def]
    """Fluctuation of every schedule: one pass with 1/B -> rho and a source that df/N shrinks."""
    S, T = rho.shape
    M = mu.size
    out = np.zeros(S)
    for s in range(S):
        cov = np.zeros(M)
        mean = np.ones(M)
        for t in range(T):
            g = rates[t]
            fitted = 0.0
            bias = 0.0
            trace = 0.0
            for j in range(M):
                w = many[j] * mu[j]
                fitted += many[j] * (1.0 - mean[j])
                bias += w * energy[j] * mean[j] * mean[j]
                trace += w * cov[j]
            e = g * g * rho[s, t]
            shrink = (1.0 - fitted / samples) ** 2
            level = trace + shrink * (bias + residual_variance)
            for j in range(M):
                h = (1.0 - g * mu[j]) ** 2
                own = cov[j] + shrink * energy[j] * mean[j] * mean[j]
                cov[j] = h * cov[j] + e * mu[j] * (mu[j] * own + level)
                mean[j] *= 1.0 - g * mu[j]
        for j in range(M):
            out[s] += many[j] * mu[j] * cov[j]
    return out


@njit(nogil=True, cache=True, fastmath=REORDER)
def contour_fluctuation(z, trace, target, readout, residual_variance, rates, rho, spread, own):  # type: ignore[no-untyped-def]
    """Fluctuation that the mean squared residual V drives, one number a schedule.

    With h = (1 - g z)^2 + own g^2 rho z^2 and sums over the contour,

        V = s2 (1 - sum T (1 - psi^2)) + sum E z x + sum T z c
        c <- h c + g^2 rho z (spread V + own s2 psi^2),   x <- h x,   psi <- (1 - g z) psi,

    and at the end sum R c.
    """
    S, T = rho.shape
    K = z.size
    out = np.zeros(S)
    c = np.empty(K, dtype=np.complex128)
    x = np.empty(K, dtype=np.complex128)
    psi = np.empty(K, dtype=np.complex128)
    for s in range(S):
        c[:] = 0.0
        x[:] = 1.0
        psi[:] = 1.0
        for t in range(T):
            g = rates[t]
            e = g * g * rho[s, t]
            level = residual_variance
            for k in range(K):
                fitted = residual_variance * (1.0 - psi[k] * psi[k])
                level += 2.0 * (target[k] * z[k] * x[k] + trace[k] * (z[k] * c[k] - fitted)).real
            for k in range(K):
                d = 1.0 - g * z[k]
                h = d * d + own * e * z[k] * z[k]
                square = psi[k] * psi[k]
                c[k] = h * c[k] + e * z[k] * (spread * level + own * residual_variance * square)
                x[k] *= h
                psi[k] *= d
        for k in range(K):
            out[s] += 2.0 * (readout[k] * c[k]).real
    return out


@njit(nogil=True, cache=True, fastmath=REORDER)
def pair_products(z, weights, rates, strength):  # type: ignore[no-untyped-def]
    """sum_km W_km prod_t [(1 - g z_k)(1 - g z_m) + e z_k z_m], one number a row of e.

    k runs over the upper half of the contour, m over all of it: ``weights`` is (K, 2 K),
    with the conjugate points last. W is symmetric, so m starts at k in either half.
    """
    S, T = strength.shape
    K = z.size
    out = np.zeros(S)
    re = np.empty((2, K))
    im = np.empty((2, K))
    for s in range(S):
        for k in range(K):
            re[:] = 1.0
            im[:] = 0.0
            for t in range(T):
                g = rates[t]
                a = 1.0 - g * z[k]
                b = strength[s, t] * z[k] - a * g
                for half in range(2):
                    sign = 1.0 - 2.0 * half
                    for m in range(k, K):
                        # The factor is a + b z_m.
                        x = z[m].real
                        y = sign * z[m].imag
                        u = a.real + b.real * x - b.imag * y
                        v = a.imag + b.real * y + b.imag * x
                        old = re[half, m]
                        re[half, m] = old * u - im[half, m] * v
                        im[half, m] = old * v + im[half, m] * u
            for half in range(2):
                for m in range(k, K):
                    w = weights[k, half * K + m]
                    twice = 2.0 if m == k else 4.0
                    out[s] += twice * (w.real * re[half, m] - w.imag * im[half, m])
    return out


@njit(nogil=True, cache=True, fastmath=REORDER)
def log_growth(z, rates, strength):  # type: ignore[no-untyped-def]
    """sum_t log(|1 - g z|^2 + e |z|^2) / 2 at every point."""
    out = np.zeros(z.size)
    for k in range(z.size):
        x = z[k].real
        y = z[k].imag
        square = x * x + y * y
        for t in range(rates.size):
            g = rates[t]
            out[k] += 0.5 * np.log((1.0 - g * x) ** 2 + (g * y) ** 2 + strength[t] * square)
    return out
