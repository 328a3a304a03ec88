"""ModelSpectrum: a model's leading curvature and trace, completed to all directions.

For a model only the leading eigenvalues and the trace of the curvature are measured, and its
gradient noise along the same directions and in all. ``torch_support.spectra`` measures both;
``ModelSpectrum.nodes`` models the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.model.spectrum import Directions

TAILS = ("power", "lump", "none")
# A power-law tail is summed in groups of ranks; each group spans this factor.
GROUP_FACTOR = 1.1
# Largest exponent of a tail; beyond it only the first group would matter.
LARGEST_EXPONENT = 200.0


@dataclass(frozen=True, eq=False)
class NoisyNodes:
    """Groups of directions: eigenvalue mu_j, number n_j, and gradient noise c_j of each one."""

    eigenvalues: FloatArray
    multiplicity: FloatArray
    noise: FloatArray

    @property
    def weight(self) -> FloatArray:
        """n_j c_j / mu_j: passed as ``multiplicity``, ``bl.influence`` sums n_j mu_j c_j psi^2."""
        return self.multiplicity * self.noise / self.eigenvalues


@dataclass(frozen=True, eq=False)
class ModelSpectrum:
    """Leading eigenvalues of a model's curvature, its trace, and the noise along them.

    Attributes
    ----------
    kind : str
        "gauss-newton", "hessian" or "gradient-covariance".
    eigenvalues : (k,) array
        The largest ones, in decreasing order, of A or of P^{-1/2} A P^{-1/2}.
    trace, trace_error : float
        Trace of the whole matrix and its standard error (0 if every eigenvalue is known).
    dimension, samples : int
        Number of parameters, and of samples averaged over.
    noise : (k,) array or None
        c_j = v_j^T C v_j, with C the covariance of one sample's gradient (preconditioned in the
        same way).
    noise_trace, noise_trace_error : float or None
        tr C.
    residual : float
        Largest ``|A v - mu v| / mu_1`` over the returned pairs.
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
        """The trace minus the leading eigenvalues, never negative."""
        return max(self.trace - float(self.eigenvalues.sum()), 0.0)

    def directions(self, peak: float) -> Sequence[Directions]:
        """As a ``Spectrum``: each direction is weighted by its gradient noise."""
        nodes = self.nodes()
        return [Directions(nodes.eigenvalues, nodes.weight)]

    def nodes(self, tail: str = "power") -> NoisyNodes:
        """All directions: the positive leading ones as measured, the rest modelled from the trace.

        "power" continues from the last measured eigenvalue as mu_k (j/k)^-a up to the dimension,
        with a chosen to match the trace; "lump" gives every unmeasured direction the same
        eigenvalue; "none" omits them. All are models: only the trace was measured there. The
        noise outside the leading directions is distributed in proportion to the tail's
        eigenvalues; without measured noise c_j = mu_j.
        """
        checks.choice("tail", tail, TAILS)
        positive = self.eigenvalues > 0.0
        mu = self.eigenvalues[positive]
        if not mu.size:
            raise InputError("eigenvalues", "must have a positive one", "none")
        ones = np.ones(mu.size)
        noise = mu if self.noise is None else np.maximum(self.noise[positive], 0.0)
        unmeasured = self.dimension - self.eigenvalues.size
        if tail == "none" or unmeasured == 0 or self.rest <= 1e-12 * self.trace:
            return NoisyNodes(mu, ones, noise)
        tail_mu, sizes = (
            (np.array([self.rest / unmeasured]), np.array([float(unmeasured)]))
            if tail == "lump"
            else _power_tail(float(mu[-1]), self.eigenvalues.size, self.dimension, self.rest)
        )
        noise_per_eigenvalue = 1.0
        if self.noise is not None and self.noise_trace is not None:
            noise_rest = max(self.noise_trace - float(self.noise.sum()), 0.0)
            noise_per_eigenvalue = noise_rest / self.rest
        return NoisyNodes(
            np.append(mu, tail_mu),
            np.append(ones, sizes),
            np.append(noise, noise_per_eigenvalue * tail_mu),
        )


def _power_tail(last: float, k: int, dimension: int, rest: float) -> tuple[FloatArray, FloatArray]:
    """Groups of mu_k (j/k)^-a, j = k+1..d, with a chosen so that they sum to ``rest``.

    If even a = 0 sums to less than ``rest``, all are equal: the measured eigenvalues were not
    the largest, or the trace is too uncertain.
    """
    group_ends = np.unique(
        np.round(
            k * GROUP_FACTOR ** np.arange(1, math.log(dimension / k, GROUP_FACTOR) + 1)
        ).astype(np.int64)
    )
    ends = np.unique(np.append(group_ends[(group_ends > k) & (group_ends < dimension)], dimension))
    sizes = np.diff(np.append(k, ends)).astype(np.float64)
    # Middle of the ranks previous end + 1 .. end of each group.
    middle = ends - (sizes - 1.0) / 2.0

    def powers(a: float) -> FloatArray:
        # Limit the logarithm: a power that underflows would give an eigenvalue of zero.
        return np.exp(-np.minimum(a * np.log(middle / k), 600.0))

    def excess(a: float) -> float:
        return math.log(sizes @ powers(a)) - math.log(rest / last)

    a = 0.0
    if excess(a) > 0.0:
        from scipy.optimize import brentq

        too_steep = excess(LARGEST_EXPONENT) > 0.0
        a = LARGEST_EXPONENT if too_steep else brentq(excess, 0.0, LARGEST_EXPONENT, xtol=1e-15)
    shape = powers(a)
    return shape * (rest / float(sizes @ shape)), sizes
