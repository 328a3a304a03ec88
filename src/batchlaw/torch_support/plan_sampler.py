"""PlanSampler: the batches of a plan for a DataLoader, with a position that can be resumed."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from torch.utils.data import Sampler

from batchlaw._base import checks
from batchlaw._base.checks import IntArray
from batchlaw._base.errors import InputError, arg
from batchlaw.plans.plan import Plan
from batchlaw.torch_support.order import INDEPENDENT, ONE_PASS, SAMPLINGS, Order
from batchlaw.torch_support.shares import MicroBatch, Shares, find_ranks

Batch = TypeVar("Batch")

# Samples whose indices are computed at once, enough to amortise the array operations.
BLOCK_SAMPLES = 8192
# Fields that must agree between a saved state and the sampler that loads it.
_IDENTITY = ("dataset_size", "sampling", "seed", "schedule")


class PlanSampler(Sampler[list[int]]):
    """Lists of sample indices for ``DataLoader(dataset, batch_sampler=...)``, one per micro-batch.

    Parameters
    ----------
    plan
        A Plan, or the (T,) batch sizes of the updates, over all ranks.
    dataset_size
        Samples of the dataset.
    seed
        The order of samples depends only on it, not on the batches, ranks or micro-batches.
    sampling
        "one pass" (every sample once), "reshuffled epochs" (a new permutation for each pass; an
        update may reach from one into the next), "independent batches" (each update a fresh
        uniform subset) or "with replacement".
    max_micro_batch
        Largest number of samples per rank and micro-batch; a larger update is split.
    rank
        Rank of this process; by default that of torch.distributed where it is initialised.
    world_size
        Number of ranks; by default that of torch.distributed where it is initialised.
    allow_unused
        For one pass: whether the plan may leave samples of the dataset unused.
    """

    def __init__(
        self,
        plan: Plan | ArrayLike,
        dataset_size: int,
        *,
        seed: int,
        sampling: str = ONE_PASS,
        max_micro_batch: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        allow_unused: bool = False,
    ) -> None:
        self.batches = batches_of(plan)
        self.order = Order(
            dataset_size=checks.count("dataset_size", dataset_size),
            sampling=checks.choice("sampling", sampling, SAMPLINGS),
            seed=checks.count("seed", seed, minimum=0),
        )
        _check_size(self.batches, self.order, allow_unused)
        if max_micro_batch is not None:
            max_micro_batch = checks.count("max_micro_batch", max_micro_batch)
        self.rank, self.world_size = find_ranks(rank, world_size)
        self._shares = Shares(self.batches, self.rank, self.world_size, max_micro_batch)
        self._update = 0  # complete updates received by the training loop
        self._index = 0  # micro-batches received of the next update
        self._ahead = 0  # micro-batches taken by the DataLoader, not yet received by the loop
        self._iterator = 0  # number of the newest iterator; older ones are refused
        self._moves = 0  # counts changes of the position, so that a loop detects another one

    @property
    def updates(self) -> int:
        """Updates completely received by the training loop."""
        return self._update

    @property
    def samples(self) -> int:
        """Samples of those updates, over all ranks."""
        return int(self._shares.begins[self._update])

    def __len__(self) -> int:
        """Micro-batches from here to the end of the run."""
        return int(self._shares.counts[self._update :].sum())

    def __iter__(self) -> Iterator[list[int]]:
        """Micro-batches of this rank, from the first update that is not complete."""
        self._move(self._update)
        return self._micro_batches(self._update, self._iterator)

    def _micro_batches(self, update: int, iterator: int) -> Iterator[list[int]]:
        ends = np.cumsum(self._shares.sizes)
        while update < ends.size:
            before = int(ends[update] - self._shares.sizes[update])
            last = max(int(np.searchsorted(ends, before + BLOCK_SAMPLES, side="right")), update + 1)
            indices = self.order.indices(*self._shares.positions(update, last)).tolist()
            for begin, end in itertools.pairwise(self._shares.cuts(update, last)):
                if iterator != self._iterator:
                    raise self._moved()
                self._ahead += 1
                yield indices[begin:end]
            update = last

    def follow(self, loader: Iterable[Batch]) -> Iterator[tuple[Batch, MicroBatch]]:
        """The loader's batches, each with its place in the run; counts them as received.

        The DataLoader takes indices ahead of the training loop to keep its workers busy. The state
        is the position of the loop: a batch counts when this iterator yields it.
        """
        if getattr(loader, "batch_sampler", self) is not self:
            raise InputError("loader", "must have this sampler as its batch_sampler")
        if not getattr(loader, "in_order", True):
            raise InputError("loader", "must keep the order of batches", "in_order=False")
        dataset = getattr(loader, "dataset", None)
        if isinstance(dataset, Sized) and len(dataset) != self.order.dataset_size:
            raise InputError(
                "loader",
                f"must have a dataset of the sampler's {self.order.dataset_size} samples",
                f"{len(dataset)}",
            )
        return self._follow(loader)

    def _follow(self, loader: Iterable[Batch]) -> Iterator[tuple[Batch, MicroBatch]]:
        moves = None
        for batch in loader:
            if moves is not None and moves != self._moves:
                raise self._moved()
            micro = self.receive()
            moves = self._moves
            yield batch, micro

    def receive(self) -> MicroBatch:
        """Count one more micro-batch as received, and return its place; ``follow`` calls it."""
        if self._ahead < 1:
            raise InputError(
                "receive",
                "must be called once per batch of the loader",
                f"one more in update {self._update + 1}",
            )
        self._ahead -= 1
        self._moves += 1
        parts = self._shares.parts(self._update)
        received = parts[self._index]
        self._index += 1
        if self._index == len(parts):
            self._update, self._index = self._update + 1, 0
        return received

    def state_dict(self) -> dict[str, Any]:
        """The position in samples and updates, and the run to which it belongs.

        An update of which only some micro-batches were received counts as not begun, because its
        gradients are lost with the process. Ranks and micro-batches may change on resume.
        """
        return {"samples": self.samples, "updates": self.updates, **self._identity()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved position; takes effect with the loader's next iterator."""
        identity = self._identity()
        missing = {"samples", "updates", *_IDENTITY} - set(state)
        if missing:
            raise InputError("state", "must be of a PlanSampler", f"none of {sorted(missing)}")
        for name in _IDENTITY:
            if state[name] != identity[name]:
                raise InputError(
                    "state", f"must have the same {name}: {identity[name]}", f"{state[name]}"
                )
        updates = checks.count("state", state["updates"], 0, subject="updates of the state")
        if updates > self.batches.size or self._shares.begins[updates] != state["samples"]:
            raise InputError(
                "state",
                "must lie between two updates",
                f"{state['samples']} samples after {updates} updates",
            )
        self._move(updates)

    def _move(self, update: int) -> None:
        """Continue at an update, and invalidate earlier iterators."""
        self._update, self._index, self._ahead = update, 0, 0
        self._iterator += 1
        self._moves += 1

    def _moved(self) -> InputError:
        return InputError(
            "loader",
            "must move the sampler",
            f"another iterator, receive or load_state_dict in update {self._update + 1}",
            subject="one loop alone",
        )

    def _identity(self) -> dict[str, Any]:
        return {
            "dataset_size": self.order.dataset_size,
            "sampling": self.order.sampling,
            "seed": self.order.seed,
            "schedule": digest(self.batches),
        }


