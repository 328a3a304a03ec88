"""What a trainer is to a plan: its name, what it must be told, and how a plan is written for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from batchlaw._base import checks
from batchlaw._base.errors import InputError
from batchlaw.plans.plan import Plan
from batchlaw.plans.trainers.rates import Match

# Rates that are further off, as a share of the peak, deserve a warning.
TOLERANCE = 0.02


@dataclass(frozen=True)
class Layout:
    """How samples are shaped and spread: what a plan does not know about the run.

    Attributes
    ----------
    sequence_length
        Tokens of a sample.
    data_parallel, micro_batch
        Replicas, and the samples that a replica takes at once.
    epoch_samples
        Size of the dataset.
    """

    sequence_length: int | None = None
    data_parallel: int | None = None
    micro_batch: int | None = None
    epoch_samples: int | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None:
                object.__setattr__(self, each.name, checks.count(each.name, value))

    def value(self, name: str) -> int:
        """A field that the trainer lists among its needs, so that ``export`` asked for it."""
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
        What the trainer reads, or what is pasted into it.
    match
        How the trainer's rates depart from the plan's; None where every rate is written out.
    """

    text: str
    match: Match | None = None

    @property
    def warning(self) -> str:
        """What to tell the user where the trainer can't run the planned rates; else empty."""
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
        What ``export``, the command line and the page call it.
    title
        What people call it.
    summary
        What its export is, in a few words.
    write
        Plan and layout to ``Export``; called with a layout that has all of ``needs``.
    file_name, media_type
        Of the export as a file.
    needs
        Fields of ``Layout`` that must be given.
    batch_factor
        Where the batch can change by whole factors only: plan with powers of this one.
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
        known = [each.name for each in fields(Layout)]
        for need in self.needs:
            if need not in known:
                raise InputError("needs", f"must be fields of a layout, {', '.join(known)}", need)
