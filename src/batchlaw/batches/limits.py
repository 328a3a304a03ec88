"""Limits: what every batch of a schedule must obey."""

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
    """What every batch must obey, and how often the batch size may change.

    Attributes
    ----------
    min_batch
        No batch is smaller.
    max_batch
        No batch is larger; None for no bound.
    multiple_of
        Every batch is a multiple of this: ranks times micro-batch.
    stages
        At most so many constant stages; None leaves every step free.
    batch_factor
        Stages differ by powers of this, for trainers that change the batch by whole factors;
        None for any sizes.
    """

    min_batch: int = 1
    max_batch: int | None = None
    multiple_of: int = 1
    stages: int | None = None
    batch_factor: int | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None or each.default is not None:
                least = 2 if each.name == "batch_factor" else 1
                value = checks.count(each.name, value, minimum=least)
                object.__setattr__(self, each.name, value)
        if self.max_batch is not None and self.min_batch > self.max_batch:
            raise InputError(
                "min_batch",
                f"must be at most {arg('max_batch')} = {self.max_batch}",
                f"{self.min_batch}",
            )
        if self.batch_factor is not None and self.stages is None:
            raise InputError("batch_factor", f"needs {arg('stages')}, which are not limited")

    def capped(self, most: int | None) -> Limits:
        """The same with no batch above ``most``, for instance the samples of a dataset."""
        if most is None or (self.max_batch is not None and self.max_batch <= most):
            return self
        return replace(self, max_batch=most)

    def units(self, steps: int, budget: int) -> Units:
        """The bounds in units, after checking that the budget can be met by so many steps."""
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
        """``units`` for schedules that spend the budget to the last sample."""
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
