"""Which sample comes where: a function of the seed, evaluated at any position without a list.

The random words are NumPy's Philox, whose stream NumPy keeps from version to version. A
permutation of N samples is a Feistel network on an a x b grid with a, b ~ sqrt(N), so that it
needs tables of some 10 sqrt(N) entries instead of N, and any position can be asked for first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from batchlaw._base.checks import IntArray

SAMPLINGS = ("one pass", "reshuffled epochs", "independent batches", "with replacement")
# Even rounds move along one side of the grid, odd ones along the other.
ROUNDS = 10
# Below this size the grid is too small to mix well, and a permutation is the order of N words.
SMALL = 1024

Permutation = Callable[[IntArray], IntArray]


@dataclass(frozen=True)
class Order:
    """The samples that a run sees, one position after the other.

    Parameters
    ----------
    dataset_size
        N.
    sampling
        "one pass": position p has the p-th sample of one permutation. "reshuffled epochs": a new
        permutation every N positions. "independent batches": update t takes the first B_t of a
        permutation of its own, a uniform subset. "with replacement": every position is drawn
        uniformly.
    seed
        Of all of them.
    """

    dataset_size: int
    sampling: str
    seed: int

    def indices(self, positions: IntArray, updates: IntArray, offsets: IntArray) -> IntArray:
        """Samples at ``positions`` of the run, ascending.

        ``updates`` and ``offsets`` say to which update (from 0) a position belongs, and how many
        positions of that update come before it.
        """
        if self.sampling == "with replacement":
            return self._with_replacement(positions)
        if self.sampling == "one pass":
            return _permutation(self.dataset_size, self.seed, 0)(positions)
        if self.sampling == "reshuffled epochs":
            streams, places = np.divmod(positions, self.dataset_size)
        else:
            streams, places = updates, offsets
        parts = []
        for begin, end in _runs(np.diff(streams) != 0):
            permutation = _permutation(self.dataset_size, self.seed, int(streams[begin]))
            parts.append(permutation(places[begin:end]))
        return np.concatenate(parts)

    def _with_replacement(self, positions: IntArray) -> IntArray:
        parts = []
        for begin, end in _runs(np.diff(positions) != 1):
            words = _words(self.seed, 0, int(positions[begin]), end - begin)
            # The remainder favours small samples by N / 2^64, far below anything measurable.
            parts.append((words % np.uint64(self.dataset_size)).astype(np.int64))
        return np.concatenate(parts)


def _runs(breaks: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """(begin, end) of the stretches between breaks; breaks[i] lies between i and i + 1."""
    cuts = [0, *(np.flatnonzero(breaks) + 1).tolist(), breaks.size + 1]
    return list(itertools.pairwise(cuts))


def _words(seed: int, stream: int, start: int, count: int) -> NDArray[np.uint64]:
    """64-bit words ``start`` to ``start + count`` of one of the seed's streams."""
    # A counter of 256 bits steps by one for every four words; its top word is the stream.
    skipped = start % 4
    generator = np.random.Philox(key=seed, counter=[start // 4, 0, 0, stream])
    return generator.random_raw(skipped + count)[skipped:]


@lru_cache(maxsize=2)
def _permutation(size: int, seed: int, stream: int) -> Permutation:
    if size <= SMALL:
        return np.argsort(_words(seed, stream, 0, size), kind="stable").take
    return partial(_permute, size=size, tables=_tables(size, seed, stream))


def _tables(size: int, seed: int, stream: int) -> tuple[IntArray, ...]:
    """How far each round moves: along the a side by the place on the b side, and in turn."""
    sides = _grid(size)
    words = _words(seed, stream, 0, ROUNDS // 2 * sum(sides))
    tables, at = [], 0
    for turn in range(ROUNDS):
        along, by = sides[turn % 2], sides[1 - turn % 2]
        moves = words[at : at + by] % np.uint64(along)
        tables.append(moves.astype(np.int64))
        at += by
    return tuple(tables)


def _grid(size: int) -> tuple[int, int]:
    """The sides of the smallest almost square grid that holds ``size`` places."""
    side = math.isqrt(size - 1) + 1
    return side, -(-size // side)


def _permute(places: IntArray, size: int, tables: tuple[IntArray, ...]) -> IntArray:
    """Where a permutation of ``size`` sends the places.

    What lands on the grid's few places beyond the last sample is sent on until it doesn't: the
    walk stays a permutation.
    """
    out = _send(places, size, tables)
    beyond = np.flatnonzero(out >= size)
    while beyond.size:
        out[beyond] = _send(out[beyond], size, tables)
        beyond = beyond[out[beyond] >= size]
    return out


def _send(places: IntArray, size: int, tables: tuple[IntArray, ...]) -> IntArray:
    sides = _grid(size)
    other, one = np.divmod(places, sides[0])
    coordinates = [one, other]
    for turn, moves in enumerate(tables):
        here, there = turn % 2, 1 - turn % 2
        moved = coordinates[here] + moves.take(coordinates[there])
        moved -= sides[here] * (moved >= sides[here])
        coordinates[here] = moved
    return coordinates[1] * sides[0] + coordinates[0]
