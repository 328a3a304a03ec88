"""The order of samples: a function of the seed and the position, without a list of N entries.

Random words come from NumPy's Philox, whose stream is stable across NumPy versions. A
permutation of N samples is a Feistel network on an a x b grid with a, b ~ sqrt(N): it needs
tables of about 10 sqrt(N) entries instead of N, and can be evaluated at any position.
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
from batchlaw.risk.procedures import MultiPass, OnePass, Reshuffled

# How samples are drawn: the procedures' own words, and batches of MultiPass with replacement.
ONE_PASS, RESHUFFLED, INDEPENDENT = OnePass.sampling, Reshuffled.sampling, MultiPass.sampling
WITH_REPLACEMENT = "with replacement"
SAMPLINGS = (ONE_PASS, RESHUFFLED, INDEPENDENT, WITH_REPLACEMENT)
# Even rounds move along one side of the grid, odd ones along the other.
ROUNDS = 10
# Up to this size the grid is too small to mix well, and N random words are sorted instead.
MAX_SORTED_SIZE = 1024

Permutation = Callable[[IntArray], IntArray]


@dataclass(frozen=True)
class Order:
    """The samples of a run, by position.

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
        Determines the whole order.
    """

    dataset_size: int
    sampling: str
    seed: int

    def indices(self, positions: IntArray, updates: IntArray, offsets: IntArray) -> IntArray:
        """Samples at ``positions`` of the run, ascending.

        ``updates`` are their updates (from 0), ``offsets`` the number of earlier positions in the
        same update.
        """
        if self.sampling == WITH_REPLACEMENT:
            return self._with_replacement(positions)
        if self.sampling == ONE_PASS:
            return _permutation(self.dataset_size, self.seed, 0)(positions)
        if self.sampling == RESHUFFLED:
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
            # The remainder favours small indices by N / 2^64, too little to measure.
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
    if size <= MAX_SORTED_SIZE:
        return np.argsort(_words(seed, stream, 0, size), kind="stable").take
    return partial(_permute, size=size, tables=_tables(size, seed, stream))


def _tables(size: int, seed: int, stream: int) -> tuple[IntArray, ...]:
    """Moves of each round: along side a as a function of the place on side b, then vice versa."""
    sides = _grid(size)
    words = _words(seed, stream, 0, ROUNDS // 2 * sum(sides))
    tables, start = [], 0
    for turn in range(ROUNDS):
        along, by = sides[turn % 2], sides[1 - turn % 2]
        moves = words[start : start + by] % np.uint64(along)
        tables.append(moves.astype(np.int64))
        start += by
    return tuple(tables)


def _grid(size: int) -> tuple[int, int]:
    """The sides of the smallest almost square grid that holds ``size`` places."""
    side = math.isqrt(size - 1) + 1
    return side, -(-size // side)


def _permute(places: IntArray, size: int, tables: tuple[IntArray, ...]) -> IntArray:
    """Images of the places under a permutation of ``size`` samples.

    An image among the grid's few places beyond the last sample is permuted again until it is
    not (cycle walking), which gives a permutation of the samples alone.
    """
    out = _permute_grid(places, size, tables)
    beyond = np.flatnonzero(out >= size)
    while beyond.size:
        out[beyond] = _permute_grid(out[beyond], size, tables)
        beyond = beyond[out[beyond] >= size]
    return out


def _permute_grid(places: IntArray, size: int, tables: tuple[IntArray, ...]) -> IntArray:
    sides = _grid(size)
    rows, columns = np.divmod(places, sides[0])
    coordinates = [columns, rows]
    for turn, moves in enumerate(tables):
        axis = turn % 2
        moved = coordinates[axis] + moves.take(coordinates[1 - axis])
        moved -= sides[axis] * (moved >= sides[axis])
        coordinates[axis] = moved
    return coordinates[1] * sides[0] + coordinates[0]
