"""A plain NumPy port of the paper's appendix L, for comparison: one update at a time.

It follows the text: the joint Gaussian law of (z, signal) by a Cholesky factor, and a fresh
dataset for every repetition and budget, shared by the four schedules. Only the sum over the
batch is vectorised.
"""

from __future__ import annotations

import time

import numpy as np


class Port:
    """Sketched covariance (any basis), its correlation with the signal, the signal's variance."""

    def __init__(self, covariance, correlation, signal, sigma):
        M = correlation.size
        joint = np.empty((M + 1, M + 1))
        joint[:M, :M] = covariance
        joint[:M, M] = joint[M, :M] = correlation
        joint[M, M] = signal
        self.factor = np.linalg.cholesky(joint).T
        self.covariance = covariance
        self.sigma = sigma

    def dataset(self, n, rng):
        joint = rng.standard_normal((n, self.factor.shape[0])) @ self.factor
        return joint[:, :-1], joint[:, -1] + self.sigma * rng.standard_normal(n)

    def risk(self, error):
        return float(error @ self.covariance @ error)


def one_pass(Z, y, rates, batches):
    u = np.zeros(Z.shape[1])
    start = 0
    for rate, batch in zip(rates, batches, strict=True):
        Zb, yb = Z[start : start + batch], y[start : start + batch]
        u = u - rate / batch * (Zb.T @ (Zb @ u - yb))
        start += batch
    return u


def multi_pass(Z, y, rates, batches, rng):
    u = np.zeros(Z.shape[1])
    for rate, batch in zip(rates, batches, strict=True):
        rows = rng.choice(Z.shape[0], size=batch, replace=False)
        Zb = Z[rows]
        u = u - rate / batch * (Zb.T @ (Zb @ u - y[rows]))
    return u


def gradient_descent(Z, y, rates):
    theta = np.zeros(Z.shape[1])
    N = y.size
    covariance, target = Z.T @ Z / N, Z.T @ y / N
    for rate in rates:
        theta = theta - rate * (covariance @ theta - target)
    return theta


def one_pass_sweep(port, rates, families, repetitions, rng):
    """Centred variance for {budget: {schedule: batches}}."""
    out = {}
    for budget, schedules in families.items():
        finals = {name: [] for name in schedules}
        for _ in range(repetitions):
            Z, y = port.dataset(budget, rng)
            for name, batches in schedules.items():
                finals[name].append(one_pass(Z, y, rates, batches))
        for name, us in finals.items():
            mean = np.mean(us, axis=0)
            out[budget, name] = sum(port.risk(u - mean) for u in us) / (repetitions - 1)
    return out


def multi_pass_sweep(port, rates, families, samples, repetitions, rng):
    """Mean fluctuation around GD for {budget: {schedule: batches}}."""
    out = {}
    for budget, schedules in families.items():
        sums = dict.fromkeys(schedules, 0.0)
        for _ in range(repetitions):
            Z, y = port.dataset(samples, rng)
            theta = gradient_descent(Z, y, rates)
            for name, batches in schedules.items():
                sums[name] += port.risk(multi_pass(Z, y, rates, batches, rng) - theta)
        out |= {(budget, name): total / repetitions for name, total in sums.items()}
    return out


def timed(function, *args):
    start = time.perf_counter()
    result = function(*args)
    return result, time.perf_counter() - start
