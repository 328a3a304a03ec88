"""Influence: how much of each update's noise survives in the final risk."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw._base.kernels import influence as kernels
from batchlaw.model.spectrum import Directions, Spectrum
from batchlaw.schedule.update_rule import SGD, UpdateRule, check_stable, linear, rule_of

# Smaller influences are returned as zero, far below what could be worth a sample.
SMALLEST_INFLUENCE = 1e-290


def influence(
    spectrum: ArrayLike | Spectrum,
    rates: ArrayLike,
    *,
    rule: UpdateRule | None = None,
    multiplicity: ArrayLike | None = None,
    momentum: float | ArrayLike = 0.0,
    nesterov: bool = False,
    pytorch: bool = False,
    average: ArrayLike | str | None = None,
) -> FloatArray:
    r"""Final-risk influence of every update (paper, section 3), in O(T M).

    For plain SGD kappa_t = gamma_t^2 sum_j n_j mu_j^2 prod_{s=t+1}^{T} (1 - gamma_s mu_j)^2,
    with a relative error below 1e-10 for up to 10^6 steps; values below 1e-290 become zero.
    With momentum or averaging kappa_t = sum_j n_j mu_j^2 psi_tj^2, where psi_tj is the
    readout's response to the gradient noise of step t in direction j.

    Parameters
    ----------
    spectrum
        Eigenvalues mu_j of the (sketched) covariance as an (M,) array; or a ``Spectrum``: a
        ``Problem``, ``PowerLaw``, ``EstimatedSpectrum`` or ``ModelSpectrum``. One that covers
        K possible spectra, such as a power law with a range of exponents, gives (K, T).
    rates : (T,) array
        Step sizes gamma_t, each with gamma_t mu_1 < 2.
    rule
        The update rule, ``bl.sgd(...)``; plain SGD by default.
    multiplicity : (M,) array, optional
        With plain eigenvalues: n_j, the number of directions that share each.
    momentum
        Shorthand for ``rule``, as in ``bl.sgd``.
    nesterov
        Likewise.
    pytorch
        Likewise.
    average
        Likewise.
    """
    rule = rule_of(rule, momentum=momentum, nesterov=nesterov, pytorch=pytorch, average=average)
    update = linear(rule, "influence")
    gamma = checks.vector("rates", rates)
    if not isinstance(spectrum, Spectrum):
        return _influence(_directions(spectrum, multiplicity), gamma, update)
    if multiplicity is not None:
        raise InputError(
            "multiplicity", "is already part of the spectrum: give it with plain eigenvalues only"
        )
    if not gamma.any():
        raise InputError("rates", "must not all be zero")
    spectra = [_influence(d, gamma, update) for d in spectrum.directions(float(gamma.max()))]
    return spectra[0] if len(spectra) == 1 else np.array(spectra)


def influence_proxy(rates: ArrayLike, a: float, scale: float) -> FloatArray:
    """The power-law form of the influence, for an unknown spectrum (paper, appendix A.8).

    kappa_t ~ gamma_t^2 (1 + 2 scale R_t)^{1/a - 2}, R_t = sum of the rates after t. The
    paper writes (1 + R_t), which changes when features and rates are rescaled together;
    with ``scale`` = tr(Sigma) it does not. ``scale`` = 0.5 is the paper's form. Only ratios
    between steps are meaningful.
    """
    gamma = checks.vector("rates", rates)
    a = checks.real("a", a, above=1.0)
    scale = checks.real("scale", scale, above=0.0)
    after = np.append(np.cumsum(gamma[:0:-1])[::-1], 0.0)
    return gamma**2 * (1.0 + 2.0 * scale * after) ** (1.0 / a - 2.0)


def _directions(eigenvalues: ArrayLike, multiplicity: ArrayLike | None) -> Directions:
    mu = checks.vector("eigenvalues", eigenvalues, positive=True)
    weight = np.ones_like(mu)
    if multiplicity is not None:
        weight = checks.vector("multiplicity", multiplicity)
        checks.same_length("multiplicity", weight.size, mu.size, "eigenvalues")
    return Directions(mu, weight)


def _influence(directions: Directions, gamma: FloatArray, rule: SGD) -> FloatArray:
    mu, weight = directions.eigenvalues, directions.weight
    check_stable(gamma, float(mu.max()), rule)
    # kappa depends only on the products gamma mu: scale by a power of two, which is exact, so
    # that mu^2 neither overflows nor underflows.
    exponent = int(np.frexp(mu.max())[1])
    mu, gamma = np.ldexp(mu, -exponent), np.ldexp(gamma, exponent)
    # Largest first: their noise dies out soonest, and the loop drops them from the front.
    order = np.argsort(-mu, kind="stable")
    if rule.plain:
        kappa = np.asarray(kernels.influence(mu[order], weight[order], gamma))
    else:
        steps = rule.coefficients(gamma)
        readout = rule.weights(gamma.size)
        kappa = np.asarray(kernels.general_influence(mu[order], weight[order], steps, readout))
    return np.where(kappa < SMALLEST_INFLUENCE, 0.0, kappa)
