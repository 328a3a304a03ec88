"""TrainingLaw: the loss of a training run from its rates and batches, with a band."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import InputError
from batchlaw.from_data.laws import law_json
from batchlaw.from_data.laws.bands import STRANGE, Misfit, slopes
from batchlaw.from_data.laws.curves import Rows
from batchlaw.from_data.laws.least_squares import Fit
from batchlaw.from_data.laws.member import TERMS, Member
from batchlaw.schedule.optimizers import options_of
from batchlaw.schedule.update_rule import UpdateRule

LEVEL = 0.9
# Batches and lengths beyond those of the runs by this factor are said to be.
BEYOND = 1.05


@dataclass(frozen=True)
class Prediction:
    """Losses along a schedule, with a band for what a new run of it would show.

    Attributes
    ----------
    steps : (n,) array
        After how many updates.
    losses, low, high : (n,) arrays
    level
        The probability that the band claims for each loss.
    notes
        Where the schedule leaves what the runs have shown.
    """

    steps: IntArray
    losses: FloatArray
    low: FloatArray
    high: FloatArray
    level: float
    notes: tuple[str, ...] = ()

    @property
    def final(self) -> tuple[float, float, float]:
        """The last loss, and its band."""
        return float(self.losses[-1]), float(self.low[-1]), float(self.high[-1])

    def __str__(self) -> str:
        loss, low, high = self.final
        lines = [f"final loss {loss:.4f} ({low:.4f} to {high:.4f}, {self.level:.0%})"]
        return "\n".join([*lines, *self.notes])


@dataclass(frozen=True)
class Seen:
    """What the runs have shown: ranges, and how many there were.

    Attributes
    ----------
    runs, schedules
        How many; runs with the same schedule are seeds.
    updates
        Of the longest run.
    smallest_batch, largest_batch
    largest_change
        The largest batch of a run over its smallest.
    lowest_peak, highest_peak
        Largest rates of the runs.
    """

    runs: int
    schedules: int
    updates: int
    smallest_batch: float
    largest_batch: float
    largest_change: float
    lowest_peak: float
    highest_peak: float

    def beyond(self, rates: FloatArray, batches: FloatArray) -> dict[str, float]:
        """By which factors a schedule leaves these ranges; empty if it does not."""
        change = float(batches.max() / batches.min())
        factors = {
            "updates": rates.size / self.updates,
            "peak rate": max(rates.max() / self.highest_peak, self.lowest_peak / rates.max()),
            "batch": max(batches.max() / self.largest_batch, self.smallest_batch / batches.min()),
            "change of the batch within a run": change / self.largest_change,
        }
        return {name: float(f) for name, f in factors.items() if f > BEYOND}


@dataclass(frozen=True, eq=False)
class TrainingLaw:
    """A law of whole loss curves, fitted to training runs; made by ``bl.fit_law``.

    Attributes
    ----------
    fit : Fit
        The member of the family that predicts left-out schedules best, and its parameters.
    covariance : array
        Of the shape's coordinates and the factors of the terms.
    misfit : Misfit
    seen : Seen
    held_out : mapping
        Root mean square error over the last 30 % of schedules that were left out, by member.
    unidentified : tuple
        Parameters that these runs say nothing about, with the reason.
    """

    fit: Fit
    covariance: FloatArray
    misfit: Misfit
    seen: Seen
    held_out: Mapping[str, float]
    unidentified: tuple[str, ...] = ()

    @property
    def member(self) -> Member:
        return self.fit.member

    @property
    def rule(self) -> UpdateRule:
        return self.member.rule

    @cached_property
    def parameters(self) -> dict[str, float]:
        """All parameters by name: the shape's, then the factors of the terms."""
        values = self.member.values(self.fit.coordinates)
        return values | dict(zip(TERMS, self.fit.factors.tolist(), strict=True))

    def intervals(self, level: float = LEVEL) -> dict[str, tuple[float, float]]:
        """Intervals of the parameters, from the curvature of the fit.

        Errors along a curve count as three independent ones, and what was expected of a parameter
        before counts too: one that the runs do not identify has an interval of that width.
        """
        half = quantile(level) * np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        found = {}
        for p, x, h in zip(self.member.shape, self.fit.coordinates, half, strict=False):
            low, high = max(x - h, p.inner(p.low)), min(x + h, p.inner(p.high))
            found[p.name] = p.outer(float(low)), p.outer(float(high))
        for name, value, h in zip(TERMS, self.fit.factors, half[-len(TERMS) :], strict=True):
            found[name] = max(float(value - h), 0.0), float(value + h)
        return found

    def curve(self, rates: ArrayLike, batches: ArrayLike, steps: ArrayLike) -> FloatArray:
        """Losses after ``steps`` updates, without a band."""
        gamma, sizes, at = self._schedule(rates, batches, steps)
        rows = Rows.of(gamma, sizes, at, self.member.scale)
        return np.asarray(self.member.terms(rows, self.fit.coordinates) @ self.fit.factors)

    def predict(
        self,
        rates: ArrayLike,
        batches: ArrayLike,
        *,
        steps: ArrayLike | None = None,
        level: float = LEVEL,
    ) -> Prediction:
        """The loss along a schedule, with a band for a new run of it.

        The band has the uncertainty of the parameters, the misfit that runs of similar length and
        rate show (larger where batches change as in none of them), and the spread between seeds.
        It does not hold for the first updates, a tenth of the longest run: no loss of them was
        fitted.

        Parameters
        ----------
        rates, batches : (T,) arrays
            Of every update; ``batches`` may be one number.
        steps
            After how many updates; about 100 places and the end by default.
        level
            Probability that the band claims, for each loss by itself.
        """
        deviations, count = quantile(level), np.size(rates)
        places = (
            np.unique(np.linspace(1, count, min(count, 100)).round()) if steps is None else steps
        )
        gamma, sizes, at = self._schedule(rates, batches, places)
        losses, table = slopes(self.fit, Rows.of(gamma, sizes, at, self.member.scale))
        variance = np.einsum("ij,jk,ik->i", table, self.covariance, table)
        beyond = self.seen.beyond(gamma, sizes)
        level_error = self._misfit(gamma, sizes)
        half = deviations * np.sqrt(
            np.maximum(variance, 0.0) + level_error**2 + self.misfit.seeds**2
        )
        notes = tuple(
            f"{name} beyond the runs by a factor of {f:.3g}" for name, f in beyond.items()
        )
        return Prediction(at, losses, losses - half, losses + half, level, notes)

    def difference(
        self,
        schedule: tuple[ArrayLike, ArrayLike],
        reference: tuple[ArrayLike, ArrayLike],
        level: float = LEVEL,
    ) -> tuple[float, float, float]:
        """Final loss of one schedule less that of another, with a band.

        The band is that of the means over seeds, with the larger misfit of the two.

        Parameters
        ----------
        schedule, reference
            Rates and batches of every update, each as for `predict`.
        level
            Probability that the band claims.
        """
        deviations, pairs = quantile(level), []
        for rates, batches in (schedule, reference):
            gamma, sizes, at = self._schedule(rates, batches, [np.size(rates)])
            rows = Rows.of(gamma, sizes, at, self.member.scale)
            pairs.append((*slopes(self.fit, rows), gamma, sizes))
        (loss, table, gamma, sizes), (other, base, own, own_sizes) = pairs
        change, slope = float(loss[0] - other[0]), table[0] - base[0]
        if np.array_equal(gamma, own) and np.array_equal(sizes, own_sizes):
            return 0.0, 0.0, 0.0
        misfit = max(self._misfit(gamma, sizes), self._misfit(own, own_sizes))
        half = deviations * math.sqrt(max(float(slope @ self.covariance @ slope), 0.0) + misfit**2)
        return change, change - half, change + half

    def batch_exponent(self, level: float = LEVEL) -> tuple[float, float, float]:
        """beta: what is left of the noise goes like B^-beta at the reference batch, with a band.

        From the law itself: the hill of a long run at a constant peak rate, at a slightly larger
        batch. Where the law does not know several batches it is that of its form.

        Parameters
        ----------
        level
            Probability that the band claims.
        """
        scale, step = self.member.scale, 0.05

        def log_hill(x: FloatArray, batch: float) -> float:
            rates = np.full(scale.span, scale.peak)
            sizes = np.full(scale.span, scale.batch * batch)
            rows = Rows.of(rates, sizes, np.array([scale.span]), scale)
            return math.log(max(float(self.member.terms(rows, x)[0, -1]), 1e-300))

        def exponent(x: FloatArray) -> float:
            return (log_hill(x, math.exp(-step)) - log_hill(x, math.exp(step))) / (2 * step)

        x = self.fit.coordinates
        here = exponent(x)
        slope = np.zeros(x.size)
        for j, p in enumerate(self.member.shape):
            move = 1e-3 if x[j] + 1e-3 <= p.inner(p.high) else -1e-3
            moved = x.copy()
            moved[j] += move
            slope[j] = (exponent(moved) - here) / move
        # A coordinate that the runs do not identify is off by its whole range, and not more.
        block = self.covariance[: x.size, : x.size]
        ranges = np.array([p.inner(p.high) - p.inner(p.low) for p in self.member.shape])
        slope *= np.minimum(1.0, ranges / np.sqrt(np.maximum(np.diag(block), 1e-300)))
        variance = float(slope @ block @ slope)
        half = quantile(level) * math.sqrt(max(variance, 0.0))
        return here, here - half, here + half

    def to_json(self) -> str:
        """The law as text; ``TrainingLaw.from_json`` reads it."""
        member = self.member
        flags = {n: v for n, v in asdict(member).items() if isinstance(v, bool)}
        document = {
            "schema": law_json.SCHEMA,
            "rule": {"name": self.rule.name, "options": options_of(self.rule)},
            "scale": asdict(member.scale),
            "member": flags,
            "coordinates": self.fit.coordinates.tolist(),
            "factors": self.fit.factors.tolist(),
            "cost": self.fit.cost,
            "covariance": self.covariance.tolist(),
            "misfit": {n: _plain(v) for n, v in vars(self.misfit).items()},
            "seen": asdict(self.seen),
            "held_out": dict(self.held_out),
            "unidentified": list(self.unidentified),
            "parameters": self.parameters,
        }
        return json.dumps(document, indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> TrainingLaw:
        """A law from its text; one that is broken is refused in one line."""
        p = law_json.parts(text, get_type_hints(Seen))
        return cls(p.fit, p.covariance, p.misfit, Seen(**p.seen), p.held_out, p.unidentified)

    def __str__(self) -> str:
        errors = sorted(self.held_out.items(), key=lambda item: item[1])
        lines = [
            f"{self.seen.runs} runs, {self.seen.schedules} schedules; chosen: {self.member.name}",
            f"error on schedules left out: {self.held_out[self.member.name]:.4f}",
        ]
        lines += [f"  {value:.4f}  {name}" for name, value in errors]
        if self.seen.largest_batch > self.seen.smallest_batch:
            beta, low, high = self.batch_exponent()
            lines.append(f"noise that is left ~ batch^-{beta:.2f} ({low:.2f} to {high:.2f})")
        return "\n".join([*lines, *(f"not identified: {note}" for note in self.unidentified)])

    def _misfit(self, rates: FloatArray, batches: FloatArray) -> float:
        """Of a run's level: larger where batches do what they did in no run."""
        strange = any("batch" in name for name in self.seen.beyond(rates, batches))
        near = self.misfit.at(rates.size, float(rates.max()))
        return near * (1.0 + (STRANGE if strange else 0.0))

    @staticmethod
    def _schedule(
        rates: ArrayLike, batches: ArrayLike, steps: ArrayLike
    ) -> tuple[FloatArray, FloatArray, IntArray]:
        gamma = checks.vector("rates", rates)
        if not gamma.any():
            raise InputError("rates", "must have one above 0")
        sizes = checks.batches(batches, gamma.size, whole=False)
        if sizes.shape[0] != 1:
            raise InputError("batches", "must be those of one run", f"{sizes.shape[0]} schedules")
        at = checks.vector("steps", steps)
        if not (np.all(at == np.rint(at)) and at.min() >= 0 and at.max() <= gamma.size):
            raise InputError("steps", f"must be whole numbers of updates, at most {gamma.size}")
        return gamma, sizes[0], at.astype(np.int64)


def quantile(level: float) -> float:
    """Half a band of this probability, in standard deviations."""
    from scipy import stats

    share = checks.real("level", level, above=0.0, below=1.0)
    return float(stats.norm.ppf(0.5 + 0.5 * share))


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value
