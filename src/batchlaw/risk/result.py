"""Risk: the result of every solver, exact or simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from batchlaw._base import checks
from batchlaw._base.checks import Batches, FloatArray
from batchlaw._base.errors import InputError
from batchlaw._base.uncertain import DIGITS, with_error

TERMS = ("bias", "variance", "fluctuation", "cross")
# Placeholder in a note for the schedule that it is about.
SCHEDULE = "{schedule}"
# Entries of a part that are printed; of more, the first and last few.
MOST_SHOWN, ENDS_SHOWN = 8, 3
# Axes of a part that has one row per schedule and a column per update.
TRAJECTORIES = 2


class Note(str):
    """A sentence that a reader should know before using a result.

    Attributes
    ----------
    kind
        What it is about, for code that chooses among notes: "approximation", "growth", ...
    schedule
        The row of the schedule that it is about; None where it is about all of them.
    """

    kind: str
    schedule: int | None
    _template: str

    def __new__(
        cls, text: str, kind: str = "", schedule: int | None = None, name: str | int | None = None
    ) -> Self:
        where = "" if schedule is None else f" of schedule {schedule if name is None else name}"
        note = super().__new__(cls, text.replace(SCHEDULE, where))
        note.kind, note.schedule, note._template = kind, schedule, text
        return note

    def naming(self, schedules: Sequence[str]) -> Note:
        """The same with the schedule's name in place of its row."""
        if self.schedule is None:
            return self
        return Note(self._template, self.kind, self.schedule, schedules[self.schedule])


