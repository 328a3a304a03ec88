"""Run: the log of one training run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import InputError
from batchlaw.schedule.update_rule import UpdateRule


@dataclass(frozen=True, eq=False, init=False)
class Run:
    """One training run: what was set at every update, and the losses that were measured.

    Attributes
    ----------
    rates : (T,) array
        Learning rate of every update.
    batches : (T,) array
        Samples of every update.
    steps : (n,) array
        After how many updates each loss was measured: increasing, from 0 to T.
    losses : (n,) array
        Those losses.
    rule : UpdateRule, optional
        The optimizer.
    columns
        Other numbers measured after the same updates, by name.
    facts
        What else is known of the run, by name: its task, schedule, seed.
    """

    rates: FloatArray
    batches: FloatArray
    steps: IntArray
    losses: FloatArray
    rule: UpdateRule | None = None
    columns: Mapping[str, FloatArray] = field(default_factory=dict)
    facts: Mapping[str, str | int | float] = field(default_factory=dict)

    def __init__(
        self,
        rates: ArrayLike,
        batches: ArrayLike,
        steps: ArrayLike,
        losses: ArrayLike,
        *,
        rule: UpdateRule | None = None,
        columns: Mapping[str, ArrayLike] | None = None,
        facts: Mapping[str, str | int | float] | None = None,
    ) -> None:
        """
        Parameters
        ----------
        rates : (T,) array
            Learning rate of every update.
        batches : (T,) array
            Samples of every update, or of an average one where they were not whole.
        steps : (n,) array
            After how many updates each loss was measured: increasing whole numbers from 0 to T.
        losses : (n,) array
            Those losses.
        rule
            The optimizer, if known.
        columns
            Other numbers measured after the same updates, by name.
        facts
            What else is known of the run, by name.
        """
        gamma = checks.vector("rates", rates)
        sizes = checks.batches(batches, gamma.size, whole=False)
        if sizes.shape[0] != 1:
            raise InputError("batches", "must be those of one run", f"{sizes.shape[0]} schedules")
        at = checks.vector("steps", steps)
        checks.same_length("losses", np.size(losses), at.size, "steps")
        if not (np.all(at == np.rint(at)) and np.all(np.diff(at) > 0) and at[-1] <= gamma.size):
            raise InputError(
                "steps", f"must be increasing whole numbers of updates, at most {gamma.size}"
            )
        others = {name: np.asarray(values, np.float64) for name, values in (columns or {}).items()}
        for name, values in others.items():
            checks.same_length(name, values.size, at.size, "steps")
        attributes: dict[str, Any] = {
            "rates": gamma,
            "batches": sizes[0],
            "steps": at.astype(np.int64),
            "losses": _losses(losses),
            "rule": rule,
            "columns": others,
            "facts": dict(facts or {}),
        }
        for name, value in attributes.items():
            object.__setattr__(self, name, value)

    @property
    def updates(self) -> int:
        return int(self.rates.size)

    @property
    def samples(self) -> float:
        return float(self.batches.sum())

    @property
    def final_loss(self) -> float:
        """The last loss measured."""
        return float(self.losses[-1])


def _losses(losses: ArrayLike) -> FloatArray:
    values = np.asarray(losses, np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise InputError("losses", "must be finite numbers, one per step measured")
    return values
