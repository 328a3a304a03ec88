"""Problem: a sketched linear regression, reduced to what SGD can see.

Everything is in the eigenbasis of Sigma = S H S^T. SGD commutes with rotations and Gaussian
features have no preferred signs, so a problem is fully described by its eigenvalues, the
squared coordinates of u* in that basis, and the variance of the label residual. The sketch S
and the ambient dimension exist only while a problem is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError, arg
from batchlaw._base.kernels.common import aligned_zeros
from batchlaw._base.kernels.sgd import gaussian_samples
from batchlaw.model.drawn_sketch import SketchedModel, numpy_draws, paper_draws, reduce_draws
from batchlaw.model.nodes import MIN_NODES, Nodes, truncation_nodes
from batchlaw.model.sketch_equivalent import sketch_nodes
from batchlaw.model.spectrum import Directions

# The kinds of ``power_law_nodes``: the function that computes the nodes, and their description.
KINDS = {
    "truncation": (truncation_nodes, "leading coordinates of a power law"),
    "sketch": (sketch_nodes, "average over Gaussian sketches of a power law to order 1/M"),
}
LARGEST_SKETCH = 10**12
# Directions up to which data are drawn.
MOST_SAMPLED = 100_000
# The terms of size 1/M^2 that an average over sketches leaves out, in units of those of size 1/M,
# over M: for Approx, and for the risk of a run, where several eigenvalues enter together.
NEXT_ORDER_APPROXIMATION = 2.0
NEXT_ORDER_RISK = 4.0


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    r"""Sketched linear regression with Gaussian features (paper, section 2).

    Attributes
    ----------
    eigenvalues : (M,) array
        mu_1 >= ... >= mu_M > 0 of Sigma.
    target_energy : (M,) array
        Squared coordinates (Q^T u*)_j^2 in Sigma's eigenbasis, each for a single direction.
    approximation : float
        Approx = R_M(u*) - R(w*), what the sketch cannot express.
    irreducible : float
        sigma^2, the variance of the label noise.
    multiplicity : (M,) array
        How many directions share each entry; 1 unless set by ``from_spectrum`` or
        ``power_law_nodes``.
    description : str
        What the directions are, if nodes stand for many of them; otherwise empty.
    """

    eigenvalues: FloatArray
    target_energy: FloatArray
    approximation: float
    irreducible: float
    multiplicity: FloatArray
    _prior: tuple[FloatArray, float] | None = None
    _axes: FloatArray | None = None
    description: str = ""
    _coarse: Problem | None = None
    _leading: Problem | None = None
    _slow: Problem | None = None

    def __repr__(self) -> str:
        all_single = (self.multiplicity == 1.0).all()
        represented = "" if all_single else f" for {self.multiplicity.sum():g}"
        return (
            f"Problem({self.eigenvalues.size} directions{represented}, eigenvalues "
            f"{self.eigenvalues[0]:.6g} to {self.eigenvalues[-1]:.3g}, trace {self.trace:.6g}, "
            f"signal {float((self.multiplicity * self.eigenvalues) @ self.target_energy):.6g}, "
            f"approximation {self.approximation:.6g}, irreducible {self.irreducible:.6g})"
        )

    def described(self, method: str) -> str:
        """The name of a method, followed by ``description`` if there is one."""
        return f"{method}, on the {self.description}" if self.description else method

    @property
    def noise_variance(self) -> float:
        """s2 = sigma^2 + Approx, the variance of y - z^T u*."""
        return self.irreducible + self.approximation

    @property
    def optimum(self) -> FloatArray:
        """Coordinates of u* in the eigenbasis, with axes oriented so that none is negative."""
        return np.sqrt(self.target_energy)

    @property
    def over_prior(self) -> bool:
        """Whether the target energies are means over a prior, as on nodes and of ``prior_mean``."""
        return self._prior is not None and self.target_energy is self._prior[0]

    @property
    def axes(self) -> FloatArray:
        """Eigenvectors of Sigma in the sketch's own coordinates, one per row (drawn problems)."""
        if self._axes is None:
            raise InputError(
                "problem",
                "must be drawn, with its target, to have a sketch's own coordinates",
                self.description or "a spectrum or a mean over targets",
                f"for Adam without them, give {arg('basis')} generic",
            )
        return self._axes

    @property
    def covariance(self) -> FloatArray:
        """Sigma (M, M) in the sketch's own coordinates, of a drawn problem."""
        sigma: FloatArray = (self.axes.T * self.eigenvalues) @ self.axes
        return 0.5 * (sigma + sigma.T)

    @property
    def target(self) -> FloatArray:
        """u* (M,) in the sketch's own coordinates, of a drawn problem."""
        target: FloatArray = self.optimum @ self.axes
        return target

    @property
    def trace(self) -> float:
        """tr(Sigma)."""
        return float(self.multiplicity @ self.eigenvalues)

    def directions(self, peak: float) -> Sequence[Directions]:
        """As a ``Spectrum``: the eigenvalues, for rates of any peak."""
        return [Directions(self.eigenvalues, self.multiplicity)]

    @property
    def coarser(self) -> Problem | None:
        """The same problem on half the nodes, or None if every direction is explicit.

        The difference between a solver's results on both exceeds the error of the finer one.
        """
        return self._coarse

    @property
    def approximation_error(self) -> float:
        """Estimated error of Approx: of an average over sketches, otherwise 0.

        The average lacks terms of size 1/M^2; their estimate is 2/M of the computed term of size
        1/M, and never more than that term (docs/exact.md has the measured errors).
        """
        if self._leading is None:
            return 0.0
        term = abs(self.approximation - self._leading.approximation)
        return term * min(NEXT_ORDER_APPROXIMATION / float(self.multiplicity.sum()), 1.0)

    def node_error(
        self, parts_of: Callable[[Problem], FloatArray], parts: FloatArray
    ) -> FloatArray:
        """Relative error of a solver's result that comes from the nodes.

        The change with half as many nodes and, for an average over sketches, 4/M of the change
        without the terms of size 1/M (all of it for M < 4), the parts counted as positive. With
        one or two rows also the change with a slowest direction that varies between sketches.

        Parameters
        ----------
        parts_of
            The solver's parts of the excess on a problem, the parts along the last axis.
        parts : array
            Those of this problem.
        """
        excess = parts.sum(axis=-1)
        error = np.zeros_like(excess)
        if self._coarse is not None:
            error += np.abs(parts_of(self._coarse).sum(axis=-1) / excess - 1.0)
        for other in (self._leading, self._slow):
            if other is not None:
                term = np.abs(parts_of(other) - parts).sum(axis=-1) / excess
                error += term * min(NEXT_ORDER_RISK / float(self.multiplicity.sum()), 1.0)
        return np.asarray(error)

    @classmethod
    def paper(
        cls,
        seed: int = 123,
        dim: int = 10_000,
        sketch: int = 64,
        a: float = 2.0,
        b: float = 1.5,
        sigma: float = 1.0,
    ) -> Self:
        """The paper's instance, drawn as in its code (appendix L).

        Drawn coordinate by coordinate from Python's ``random.Random(seed)``: first w*_i, then
        the M entries of column i of S. The defaults reproduce every predicted figure that the
        paper prints.
        """
        dim, sketch, a, b, sigma = _check_model(dim, sketch, a, b, sigma)
        draws = paper_draws(seed, dim, sketch, a, b)
        return cls._from_sketch(reduce_draws(draws, dim, sketch, a, b), sigma)

    @classmethod
    def power_law(
        cls,
        a: float,
        b: float,
        sketch: int,
        dim: int = 10_000,
        sigma: float = 1.0,
        *,
        seed: int,
    ) -> Self:
        """A new power-law problem: Gaussian target and sketch from NumPy generators.

        The seed fixes the draws; linear algebra may round differently on another machine.
        """
        dim, sketch, a, b, sigma = _check_model(dim, sketch, a, b, sigma)
        seed = checks.count("seed", seed, minimum=0)
        draws = numpy_draws(seed, dim, sketch, a, b)
        return cls._from_sketch(reduce_draws(draws, dim, sketch, a, b), sigma)

    @classmethod
    def from_spectrum(
        cls,
        eigenvalues: ArrayLike,
        target_energy: ArrayLike,
        noise_variance: float,
        multiplicity: ArrayLike | None = None,
        *,
        approximation: float = 0.0,
    ) -> Self:
        """A problem given by its spectrum, without matrices.

        Energies are squared coordinates of u*, each for a single direction; a multiplicity
        n_j stands for n_j directions with the same eigenvalue and energy.
        ``noise_variance`` is s2 = sigma^2 + approximation.
        """
        mu = checks.vector("eigenvalues", eigenvalues, positive=True)
        energy = checks.vector("target_energy", target_energy)
        counts = np.ones_like(mu)
        if multiplicity is not None:
            counts = checks.vector("multiplicity", multiplicity)
        for name, array in (("target_energy", energy), ("multiplicity", counts)):
            checks.same_length(name, array.size, mu.size, "eigenvalues")
        if not counts.any():
            raise InputError("multiplicity", "must not be zero for every eigenvalue")
        approximation = checks.real("approximation", approximation, at_least=0.0)
        s2 = checks.real("noise_variance", noise_variance, at_least=approximation)
        order = np.argsort(-mu, kind="stable")
        return cls(mu[order], energy[order], approximation, s2 - approximation, counts[order])

    @classmethod
    def power_law_nodes(
        cls,
        a: float,
        b: float,
        sketch: float,
        *,
        kind: str = "truncation",
        sigma: float = 1.0,
        nodes: int = 400,
    ) -> Self:
        """A power law of any size, averaged over the target prior: nothing is drawn.

        Solvers cost steps x nodes, whatever the size. ``coarser`` is the same problem on half
        the nodes, for an error estimate; a truncation to at most ``nodes`` directions has none,
        because every direction is explicit.

        Parameters
        ----------
        a : float
            Exponent of the eigenvalues, above 1.
        b : float
            Exponent of the target energies, above 1.
        sketch : int or math.inf
            M, up to 10^12.
        kind : "truncation" or "sketch"
            "truncation": the leading M coordinates of the ambient space, with eigenvalues i^-a
            and Approx the target energy beyond them. "sketch": the average over the paper's
            Gaussian sketches of an infinite ambient space, from its deterministic equivalent and
            the terms of relative size 1/M; an estimate of what is left out is part of
            ``approximation_error`` and ``node_error``.
        nodes : int
            About how many nodes to use, at least 16. A sketch takes at most 2 M + 16.
        """
        a = checks.real("a", a, above=1.0, at_most=50.0)
        b = checks.real("b", b, above=1.0, at_most=10.0)
        size = math.inf if sketch == math.inf else checks.count("sketch", sketch)
        if LARGEST_SKETCH < size < math.inf:
            raise InputError("sketch", "must be at most 10^12, or math.inf", repr(sketch))
        checks.choice("kind", kind, tuple(KINDS))
        sigma = checks.real("sigma", sigma, at_least=0.0, at_most=1e100)
        nodes = checks.count("nodes", nodes, minimum=16)
        make, name = KINDS[kind]
        description = f"{name}, M = {size:g}"
        fine = make(a, b, size, nodes)
        coarse: Problem | None = None
        if (fine.multiplicity != 1.0).any():
            half = make(a, b, size, max(min(nodes, fine.eigenvalues.size) // 2, MIN_NODES))
            coarse = cls._from_nodes(half, sigma, description)
        leading, slow = (
            None if other is None else cls._from_nodes(other, sigma, description)
            for other in (fine.leading, fine.slow)
        )
        return replace(
            cls._from_nodes(fine, sigma, description), _coarse=coarse, _leading=leading, _slow=slow
        )

    @classmethod
    def _from_nodes(cls, nodes: Nodes, sigma: float, description: str) -> Self:
        return cls(
            nodes.eigenvalues,
            nodes.target_energy,
            nodes.approximation,
            sigma**2,
            nodes.multiplicity,
            (nodes.target_energy, nodes.approximation),
            description=description,
        )

    @classmethod
    def _from_sketch(cls, sketched: SketchedModel, sigma: float) -> Self:
        return cls(
            sketched.eigenvalues,
            sketched.target_energy,
            sketched.approximation,
            sigma**2,
            np.ones_like(sketched.eigenvalues),
            sketched.prior,
            sketched.axes,
        )

    def prior_mean(self) -> Problem:
        """The same sketch with the target averaged over its prior instead of drawn.

        Exact for every risk, because risks are linear in (target energy, residual
        variance): energies become (Q^T Sigma_w Q)_jj / mu_j^2, Approx becomes
        sum_i i^-b - tr(Sigma^-1 Sigma_w). Adam's risk is not linear in them: its solvers refuse
        the result in the sketch's coordinates, which it no longer has.
        """
        if self._prior is None:
            raise InputError("prior", "needs a problem drawn from a prior, not one from_spectrum")
        energy, approximation = self._prior
        return replace(self, target_energy=energy, approximation=approximation, _axes=None)

    def expanded(self) -> Problem:
        """The same problem with every direction explicit, as sampling needs it."""
        if (self.multiplicity == 1.0).all():
            return self
        whole = np.floor(self.multiplicity)
        if (whole != self.multiplicity).any():
            raise InputError(
                "problem",
                "must have whole directions to be sampled",
                "nodes that are an average",
                "use one that is drawn, paper or power-law",
            )
        if whole.sum() > MOST_SAMPLED:
            needed = f"must have at most {MOST_SAMPLED} directions to be sampled"
            raise InputError("problem", needed, f"{whole.sum():g}")
        times = whole.astype(np.int64)
        return replace(
            self,
            eigenvalues=np.repeat(self.eigenvalues, times),
            target_energy=np.repeat(self.target_energy, times),
            multiplicity=np.ones(times.sum()),
            _prior=None,
        )

    def sample(self, n: int, seed: int | np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draw n pairs (z, y) from the joint Gaussian law: features (n, M), labels (n,).

        In the eigenbasis z_j = sqrt(mu_j) times a standard Gaussian and
        y = z . u* + sqrt(s2) times another: for Gaussian data the residual y - z . u* is
        independent of z.
        """
        n = checks.count("n", n)
        rng = np.random.default_rng(seed)
        problem = self.expanded()
        features = aligned_zeros(n, problem.eigenvalues.size)
        labels = np.empty(n)
        gaussian_samples(
            rng,
            np.sqrt(problem.eigenvalues),
            problem.optimum,
            math.sqrt(problem.noise_variance),
            features,
            labels,
        )
        return features, labels


def _check_model(
    dim: int, sketch: int, a: float, b: float, sigma: float
) -> tuple[int, int, float, float, float]:
    sketch = checks.count("sketch", sketch)
    dim = checks.count("dim", dim)
    if dim < sketch:
        raise InputError("dim", f"must be at least {arg('sketch')} = {sketch}", f"{dim}")
    if checks.real("a", a, above=1.0) * math.log(dim) > 690.0:
        raise InputError("a", f"must leave the smallest eigenvalue {dim}^-a above 1e-300", f"{a}")
    return (
        dim,
        sketch,
        checks.real("a", a, above=1.0),
        checks.real("b", b, above=1.0),
        checks.real("sigma", sigma, at_least=0.0, at_most=1e100),
    )