@dataclass(frozen=True, eq=False, repr=False)
class Risk:
    """Expected population risk of a final iterate, in parts that add up (paper, proposition 1).

    Each part is a number, or an array with one entry per schedule where several were given; a
    trajectory adds a last axis of updates. A simulated risk also has standard errors.

    Attributes
    ----------
    procedure
        The procedure whose risk this is.
    method
        How the numbers were computed.
    irreducible
        sigma^2.
    approximation
        What the sketch cannot express.
    bias
        Of the mean iterate (one pass), or of gradient descent (multi-pass).
    variance
        Of the final iterate around its mean (one pass), or of gradient descent over the
        label noise (multi-pass).
    variance_noise
        The variance from the residuals of the labels, where the solver separates it (appendix F).
    variance_covariance
        The rest of the variance, from the fluctuation of a batch's covariance.
    fluctuation
        Of the final iterate around gradient descent on the same data (multi-pass).
    cross
        The cross terms between the parts: 2 <bias error, noise error> of GD on given labels, and
        2 E<theta - u*, u - theta> for reshuffling, whose mean iterate is not GD's. Zero in
        expectation over labels for independent batches.
    uncertainty
        Estimated relative error of the excess from an approximation (nodes that stand for
        many directions, a truncated basis, a coarser time grid); 0 where there is none.
    notes
        What a reader should know before using the numbers, one sentence each.
    leave_one_out
        Term -> (schedules, repetitions): the estimate without each repetition in turn.
    schedules
        The names of the schedules, in the order of the entries, where batches were given by
        name; else empty.
    """

    procedure: str
    method: str
    irreducible: float
    approximation: float
    bias: float | FloatArray
    variance: float | FloatArray
    variance_noise: float | FloatArray | None = None
    variance_covariance: float | FloatArray | None = None
    fluctuation: float | FloatArray = 0.0
    cross: float | FloatArray = 0.0
    uncertainty: float | FloatArray = 0.0
    notes: tuple[Note, ...] = ()
    leave_one_out: Mapping[str, FloatArray] = field(default_factory=dict)
    schedules: tuple[str, ...] = ()

    def named(self, batches: Batches) -> Risk:
        """The same with the names of the batches that it was computed for, if they have any."""
        names = checks.schedule_names(batches)
        if not names:
            return self
        return replace(self, schedules=names, notes=tuple(n.naming(names) for n in self.notes))

    @property
    def excess(self) -> float | FloatArray:
        """Risk above that of the best predictor of the sketched model."""
        return self.bias + self.variance + self.fluctuation + self.cross

    @property
    def total(self) -> float | FloatArray:
        """The whole risk E R_M(u), the irreducible part included."""
        return self.irreducible + self.approximation + self.excess

    def standard_error(self, term: str) -> float | FloatArray:
        """Jackknife standard error of a term ("bias", ..., "excess" or "total")."""
        return _unpack(jackknife(self._replicates(term)), self.variance)

    def ratio(self, term: str, schedule: int | str, reference: int | str) -> tuple[float, float]:
        """One schedule's term over another's, with the standard error of the ratio.

        The schedules share datasets, so the ratio is known better than its two sides: the
        jackknife omits a repetition from both at once. An exact ratio has error zero. Of
        trajectories it is the ratio after the last update.

        Parameters
        ----------
        term
            "total", "excess", or a part.
        schedule
            Its name, where batches were given by name, or its row.
        reference
            The schedule that it is divided by, likewise.
        """
        values = np.atleast_1d(self._last(term))
        row, other = (self._row(which, len(values)) for which in (schedule, reference))
        if values[other] == 0.0:
            needed = f"must not be zero in the schedule that divides, {reference!r}"
            raise InputError("term", needed, repr(term))
        ratio = float(values[row] / values[other])
        if not self.leave_one_out:
            return ratio, 0.0
        replicates = self._replicates(term)
        return ratio, float(jackknife(replicates[row] / replicates[other]))

    def _row(self, schedule: int | str, rows: int) -> int:
        if isinstance(schedule, str):
            if schedule not in self.schedules:
                known = f"one of {', '.join(self.schedules)}"
                if not self.schedules:
                    known = f"{_rows(rows)}: no schedule has a name here"
                raise InputError("schedule", f"must be {known}", repr(schedule))
            return self.schedules.index(schedule)
        if not -rows <= schedule < rows:
            raise InputError("schedule", f"must be {_rows(rows)}", f"{schedule}")
        return schedule

    def _last(self, term: str) -> FloatArray:
        """A term of every schedule, after the last update; a part that this risk lacks is refused.

        A part that a solver does not have is None or the number 0.
        """
        names = ("total", "excess", *TERMS, "variance_noise", "variance_covariance")
        parts = {name: getattr(self, name) for name in names}
        known = [name for name, x in parts.items() if x is not None and (np.ndim(x) or x)]
        if term not in known:
            raise InputError("term", f"must be one of {', '.join(known)}", repr(term))
        values = np.broadcast_to(parts[term], np.shape(self.excess))
        return values if values.ndim < TRAJECTORIES else values[:, -1]

    def __repr__(self) -> str:
        parts = ("total", "excess", "irreducible", "approximation", *TERMS)
        shown = [f"{part} {self._show(part)}" for part in parts if np.any(getattr(self, part))]
        names = f"; {_few(self.schedules)}" if self.schedules else ""
        return f"Risk({self.procedure}; {self.method}{names}: {', '.join(shown)})"

    def _show(self, part: str) -> str:
        values = np.asarray(getattr(self, part))
        if part in self.leave_one_out or (self.leave_one_out and part in ("excess", "total")):
            errors = np.ravel(self.standard_error(part))
            entries = list(map(with_error, np.ravel(values), errors))
            return entries[0] if values.ndim == 0 else f"[{_few(entries)}]"
        return np.array2string(
            values,
            formatter={"float_kind": f"{{:.{DIGITS}g}}".format},
            threshold=MOST_SHOWN,
            edgeitems=ENDS_SHOWN,
            separator=", ",
        )

    def _replicates(self, term: str) -> FloatArray:
        if not self.leave_one_out:
            raise InputError(
                "term",
                f"exist for simulated risks only, this one is {self.method}",
                subject="standard errors",
            )
        if term in ("excess", "total"):
            parts = [self.leave_one_out[name] for name in TERMS if name in self.leave_one_out]
            floor = self.irreducible + self.approximation if term == "total" else 0.0
            return np.asarray(np.sum(parts, axis=0) + floor)
        if term not in self.leave_one_out:
            known = ", ".join((*self.leave_one_out, "excess", "total"))
            raise InputError("term", f"must be one of {known}", repr(term))
        return self.leave_one_out[term]


def jackknife(replicates: FloatArray) -> FloatArray:
    """sqrt((R - 1)/R sum_r (x_(r) - mean)^2) along the last axis."""
    R = replicates.shape[-1]
    centred = replicates - replicates.mean(axis=-1, keepdims=True)
    return np.asarray(np.sqrt((R - 1.0) / R * (centred**2).sum(axis=-1)))


def _unpack(values: FloatArray, like: float | FloatArray) -> float | FloatArray:
    return float(values[0]) if np.ndim(like) == 0 else values


def _rows(count: int) -> str:
    return f"a row from 0 to {count - 1}"


def _few(entries: Sequence[str]) -> str:
    """Entries separated by commas; of many, the first and the last few."""
    if len(entries) > MOST_SHOWN:
        entries = [*entries[:ENDS_SHOWN], "...", *entries[-ENDS_SHOWN:]]
    return ", ".join(entries)
