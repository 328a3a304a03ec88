"""Forward recursions of second moments.

``out`` is (S, K, 3): bias, noise variance, covariance variance. K = T + 1 records the start
and every step, K = 1 the end only.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from batchlaw._base.kernels.common import REORDER


@njit(nogil=True, fastmath=REORDER, forceinline=True)
def _record(mu, multiplicity, mean_square, noise, cov, out):  # type: ignore[no-untyped-def]
    a = b = c = 0.0
    for j in range(mu.size):
        w = multiplicity[j] * mu[j]
        a += w * mean_square[j]
        b += w * noise[j]
        c += w * cov[j]
    out[0] = a
    out[1] = b
    out[2] = c


@njit(nogil=True, cache=True, fastmath=REORDER)
def one_pass_moments(mu, multiplicity, energy, residual_variance, rates, batches, out):  # type: ignore[no-untyped-def]
    """Plain SGD, last iterate. With h = (1 - g mu)^2, e = g^2 / B, D x = mu^2 x + mu (mu . x):

    Cn <- h Cn + e (D Cn + s2 mu),  Cc <- h Cc + e D (Cc + m^2),  m^2 <- h m^2.
    """
    S, T = batches.shape
    M = mu.size
    every = out.shape[1] == T + 1
    for s in range(S):
        noise = np.zeros(M)
        cov = np.zeros(M)
        mean = energy.copy()
        if every:
            _record(mu, multiplicity, mean, noise, cov, out[s, 0])
        for t in range(T):
            g = rates[t]
            e = g * g / batches[s, t]
            noise_trace = residual_variance
            cov_trace = 0.0
            for j in range(M):
                w = multiplicity[j] * mu[j]
                noise_trace += w * noise[j]
                cov_trace += w * (cov[j] + mean[j])
            noise_trace *= e
            cov_trace *= e
            for j in range(M):
                m = mu[j]
                h = (1.0 - g * m) * (1.0 - g * m)
                f = h + e * m * m
                noise[j] = f * noise[j] + m * noise_trace
                cov[j] = f * cov[j] + e * m * m * mean[j] + m * cov_trace
                mean[j] = h * mean[j]
            if every:
                _record(mu, multiplicity, mean, noise, cov, out[s, t + 1])
        if not every:
            _record(mu, multiplicity, mean, noise, cov, out[s, 0])


# Rows of the state of ``general_moments``: centred second moments of (e, v, s), s the readout.
EE, EV, VV, ES, VS, SS = range(6)


@njit(nogil=True, cache=True, fastmath=REORDER)
def general_moments(mu, multiplicity, energy, residual_variance, rule, batches, running, out):  # type: ignore[no-untyped-def]
    """Any update rule and readout. Per direction the state (e, v, s) is linear in the noise:

    e' = A e + B v + push n,  v' = C e + D v + gain n,  s' = hold s + weight e',
    with n of variance (D Y + s2 mu)/B_t and Y the second moment where the gradient is taken.
    Rows of ``running`` are (hold, weight). s starts at u_0; its moments are recorded.
    """
    S, T = batches.shape
    M = mu.size
    every = out.shape[1] == T + 1
    for s in range(S):
        x = np.zeros((2, 6, M))  # moments of the noise part and of the covariance part
        mean = np.zeros((3, M))  # of e, v, s
        centre = np.empty(M)
        at_gradient = np.empty(M)
        for j in range(M):
            mean[0, j] = -np.sqrt(energy[j])
            mean[2, j] = mean[0, j]
        if every:
            _record(mu, multiplicity, mean[2] ** 2, x[0, SS], x[1, SS], out[s, 0])
        for t in range(T):
            look, keep, gain, drag, push = rule[t]
            hold, weight = running[t]
            share = 1.0 / batches[s, t]
            for j in range(M):
                y = mean[0, j] + look * mean[1, j]
                centre[j] = y * y
            for k in range(2):
                trace = 0.0
                for j in range(M):
                    at_gradient[j] = (
                        x[k, EE, j]
                        + 2.0 * look * x[k, EV, j]
                        + look * look * x[k, VV, j]
                        + k * centre[j]
                    )
                    trace += multiplicity[j] * mu[j] * at_gradient[j]
                trace += (1 - k) * residual_variance
                for j in range(M):
                    m = mu[j]
                    A, B = 1.0 + push * m, drag + push * m * look
                    C, D = gain * m, keep + gain * m * look
                    ee, ev, vv = x[k, EE, j], x[k, EV, j], x[k, VV, j]
                    n2 = (m * m * at_gradient[j] + m * trace) * share
                    new_ee = A * A * ee + 2.0 * A * B * ev + B * B * vv + push * push * n2
                    new_ev = A * C * ee + (A * D + B * C) * ev + B * D * vv + push * gain * n2
                    x[k, VV, j] = C * C * ee + 2.0 * C * D * ev + D * D * vv + gain * gain * n2
                    x[k, EE, j] = new_ee
                    x[k, EV, j] = new_ev
                    # Old readout times new e and v first; then weight e is added to it.
                    with_e = hold * (A * x[k, ES, j] + B * x[k, VS, j])
                    with_v = hold * (C * x[k, ES, j] + D * x[k, VS, j])
                    x[k, ES, j] = with_e + weight * new_ee
                    x[k, VS, j] = with_v + weight * new_ev
                    x[k, SS, j] = (
                        hold * hold * x[k, SS, j] + 2.0 * weight * with_e + weight * weight * new_ee
                    )
            for j in range(M):
                m = mu[j]
                e, v = mean[0, j], mean[1, j]
                g = m * (e + look * v)
                mean[0, j] = e + drag * v + push * g
                mean[1, j] = keep * v + gain * g
                mean[2, j] = hold * mean[2, j] + weight * mean[0, j]
            if every:
                _record(mu, multiplicity, mean[2] ** 2, x[0, SS], x[1, SS], out[s, t + 1])
        if not every:
            _record(mu, multiplicity, mean[2] ** 2, x[0, SS], x[1, SS], out[s, 0])
