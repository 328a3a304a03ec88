"""Drawn sketches: a random target w* and sketch S, reduced to the eigenbasis of S H S^T.

Draws come in blocks of coordinates, (first coordinate, target, columns of S), so that S is never
held as a whole.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError, arg
from batchlaw._base.kernels.gauss import standard_normals
from batchlaw.model.power_law import power_law

# Coordinates per block: 2048 x M doubles, 8 MB at M = 512.
BLOCK = 2048

Draws = Iterator[tuple[int, FloatArray, FloatArray]]


class SketchedModel(NamedTuple):
    """Eigenvalues, energies and Approx of a draw, and (energies, Approx) averaged over w*.

    Rows of ``axes`` are the eigenvectors in the sketch's own coordinates, oriented so that u* has
    no negative coordinate.
    """

    eigenvalues: FloatArray
    target_energy: FloatArray
    approximation: float
    prior: tuple[FloatArray, float]
    axes: FloatArray


def reduce_draws(draws: Draws, dim: int, sketch: int, a: float, b: float) -> SketchedModel:
    """Accumulate over blocks of coordinates a QR factor of [H^1/2 S^T, H^1/2 w*].

    Its triangle R gives Sigma = R^T R and u* as a least-squares solution, whose residual
    is Approx. Forming Sigma itself would square the condition number: at a = 6, M = 64
    that costs 1 % of the energies. The many coordinates past 8 M are small and together close
    to isotropic; their products are formed directly, which is six times as fast.
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
    _check_rank(singular, a)
    optimum = left.T @ triangle[:sketch, sketch] / singular
    axes = np.where(optimum < 0.0, -1.0, 1.0)[:, None] * right
    # With as many coordinates as directions the sketch loses nothing.
    residual = float(triangle[sketch, sketch]) if triangle.shape[0] > sketch else 0.0
    mu = singular**2
    prior_energy = np.einsum("ji,ik,jk->j", right, prior, right, optimize=True) / mu**2
    prior_approximation = max(prior_signal - float(mu @ prior_energy), 0.0)
    prior_mean = (prior_energy, prior_approximation)
    return SketchedModel(mu, optimum**2, residual**2, prior_mean, axes)


def _check_rank(singular: FloatArray, a: float) -> None:
    sketch = singular.size
    if singular[-1] <= sketch * np.finfo(float).eps * singular[0]:
        raise InputError(
            "a",
            "must leave the sketched covariance of full rank to rounding",
            f"eigenvalues from {singular[0] ** 2:.3g} to {singular[-1] ** 2:.3g}",
            f"a = {a} decays too fast for {arg('sketch')} = {sketch}",
        )


def _blocks(dim: int) -> Iterator[tuple[int, int]]:
    """(first, last) coordinate of each block, counted from 1."""
    for first in range(1, dim + 1, BLOCK):
        yield first, min(first + BLOCK - 1, dim)


def paper_draws(seed: int, dim: int, sketch: int, a: float, b: float) -> Draws:
    """The draws of the paper's code (appendix L), from Python's ``random.Random(seed)``."""
    stream = _python_stream(seed)
    for first, last in _blocks(dim):
        # Normal numbers come in pairs. BLOCK is even, so only the last block can leave one unused.
        count = (last - first + 1) * (sketch + 1)
        normal = np.empty(count + count % 2)
        standard_normals(stream.random(normal.size), normal)
        draws = normal[:count].reshape(-1, sketch + 1)
        scale = np.array([math.sqrt(i**-b / i**-a) for i in range(first, last + 1)])
        yield first, draws[:, 0] * scale, draws[:, 1:] * (1.0 / math.sqrt(sketch))


def _python_stream(seed: int) -> np.random.Generator:
    """A NumPy generator of the uniform numbers that ``random.Random(seed)`` would draw."""
    *key, position = random.Random(seed).getstate()[1]
    twister = np.random.MT19937()
    twister.state = {
        "bit_generator": "MT19937",
        "state": {"key": np.array(key, dtype=np.uint32), "pos": position},
    }
    return np.random.Generator(twister)


def numpy_draws(seed: int, dim: int, sketch: int, a: float, b: float) -> Draws:
    """Draws from NumPy generators, which do not depend on the block size."""
    # Separate streams for w* and S: with one, blocks would interleave them.
    target_rng, sketch_rng = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(2))
    for first, last in _blocks(dim):
        size = last - first + 1
        target = target_rng.standard_normal(size) * np.sqrt(power_law(b - a, first, last))
        columns = sketch_rng.standard_normal((size, sketch)) / math.sqrt(sketch)
        yield first, target, columns
