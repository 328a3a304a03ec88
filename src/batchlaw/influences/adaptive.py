"""Influence from a measured spectrum: its tail, its own noise, and Adam with frozen scales.

A model's curvature is known by its leading eigenvalues and its trace, its gradient noise by
the same directions and its own trace. ``ModelSpectrum`` holds both (``torch_support.spectra``
measures them), ``nodes`` fills in the rest, and ``adam_influence`` makes weights for Adam of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.kernels import influence as kernels
from batchlaw.influences.weights import SMALLEST
from batchlaw.schedule.update_rules import check_stable

TAILS = ("power", "lump", "none")
# A power-law tail is summed in groups whose ranks span this factor.
GROUP = 1.1


@dataclass(frozen=True, eq=False)
class NoisyNodes:
    """Directions by groups: mu_j, how many share it (n_j), and the gradient noise c_j of one."""

    eigenvalues: FloatArray
    multiplicity: FloatArray
    noise: FloatArray

    @property
    def weight(self) -> FloatArray:
        """n_j c_j / mu_j: as ``multiplicity`` it makes ``bl.influence`` sum n_j mu_j c_j psi^2."""
        return self.multiplicity * self.noise / self.eigenvalues


@dataclass(frozen=True, eq=False)
class ModelSpectrum:
    """Leading eigenvalues of a model's curvature, its trace, and the noise along them.

    Attributes
    ----------
    kind : str
        "gauss-newton", "hessian" or "gradient-covariance".
    eigenvalues : (k,) array
        The largest, decreasing, of A or of P^{-1/2} A P^{-1/2}.
    trace, trace_error : float
        Of the whole matrix, with its standard error (0 where every eigenvalue is known).
    dimension, samples : int
        Parameters, and samples averaged over.
    noise : (k,) array or None
        c_j = v_j^T C v_j, C the covariance of one sample's gradient (preconditioned alike).
    noise_trace, noise_trace_error : float or None
        tr C.
    residual : float
        Largest |A v - mu v| / mu_1 over the returned pairs.
    """

    kind: str
    eigenvalues: FloatArray
    trace: float
    trace_error: float
    dimension: int
    samples: int
    noise: FloatArray | None = None
    noise_trace: float | None = None
    noise_trace_error: float | None = None
    residual: float = 0.0

    @property
    def rest(self) -> float:
        """Trace that the leading eigenvalues leave, never negative."""
        return max(self.trace - float(self.eigenvalues.sum()), 0.0)

    def nodes(self, tail: str = "power") -> NoisyNodes:
        """All directions: the positive leading ones as measured, the rest modelled from the trace.

        "power" goes on from the last measured eigenvalue as mu_k (j/k)^-a up to the dimension,
        with a such that the trace is met; "lump" gives every unmeasured direction the same
        eigenvalue; "none" leaves them out. All are models: nothing but the trace was measured
        there. The noise that the leading directions leave is shared in proportion to the tail's
        eigenvalues; without measured noise c_j = mu_j.
        """
        checks.choice("tail", tail, TAILS)
        lead = self.eigenvalues > 0.0
        mu = self.eigenvalues[lead]
        if not mu.size:
            raise ValueError("nodes need a positive eigenvalue, got none")
        many = np.ones(mu.size)
        noise = mu if self.noise is None else np.maximum(self.noise[lead], 0.0)
        left = self.dimension - self.eigenvalues.size
        if tail == "none" or left == 0 or self.rest <= 1e-12 * self.trace:
            return NoisyNodes(mu, many, noise)
        more, sizes = (
            (np.array([self.rest / left]), np.array([float(left)]))
            if tail == "lump"
            else _power_tail(float(mu[-1]), self.eigenvalues.size, self.dimension, self.rest)
        )
        share = 1.0
        if self.noise is not None and self.noise_trace is not None:
            share = max(self.noise_trace - float(self.noise.sum()), 0.0) / self.rest
        return NoisyNodes(
            np.append(mu, more), np.append(many, sizes), np.append(noise, share * more)
        )


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
    it is gamma_t prod_{s>t} (1 - gamma_s mu_j). Exact for frozen P and a quadratic loss; real
    Adam also moves P, by the noise itself. With measured noise kappa_t / (2 B_t) is the rise of
    the final loss that the noise of update t causes.

    Parameters
    ----------
    spectrum
        A preconditioned ModelSpectrum, or its eigenvalues mu_j.
    rates : (T,) array
        gamma_t as the optimizer gets them.
    beta1, debias
        First-moment decay, and whether m_hat_t = m_t / (1 - beta1^t).
    weight_decay
        lambda of AdamW (decoupled): an extra contraction by 1 - gamma_t lambda. Not Adam's own
        ``weight_decay``, which adds to the gradient.
    scale : (T,) array, optional
        P_t = scale_t P where the scales are known to drift together.
    noise, multiplicity : (M,) arrays, optional
        c_j (mu_j if left out) and n_j, with plain eigenvalues only.
    tail
        How a ModelSpectrum is completed, see ``ModelSpectrum.nodes``.
    """
    nodes = _nodes(spectrum, noise, multiplicity, tail)
    beta = checks.real("beta1", beta1, at_least=0.0)
    if beta >= 1.0:
        raise ValueError(f"beta1 must be below 1, got {beta1!r}")
    gamma = checks.vector("rates", rates)
    T = gamma.size
    decay = gamma * checks.real("weight_decay", weight_decay, at_least=0.0)
    if decay.max() >= 1.0:
        raise ValueError(f"rate times weight_decay must be below 1, got {decay.max():.6g}")
    step = gamma if scale is None else gamma / _scale(scale, T)
    # Adam's velocity is a mean of gradients: heavy ball at (1 - beta1) of the rate.
    check_stable((1.0 - beta) * step, float(nodes.eigenvalues.max()), beta)
    pull = step / (1.0 - beta ** np.arange(1, T + 1)) if debias else step
    rule = np.stack(
        [np.zeros(T), np.full(T, beta), np.full(T, 1.0 - beta), -pull * beta, -pull * (1.0 - beta)],
        axis=1,
    )
    # Decay as a change of units: in e_t / D_t, D_t = prod (1 - gamma_s lambda), the coefficient
    # of e is 1 again, all others are divided by 1 - gamma_t lambda, and the noise by D_{t-1}.
    rule[:, 1:] /= (1.0 - decay)[:, None]
    survives = np.cumsum(np.log1p(-decay)[::-1])[::-1]
    last = np.append(np.zeros(T - 1), 1.0)
    order = np.argsort(-nodes.eigenvalues, kind="stable")
    kappa = np.asarray(
        kernels.general_influence(nodes.eigenvalues[order], nodes.weight[order], rule, last)
    ) * np.exp(2.0 * survives)
    return np.where(kappa < SMALLEST, 0.0, kappa)


