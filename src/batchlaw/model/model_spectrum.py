"""ModelSpectrum: the leading curvature of a model with its trace, completed to all directions.

A model's curvature is known by its leading eigenvalues and its trace, its gradient noise by
the same directions and its own trace. ``torch_support.spectra`` measures both; ``nodes`` fills
in the rest.
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
# A power-law tail is summed in groups whose ranks span this factor.
GROUP = 1.1
# Its largest exponent: beyond it nothing but the first group counts.
STEEPEST = 200.0


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

    def directions(self, peak: float) -> Sequence[Directions]:
        """As a ``Spectrum``: each direction counts by its own gradient noise."""
        nodes = self.nodes()
        return [Directions(nodes.eigenvalues, nodes.weight)]

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
            raise InputError("eigenvalues", "must have a positive one", "none")
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


def _power_tail(last: float, k: int, dimension: int, rest: float) -> tuple[FloatArray, FloatArray]:
    """Groups of mu_k (j/k)^-a, j = k+1..d, with the a for which they sum to ``rest``.

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

    def powers(a: float) -> FloatArray:
        # In logarithms: a power of a large rank underflows to zero, which no direction has.
        return np.exp(-np.minimum(a * np.log(middle / k), 600.0))

    def excess(a: float) -> float:
        return math.log(sizes @ powers(a)) - math.log(rest / last)

    a = 0.0
    if excess(a) > 0.0:
        from scipy.optimize import brentq

        steep = excess(STEEPEST) > 0.0
        a = STEEPEST if steep else brentq(excess, 0.0, STEEPEST, xtol=1e-15)
    tail = powers(a)
    return tail * (rest / float(sizes @ tail)), sizes
