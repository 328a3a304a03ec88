"""Limits: constraints on every batch of a schedule."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import NamedTuple

from batchlaw._base import checks
from batchlaw._base.errors import InputError, arg


class Units(NamedTuple):
    """Bounds in units of ``multiple_of``, the unit itself, and the budget in samples."""

    low: int
    high: int
    unit: int
    budget: int


@dataclass(frozen=True)
class Limits:
    """Constraints on every batch, and on how often the batch size may change.

    Attributes
    ----------
    min_batch
        The smallest batch allowed.
    max_batch
        The largest batch allowed; None for no bound.
    multiple_of
        Every batch is a multiple of this, for example ranks times micro-batch.
    stages
        The largest number of constant stages; None lets every step have its own batch.
    batch_factor
        Batches differ by powers of this, for trainers that multiply the batch by a factor;
        None allows any sizes.
    """

    min_batch: int = 1
    max_batch: int | None = None
    multiple_of: int = 1
    stages: int | None = None
    batch_factor: int | None = None

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if value is not None or limit.default is not None:
                least = 2 if limit.name == "batch_factor" else 1
                value = checks.count(limit.name, value, minimum=least)
                object.__setattr__(self, limit.name, value)
        if self.max_batch is not None and self.min_batch > self.max_batch:
            raise InputError(
                "min_batch",
                f"must be at most {arg('max_batch')} = {self.max_batch}",
                f"{self.min_batch}",
            )
        if self.batch_factor is not None and self.stages is None:
            raise InputError("batch_factor", f"needs a limit on {arg('stages')}")

    def capped(self, most: int | None) -> Limits:
        """The same limits with no batch above ``most``, for example the size of a dataset."""
        if most is None or (self.max_batch is not None and self.max_batch <= most):
            return self
        return replace(self, max_batch=most)

    def units(self, steps: int, budget: int) -> Units:
        """The bounds in units, after checking that this many steps can spend the budget."""
        budget, unit = checks.count("budget", budget), self.multiple_of
        high = max(budget, self.min_batch) if self.max_batch is None else self.max_batch
        low_units, high_units = -(-self.min_batch // unit), high // unit
        least, most = steps * low_units * unit, steps * high_units * unit
        if self.max_batch is not None and low_units > high_units:
            raise InputError(
                "multiple_of",
                f"must have a multiple between {arg('min_batch')} = {self.min_batch} and "
                f"{arg('max_batch')} = {high}",
                f"{unit}",
            )
        if budget < least:
            raise InputError(
                "budget",
                f"must be at least {steps} updates x the smallest batch {low_units * unit} = "
                f"{least}",
                f"{budget}",
            )
        if budget > most:
            raise InputError(
                "budget",
                f"must be at most {steps} updates x the largest batch {high_units * unit} = {most}",
                f"{budget}",
            )
        return Units(low_units, high_units, unit, budget)

    def units_in_full(self, steps: int, budget: int) -> Units:
        """``units`` for schedules that spend the budget exactly."""
        budget = checks.count("budget", budget)
        if budget < steps:
            raise InputError(
                "budget",
                f"must be at least one sample per update: {steps} updates need {steps}",
                f"{budget}",
            )
        units = self.units(steps, budget)
        if budget % units.unit:
            below = budget // units.unit * units.unit
            raise InputError(
                "budget",
                f"must be a multiple of {arg('multiple_of')} = {units.unit}, such as {below} or "
                f"{below + units.unit}",
                f"{budget}",
            )
        return units
