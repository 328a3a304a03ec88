"""A trainer's settings for a run, and how it counts progress."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from batchlaw._base import checks
from batchlaw._base.checks import IntArray
from batchlaw._base.errors import InputError, arg
from batchlaw.plans.plan import samples_of_budget

COUNTERS = ("steps", "samples", "tokens")
# Arguments of ``samples_of_budget`` -> fields of the settings.
_BUDGETS = {"samples": "train_samples", "tokens": "train_tokens"}


@dataclass(frozen=True)
class TrainerSettings:
    """Settings of the trainer; those left at None are not checked.

    Parameters
    ----------
    train_steps, train_samples, train_tokens, sequence_length
        Length of the run in any of the three units, and the tokens per sample.
    data_parallel, micro_batch
        Number of replicas, and samples per replica in one forward pass.
    dataset_samples
        Size of the dataset.
    counts
        What the trainer's learning-rate schedule counts: "steps", "samples" or "tokens".
    counted_batch
        The batch size by which the trainer multiplies its steps to count samples, as Megatron-LM
        does with its global batch size when trained by iterations. None: it counts updates.
    warmup, decay, horizon
        Length of the warmup, length of the decay, and where the decay ends, as counted; the
        decay ends with the run by default.
    """

    train_steps: int | None = None
    train_samples: int | None = None
    train_tokens: int | None = None
    sequence_length: int | None = None
    data_parallel: int = 1
    micro_batch: int = 1
    dataset_samples: int | None = None
    counts: str = "steps"
    counted_batch: int | None = None
    warmup: int | None = None
    decay: int | None = None
    horizon: int | None = None

    def __post_init__(self) -> None:
        checks.choice("counts", self.counts, COUNTERS)
        for name in (f.name for f in fields(self)):
            value = getattr(self, name)
            if name != "counts" and value is not None:
                low = 0 if name in ("warmup", "decay") else 1
                object.__setattr__(self, name, checks.count(name, value, minimum=low))
        if self.sequence_length is None and (
            self.train_tokens is not None or self.counts == "tokens"
        ):
            raise InputError("sequence_length", "must be given where tokens are counted")
        if self.train_samples is not None and self.train_tokens is not None:
            self.budget()  # refuses a contradiction between the two
        if self.counted_batch is not None and self.counts != "steps":
            needed = f"must be left out unless {arg('counts')} is steps"
            raise InputError("counted_batch", needed, self.counts)

    def budget(self) -> int | None:
        """Samples of the run, or None if not known."""
        if self.train_samples is None and self.train_tokens is None:
            return None
        try:
            return samples_of_budget(self.train_samples, self.train_tokens, self.sequence_length)
        except InputError as error:
            raise error.renamed(lambda name: _BUDGETS.get(name, name)) from None


class TrainerClock:
    """The trainer's count after every step, in steps or in samples."""

    def __init__(self, sizes: IntArray, settings: TrainerSettings) -> None:
        in_steps = settings.counts == "steps" and settings.counted_batch is None
        self.unit = "steps" if in_steps else "samples"
        self.reached = np.arange(1, sizes.size + 1) if in_steps else np.cumsum(sizes)
        self.sizes = sizes
        self._settings = settings

    def counted(self, value: int) -> int:
        """A setting converted to the clock's unit."""
        if self._settings.counts == "tokens":
            return value // (self._settings.sequence_length or 1)
        return value * (self._settings.counted_batch or 1)

    def end(self) -> int:
        """Where the decay ends: the given horizon, or the end of the run as the trainer sees it."""
        settings = self._settings
        if settings.horizon is not None:
            return self.counted(settings.horizon)
        if settings.counts == "steps":
            return self.counted(settings.train_steps or self.sizes.size)
        budget = settings.budget()
        return int(self.reached[-1]) if budget is None else budget

    def step(self, count: int) -> int:
        """The first step that reaches the count; past the end, as if the run continued."""
        beyond = count - int(self.reached[-1])
        if beyond > 0:
            last = 1 if self.unit == "steps" else int(self.sizes[-1])
            return int(self.sizes.size - (-beyond // last))
        return int(np.searchsorted(self.reached, count)) + 1

    def shown(self, count: int) -> str:
        """A count in the unit of the settings."""
        if self._settings.counts == "tokens":
            return f"{count * (self._settings.sequence_length or 1)} tokens"
        batch = self._settings.counted_batch
        return f"{count} {self.unit}" + (f" ({count / batch:g} steps of {batch})" if batch else "")
