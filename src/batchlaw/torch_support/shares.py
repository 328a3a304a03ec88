"""How an update is split: equal shares for the ranks, and micro-batches that fit in memory."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch.distributed as dist

from batchlaw._base import checks
from batchlaw._base.checks import IntArray
from batchlaw._base.errors import InputError, arg


class MicroBatch(NamedTuple):
    """The place of a received batch in its update.

    Attributes
    ----------
    part
        Its number among the update's micro-batches, from 1.
    parts
        Number of micro-batches of the update, the same on every rank.
    size
        Its samples on this rank.
    weight
        Its share of the rank's samples of this update. Mean losses times their weights sum to
        the mean over the rank; averaged over ranks, to the mean over the update.
    """

    part: int
    parts: int
    size: int
    weight: float

    @property
    def last(self) -> bool:
        """Whether the optimizer steps after it."""
        return self.part == self.parts


class Shares:
    """The samples of one rank: B_t / ranks of every update, in nearly equal micro-batches."""

    def __init__(self, batches: IntArray, rank: int, ranks: int, max_micro_batch: int | None):
        uneven = np.flatnonzero(batches % ranks)
        if uneven.size:
            raise InputError(
                "plan",
                f"must be a multiple of the {ranks} ranks",
                f"{batches[uneven[0]]} at step {uneven[0] + 1}",
                subject="every batch",
            )
        self.rank = rank
        self.sizes = batches // ranks
        largest = int(self.sizes.max()) if max_micro_batch is None else max_micro_batch
        self.counts = -(-self.sizes // largest)
        self.begins = np.append(np.int64(0), np.cumsum(batches))

    def parts(self, update: int) -> tuple[MicroBatch, ...]:
        """The micro-batches of one update."""
        return _cut(self.sizes.item(update), self.counts.item(update))

    def cuts(self, first: int, last: int) -> list[int]:
        """Where the micro-batches of updates ``first`` to ``last - 1`` begin, and the end."""
        sizes, counts = self.sizes[first:last], self.counts[first:last]
        before = np.repeat(np.cumsum(sizes) - sizes, counts)
        share, index = np.repeat(sizes, counts), _count_up(counts)
        inner = before + share * index // np.repeat(counts, counts)
        return [*inner.tolist(), int(sizes.sum())]

    def positions(self, first: int, last: int) -> tuple[IntArray, IntArray, IntArray]:
        """Positions in the run of this rank's samples, with their updates and offsets in them."""
        sizes = self.sizes[first:last]
        updates = np.repeat(np.arange(first, last), sizes)
        offsets = np.repeat(self.rank * sizes, sizes) + _count_up(sizes)
        return self.begins[updates] + offsets, updates, offsets


def find_ranks(rank: int | None, ranks: int | None) -> tuple[int, int]:
    """Rank and number of ranks: as given, else from torch.distributed, else 0 of 1."""
    if (rank is None) != (ranks is None):
        raise InputError(
            "rank",
            "must be given together",
            f"{rank} and {ranks}",
            subject=f"{arg('rank')} and {arg('world_size')}",
        )
    if rank is None or ranks is None:
        if dist.is_available() and dist.is_initialized():
            return dist.get_rank(), dist.get_world_size()
        # Otherwise every process of torchrun would act as the only one, on the same samples.
        launched = os.environ.get("WORLD_SIZE", "1")
        if launched != "1":
            raise InputError(
                "rank",
                f"must be initialised before the sampler, or {arg('rank')} and "
                f"{arg('world_size')} be given",
                f"a launch with WORLD_SIZE={launched}",
                subject="torch.distributed",
            )
        return 0, 1
    ranks = checks.count("world_size", ranks)
    rank = checks.count("rank", rank, minimum=0)
    if rank >= ranks:
        raise InputError("rank", f"must be below {arg('world_size')} = {ranks}", f"{rank}")
    return rank, ranks


# Cached: the training loop asks at every micro-batch, mostly about the same update.
@lru_cache(maxsize=8)
def _cut(share: int, parts: int) -> tuple[MicroBatch, ...]:
    """A share split into parts that differ by at most one sample."""
    sizes = [share * (part + 1) // parts - share * part // parts for part in range(parts)]
    return tuple(
        MicroBatch(part, parts, size, size / share) for part, size in enumerate(sizes, start=1)
    )


def _count_up(lengths: IntArray) -> IntArray:
    """0, 1, ... for each of the lengths, one after the other."""
    ends = np.cumsum(lengths)
    return np.arange(int(ends[-1])) - np.repeat(ends - lengths, lengths)
