r"""GD's bias with the spread of every sample eigenvalue resummed, to judge the order 1/N.

Given all other features, the resolvent's entry of direction j depends on its own N values z_j
only through a quadratic form,

    Q_jj = 1/(mu_j tau_j (1 + k_j (xi - 1)) - z),      xi ~ chi^2_n / n,

with tau_j of the problem without that direction, and k_j and n such that the form has its
variance 2 tr T^2/N^2, T = -z (Z Z^T/N - z)^-1: n = N tau_j(-1/(2 G)) is the number of samples that
stronger directions leave. An average over xi in place of its first order in 1/N has the tails of
the eigenvalue, but it neglects the randomness of T and takes ``VALUES`` values of xi: an estimate
of what the order 1/N leaves out, not a better value.
"""

from __future__ import annotations

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.model.problem import Problem
from batchlaw.risk.sample_spectrum import ComplexArray, Resolvent, real_tau

# Values of xi per direction: exact for polynomials up to the seventh degree.
VALUES = 4


def resummed_bias(
    problem: Problem, samples: int, resolvent: Resolvent, psi: ComplexArray, reach: float
) -> float:
    """E u*^T psi Sigma psi u*, psi = prod_t (1 - gamma_t Sigma_hat), with eigenvalues spread.

    ``psi`` holds the product at the resolvent's points, and ``reach`` is the total rate G.
    """
    mu, n, N = problem.eigenvalues, problem.multiplicity, samples
    z, tau = resolvent.points, resolvent.tau
    Q, slope = resolvent.entries, resolvent.slope
    psi = psi * resolvent.step
    energy = n * problem.target_energy * mu
    # Without one copy of direction j.
    tau_j = 1.0 / (1.0 / tau[:, None] - mu * Q / N)
    dtau = tau**2 * -(slope @ (n * mu)) / N
    dtau_j = tau_j**2 * ((dtau / tau**2)[:, None] + mu * slope / N)
    spread = np.sqrt(1.0 - z[:, None] * dtau_j / tau_j)
    spread *= np.where(spread.real < 0.0, -1.0, 1.0) / np.sqrt(tau_j)
    at = 1.0 / (2.0 * reach)
    tau_real = real_tau(at, mu, n, N)
    freedom = N / (1.0 / tau_real - mu / (tau_real * mu + at) / N)
    xi, weights = _chi_squared(freedom)
    k = np.multiply.outer(tau, np.append(tau, tau.conj()))
    A = _pair(Q, Q, n * mu**2) / N
    leak = k / (1.0 - k * A)
    total = np.zeros_like(k)
    for value, weight in zip(xi, weights, strict=True):
        factor = 1.0 + spread * np.sqrt(freedom / N) * (value - 1.0)
        rows = 1.0 / (mu * tau_j * factor - z[:, None])
        own = rows * Q * mu
        total += _pair(rows, rows, energy * weight) * (1.0 + leak * A)
        total -= leak * _pair(own, own, energy * weight) / N
    return float(2.0 * (psi @ total @ np.append(psi, psi.conj())).real)


def _pair(left: ComplexArray, right: ComplexArray, weights: FloatArray) -> ComplexArray:
    """sum_j w_j x_j(z) y_j(w) for z in the upper half and w in both."""
    return np.asarray((left * weights) @ np.concatenate([right, right.conj()]).T)


def _chi_squared(freedom: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Gauss's values (VALUES, M) and weights of chi^2_n/n, from Laguerre's recurrence."""
    k = np.arange(VALUES)
    shape = 0.5 * freedom[:, None]
    jacobi = np.zeros((freedom.size, VALUES, VALUES))
    jacobi[:, k, k] = 2.0 * k + shape
    side = np.sqrt(k[1:] * (k[1:] + shape - 1.0))
    jacobi[:, k[1:], k[:-1]] = side
    jacobi[:, k[:-1], k[1:]] = side
    values, vectors = np.linalg.eigh(jacobi)
    return (values / shape).T, (vectors[:, 0] ** 2).T
