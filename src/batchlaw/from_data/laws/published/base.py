"""What the published laws of loss curves share: amplitudes, shapes, and how both are fitted."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import InputError
from batchlaw.from_data.laws.published.fitting import Points, Start, refine
from batchlaw.from_data.run import Run

# Losses of one run that a fit looks at, evenly spread over those that were measured.
MOST_POINTS = 500
# Starts that are refined: those that are best with their best amplitudes.
REFINED = 4


class Shape(NamedTuple):
    """A parameter on which the terms of a law depend in another way than by a factor."""

    starts: tuple[float, ...]
    low: float
    high: float


@dataclass(frozen=True)
class FittedCurve:
    """A published law with its parameters.

    Attributes
    ----------
    law : PublishedLaw
    theta : (p,) array
        The law's parameters, in the order of ``law.parameters``.
    objective : float
        Sum of the Huber losses of log(measured) - log(predicted).
    rms : float
        Root mean square error of the losses it was fitted to.
    """

    law: PublishedLaw
    theta: FloatArray
    objective: float
    rms: float

    def curve(self, rates: ArrayLike, batches: ArrayLike, steps: ArrayLike) -> FloatArray:
        """Losses after ``steps`` updates of a run with these rates and batches."""
        return self.law.curve(self.theta, rates, batches, steps)

    def predict(self, rates: ArrayLike, batches: ArrayLike) -> float:
        """The loss after the last update."""
        return float(self.curve(rates, batches, [np.size(rates)])[0])


class PublishedLaw(ABC):
    """A law of the loss along a run: a sum of terms, each an amplitude times a shape's function.

    loss(n) = sum_j a_j f_j(n; shape), a_j >= 0. The laws describe what follows a warmup: losses
    measured within it (see `warmup`) are left out of a fit, and there is no loss before the first
    update that moves anything (NaN). All rates, those of the warmup too, count as progress.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    source: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]]
    # Whether a fit is the least objective, which may be searched from anywhere.
    minimizes: ClassVar[bool] = True

    def curve(
        self, theta: ArrayLike, rates: ArrayLike, batches: ArrayLike, steps: ArrayLike
    ) -> FloatArray:
        """Losses after ``steps`` updates.

        Parameters
        ----------
        theta
            The law's parameters, in the order of ``parameters``.
        rates, batches : (T,) arrays
            Those of every update; ``batches`` may be one number.
        steps : (n,) array
            After how many updates, from 0 to T, in increasing order.
        """
        values = checks.vector("theta", theta)
        checks.same_length("theta", values.size, len(self.parameters), "the law's parameters")
        gamma = checks.vector("rates", rates)
        sizes = checks.batches(batches, gamma.size, whole=False)[0]
        at = _steps(steps, gamma.size)
        amplitudes, shape = self.split(values)
        losses = np.full(at.size, np.nan)
        for part in range(0, at.size, MOST_POINTS):
            rows = slice(part, part + MOST_POINTS)
            prepared = self.prepare(gamma, sizes, at[rows])
            losses[rows] = self.terms(shape, prepared) @ amplitudes
        losses[np.cumsum(np.append(0.0, gamma))[at] == 0.0] = np.nan
        return losses

    def fit(self, runs: Sequence[Run], *, starts: Sequence[ArrayLike] | None = None) -> FittedCurve:
        """Fit the law to whole curves, every measured loss with the same weight.

        The least sum of Huber losses (delta 0.001) of log(measured) - log(predicted), as in Luo
        et al. 2025. At most 500 losses of each run are looked at.

        Parameters
        ----------
        runs
            Training runs; their losses after the warmup.
        starts
            Parameters to start from. By default a grid of shapes, each with its best amplitudes,
            of which the best four are refined.
        """
        if not all(isinstance(run, Run) for run in runs):
            raise InputError("runs", "must be bl.Run, several in a list")
        kept = [_after_warmup(run) for run in runs]
        losses = np.concatenate([loss for _, loss in kept]) if kept else np.empty(0)
        if losses.size < len(self.parameters):
            need = f"must have at least {len(self.parameters)} losses measured after their warmups"
            raise InputError("runs", need, f"{losses.size}")
        if not (losses > 0.0).all():
            raise InputError("runs", "must have positive losses", f"{losses.min()}")
        prepared = [
            self.prepare(run.rates, run.batches, at)
            for run, (at, _) in zip(runs, kept, strict=True)
        ]

        def terms(shape: FloatArray) -> FloatArray:
            return np.vstack([self.terms(shape, run) for run in prepared])

        peak = max(float(run.rates.max()) for run in runs)
        bounds = np.array([[shape.low, shape.high] for shape in self.shapes(peak)])
        points = Points(losses, terms, bounds)
        if starts is None:
            best = self.search(points, prepared, peak)
        else:
            begun = [self.split(checks.vector("starts", theta)) for theta in starts]
            best = refine(points, begun)
        amplitudes, shape = best
        error = losses - terms(shape) @ amplitudes
        rms = float(np.sqrt(np.mean(error**2)))
        return FittedCurve(self, self.join(amplitudes, shape), points.objective(best), rms)

    def search(self, points: Points, prepared: list[Any], peak: float) -> Start:
        """Amplitudes and shape of the least objective, from the law's own starts."""
        grid = itertools.product(*(shape.starts for shape in self.shapes(peak)))
        begun = [points.best_amplitudes(np.array(shape)) for shape in grid]
        return refine(points, sorted(begun, key=points.objective)[:REFINED])

    @abstractmethod
    def shapes(self, peak: float) -> tuple[Shape, ...]:
        """The shape parameters, with starts for runs whose largest rate is ``peak``."""

    @abstractmethod
    def prepare(self, rates: FloatArray, batches: FloatArray, steps: IntArray) -> Any:
        """All that the terms need to know of a run, whatever the shape."""

    @abstractmethod
    def terms(self, shape: FloatArray, prepared: Any) -> FloatArray:
        """f_j at every step, without their amplitudes: (n, amplitudes)."""

    @abstractmethod
    def split(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Parameters as amplitudes and shape."""

    @abstractmethod
    def join(self, amplitudes: FloatArray, shape: FloatArray) -> FloatArray:
        """Amplitudes and shape as parameters: undoes `split`."""


def warmup(rates: FloatArray) -> int:
    """Updates until the rate first stops rising; 0 if it does not rise at first, or never stops."""
    stops = np.flatnonzero(np.diff(rates) <= 0.0)
    return int(stops[0]) + 1 if stops.size and stops[0] > 0 else 0


def _steps(steps: ArrayLike, updates: int) -> IntArray:
    at = checks.vector("steps", steps)
    if not (
        np.all(at == np.rint(at)) and np.all(np.diff(at) >= 0) and 0 <= at[0] <= at[-1] <= updates
    ):
        need = f"must be whole numbers of updates in increasing order, at most {updates}"
        raise InputError("steps", need)
    return at.astype(np.int64)


def _after_warmup(run: Run) -> tuple[IntArray, FloatArray]:
    """Steps and losses to fit: not within the warmup, and not more than `MOST_POINTS`."""
    used = np.flatnonzero(run.steps >= max(warmup(run.rates), 1))
    if used.size > MOST_POINTS:
        used = used[np.linspace(0, used.size - 1, MOST_POINTS).round().astype(int)]
    return run.steps[used], run.losses[used]
