"""Empirical influence kernels, compared with the population's: appendix I.3.

kappa^(u)_t = gamma_t^2 tr(Sigma_hat^{u+1} P_t^2) for u = 0, 1 and the cross-kernel
kappa^x_t = gamma_t^2 tr(Sigma Sigma_hat P_t^2), with P_t = prod_{s>t} (I - gamma_s Sigma_hat).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.influences.weights import influence
from batchlaw.schedule.update_rule import check_stable
from batchlaw.theory.bounds.bias import effective_dimension
from batchlaw.theory.bounds.bound import Bound, Condition
from batchlaw.theory.bounds.power_law import power_law_conditions
from batchlaw.theory.bounds.schedule import contraction

# Eigenvalues of Sigma_hat below this share of the largest count as zero.
RANK_TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class EmpiricalSpectrum:
    """Sigma_hat's eigenvalues (decreasing), its basis, and the features in that basis."""

    eigenvalues: FloatArray
    basis: FloatArray
    features: FloatArray

    @classmethod
    def of(cls, features: ArrayLike) -> EmpiricalSpectrum:
        """Diagonalise Z'Z/N."""
        Z = np.asarray(features, dtype=np.float64)
        if Z.ndim != 2 or not Z.size or not np.isfinite(Z).all():
            raise InputError("features", "must be a finite (N, M) array", f"shape {Z.shape}")
        nu, basis = np.linalg.eigh(Z.T @ Z / Z.shape[0])
        basis = np.ascontiguousarray(basis[:, ::-1])
        return cls(np.maximum(nu[::-1], 0.0), basis, Z @ basis)

    @property
    def samples(self) -> int:
        """N."""
        return int(self.features.shape[0])

    @property
    def largest_norm(self) -> float:
        """C_A = max_i ||z_i||^2."""
        return float(np.einsum("ij,ij->i", self.features, self.features).max())

    def whitener(self) -> FloatArray:
        """Sigma_hat^-1/2 on its range, in its own basis: (M, rank)."""
        kept = self.eigenvalues > RANK_TOLERANCE * self.eigenvalues[0]
        half: FloatArray = np.diag(1.0 / np.sqrt(np.where(kept, self.eigenvalues, 1.0)))[:, kept]
        return half


@dataclass(frozen=True, eq=False)
class EmpiricalKernels:
    """The three empirical kernels of a dataset, (T,) arrays.

    Attributes
    ----------
    plain
        kappa^(0).
    square
        kappa^(1).
    cross
        kappa^x.
    """

    plain: FloatArray
    square: FloatArray
    cross: FloatArray


def empirical_kernels(
    eigenvalues: ArrayLike, features: ArrayLike, rates: ArrayLike
) -> EmpiricalKernels:
    """kappa^(0), kappa^(1) and the cross-kernel kappa^x of a dataset (I.3).

    Parameters
    ----------
    features : (N, M) array
        One dataset, in Sigma's eigenbasis.
    """
    mu = checks.vector("eigenvalues", eigenvalues, positive=True)
    spectrum = EmpiricalSpectrum.of(features)
    gamma = checks.vector("rates", rates)
    nu = spectrum.eigenvalues
    weighted = gamma[:, None] ** 2 * step_survival(nu, gamma) ** 2
    overlap = mu @ spectrum.basis**2
    return EmpiricalKernels(weighted @ nu, weighted @ nu**2, weighted @ (overlap * nu))


def kernel_comparison(
    eigenvalues: ArrayLike, features: ArrayLike, rates: ArrayLike, a: float | None = None
) -> Bound:
    """kappa^(1)_t + kappa^(0)_t / A <~ kappa_t (lemma dynamic-kernel-comparison, I.3).

    No constant; one entry per step. The horizon conditions have no constant either: they are
    reported with 1 (and with epsilon = 0).

    Parameters
    ----------
    features : (N, M) array
        One dataset, in Sigma's eigenbasis.
    a
        Exponent of the spectrum; fitted to it if None.
    """
    mu, gamma, kernels = _kernels(eigenvalues, features, rates)
    mass, N = float(gamma.sum()), np.shape(features)[0]
    a, power_law = power_law_conditions(np.sort(mu)[::-1], a)
    return Bound(
        "empirical kernels by the population's",
        "I.3, lemma dynamic-kernel-comparison",
        0.0,
        kernels.square + kernels.plain / mass,
        influence(mu, gamma),
        constant_explicit=False,
        conditions=(
            *power_law,
            mass_below_spectrum(mass, N, a),
            Condition("learned-directions", "A^(1/a) <= M", mass ** (1.0 / a), mu.size),
        ),
    )


def cross_kernel_comparison(
    eigenvalues: ArrayLike, features: ArrayLike, rates: ArrayLike, a: float | None = None
) -> Bound:
    """kappa^x_t >~ kappa_t (lemma dynamic-kernel-lower-comparison, I.3). No constant.

    One entry per step.

    Parameters
    ----------
    features : (N, M) array
        One dataset, in Sigma's eigenbasis.
    a
        Exponent of the spectrum; fitted to it if None.
    """
    mu, gamma, kernels = _kernels(eigenvalues, features, rates)
    mass, N = float(gamma.sum()), np.shape(features)[0]
    a, power_law = power_law_conditions(np.sort(mu)[::-1], a)
    top = float(EmpiricalSpectrum.of(features).eigenvalues[0])
    return Bound(
        "cross-kernel by the population's",
        "I.3, lemma dynamic-kernel-lower-comparison",
        influence(mu, gamma),
        kernels.cross,
        math.inf,
        constant_explicit=False,
        conditions=(
            *power_law,
            Condition("mass", "A >= 1", mass, 1.0, at_least=True),
            Condition("learned-directions", "A^(1/a) <= M", mass ** (1.0 / a), mu.size),
            Condition("mass-below-samples", "A log N <= N", mass * math.log(N), N),
            Condition(
                "effective-dimension",
                "effective dimension <= N/20",
                effective_dimension(mu, 1.0 / mass),
                N / 20,
            ),
            contraction(float(gamma.max()) * top),
        ),
    )


def mass_below_spectrum(mass: float, samples: int, a: float) -> Condition:
    """A <~ N^a, with constant 1; the horizon condition of appendices D, E and I."""
    return Condition("mass-below-spectrum", "A <= N^a", mass ** (1.0 / a), samples)


def step_survival(eigenvalues: FloatArray, rates: FloatArray) -> FloatArray:
    """prod_{s>t} (1 - gamma_s x): one row per step t, one column per eigenvalue x."""
    survival = np.ones((rates.size, eigenvalues.size))
    for t in range(rates.size - 2, -1, -1):
        survival[t] = survival[t + 1] * (1.0 - rates[t + 1] * eigenvalues)
    return survival


def _kernels(
    eigenvalues: ArrayLike, features: ArrayLike, rates: ArrayLike
) -> tuple[FloatArray, FloatArray, EmpiricalKernels]:
    mu = checks.vector("eigenvalues", eigenvalues, positive=True)
    gamma = check_stable(rates, float(mu.max()))
    return mu, gamma, empirical_kernels(mu, features, gamma)
