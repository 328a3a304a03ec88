r"""The mean field's recursion on the contour of ``sample_spectrum``: GD's parts, fluctuations.

The covariance C around GD obeys, with the samples rotated at every step (``mean_field``),

    C <- A C A + g^2 rho { N/(N+2) V Sigma_hat + (N-2)/(N+2) (q q^T + Sigma_hat C Sigma_hat) },

in which everything except V, the mean squared residual, is a polynomial of Sigma_hat.
"""

from __future__ import annotations

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.kernels import mean_field
from batchlaw.risk.sample_spectrum import ComplexArray, SampleSpectrum

# exp(-60) is below rounding of 1.
LOG_UNDERFLOW = -60.0
# Squares of exp(350) are near the largest double, exp(709).
LOG_OVERFLOW = 350.0


def contour_parts(
    spectrum: SampleSpectrum,
    s2: float,
    gamma: FloatArray,
    rho: FloatArray,
    N: int,
    psi: ComplexArray,
    *,
    finite: bool = True,
    trajectory: bool = False,
) -> FloatArray:
    """Bias, variance and fluctuation of each schedule, (S, K, 3); K = T + 1 with ``trajectory``.

    ``psi`` is prod_t (1 - gamma_t z) at the points. Without ``finite``, the average over
    rotations is replaced by its limit for many samples at a fixed df/N, in which the second term
    of the recursion vanishes. A run that overflows has an infinite fluctuation.
    """
    out = np.zeros((rho.shape[0], gamma.size + 1 if trajectory else 1, 3))
    # q q^T and its effect on C: u*'s part of E[u u^T], minus GD's in the row without noise.
    spread, feedback = (N / (N + 2), (N - 2) / (N + 2)) if finite else (1.0, 0.0)
    strength = feedback * gamma**2 * rho if rho.any() else np.zeros((0, gamma.size))
    strength = np.vstack([np.zeros_like(gamma), strength])
    if trajectory:
        out[:, :, 1] = _descent_variance(spectrum, s2, gamma)
    else:
        out[:, 0, 0], out[:, 0, 1] = gradient_descent_parts(spectrum, s2, psi)
    if not trajectory and not rho.any():
        return out
    until, largest = _lifetimes(spectrum, gamma, strength)
    level = out[:, :, 2]
    if rho.any():
        level = np.empty(level.shape)
        mean_field.contour_fluctuation(
            spectrum.points,
            spectrum.trace,
            spectrum.target,
            spectrum.readout,
            s2,
            gamma,
            rho,
            spread * N,
            feedback,
            level,
        )
        # An overflow is refused anyway: skip the costly pairs of points.
        if not np.isfinite(level).all() or largest > LOG_OVERFLOW:
            out[:, :, 2] = np.inf
            return out
    target = _target(spectrum, gamma, strength, until, trajectory)
    out[:, :, 2] = level + target[1:] - target[0] if rho.any() else 0.0
    if trajectory:
        out[:, :, 0] = target[0]
    return out


def _lifetimes(
    spectrum: SampleSpectrum, gamma: FloatArray, strength: FloatArray
) -> tuple[IntArray, float]:
    """Step at which each point's product underflows, and the largest logarithm of any product."""
    until, largest = mean_field.lifetimes(
        spectrum.points, gamma, strength.max(axis=0), LOG_UNDERFLOW
    )
    return until, largest


def _target(
    spectrum: SampleSpectrum,
    gamma: FloatArray,
    strength: FloatArray,
    until: IntArray,
    trajectory: bool,
) -> FloatArray:
    """u*^T psi Sigma psi u* with psi^2 -> (1 - g z)^2 + e z^2, one row for each row of e."""
    z, pairs = spectrum.points, spectrum.pairs
    out = np.empty((strength.shape[0], gamma.size + 1 if trajectory else 1))
    if not trajectory:
        # After long runs only a few dozen points have not underflowed.
        live = np.flatnonzero(until == gamma.size)
        z, until = z[live], until[live]
        pairs = pairs[np.ix_(live, np.append(live, live + spectrum.points.size))]
    mean_field.pair_products(z, pairs, gamma, strength, until, out)
    return out


def gradient_descent_parts(
    spectrum: SampleSpectrum, s2: float, psi: ComplexArray
) -> tuple[float, float]:
    """u*^T psi Sigma psi u* and (s2/N) tr(Sigma (1 - psi)^2 / Sigma_hat), psi = prod (1 - g z)."""
    bias = 2.0 * (psi @ spectrum.pairs @ np.append(psi, psi.conj())).real
    response = (1.0 - psi) ** 2 / spectrum.points
    return float(bias), float(2.0 * s2 * (spectrum.readout @ response).real)


def _descent_variance(spectrum: SampleSpectrum, s2: float, gamma: FloatArray) -> FloatArray:
    return np.asarray(
        mean_field.descent_variance(spectrum.points, spectrum.readout, s2, gamma), dtype=np.float64
    )
