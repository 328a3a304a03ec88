"""Influence under Adam, with the second-moment scales frozen: an approximation."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw._base.kernels import influence as kernels
from batchlaw.influences.weights import SMALLEST_INFLUENCE
from batchlaw.model.model_spectrum import ModelSpectrum, NoisyNodes
from batchlaw.schedule.update_rule import SGD, check_stable


def adam_influence(
    spectrum: ModelSpectrum | ArrayLike,
    rates: ArrayLike,
    *,
    beta1: float = 0.9,
    weight_decay: float = 0.0,
    scale: ArrayLike | None = None,
    noise: ArrayLike | None = None,
    multiplicity: ArrayLike | None = None,
    debias: bool = True,
    tail: str = "power",
) -> FloatArray:
    r"""Influence under Adam or AdamW, with the second-moment scales frozen: an approximation.

    With P = sqrt(v_hat) + eps held fixed, Adam in the coordinates P^{1/2} x is heavy ball on a
    quadratic with curvature P^{-1/2} G P^{-1/2} and gradient noise P^{-1/2} C P^{-1/2}:

        m_t = beta1 m_{t-1} + (1 - beta1) g_t
        x_t = (1 - gamma_t lambda) x_{t-1} - gamma_t m_hat_t
        kappa_t = sum_j n_j mu_j c_j psi_tj^2

    psi_tj is the response of the final iterate to the noise of update t; for beta1 = lambda = 0
    it is gamma_t prod_{s>t} (1 - gamma_s mu_j). Exact for frozen P and a quadratic loss; in real
    Adam the noise also moves P. With measured noise, kappa_t / (2 B_t) is the increase of the
    final loss caused by the noise of update t.

    Parameters
    ----------
    spectrum
        A preconditioned ModelSpectrum, or its eigenvalues mu_j.
    rates : (T,) array
        gamma_t as given to the optimizer.
    beta1, debias
        First-moment decay, and whether m_hat_t = m_t / (1 - beta1^t).
    weight_decay
        lambda of AdamW (decoupled): an extra contraction by 1 - gamma_t lambda. Not the
        ``weight_decay`` of Adam itself, which adds to the gradient.
    scale : (T,) array, optional
        P_t = scale_t P, if the scales are known to drift together.
    noise, multiplicity : (M,) arrays, optional
        c_j (mu_j by default) and n_j, with plain eigenvalues only.
    tail
        How a ModelSpectrum is completed, see ``ModelSpectrum.nodes``.
    """
    nodes = _nodes(spectrum, noise, multiplicity, tail)
    beta = checks.real("beta1", beta1, at_least=0.0)
    if beta >= 1.0:
        raise InputError("beta1", "must be below 1", repr(beta1))
    gamma = checks.vector("rates", rates)
    T = gamma.size
    decay = gamma * checks.real("weight_decay", weight_decay, at_least=0.0)
    if decay.max() >= 1.0:
        raise InputError("weight_decay", "times the rate must be below 1", f"{decay.max():.6g}")
    step = gamma if scale is None else gamma / _scale(scale, T)
    # Adam's velocity is a mean of gradients: heavy ball at (1 - beta1) times the rate.
    check_stable((1.0 - beta) * step, float(nodes.eigenvalues.max()), SGD(beta))
    pull = step / (1.0 - beta ** np.arange(1, T + 1)) if debias else step
    rule = np.stack(
        [np.zeros(T), np.full(T, beta), np.full(T, 1.0 - beta), -pull * beta, -pull * (1.0 - beta)],
        axis=1,
    )
    # Weight decay as a change of variables: for e_t / D_t, D_t = prod (1 - gamma_s lambda), the
    # coefficient of e is 1 again, the others are divided by 1 - gamma_t lambda, and the noise by
    # D_{t-1}.
    rule[:, 1:] /= (1.0 - decay)[:, None]
    log_survival = np.cumsum(np.log1p(-decay)[::-1])[::-1]
    last = np.append(np.zeros(T - 1), 1.0)
    order = np.argsort(-nodes.eigenvalues, kind="stable")
    kappa = np.asarray(
        kernels.general_influence(nodes.eigenvalues[order], nodes.weight[order], rule, last)
    ) * np.exp(2.0 * log_survival)
    return np.where(kappa < SMALLEST_INFLUENCE, 0.0, kappa)


def _nodes(
    spectrum: ModelSpectrum | ArrayLike,
    noise: ArrayLike | None,
    multiplicity: ArrayLike | None,
    tail: str,
) -> NoisyNodes:
    if isinstance(spectrum, ModelSpectrum):
        if noise is not None or multiplicity is not None:
            raise InputError(
                "noise" if noise is not None else "multiplicity",
                "goes with plain eigenvalues: a ModelSpectrum has its own",
            )
        return spectrum.nodes(tail)
    mu = checks.vector("eigenvalues", spectrum, positive=True)
    counts = np.ones_like(mu)
    if multiplicity is not None:
        counts = checks.vector("multiplicity", multiplicity)
    c = mu if noise is None else checks.vector("noise", noise)
    for name, values in (("multiplicity", counts), ("noise", c)):
        checks.same_length(name, values.size, mu.size, "eigenvalues")
    return NoisyNodes(mu, counts, c)


def _scale(scale: ArrayLike, steps: int) -> FloatArray:
    values = checks.vector("scale", scale, positive=True)
    checks.same_length("scale", values.size, steps, "rates")
    return values