def _nodes(
    spectrum: ModelSpectrum | ArrayLike,
    noise: ArrayLike | None,
    multiplicity: ArrayLike | None,
    tail: str,
) -> NoisyNodes:
    if isinstance(spectrum, ModelSpectrum):
        if noise is not None or multiplicity is not None:
            raise ValueError("noise and multiplicity come with a ModelSpectrum, give plain values")
        return spectrum.nodes(tail)
    mu = checks.vector("eigenvalues", spectrum, positive=True)
    many = np.ones_like(mu) if multiplicity is None else checks.vector("multiplicity", multiplicity)
    c = mu if noise is None else checks.vector("noise", noise)
    for name, values in (("multiplicity", many), ("noise", c)):
        if values.size != mu.size:
            raise ValueError(
                f"{name} must have one entry for each of the {mu.size} eigenvalues, "
                f"got {values.size}"
            )
    return NoisyNodes(mu, many, c)


def _scale(scale: ArrayLike, steps: int) -> FloatArray:
    values = checks.vector("scale", scale, positive=True)
    if values.size != steps:
        raise ValueError(
            f"scale must have one entry for each of the {steps} rates, got {values.size}"
        )
    return values


def _power_tail(last: float, k: int, dimension: int, rest: float) -> tuple[FloatArray, FloatArray]:
    """Groups of mu_k (j/k)^-a, j = k+1..d, with a by bisection so that they sum to ``rest``.

    Where even a = 0 sums to less than ``rest``, all are equal: the measured ones were not the
    largest, or the trace is too uncertain.
    """
    sizes_to = np.unique(
        np.round(k * GROUP ** np.arange(1, math.log(dimension / k, GROUP) + 1)).astype(np.int64)
    )
    ends = np.unique(np.append(sizes_to[(sizes_to > k) & (sizes_to < dimension)], dimension))
    sizes = np.diff(np.append(k, ends)).astype(np.float64)
    # The middle rank of a group, of ranks previous end + 1 .. end.
    middle = ends - (sizes - 1.0) / 2.0

    def values(a: float) -> FloatArray:
        # In logarithms: a power of a large rank underflows to zero, which no direction has.
        return last * np.exp(-np.minimum(a * np.log(middle / k), 600.0))

    low, high = 0.0, 200.0
    for _ in range(100):
        a = 0.5 * (low + high)
        low, high = (a, high) if sizes @ values(a) > rest else (low, a)
    tail = values(0.5 * (low + high))
    return tail * (rest / float(sizes @ tail)), sizes
