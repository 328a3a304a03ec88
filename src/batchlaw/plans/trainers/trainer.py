"""Trainer: its name, the settings it needs, and how a plan is written for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from batchlaw._base import checks
from batchlaw._base.errors import InputError
from batchlaw.plans.plan import Plan
from batchlaw.plans.trainers.rates import Match

# Departure of the rates, as a share of the peak, above which an export carries a warning.
TOLERANCE = 0.02


@dataclass(frozen=True)
class Layout:
    """Settings of a run that are not in the plan.

    Attributes
    ----------
    sequence_length
        Tokens per sample.
    data_parallel, micro_batch
        Number of replicas, and samples per replica in one forward pass.
    epoch_samples
        Size of the dataset.
    """

    sequence_length: int | None = None
    data_parallel: int | None = None
    micro_batch: int | None = None
    epoch_samples: int | None = None

    def __post_init__(self) -> None:
        for name in (f.name for f in fields(self)):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, checks.count(name, value))

    def value(self, name: str) -> int:
        """A field among the trainer's needs, which ``export`` has checked to be given."""
        value: int | None = getattr(self, name)
        if value is None:
            raise LookupError(f"{name} is not among the needs of this trainer")
        return value


@dataclass(frozen=True)
class Export:
    """A plan written for a trainer.

    Attributes
    ----------
    text
        The trainer's file, or the text to paste into its configuration.
    match
        How the trainer's rates depart from the plan's; None where every rate is written out.
    """

    text: str
    match: Match | None = None

    @property
    def warning(self) -> str:
        """A warning where the trainer cannot run the planned rates; else empty."""
        if self.match is None or self.match.departure <= TOLERANCE:
            return ""
        return (
            f"this trainer's rates differ from the plan's by up to {self.match.departure:.2%} of "
            "the peak; the gain that was predicted does not hold for them (decays that it can "
            f"run: {', '.join(self.match.shapes)}; with stages that change outside warmup and "
            "decay)"
        )


@dataclass(frozen=True)
class Trainer:
    """A program that trains, or the form in which one takes batch sizes and rates.

    Attributes
    ----------
    name
        Its name in ``export``, the command line and the page.
    title
        Its usual name.
    summary
        Its export in a few words.
    write
        Plan and layout to ``Export``; called with a layout that has all of ``needs``.
    file_name, media_type
        Name and type of the export as a file.
    needs
        Fields of ``Layout`` that must be given.
    batch_factor
        For a trainer that changes the batch by whole factors only: plan with powers of this.
    """

    name: str
    title: str
    summary: str
    write: Callable[[Plan, Layout], Export]
    file_name: str
    media_type: str = "text/plain"
    needs: tuple[str, ...] = ()
    batch_factor: int | None = None

    def __post_init__(self) -> None:
        known = [f.name for f in fields(Layout)]
        for need in self.needs:
            if need not in known:
                raise InputError("needs", f"must be fields of a layout, {', '.join(known)}", need)
