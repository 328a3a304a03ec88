"""The project's own theory as a law of loss curves: a power law's recursion, fitted to runs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

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
# Runs of more updates are merged into about this many rows, and one more for each measured step.
SINGLE_UPDATES = 4000
ROWS, SEARCH_ROWS = 400, 100
# Stands for an excess that overflows; that of the start is 1.
DIVERGED = 1e6
# Starts: steps D mu_1 at the peak, and label noise in units of the signal in a mean batch.
STEPS = {SGD: (0.01, 0.05, 0.2, 0.8), Adam: (0.02, 0.1, 0.5, 2.5, 12.0)}
NOISE = (0.03, 0.3, 3.0, 30.0)


@dataclass(frozen=True, eq=False)
class Updates:
    """A run as far as its last measured step.

    Attributes
    ----------
    rates, batches : (T,) arrays
    steps : (n,) array
        Measured steps.
    ends : (R + 1,) array
        The last update of every row, from 0. All measured steps are among them.
    table : (R, k) array
        Rows of the compiled loop, with the rates as they are.
    """

    rates: FloatArray
    batches: FloatArray
    steps: IntArray
    ends: IntArray
    table: FloatArray

    @property
    def single(self) -> bool:
        """Whether every row is one update."""
        return self.ends.size == self.rates.size + 1


class MechanisticLaw(PublishedLaw):
    r"""loss(n) = L0 + s excess(n), the excess risk of linear regression with a power law's spectrum.

    Direction i of 4096, on 24 nodes, has the eigenvalue i^-a and the share i^-b / sum_k k^-b of the
    signal. Its label noise is ``noise`` times the signal, and its rates are ``unit`` times those of
    the run, so that ``unit`` times a rate is the rate times the largest eigenvalue. The excess is 1
    at the start. Decoupled weight decay shrinks by the run's own rates.

    The update rule is that of the runs. For SGD in all its forms the excess is the exact one of
    ``one_pass_risk``. For Adam it is the mean field in a generic basis (one v for all directions)
    with v at its mean. ``one_pass_risk`` also has a correction for v's spread, which is left out
    here: with 3000 updates and batches of 1 to 64 it changes the excess by SPREAD.

    Runs of up to 4000 updates are followed update by update. Longer ones are merged into about 400
    rows, which end at every measured step, so that nothing is interpolated: MERGED. There, momentum
    acts as its steady state.

    Parameters
    ----------
    rule : UpdateRule
        The optimizer of the runs: ``bl.sgd(...)`` or ``bl.adam(...)``, at the last iterate.
    """

    name = "mechanistic law"
    summary = "one-pass SGD or Adam's mean field on a power law's spectrum"
    source = "batchlaw"
    parameters = ("L0", "s", "a", "b", "unit", "noise")

    def __init__(self, rule: UpdateRule) -> None:
        if not isinstance(rule, (SGD, Adam)):
            raise InputError("rule", "must be bl.sgd(...) or bl.adam(...)", repr(rule)[:60])
        if rule.averages:
            raise InputError("rule", "must give the last iterate, not an average")
        if isinstance(rule, SGD) and np.ndim(rule.momentum):
            raise InputError("rule", "must have the same momentum at every update")
        self.rule = rule

    def problem(self, theta: ArrayLike) -> Problem:
        """The regression behind ``theta``; its rates are ``unit`` times those of the runs."""
        _, (a, decay, _, noise) = self.split(np.asarray(theta, dtype=np.float64))
        mu, multiplicity, energy = _power_law(a, decay)
        return Problem.from_spectrum(mu, energy, noise, multiplicity)

    def shapes(self, peak: float) -> tuple[Shape, ...]:
        """a, b - 1, unit and noise. Starts of the last two also need the batches: see `search`."""
        return (
            Shape((1.3, 1.8, 2.6), 1.1, 4.0),
            Shape((0.2, 0.5, 1.0), 0.01, 4.0),
            Shape((), 1e-8 / peak, 1e4 / peak),
            Shape((), 1e-6, 1e12),
        )

    def search(self, points: Points, prepared: list[Any], peak: float) -> Start:
        """The best four of a grid on merged rows; the best of these then with all rows."""
        coarse = [self._updates(run, SEARCH_ROWS) for run in prepared]

        def terms(shape: FloatArray) -> FloatArray:
            return np.vstack([self.terms(shape, run) for run in coarse])

        rough = replace(points, terms=terms)
        updates = sum(run.batches.size for run in prepared)
        batch = sum(float(run.batches.sum()) for run in prepared) / updates
        begun = [rough.best_amplitudes(shape) for shape in self._grid(peak, batch)]
        begun = sorted(begun, key=rough.objective)[:REFINED]
        return refine(points, [refine(rough, begun)])

    def _grid(self, peak: float, batch: float) -> list[FloatArray]:
        """Shapes to start from."""
        exponents, decays = (shape.starts for shape in self.shapes(peak)[:2])
        adaptive = isinstance(self.rule, Adam)
        grid = []
        for a, decay, step, share in itertools.product(
            exponents, decays, STEPS[type(self.rule)], NOISE
        ):
            noise = share * batch
            unit = step * (1.0 - self._momentum) / peak
            if adaptive:
                mu, multiplicity, _ = _power_law(a, decay)
                # The root of v midway, as noise and half of the signal make it.
                square = float(multiplicity @ mu) / DIRECTIONS * (share + 0.5 / batch)
                unit = step * np.sqrt(square) / peak
            grid.append(np.array([a, decay, unit, noise]))
        return grid

    def prepare(self, rates: FloatArray, batches: FloatArray, steps: IntArray) -> Updates:
        last = int(steps[-1])
        none = np.empty(0, dtype=np.int64)
        run = Updates(rates[:last], batches[:last], steps, none, np.empty((0, 0)))
        return self._updates(run, ROWS if last > SINGLE_UPDATES else last)

    def terms(self, shape: FloatArray, prepared: Updates) -> FloatArray:
        a, decay, unit, noise = shape
        spectrum = _power_law(float(a), float(decay))
        if prepared.single:
            excess = self._single(spectrum, noise, unit, prepared)
        else:
            excess = self._merged(spectrum, noise, unit, prepared)
        bounded = np.where(excess < DIVERGED, excess, DIVERGED)  # also where it is NaN
        return np.column_stack([np.ones_like(bounded), bounded])

    def _single(
        self, spectrum: Spectrum, noise: float, unit: float, run: Updates
    ) -> FloatArray:
        """The excess at the measured steps, update by update."""
        mu, multiplicity, energy = spectrum
        state, T = (mu, multiplicity, energy, noise), run.rates.size
        rule, gamma = self.rule, unit * run.rates
        last = running_readout(None, T)
        if isinstance(rule, Adam):
            out = np.empty((1, T + 1, 2))
            table = run.table.copy()
            table[:, 0] *= unit
            adam_diagonal.diagonal_moments(
                *state, table, last, rule.eps, True, 1.0 / run.batches[None], out
            )
        else:
            assert isinstance(rule, SGD)
            out = np.empty((1, T + 1, 3))
            if rule.plain:
                moments.one_pass_moments(*state, gamma, run.batches[None], out)
            else:
                rows = rule.coefficients(gamma), run.batches[None], last
                moments.general_moments(*state, *rows, out)
        return out[0, run.steps].sum(axis=1)

    def _merged(
        self, spectrum: Spectrum, noise: float, unit: float, run: Updates
    ) -> FloatArray:
        """The same on merged rows; infinite where a direction of SGD is unstable."""
        mu, multiplicity, energy = spectrum
        rule, size, rows = self.rule, mu.size, run.ends.size - 1
        table = run.table.copy()
        table[:, merged_steps.RATE] *= unit
        eps = rule.eps if isinstance(rule, Adam) else 0.0
        shares = np.add.reduceat(1.0 / run.batches, run.ends[:-1]) / table[:, merged_steps.COUNT]
        saved = np.empty((rows + 1, 2, size + 1))
        final = merged_steps.merged_excess(
            mu, multiplicity, energy, noise, table, self._momentum, eps, isinstance(rule, Adam),
            shares, saved,
        )  # fmt: skip
        if not np.isfinite(final):
            return np.full(run.steps.size, np.inf)
        known = saved[np.searchsorted(run.ends, run.steps), :, :size]
        excess: FloatArray = (known[:, 0] + known[:, 1] ** 2) @ (multiplicity * mu)
        return excess

    def _updates(self, run: Updates, most: int) -> Updates:
        """The run in about so many rows."""
        T = run.rates.size
        even = np.round(np.linspace(0.0, T, min(most, T) + 1)).astype(np.int64)
        ends = np.union1d(even, run.steps)
        return replace(run, ends=ends, table=self._table(run.rates, ends))

    def _table(self, rates: FloatArray, ends: IntArray) -> FloatArray:
        """Rows of `_single` or `_merged`."""
        rule, count = self.rule, np.diff(ends).astype(np.float64)
        if ends.size == rates.size + 1:
            return step_table(rates, rule) if isinstance(rule, Adam) else np.empty((0, 0))
        gamma, one = np.add.reduceat(rates, ends[:-1]) / count, np.ones_like(count)
        if not isinstance(rule, Adam):
            # The velocity sums gradients: its steady rate is gamma / (1 - beta).
            steady = gamma / (1.0 - self._momentum)
            return np.stack([steady, 0.0 * one, one, one, one, count], axis=1)
        corrections = [1.0 / (1.0 - beta ** ends[1:]) for beta in (rule.beta1, rule.beta2)]
        shrink, keep2 = gamma * rule.weight_decay, rule.beta2**count
        return np.stack([gamma, shrink, keep2, *corrections, count], axis=1)

    @property
    def _momentum(self) -> float:
        rule = self.rule
        return float(rule.beta1 if isinstance(rule, Adam) else rule.momentum)

    def split(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        level, scale, a, b, unit, noise = theta
        return np.array([level, scale]), np.array([a, b - 1.0, unit, noise])

    def join(self, amplitudes: FloatArray, shape: FloatArray) -> FloatArray:
        a, decay, unit, noise = shape
        return np.array([*amplitudes, a, 1.0 + decay, unit, noise])


Spectrum = tuple[FloatArray, FloatArray, FloatArray]


@lru_cache(maxsize=16)
def _power_law(a: float, decay: float) -> Spectrum:
    """Eigenvalues, multiplicities and target energies of the nodes, with a signal of 1."""
    nodes = truncation_nodes(a, 1.0 + decay, DIRECTIONS, NODES)
    mu, energy, multiplicity = nodes.eigenvalues, nodes.target_energy, nodes.multiplicity
    return mu, multiplicity, energy / float(multiplicity @ (mu * energy))
