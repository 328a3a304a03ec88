"""Recursions for multi-pass SGD averaged over datasets.

Complex arrays hold one entry per point z_k of a contour around the spectrum of the sample
covariance. Only its upper half is stored; a sum over the contour is twice the real part. The
last axis of ``out`` has length T + 1 to record the start and every step, or 1 for the end only.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from batchlaw._base.kernels.common import REORDER


@njit(nogil=True, cache=True, fastmath=REORDER)
def simple_fluctuation(mu, multiplicity, energy, residual_variance, rates, rho, samples):  # type: ignore[no-untyped-def]
    """Fluctuation per schedule: one pass with 1/B -> rho and a source reduced by df/N."""
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
                w = multiplicity[j] * mu[j]
                fitted += multiplicity[j] * (1.0 - mean[j])
                bias += w * energy[j] * mean[j] * mean[j]
                trace += w * cov[j]
            e = g * g * rho[s, t]
            shrink = (1.0 - fitted / samples) ** 2
            level = trace + shrink * (bias + residual_variance)
            for j in range(M):
                h = (1.0 - g * mu[j]) ** 2
                diagonal = cov[j] + shrink * energy[j] * mean[j] * mean[j]
                cov[j] = h * cov[j] + e * mu[j] * (mu[j] * diagonal + level)
                mean[j] *= 1.0 - g * mu[j]
        for j in range(M):
            out[s] += multiplicity[j] * mu[j] * cov[j]
    return out


@njit(nogil=True, cache=True, fastmath=REORDER)
def descent_variance(z, readout, residual_variance, rates):  # type: ignore[no-untyped-def]
    """GD's variance s2 sum R (1 - psi)^2 / z before and after every step."""
    out = np.zeros(rates.size + 1)
    psi = np.ones(z.size, dtype=np.complex128)
    for t in range(rates.size):
        for k in range(z.size):
            psi[k] *= 1.0 - rates[t] * z[k]
            share = readout[k] * (1.0 - psi[k]) * (1.0 - psi[k]) / z[k]
            out[t + 1] += 2.0 * residual_variance * share.real
    return out


@njit(nogil=True, cache=True, fastmath=REORDER)
def contour_fluctuation(  # type: ignore[no-untyped-def]
    z, trace, target, readout, residual_variance, rates, rho, spread, diagonal, out
):
    """Fluctuation driven by the mean squared residual V; ``out`` has one row per schedule.

    With h = (1 - g z)^2 + diagonal g^2 rho z^2 and sums over the contour,

        V = s2 (1 - sum T (1 - psi^2)) + sum E z x + sum T z c
        c <- h c + g^2 rho z (spread V + diagonal s2 psi^2),   x <- h x,   psi <- (1 - g z) psi,

    and sum R c is recorded.
    """
    S, T = rho.shape
    K = z.size
    every = out.shape[1] == T + 1
    out[:] = 0.0
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
                h = d * d + diagonal * e * z[k] * z[k]
                square = psi[k] * psi[k]
                c[k] = h * c[k] + e * z[k] * (
                    spread * level + diagonal * residual_variance * square
                )
                x[k] *= h
                psi[k] *= d
            if every or t == T - 1:
                for k in range(K):
                    out[s, t + 1 if every else 0] += 2.0 * (readout[k] * c[k]).real


@njit(nogil=True, cache=True, fastmath=REORDER)
def pair_products(z, weights, rates, strength, until, out):  # type: ignore[no-untyped-def]
    """sum_km W_km prod_t [(1 - g z_k)(1 - g z_m) + e z_k z_m]; one row of ``out`` per row of e.

    k runs over the upper half of the contour, m over all of it: ``weights`` is (K, 2 K),
    with the conjugate points last. W is symmetric, so m starts at k in either half. Pairs with
    z_k are dropped after ``until``[k] steps.
    """
    S, T = strength.shape
    K = z.size
    every = out.shape[1] == T + 1
    out[:] = 0.0
    re = np.empty((2, K))
    im = np.empty((2, K))
    for s in range(S):
        for k in range(K):
            re[:] = 1.0
            im[:] = 0.0
            if every:
                out[s, 0] += _weighted(weights, re, im, k)
            for t in range(until[k]):
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
                if every or t == T - 1:
                    out[s, t + 1 if every else 0] += _weighted(weights, re, im, k)


