"""Problem: a sketched linear regression, reduced to what SGD can see.

Everything lives in the eigenbasis of Sigma = S H S^T. SGD commutes with rotations and
Gaussian features have no preferred signs, so a problem is its eigenvalues, the squared
coordinates of u* there, and the variance of the label residual. The sketch S and the
ambient dimension exist only while a problem is drawn.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError, arg
from batchlaw._base.kernels.common import aligned_zeros
from batchlaw._base.kernels.gauss import standard_normals
from batchlaw._base.kernels.sgd import gaussian_samples
from batchlaw.model.nodes import SMALLEST_COUNT, Nodes, truncation_nodes
from batchlaw.model.power_law import power_law
from batchlaw.model.sketch_equivalent import sketch_nodes
from batchlaw.model.spectrum import Directions

# Columns of S held at once: 2048 x M doubles, 8 MB at M = 512.
BLOCK = 2048

# The kinds of ``power_law_nodes``: what makes the nodes, and what they are called.
KINDS = {
    "truncation": (truncation_nodes, "leading coordinates of a power law"),
    "sketch": (sketch_nodes, "deterministic equivalent of a Gaussian sketch of a power law"),
}
LARGEST_SKETCH = 10**12


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    r"""Sketched linear regression with Gaussian features (paper, section 2).

    Attributes
    ----------
    eigenvalues : (M,) array
        mu_1 >= ... >= mu_M > 0 of Sigma.
    target_energy : (M,) array
        Squared coordinates (Q^T u*)_j^2 in Sigma's eigenbasis, one direction each.
    approximation : float
        Approx = R_M(u*) - R(w*), what the sketch cannot express.
    irreducible : float
        sigma^2, the variance of the label noise.
    multiplicity : (M,) array
        How many directions share each entry; 1 unless ``from_spectrum`` or
        ``power_law_nodes`` said otherwise.
    description : str
        What the directions are, where nodes stand for many of them; else empty.
    """

    eigenvalues: FloatArray
    target_energy: FloatArray
    approximation: float
    irreducible: float
    multiplicity: FloatArray
    _prior: tuple[FloatArray, float] | None = None
    description: str = ""
    _coarse: Problem | None = None

    def __repr__(self) -> str:
        many = f" for {self.multiplicity.sum():g}" if (self.multiplicity != 1.0).any() else ""
        return (
            f"Problem({self.eigenvalues.size} directions{many}, eigenvalues "
            f"{self.eigenvalues[0]:.6g} to {self.eigenvalues[-1]:.3g}, trace {self.trace:.6g}, "
            f"signal {float((self.multiplicity * self.eigenvalues) @ self.target_energy):.6g}, "
            f"approximation {self.approximation:.6g}, irreducible {self.irreducible:.6g})"
        )

    def described(self, method: str) -> str:
        """How a number was computed, and what the directions are where that needs saying."""
        return f"{method}, on the {self.description}" if self.description else method

    @property
    def noise_variance(self) -> float:
        """s2 = sigma^2 + Approx, the variance of y - z^T u*."""
        return self.irreducible + self.approximation

    @property
    def optimum(self) -> FloatArray:
        """Coordinates of u* in the eigenbasis, whose axes are pointed so that none is negative."""
        return np.sqrt(self.target_energy)

    @property
    def trace(self) -> float:
        """tr(Sigma)."""
        return float(self.multiplicity @ self.eigenvalues)

    def directions(self, peak: float) -> Sequence[Directions]:
        """As a ``Spectrum``: its own eigenvalues, whatever the rates are."""
        return [Directions(self.eigenvalues, self.multiplicity)]

    @property
    def coarser(self) -> Problem | None:
        """The same problem on half the nodes, or None where every direction is written out.

        What a solver gives for both differs by more than the finer one's error.
        """
        return self._coarse

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
        """The paper's instance, drawn as its code draws (appendix L).

        Coordinate by coordinate from Python's ``random.Random(seed)``: first w*_i, then
        the M entries of column i of S. At the defaults this gives every predicted figure
        that the paper prints.
        """
        dim, sketch, a, b, sigma = _check_model(dim, sketch, a, b, sigma)
        return cls._from_sketch(_paper_draws(seed, dim, sketch, a, b), dim, sketch, a, b, sigma)

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
        """A fresh power-law problem: Gaussian target and sketch from NumPy generators.

        The seed fixes the draws; linear algebra may round differently on another machine.
        """
        dim, sketch, a, b, sigma = _check_model(dim, sketch, a, b, sigma)
        seed = checks.count("seed", seed, minimum=0)
        return cls._from_sketch(_numpy_draws(seed, dim, sketch, a, b), dim, sketch, a, b, sigma)

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
        """A problem given by numbers alone, without matrices.

        Energies are squared coordinates of u*, each for one direction; a multiplicity
        n_j stands for n_j directions with the same eigenvalue and energy.
        ``noise_variance`` is s2 = sigma^2 + approximation.
        """
        mu = checks.vector("eigenvalues", eigenvalues, positive=True)
        energy = checks.vector("target_energy", target_energy)
        ones = np.ones_like(mu)
        many = ones if multiplicity is None else checks.vector("multiplicity", multiplicity)
        for name, array in (("target_energy", energy), ("multiplicity", many)):
            checks.same_length(name, array.size, mu.size, "eigenvalues")
        if not many.any():
            raise InputError("multiplicity", "must not be zero for every eigenvalue")
        approximation = checks.real("approximation", approximation, at_least=0.0)
        s2 = checks.real("noise_variance", noise_variance, at_least=approximation)
        order = np.argsort(-mu, kind="stable")
        return cls(mu[order], energy[order], approximation, s2 - approximation, many[order])

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
        """The power law at any size, averaged over the target prior: nothing is drawn.

        Solvers cost steps x nodes whatever the size is. ``coarser`` is the same problem
        on half the nodes, for an error estimate; a truncation to at most ``nodes``
        directions has none, because they are written out.

        Parameters
        ----------
        a : float
            Exponent of the eigenvalues, above 1.
        b : float
            Exponent of the target energies, above 1.
        sketch : int or math.inf
            M, up to 10^12.
        kind : "truncation" or "sketch"
            The leading M coordinates of the ambient space: eigenvalues i^-a, Approx the
            target energy beyond them. Or the deterministic equivalent of the paper's
            Gaussian sketch of an infinite ambient space, for which terms of relative size
            1/M are missing; ``coarser`` does not see these.
        nodes : int
            About how many nodes to use, at least 16.
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
        coarse = None
        if (fine.multiplicity != 1.0).any():
            half = make(a, b, size, max(nodes // 2, SMALLEST_COUNT))
            coarse = cls._from_nodes(half, sigma, description, None)
        return cls._from_nodes(fine, sigma, description, coarse)

    @classmethod
    def _from_nodes(
        cls, nodes: Nodes, sigma: float, description: str, coarse: Problem | None
    ) -> Self:
        return cls(
            nodes.eigenvalues,
            nodes.target_energy,
            nodes.approximation,
            sigma**2,
            nodes.multiplicity,
            (nodes.target_energy, nodes.approximation),
            description,
            coarse,
        )

    @classmethod
    def _from_sketch(
        cls,
        draws: Iterator[tuple[int, FloatArray, FloatArray]],
        dim: int,
        sketch: int,
        a: float,
        b: float,
        sigma: float,
    ) -> Self:
        """Accumulate over blocks of coordinates a QR factor of [H^1/2 S^T, H^1/2 w*].

        Its triangle R gives Sigma = R^T R and u* as a least-squares solution, whose residual
        is Approx. Forming Sigma itself would square the condition number: at a = 6, M = 64
        that costs 1 % of the energies. The many coordinates past 8 M are small and close to
        isotropic together; their products are formed, which is six times as fast.
        """
        triangle = np.zeros((0, sketch + 1))
        rest = np.zeros((sketch + 1, sketch + 1))
        head = -(-8 * sketch // BLOCK) * BLOCK
        if dim - head < 4 * sketch:  # too few others for their products to have full rank
            head = dim
        prior = np.zeros((sketch, sketch))
        prior_signal = 0.0
        for first, target, columns in draws:
            last = first + target.size - 1
            root = np.sqrt(power_law(a, first, last))[:, None]
            energies = power_law(b, first, last)
            half = np.hstack([columns, target[:, None]]) * root
            if first <= head:
                triangle = np.asarray(np.linalg.qr(np.vstack([triangle, half]), mode="r"))
            else:
                rest += half.T @ half
            weighted = half[:, :-1] * np.sqrt(energies)[:, None]
            prior += weighted.T @ weighted
            prior_signal += float(energies.sum())
        if rest.any():
            both = np.vstack([triangle, np.linalg.cholesky(rest).T])
            triangle = np.asarray(np.linalg.qr(both, mode="r"))
        left, singular, right = np.linalg.svd(triangle[:sketch, :sketch])
        if singular[-1] <= sketch * np.finfo(float).eps * singular[0]:
            raise InputError(
                "a",
                "must leave the sketched covariance of full rank to rounding",
                f"eigenvalues from {singular[0] ** 2:.3g} to {singular[-1] ** 2:.3g}",
                f"a = {a} decays too fast for {arg('sketch')} = {sketch}",
            )
        energy = (left.T @ triangle[:sketch, sketch] / singular) ** 2
        # With as many coordinates as directions the sketch loses nothing.
        residual = float(triangle[sketch, sketch]) if triangle.shape[0] > sketch else 0.0
        mu = singular**2
        prior_energy = np.einsum("ji,ik,jk->j", right, prior, right, optimize=True) / mu**2
        return cls(
            mu,
            energy,
            residual**2,
            sigma**2,
            np.ones(sketch),
            (prior_energy, max(prior_signal - float(mu @ prior_energy), 0.0)),
        )

    def prior_mean(self) -> Problem:
        """The same sketch with the target averaged over its prior, and no draw of it.

        Exact for every risk, because risks are linear in (target energy, residual
        variance): energies become (Q^T Sigma_w Q)_jj / mu_j^2, Approx becomes
        sum_i i^-b - tr(Sigma^-1 Sigma_w).
        """
        if self._prior is None:
            raise InputError("prior", "needs a problem drawn from a prior, not one from_spectrum")
        energy, approximation = self._prior
        return replace(self, target_energy=energy, approximation=approximation)

    def expanded(self) -> Problem:
        """The same problem with every direction written out, as sampling needs it."""
        if (self.multiplicity == 1.0).all():
            return self
        whole = np.floor(self.multiplicity)
        if (whole != self.multiplicity).any() or whole.sum() > 100_000:
            raise InputError(
                "problem",
                "must have whole multiplicities of at most 100000 directions in all to be sampled",
                f"{self.multiplicity.sum():g}",
            )
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


def _blocks(dim: int) -> Iterator[tuple[int, int]]:
    """(first, last) coordinate of each block, counted from 1."""
    for first in range(1, dim + 1, BLOCK):
        yield first, min(first + BLOCK - 1, dim)


def _paper_draws(
    seed: int, dim: int, sketch: int, a: float, b: float
) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    stream = _python_stream(seed)
    for first, last in _blocks(dim):
        # Normal numbers come in pairs; a block has an even number of coordinates, so that an
        # odd one out can only be the last of all.
        count = (last - first + 1) * (sketch + 1)
        normal = np.empty(count + count % 2)
        standard_normals(stream.random(normal.size), normal)
        draws = normal[:count].reshape(-1, sketch + 1)
        scale = np.array([math.sqrt(i**-b / i**-a) for i in range(first, last + 1)])
        yield first, draws[:, 0] * scale, draws[:, 1:] * (1.0 / math.sqrt(sketch))


def _python_stream(seed: int) -> np.random.Generator:
    """The uniform numbers of Python's ``random.Random(seed)``, many at a time."""
    *key, position = random.Random(seed).getstate()[1]
    twister = np.random.MT19937()
    twister.state = {
        "bit_generator": "MT19937",
        "state": {"key": np.array(key, dtype=np.uint32), "pos": position},
    }
    return np.random.Generator(twister)


def _numpy_draws(
    seed: int, dim: int, sketch: int, a: float, b: float
) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    # One stream for w* and one for S: the draws do not depend on the block size.
    target_rng, sketch_rng = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(2))
    for first, last in _blocks(dim):
        size = last - first + 1
        target = target_rng.standard_normal(size) * np.sqrt(power_law(b - a, first, last))
        columns = sketch_rng.standard_normal((size, sketch)) / math.sqrt(sketch)
        yield first, target, columns
