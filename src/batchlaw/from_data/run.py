"""Run: the log of one training run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import InputError
from batchlaw.schedule.update_rule import UpdateRule


@dataclass(frozen=True, eq=False, init=False)
class Run:
    """One training run: what was set at every update, and the losses that were measured.

    Its arrays are read-only copies.

    Attributes
    ----------
    rates : (T,) array
        Learning rate of every update.
    batches : (T,) array
        Samples of every update.
    steps : (n,) array
        After how many updates each loss was measured: increasing, from 0 to T. The last may be
        less than T.
    losses : (n,) array
        Those losses.
    rule : UpdateRule, optional
        The optimizer.
    columns
        Other numbers measured after the same updates, by name: (n,) arrays, with NaN where one was
        not measured.
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
            Those losses; finite.
        rule
            The optimizer, if known.
        columns
            Other numbers measured after the same updates, by name: (n,) arrays, which may have NaN
            where one was not measured.
        facts
            What else is known of the run, by name.
        """
        gamma = checks.vector("rates", _numbers("rates", rates))
        sizes = checks.batches(batches, gamma.size, whole=False)
        if sizes.shape[0] != 1:
            raise InputError("batches", "must be those of one run", f"{sizes.shape[0]} schedules")
        at = checks.vector("steps", _numbers("steps", steps))
        if not (np.all(at == np.rint(at)) and np.all(np.diff(at) > 0) and at[-1] <= gamma.size):
            raise InputError(
                "steps", f"must be increasing whole numbers of updates, at most {gamma.size}"
            )
        measured = _numbers("losses", losses, at.size)
        if not np.isfinite(measured).all():
            wrong = measured[~np.isfinite(measured)][0]
            raise InputError("losses", "must be finite", f"{wrong}")
        if rule is not None and not isinstance(rule, UpdateRule):
            raise InputError("rule", "must be an update rule, such as bl.sgd()", repr(rule)[:60])
        others = {
            name: _numbers(name, values, at.size)
            for name, values in _mapping("columns", columns).items()
        }
        attributes: dict[str, Any] = {
            "rates": _frozen(gamma),
            "batches": _frozen(sizes[0].copy()),
            "steps": _frozen(at.astype(np.int64)),
            "losses": _frozen(measured),
            "rule": rule,
            "columns": {name: _frozen(values) for name, values in others.items()},
            "facts": _mapping("facts", facts),
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
        """The last loss measured: after ``steps[-1]`` updates, which may be fewer than all."""
        return float(self.losses[-1])


def _numbers(name: str, values: ArrayLike, size: int | None = None) -> FloatArray:
    """A new vector; with ``size``, one number per measured step."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(name, "must be an array of numbers") from None
    if array.ndim != 1:
        raise InputError(name, "must be a vector", f"shape {array.shape}")
    if size is not None:
        checks.same_length(name, array.size, size, "steps")
    return array


def _mapping(name: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise InputError(name, "must be a mapping by name", repr(given)[:60])
    return dict(given or {})


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