def batches_of(plan: Plan | ArrayLike) -> IntArray:
    """(T,) batch sizes of a plan or an array."""
    if isinstance(plan, Plan):
        return plan.batches
    if np.ndim(plan) != 1 or np.size(plan) == 0:
        raise InputError(
            "plan",
            "must be a Plan or a non-empty (T,) array of batches",
            f"shape {np.shape(plan)}",
        )
    sizes: IntArray = checks.batches(plan, np.size(plan))[0]
    return sizes


def digest(values: np.ndarray[Any, Any]) -> str:
    """A short hash of an array, the same on every machine."""
    kind = values.dtype.newbyteorder("<")
    return hashlib.sha256(values.astype(kind).tobytes()).hexdigest()[:16]


def _check_size(batches: IntArray, order: Order, allow_unused: bool) -> None:
    size, total = order.dataset_size, int(batches.sum())
    if order.sampling == INDEPENDENT:
        checks.batches(batches, batches.size, maximum=size)
    if order.sampling != ONE_PASS:
        return
    if total > size:
        raise InputError(
            "plan",
            f"must fit in the {size} samples of the dataset",
            f"{total}",
            subject="one pass",
        )
    if total < size and not allow_unused:
        raise InputError(
            "plan",
            f"must use all {size} samples of the dataset (or {arg('allow_unused')})",
            f"{total}",
            subject="one pass",
        )
