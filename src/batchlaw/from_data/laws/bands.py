"""How far a law's predictions can be off: parameters, misfit of whole runs, seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.from_data.laws.curves import Group, Rows, schedule_key
from batchlaw.from_data.laws.least_squares import BELIEF, STEP, Fit
from batchlaw.from_data.laws.selection import Candidate
from batchlaw.from_data.run import Run

# Errors along one curve are alike: a curve counts as this many independent ones.
INDEPENDENT = 3.0
# Runs count for a prediction by their distance in the logarithms of length and peak rate.
NEAR = 0.5
# Where a prediction leaves the batches of the runs, the misfit counts this much more.
STRANGE = 1.0


@dataclass(frozen=True)
class Misfit:
    """Errors of the last loss of every schedule, fitted and left out, and where they were made.

    Attributes
    ----------
    length, peak : (S,) arrays
        Updates and largest rate of each schedule.
    fitted, held_out : (S,) arrays
    seeds
        Standard deviation of a final loss between seeds; 0 if no schedule has several.
    """

    length: FloatArray
    peak: FloatArray
    fitted: FloatArray
    held_out: FloatArray
    seeds: float

    @classmethod
    def of(cls, chosen: Candidate, groups: Sequence[Group], runs: Sequence[Run]) -> Misfit:
        return cls(
            np.array([float(g.steps[-1]) for g in groups]),
            np.array([float(g.run.rates.max()) for g in groups]),
            np.array([float((chosen.fit.curve(g) - g.losses)[-1]) for g in groups]),
            chosen.errors,
            _between_seeds(runs),
        )

    def at(self, length: float, peak: float) -> float:
        """Standard deviation of a run's level: the geometric mean of fitted and held-out errors.

        The first is too small, because the law has seen the run; the second too large, because a
        law fitted to fewer schedules knows less.
        """
        distance = np.log(self.length / length) ** 2 + np.log(self.peak / peak) ** 2
        weights = np.exp(-0.5 * (distance - distance.min()) / NEAR**2)
        weights /= weights.sum()
        fitted, held_out = weights @ self.fitted**2, weights @ self.held_out**2
        return float((fitted * held_out) ** 0.25)


def slopes(fit: Fit, rows: Rows) -> tuple[FloatArray, FloatArray]:
    """Losses, and their slopes in the shape's coordinates and the factors: (n,), (n, k + 3)."""
    x, member = fit.coordinates, fit.member
    terms = member.terms(rows, x)
    losses = terms @ fit.factors
    table = np.empty((losses.size, x.size + terms.shape[1]))
    table[:, x.size :] = terms
    for j, parameter in enumerate(member.shape):
        step = STEP * max(1.0, abs(x[j]))
        moved = x.copy()
        moved[j] += step if x[j] + step <= parameter.inner(parameter.high) else -step
        table[:, j] = (member.terms(rows, moved) @ fit.factors - losses) / (moved[j] - x[j])
    return losses, table


def covariance(fit: Fit, groups: Sequence[Group]) -> FloatArray:
    """Of the shape's coordinates and the factors.

    The inverse curvature of the sum of squares, with each curve as ``INDEPENDENT`` errors of the
    size that is left at the ends of the curves.
    """
    size = fit.coordinates.size
    curvature = np.zeros((size + fit.factors.size, size + fit.factors.size))
    for g in groups:
        _, table = slopes(fit, g.rows)
        curvature += g.weight * table.T @ table
    loss = float(np.mean([g.losses.mean() for g in groups]))
    least = (BELIEF * loss) ** 2
    spread = np.array([p.spread for p in fit.member.shape])
    curvature[np.arange(size), np.arange(size)] += least / spread**2
    # Where nothing depends on a parameter, it can be anything: a variance of almost infinity.
    diagonal = np.maximum(np.diag(curvature), 1e-300)
    np.fill_diagonal(curvature, diagonal)
    # Units differ by many powers of ten: invert the correlations.
    scale = np.sqrt(diagonal)
    inverse = np.linalg.pinv(curvature / np.outer(scale, scale), rcond=1e-12, hermitian=True)
    return np.asarray(unit_variance(fit, groups) * inverse / np.outer(scale, scale))


def unit_variance(fit: Fit, groups: Sequence[Group]) -> float:
    """What one standard deviation adds to the sum of squares of a fit.

    The mean square at the ends of the curves, of which each is ``INDEPENDENT`` errors; not less
    than what a parameter's expectation counts for.
    """
    left = [float(np.mean((fit.curve(g) - g.losses)[g.tail] ** 2)) for g in groups]
    loss = float(np.mean([g.losses.mean() for g in groups]))
    return max(float(np.mean(left)), (BELIEF * loss) ** 2) / INDEPENDENT


def _between_seeds(runs: Sequence[Run]) -> float:
    losses: dict[bytes, list[float]] = {}
    for run in runs:
        losses.setdefault(schedule_key(run), []).append(run.final_loss)
    several = [np.array(own) for own in losses.values() if len(own) > 1]
    freedom = sum(own.size - 1 for own in several)
    if not freedom:
        return 0.0
    return math.sqrt(sum(float(((own - own.mean()) ** 2).sum()) for own in several) / freedom)
