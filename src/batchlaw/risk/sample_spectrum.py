r"""Functions of a random sample covariance, averaged over datasets without drawing one.

For Sigma_hat = Z^T Z / N with Gaussian rows and a polynomial f, Cauchy's formula

    E f(Sigma_hat) = -1/(2 pi i) \oint f(z) E[Q(z)] dz,      Q(z) = (Sigma_hat - z)^-1

needs the mean resolvent on a contour around the spectrum only. There it is smooth and,
to leading order, diagonal in Sigma's eigenbasis:

    Q_j = 1/(tau mu_j - z),     1/tau = 1 + (1/N) sum_j n_j mu_j Q_j.

Integration by parts over the Gaussian entries gives the next order, which for real
features is 1/N: (tau mu_j - z) E Q_j = 1 + (mu_j/N) (z Q_j)', with the tau that belongs
to E Q. Two resolvents around Sigma are needed for GD's bias,

    E[Q(z) Sigma Q(w)]_jj = mu_j E Q_j(z) E Q_j(w)
        + (mu_j A Q_j(z) Q_j(w) + mu_j^3 Q_j(z)^2 Q_j(w)^2 / N) k / (1 - k A),

with k = tau(z) tau(w) and A = (1/N) sum_j n_j mu_j^2 Q_j(z) Q_j(w): the last term is the
doubled variance of a diagonal entry.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from batchlaw._base.checks import FloatArray
from batchlaw.model.problem import Problem

ComplexArray = NDArray[np.complex128]

# f may grow by about e^4 from the spectrum to the contour: this loses two digits, saves points.
LOG_GROWTH = 4.0
# Points of the contour per unit of 1/width.
DENSITY = 18.0
# Short runs would allow a contour far from the spectrum, with too few points for what grows
# outside of it: an error of 3e-6 at a width of 0.9, of at most 3e-9 up to this one.
MAX_WIDTH = 0.5


@dataclass(frozen=True, eq=False)
class SampleSpectrum:
    """Weights on the upper half of a contour; a mean is twice the real part of a sum.

    Attributes
    ----------
    points : (K,) complex array
        z_k.
    trace : (K,) complex array
        For E tr f(Sigma_hat) / N, where f(0) = 0.
    target : (K,) complex array
        For E u*^T f(Sigma_hat) u*, where f(0) = 0.
    readout : (K,) complex array
        For E tr(Sigma f(Sigma_hat)) / N.
    pairs : (K, 2 K) complex array
        For E u*^T f(Sigma_hat) Sigma f(Sigma_hat) u*, conjugate points last.
    """

    points: ComplexArray
    trace: ComplexArray
    target: ComplexArray
    readout: ComplexArray
    pairs: ComplexArray


@dataclass(frozen=True, eq=False)
class Resolvent:
    """The mean resolvent on the upper half of a contour, to leading order.

    Attributes
    ----------
    points, step : (K,) complex arrays
        z_k, and -dz/(2 pi i) of the trapezoidal rule.
    tau : (K,) complex array
        tau(z_k).
    entries, slope : (K, M) complex arrays
        Q_j(z_k), and its derivative.
    """

    points: ComplexArray
    step: ComplexArray
    tau: ComplexArray
    entries: ComplexArray
    slope: ComplexArray


def contour_resolvent(
    problem: Problem, samples: int, reach: float, nodes: int | None = None
) -> Resolvent:
    """The resolvent of ``problem``'s sample covariance of N = ``samples`` rows.

    Parameters
    ----------
    reach : float
        Total rate sum_t gamma_t of the polynomials: the larger it is, the closer the contour
        passes to zero.
    nodes : int
        Points of the whole contour, an even number; by default enough to reach rounding.
    """
    z, step = _contour(largest_sample_eigenvalue(problem, samples), reach, nodes)
    return Resolvent(z, step, *_resolvent(z, problem.eigenvalues, problem.multiplicity, samples))


def sample_spectrum(
    problem: Problem, samples: int, resolvent: Resolvent, *, leading: bool = False
) -> SampleSpectrum:
    """The averages of ``problem``'s sample covariance; ``leading`` omits the order 1/N."""
    mu, n, N = problem.eigenvalues, problem.multiplicity, samples
    z, step, tau = resolvent.points, resolvent.step, resolvent.tau
    Q, slope = resolvent.entries, resolvent.slope
    mean, correction = Q, np.zeros_like(Q)
    if not leading:
        # X = EQ - Q solves (tau mu - z) X + dtau mu Q = (mu/N) (z Q)', dtau = -z tr X / N.
        first = Q * (mu / N) * (Q + z[:, None] * slope)
        shift = -(z / N) * (first @ n) / (1.0 - (z / N) * (Q**2 @ (n * mu)))
        correction = first - shift[:, None] * mu * Q**2
        mean = Q + correction
    # Sigma_hat Q = 1 + z Q, written so that the many directions near zero do not cancel.
    filled = tau[:, None] * mu * Q + z[:, None] * correction
    energy = n * problem.target_energy
    return SampleSpectrum(
        z,
        step * (filled @ n) / (N * z),
        step * (filled @ energy) / z,
        step * (mean @ (n * mu)) / N,
        _pairs(mu, n, energy, N, tau, Q, mean, leading)
        * np.multiply.outer(step, np.append(step, step.conj())),
    )


