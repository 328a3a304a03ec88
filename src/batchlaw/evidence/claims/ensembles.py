"""Sketches that are not Gaussian, and what SGD sees of them: S diag(w) S^T for given weights w.

Every ensemble has entries of mean 0 and variance 1/M. An ensemble is a function
``(rows, weights, rng) -> (K, rows, rows)``: the Gram matrices of one draw of S for K weight
vectors over the ambient coordinates. None of them holds all of S at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray

Ensemble = Callable[[int, FloatArray, np.random.Generator], FloatArray]

# Doubles of S held at once.
BLOCK = 2**20


def gaussian(rows: int, weights: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The paper's: independent N(0, 1/M) entries."""
    return _dense(rows, weights, lambda shape: rng.standard_normal(shape))


def rademacher(rows: int, weights: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Independent signs over sqrt(M)."""
    return _dense(rows, weights, lambda shape: _signs(shape, rng))


def thinned(density: float) -> Ensemble:
    """Independent entries: a sign over sqrt(M density) with this probability, else zero."""

    def ensemble(rows: int, weights: FloatArray, rng: np.random.Generator) -> FloatArray:
        def entries(shape: tuple[int, int]) -> FloatArray:
            u = rng.random(shape)
            kept = (u < density) * np.where(u < 0.5 * density, 1.0, -1.0)
            return np.asarray(kept / math.sqrt(density))

        return _dense(rows, weights, entries)

    return ensemble


def column_sparse(each: int) -> Ensemble:
    """Every column has ``each`` signs over sqrt(each), in distinct rows; 1 is the count sketch."""

    def ensemble(rows: int, weights: FloatArray, rng: np.random.Generator) -> FloatArray:
        dim = weights.shape[1]
        where = distinct_rows(rows, dim, each, rng)
        signs = _signs((dim, each), rng)
        cells = (where[:, :, None] * rows + where[:, None, :]).ravel()
        products = (signs[:, :, None] * signs[:, None, :]) / each
        grams = [
            np.bincount(cells, (products * w[:, None, None]).ravel(), rows * rows) for w in weights
        ]
        return np.reshape(grams, (-1, rows, rows))

    return ensemble


def hadamard(rows: int, weights: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Subsampled randomised Hadamard transform: M rows of it, signs on the columns.

    With H diagonal the signs cancel, and S diag(w) S^T between rows r and s is entry r xor s
    of the transform of w, over M: O(d log d), whatever M is. The dimension is a power of two.
    """
    chosen = rng.choice(weights.shape[1], rows, replace=False)
    return walsh_hadamard(weights)[:, chosen[:, None] ^ chosen[None, :]] / rows


def shuffled_hadamard(rows: int, weights: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The same after a random permutation of the coordinates."""
    return hadamard(rows, weights[:, rng.permutation(weights.shape[1])], rng)


def walsh_hadamard(values: FloatArray) -> FloatArray:
    """sum_i (-1)^(number of common bits of r and i) values_i for every r, along the last axis."""
    *lead, dim = values.shape
    if dim & (dim - 1):
        raise ValueError(f"a Hadamard transform needs a power of two, got {dim}")
    out = values
    half = 1
    while half < dim:
        pairs = out.reshape(*lead, dim // (2 * half), 2, half)
        first, second = pairs[..., 0, :], pairs[..., 1, :]
        out = np.stack([first + second, first - second], axis=-2).reshape(values.shape)
        half *= 2
    return out


def distinct_rows(rows: int, dim: int, each: int, rng: np.random.Generator) -> IntArray:
    """(dim, each) row numbers, distinct within a column and uniform over such choices."""
    chosen = rng.integers(0, rows, (dim, each))
    while True:
        ordered = np.sort(chosen, axis=1)
        again = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if again.size == 0:
            return chosen
        chosen[again] = rng.integers(0, rows, (again.size, each))


def _signs(shape: tuple[int, int], rng: np.random.Generator) -> FloatArray:
    return np.where(rng.integers(0, 2, shape) == 1, 1.0, -1.0)


def _dense(
    rows: int, weights: FloatArray, entries: Callable[[tuple[int, int]], FloatArray]
) -> FloatArray:
    """Grams of a sketch with independent entries, a block of coordinates at a time."""
    many, dim = weights.shape
    roots = np.sqrt(weights / rows)
    grams = np.zeros((many, rows, rows))
    block = max(BLOCK // rows, 1)
    for first in range(0, dim, block):
        part = roots[:, first : first + block]
        columns = entries((part.shape[1], rows))
        for gram, root in zip(grams, part, strict=True):
            half = columns * root[:, None]
            gram += half.T @ half
    return grams
