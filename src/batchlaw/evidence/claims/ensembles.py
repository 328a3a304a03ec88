"""Sketch ensembles, and what SGD sees of a sketch: S diag(w) S^T for given weights w.

Every ensemble has entries of mean 0 and variance 1/M. An ensemble is a function
``(rows, weights, rng) -> (K, rows, rows)``: the Gram matrices of one draw of S for K weight
vectors over the ambient coordinates. None of them holds all of S in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray

Ensemble = Callable[[int, FloatArray, np.random.Generator], FloatArray]

# Entries of S in memory at a time.
BLOCK = 2**20


def gaussian(rows: int, weights: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The paper's ensemble: independent N(0, 1/M) entries."""
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


def column_sparse(per_column: int) -> Ensemble:
    """``per_column`` signs over sqrt(per_column) in distinct rows of every column.

    With one sign per column this is the count sketch.
    """

    def ensemble(rows: int, weights: FloatArray, rng: np.random.Generator) -> FloatArray:
        dim = weights.shape[1]
        occupied = distinct_rows(rows, dim, per_column, rng)
        signs = _signs((dim, per_column), rng)
        entries = (occupied[:, :, None] * rows + occupied[:, None, :]).ravel()
        products = (signs[:, :, None] * signs[:, None, :]) / per_column
        grams = [
            np.bincount(entries, (products * w[:, None, None]).ravel(), rows * rows)
            for w in weights
        ]
        return np.reshape(grams, (-1, rows, rows))

    return ensemble


def hadamard(rows: int, weights: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Subsampled randomised Hadamard transform: M rows of it, signs on the columns.

    With H diagonal the signs cancel, and entry (r, s) of S diag(w) S^T is entry r xor s of the
    transform of w, over M: O(d log d) for any M. The dimension must be a power of two.
    """
    chosen = rng.choice(weights.shape[1], rows, replace=False)
    return walsh_hadamard(weights)[:, chosen[:, None] ^ chosen[None, :]] / rows


def shuffled_hadamard(rows: int, weights: FloatArray, rng: np.random.Generator) -> FloatArray:
    """``hadamard`` after a random permutation of the coordinates."""
    return hadamard(rows, weights[:, rng.permutation(weights.shape[1])], rng)


def walsh_hadamard(values: FloatArray) -> FloatArray:
    """sum_i (-1)^(number of common bits of r and i) values_i for every r, along the last axis.

    SciPy has the matrix (``scipy.linalg.hadamard``), not the fast transform.
    """
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


def distinct_rows(rows: int, dim: int, per_column: int, rng: np.random.Generator) -> IntArray:
    """(dim, per_column) row numbers, distinct within a column and uniform over such choices."""
    chosen = rng.integers(0, rows, (dim, per_column))
    while True:
        ordered = np.sort(chosen, axis=1)
        repeated = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if repeated.size == 0:
            return chosen
        chosen[repeated] = rng.integers(0, rows, (repeated.size, per_column))


def _signs(shape: tuple[int, int], rng: np.random.Generator) -> FloatArray:
    return np.where(rng.integers(0, 2, shape) == 1, 1.0, -1.0)


def _dense(
    rows: int, weights: FloatArray, entries: Callable[[tuple[int, int]], FloatArray]
) -> FloatArray:
    """Gram matrices of a sketch with independent entries, one block of coordinates at a time."""
    count, dim = weights.shape
    roots = np.sqrt(weights / rows)
    grams = np.zeros((count, rows, rows))
    block = max(BLOCK // rows, 1)
    for first in range(0, dim, block):
        part = roots[:, first : first + block]
        columns = entries((part.shape[1], rows))
        for gram, root in zip(grams, part, strict=True):
            half = columns * root[:, None]
            gram += half.T @ half
    return grams