@njit(nogil=True, fastmath=REORDER, forceinline=True)
def _weighted(weights, re, im, k):  # type: ignore[no-untyped-def]
    K = re.shape[1]
    total = 0.0
    for half in range(2):
        for m in range(k, K):
            w = weights[k, half * K + m]
            twice = 2.0 if m == k else 4.0
            total += twice * (w.real * re[half, m] - w.imag * im[half, m])
    return total


@njit(nogil=True, cache=True, fastmath=REORDER)
def lifetimes(z, rates, strength, negligible):  # type: ignore[no-untyped-def]
    """The last step at which a pair with each point matters, and the largest logarithm met.

    |(1 - g z)(1 - g w) + e z w| <= sqrt(|1 - g z|^2 + e |z|^2) sqrt(|1 - g w|^2 + e |w|^2): a
    pair is below e^negligible once the logarithms of its two roots sum to less than that.
    """
    logs = np.zeros(z.size)
    until = np.zeros(z.size, dtype=np.int64)
    largest = 0.0
    for t in range(rates.size):
        g = rates[t]
        top = -np.inf
        for k in range(z.size):
            x = z[k].real
            y = z[k].imag
            factor = (1.0 - g * x) ** 2 + (g * y) ** 2 + strength[t] * (x * x + y * y)
            logs[k] += 0.5 * np.log(factor)
            top = max(top, logs[k])
        for k in range(z.size):
            if logs[k] + top > negligible:
                until[k] = t + 1
        largest = max(largest, top)
    return until, largest


@njit(nogil=True, cache=True, fastmath=REORDER)
def spectrum_moments(nu, sigma, target, residual_variance, rates, rho, samples, out):  # type: ignore[no-untyped-def]
    """Bias, variance and fluctuation on one sample covariance, its samples rotated at every step.

    ``nu`` are its eigenvalues; ``sigma`` and ``target``, both (M, M), are Sigma and
    E u* u*^T in its eigenbasis. The covariance around GD is diag(c) + target (x - psi psi^T):

        V = s2 (1 - sum (1 - psi^2)/N) + sum nu (target_aa x_aa + c)
        c <- h c + e nu (N/(N+2) V + (N-2)/(N+2) s2 psi^2/N),    x_ab <- h_ab x_ab,
        h_ab = (1 - g nu_a)(1 - g nu_b) + (N-2)/(N+2) e nu_a nu_b,    e = g^2 rho.

    ``out`` is (S, K, 3), K = T + 1 or 1 as above.
    """
    S, T = rho.shape
    M = nu.size
    every = out.shape[1] == T + 1
    spread = samples / (samples + 2.0)
    feedback = (samples - 2.0) / (samples + 2.0)
    for s in range(S):
        psi = np.ones(M)
        c = np.zeros(M)
        x = np.ones((M, M))
        if every:
            _record_spectrum(nu, sigma, target, residual_variance, samples, psi, c, x, out[s, 0])
        for t in range(T):
            g = rates[t]
            e = g * g * rho[s, t]
            level = residual_variance
            for a in range(M):
                fitted = residual_variance * (1.0 - psi[a] * psi[a]) / samples
                level += nu[a] * (target[a, a] * x[a, a] + c[a]) - fitted
            for a in range(M):
                d = 1.0 - g * nu[a]
                own = residual_variance * psi[a] * psi[a] / samples
                c[a] = (d * d + feedback * e * nu[a] * nu[a]) * c[a]
                c[a] += e * nu[a] * (spread * level + feedback * own)
                psi[a] *= d
                pull = feedback * e * nu[a]
                for b in range(a + 1):
                    x[a, b] *= d * (1.0 - g * nu[b]) + pull * nu[b]
            if every or t == T - 1:
                row = out[s, t + 1 if every else 0]
                _record_spectrum(nu, sigma, target, residual_variance, samples, psi, c, x, row)


@njit(nogil=True, fastmath=REORDER)
def _record_spectrum(nu, sigma, target, residual_variance, samples, psi, c, x, out):  # type: ignore[no-untyped-def]
    bias = variance = fluctuation = 0.0
    for a in range(nu.size):
        if nu[a] > 0.0:
            response = residual_variance * (1.0 - psi[a]) ** 2 / (nu[a] * samples)
            variance += sigma[a, a] * response
        fluctuation += sigma[a, a] * c[a]
        for b in range(a + 1):
            weight = (1.0 if a == b else 2.0) * sigma[a, b] * target[a, b]
            bias += weight * psi[a] * psi[b]
            fluctuation += weight * (x[a, b] - psi[a] * psi[b])
    out[0] = bias
    out[1] = variance
    out[2] = fluctuation
