"""The project's own theory as a law of loss curves: linear regression under the runs' optimizer."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import InputError
from batchlaw._base.kernels import adam_diagonal, merged_steps, moments
from batchlaw.from_data.laws.published.base import REFINED, PublishedLaw, Shape
from batchlaw.from_data.laws.published.fitting import Points, Start, refine
from batchlaw.model.nodes import truncation_nodes
from batchlaw.model.problem import Problem
from batchlaw.risk.adam_diagonal import step_table
from batchlaw.schedule.adam import Adam
from batchlaw.schedule.averages import running_readout
from batchlaw.schedule.update_rule import SGD, UpdateRule

# Directions of the power law, and nodes that stand for them.
DIRECTIONS, NODES = 4096, 24
# Updates up to which a run is followed one by one; rows into which longer runs are merged, and all
# runs while starts are compared. Measured steps and changes of the batch add rows of their own.
SINGLE_UPDATES = 4000
ROWS, SEARCH_ROWS = 400, 100
# Stands for an excess that overflows; that of the start is 1.
DIVERGED = 1e6
# Where a fit starts: exponents; steps at the peak, times the largest eigenvalue, of SGD and of
# Adam; label noise over the signal in a mean batch.
A, DECAY = (1.3, 1.8, 2.6), (0.2, 0.5, 1.0)
SGD_STEPS, ADAM_STEPS = (0.01, 0.05, 0.2, 0.8), (0.02, 0.1, 0.5, 2.5, 12.0)
NOISE = (0.03, 0.3, 3.0, 30.0)

# Eigenvalues, multiplicities and target energies.
Spectrum = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class Updates:
    """A run as far as its last measured step, in rows of one or more updates.

    Attributes
    ----------
    rates, batches : (T,) arrays
    steps : (n,) array
        The measured steps.
    ends : (R + 1,) array
        The last update of every row, from 0; all measured steps are among them.
    table : (R, k) array
        Rows of the compiled loop, with the run's own rates in the first column.
    shares : (R,) array
        The mean of 1/B.
    """

    rates: FloatArray
    batches: FloatArray
    steps: IntArray
    ends: IntArray
    table: FloatArray
    shares: FloatArray

    @property
    def single(self) -> bool:
        """Whether every row is one update."""
        return self.shares.size == self.rates.size


class MechanisticLaw(PublishedLaw):
    r"""loss(n) = L0 + s excess(n), the excess risk of a power law's linear regression.

    Direction i of 4096, on 24 nodes, has the eigenvalue i^-a and a share i^-b of the signal. The
    signal is 1, ``noise`` is the variance of the label noise, and rates are ``unit`` times those of
    the run: with a largest eigenvalue of 1 they are rate times eigenvalue. Decoupled weight decay
    shrinks by the run's own rates. The excess is 1 at the start.

    For SGD, with momentum in any form, the excess is the exact one of ``one_pass_risk``. For Adam
    it is the mean field in a generic basis (one v for all directions), whatever the rule's own,
    with v at its mean. ``one_pass_risk`` also corrects for v's spread, which is left out: over
    3000 updates with batches of 1 to 27 that changes the excess by up to 4 % with a beta2 of 0.95,
    and by less than 1 % with 0.999.

    Runs of up to 4000 updates are followed one by one. Longer runs are merged into about 400 rows,
    with the mean rate and the mean of 1/B of each, and momentum in its steady state. Rows end at
    all measured steps, so that nothing is interpolated, and where the batch jumps. Over 12,000
    updates the error is 0.5 % of the excess at the worst measured step and 0.02 % at the end
    (medians over a grid of problems, rates and batches; 1.2 % and 0.2 % in nine of ten). It is
    largest, 2 to 4 %, where momentum lags behind a decay to 0 in steps D mu_1 above 0.3.
    """

    name = "mechanistic law"
    summary = "exact SGD, or Adam's mean field, on a power law's spectrum"
    source = "batchlaw"
    parameters = ("L0", "s", "a", "b", "unit", "noise")

    def __init__(self, rule: UpdateRule) -> None:
        """
        Parameters
        ----------
        rule
            The optimizer of the runs: ``bl.sgd(...)`` or ``bl.adam(...)``, at the last iterate.
        """
        if not isinstance(rule, (SGD, Adam)):
            raise InputError("rule", "must be bl.sgd(...) or bl.adam(...)", repr(rule)[:60])
        if rule.averages:
            raise InputError("rule", "must give the last iterate, not an average")
        if isinstance(rule, SGD) and np.ndim(rule.momentum):
            raise InputError("rule", "must have the same momentum at every update")
        self.rule: SGD | Adam = rule

    def problem(self, theta: ArrayLike) -> Problem:
        """The regression that these parameters describe; its rates are ``unit`` times a run's."""
        values = checks.vector("theta", theta)
        checks.same_length("theta", values.size, len(self.parameters), "the law's parameters")
        a, decay, _, noise = self.split(values)[1]
        mu, multiplicity, energy = _power_law(float(a), float(decay))
        return Problem.from_spectrum(mu, energy, float(noise), multiplicity)

    def shapes(self, peak: float) -> tuple[Shape, ...]:
        """a, b - 1, unit and noise. Where the last two start depends on the batches: `search`."""
        return (
            Shape(A, 1.1, 4.0),
            Shape(DECAY, 0.01, 4.0),
            Shape((), 1e-8 / peak, 1e4 / peak),
            Shape((), 1e-6, 1e12),
        )

    def search(self, points: Points, prepared: list[Any], peak: float) -> Start:
        """The best four of a grid, refined on merged rows; the best of these then on all rows."""
        coarse = [self._in_rows(run.rates, run.batches, run.steps, SEARCH_ROWS) for run in prepared]

        def terms(shape: FloatArray) -> FloatArray:
            return np.vstack([self.terms(shape, run) for run in coarse])

        rough = replace(points, terms=terms)
        batch = float(np.concatenate([run.batches for run in prepared]).mean())
        begun = [rough.best_amplitudes(shape) for shape in self._grid(peak, batch)]
        begun = sorted(begun, key=rough.objective)[:REFINED]
        return refine(points, [refine(rough, begun)])

    def _grid(self, peak: float, batch: float) -> list[FloatArray]:
        """Shapes to start from, for runs of this largest rate and mean batch."""
        steps = ADAM_STEPS if isinstance(self.rule, Adam) else SGD_STEPS
        shapes = []
        for a, decay, step, noise in itertools.product(A, DECAY, steps, NOISE):
            unit = step * (1.0 - self._momentum) / peak
            if isinstance(self.rule, Adam):
                # v where half of the signal is learned.
                mu, multiplicity, _ = _power_law(a, decay)
                v = float(multiplicity @ mu) / DIRECTIONS * (noise + 0.5 / batch)
                unit = step * math.sqrt(v) / peak
            shapes.append(np.array([a, decay, unit, noise * batch]))
        return shapes

    def prepare(self, rates: FloatArray, batches: FloatArray, steps: IntArray) -> Updates:
        last = max(int(steps[-1]), 1)
        most = ROWS if last > SINGLE_UPDATES else last
        return self._in_rows(rates[:last], batches[:last], steps, most)

    def _in_rows(
        self, rates: FloatArray, batches: FloatArray, steps: IntArray, most: int
    ) -> Updates:
        """A run in about so many rows."""
        T = rates.size
        ends = np.round(np.linspace(0.0, T, min(most, T) + 1)).astype(np.int64)
        jumps = np.flatnonzero(np.diff(batches)) + 1
        ends = np.union1d(np.union1d(ends, steps), jumps if jumps.size <= most else jumps[:0])
        shares = _means(1.0 / batches, ends)
        return Updates(rates, batches, steps, ends, self._table(rates, ends), shares)

    def _table(self, rates: FloatArray, ends: IntArray) -> FloatArray:
        """Rows of the compiled loop that `_single` or `_merged` runs."""
        rule, count = self.rule, np.diff(ends).astype(np.float64)
        if count.size == rates.size:
            return step_table(rates, rule) if isinstance(rule, Adam) else rates[:, None]
        gamma, one = _means(rates, ends), np.ones_like(count)
        if isinstance(rule, Adam):
            # Its corrected first moment is the gradient's mean from the start on.
            correct2 = 1.0 / (1.0 - rule.beta2 ** ends[1:])
            shrink, keep2 = gamma * rule.weight_decay, rule.beta2**count
            return np.stack([gamma, shrink, keep2, one, correct2, count], axis=1)
        # The velocity sums gradients: its steady rate is gamma / (1 - beta).
        steady = gamma / (1.0 - self._momentum)
        return np.stack([steady, 0.0 * one, one, one, one, count], axis=1)

    def terms(self, shape: FloatArray, prepared: Updates) -> FloatArray:
        """1 and the excess at every measured step; a large number where it overflows."""
        a, decay, unit, noise = (float(value) for value in shape)
        solve = self._single if prepared.single else self._merged
        table = prepared.table.copy()
        table[:, 0] *= unit
        with np.errstate(over="ignore", invalid="ignore"):
            excess = solve(_power_law(a, decay), noise, table, prepared)
            bounded = np.where(excess < DIVERGED, excess, DIVERGED)  # also for NaN
        return np.column_stack([np.ones_like(bounded), bounded])

    def _single(
        self, spectrum: Spectrum, noise: float, table: FloatArray, run: Updates
    ) -> FloatArray:
        """The excess at the measured steps, update by update."""
        rule, T = self.rule, run.rates.size
        sizes, last = run.batches[None], running_readout(None, T)
        mu, multiplicity, energy = spectrum
        if isinstance(rule, Adam):
            out = np.empty((1, T + 1, 2))
            adam_diagonal.diagonal_moments(
                mu, multiplicity, energy, noise, table, last, rule.eps, True, 1.0 / sizes, out
            )
        else:
            out = np.empty((1, T + 1, 3))
            state, gamma = (mu, multiplicity, energy, noise), table[:, 0].copy()
            if rule.plain:
                moments.one_pass_moments(*state, gamma, sizes, out)
            else:
                moments.general_moments(*state, rule.coefficients(gamma), sizes, last, out)
        excess: FloatArray = out[0, run.steps].sum(axis=1)
        return excess

    def _merged(
        self, spectrum: Spectrum, noise: float, table: FloatArray, run: Updates
    ) -> FloatArray:
        """The same on merged rows; infinite where a direction of SGD is unstable."""
        mu, multiplicity, energy = spectrum
        adaptive = isinstance(self.rule, Adam)
        eps = self.rule.eps if isinstance(self.rule, Adam) else 0.0
        saved = np.empty((run.ends.size, 2, mu.size + 1))
        final = merged_steps.merged_excess(
            mu, multiplicity, energy, noise, table, self._momentum, eps, adaptive, run.shares, saved
        )
        if not math.isfinite(final):
            return np.full(run.steps.size, math.inf)
        variance, mean = np.moveaxis(saved[np.searchsorted(run.ends, run.steps), :, :-1], 1, 0)
        excess: FloatArray = (variance + mean**2) @ (multiplicity * mu)
        return excess

    @property
    def _momentum(self) -> float:
        return float(self.rule.beta1 if isinstance(self.rule, Adam) else self.rule.momentum)

    def split(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        level, scale, a, b, unit, noise = theta
        return np.array([level, scale]), np.array([a, b - 1.0, unit, noise])

    def join(self, amplitudes: FloatArray, shape: FloatArray) -> FloatArray:
        a, decay, unit, noise = shape
        return np.array([*amplitudes, a, 1.0 + decay, unit, noise])


@lru_cache(maxsize=16)
def _power_law(a: float, decay: float) -> Spectrum:
    """The nodes' eigenvalues, multiplicities and target energies, for a signal of 1."""
    nodes = truncation_nodes(a, 1.0 + decay, DIRECTIONS, NODES)
    mu, energy, multiplicity = nodes.eigenvalues, nodes.target_energy, nodes.multiplicity
    return mu, multiplicity, energy / float(multiplicity @ (mu * energy))


def _means(values: FloatArray, ends: IntArray) -> FloatArray:
    """The mean within every row."""
    sums: FloatArray = np.add.reduceat(values, ends[:-1])
    return sums / np.diff(ends)