def real_tau(distance: float, mu: FloatArray, n: FloatArray, N: int) -> float:
    """tau at z = -``distance``, the root of 1/tau = 1 + (1/N) sum_j n_j mu_j/(tau mu_j - z)."""
    low, high = 0.0, 1.0
    for _ in range(60):
        tau = 0.5 * (low + high)
        below = tau * (1.0 + n @ (mu / (tau * mu + distance)) / N) < 1.0
        low, high = (tau, high) if below else (low, tau)
    return high


def largest_sample_eigenvalue(problem: Problem, samples: int) -> float:
    """Upper edge of the spectrum of Sigma_hat to leading order.

    The edge is the smallest value of z(m) = -1/m + (1/N) sum_j n_j mu_j/(1 + mu_j m) on
    -1/mu_1 < m < 0, where (m^2/N) sum_j n_j mu_j^2/(1 + mu_j m)^2 = 1.
    """
    mu, n = problem.eigenvalues, problem.multiplicity
    low, high = -1.0 / mu[0], 0.0
    # By hand: SciPy's brentq would save 0.1 ms, but importing it takes 0.2 s.
    for _ in range(60):
        m = 0.5 * (low + high)
        past = n @ (mu / (1.0 + mu * m)) ** 2 * m * m > samples
        low, high = (m, high) if past else (low, m)
    return float(-1.0 / high + n @ (mu / (1.0 + mu * high)) / samples)


def _contour(edge: float, reach: float, nodes: int | None) -> tuple[ComplexArray, ComplexArray]:
    """Points and steps -dz/(2 pi i) of the trapezoidal rule on the square of an ellipse.

    The square root w of the spectrum fills [-s, s], s^2 = ``edge``. An ellipse around that
    segment, w = s cosh(width + i theta), maps to a contour z = w^2 that passes zero at a
    distance s^2 sinh(width)^2, and the rule converges like exp(-2 nodes width).
    """
    width = min(math.asinh(math.sqrt(LOG_GROWTH / (2.0 * reach * edge))), MAX_WIDTH)
    half = math.ceil(DENSITY / width / 2.0) if nodes is None else nodes // 2
    theta = (np.arange(half) + 0.5) * (np.pi / (2 * half))
    w = math.sqrt(edge) * np.cosh(width + 1j * theta)
    slope = 1j * math.sqrt(edge) * np.sinh(width + 1j * theta)
    return w * w, -2.0 * w * slope / (4j * half)


def _resolvent(
    z: ComplexArray, mu: FloatArray, n: FloatArray, N: int
) -> tuple[ComplexArray, ComplexArray, ComplexArray]:
    """tau (K,), Q (K, M) and dQ/dz (K, M) at points of the upper half plane.

    With m = -tau/z the equation is z = -1/m + (1/N) sum_j n_j mu_j/(1 + mu_j m). It has one
    root there: averaged steps to 1/(sum - z) approach it, and Newton's steps finish.
    """
    m = -1.0 / z
    for iteration in range(1000):
        share = mu / (1.0 + np.multiply.outer(m, mu))
        value, slope = share @ n / N, -(share**2 @ n) / N
        step = (-1.0 / m + value - z) / (1.0 / m**2 + slope)
        newton = m - step
        # At its end the step is below rounding, and so may be the sign of the imaginary part.
        small = np.abs(step) <= 1e-10 * np.abs(m)
        good = ((newton.imag > 0.0) | small) & (iteration > 20)
        m = np.where(good, newton, 0.5 * (m + 1.0 / (value - z)))
        # Newton's method doubles the digits: the next step would be below rounding.
        if good.all() and small.all():
            break
    else:
        raise ArithmeticError(f"mean resolvent of {N} samples did not converge")
    tau = -z * m
    Q = 1.0 / (np.multiply.outer(tau, mu) - z[:, None])
    share = mu / (1.0 + np.multiply.outer(m, mu))
    dm = 1.0 / (1.0 / m**2 - (share**2 @ n) / N)
    dtau = -m - z * dm
    return tau, Q, (1.0 - np.multiply.outer(dtau, mu)) * Q**2


def _pairs(
    mu: FloatArray,
    n: FloatArray,
    energy: FloatArray,
    N: int,
    tau: ComplexArray,
    Q: ComplexArray,
    mean: ComplexArray,
    leading: bool,
) -> ComplexArray:
    """u*^T E[Q(z_k) Sigma Q(z_m)] u* for z_k in the upper half and all z_m."""

    def product(rows: ComplexArray, weights: FloatArray) -> ComplexArray:
        whole = np.concatenate([rows, rows.conj()])
        return np.asarray((rows * weights) @ whole.T)

    k = np.multiply.outer(tau, np.append(tau, tau.conj()))
    A = product(Q, n * mu**2) / N
    spread = A * product(Q, mu * energy)
    if not leading:
        spread += product(Q**2, mu**3 * energy) / N
    return product(mean, mu * energy) + spread * k / (1.0 - k * A)
