"""Laws that the benchmark of batch schedules is scored with: baselines for a law of your own.

Each is fitted to the runs of constant batches of one model and optimizer, and predicts the final
loss of any rates and batches. Bands are as wide as the law misses the constant batches, no more:
they show whether that is enough.
"""

import itertools
import math
from collections import defaultdict

import numpy as np
from scipy import optimize

import batchlaw as bl
from batchlaw.design.plan_cases import Rows, excess_on_rows
from batchlaw.evidence.study.schedules import noise_influence
from batchlaw.from_data.laws.mechanistic import MechanisticLaw

# Half a band of 90 % in standard deviations, for a difference of two losses.
WIDTH = 1.645 * math.sqrt(2.0)
# The pilot whose spectrum stands for a model and its optimizer.
PILOT_RATES = "wsd-linear"
MERGED_ROWS = 150


class NoPilotError(Exception):
    """The blocks have no pilot of this model and optimizer, so the law cannot be fitted."""


class NoEffect:
    """Only the rates matter: every difference is zero."""

    def fit(self, runs):
        self.loss = float(np.mean([run.final_loss for run in runs]))

    def predict(self, rates, batches):
        return self.loss


def with_band(law, run, constant):
    """The difference of two predictions, with a band from the errors of the law's own fit."""
    change = law.predict(run.rates, run.batches) - law.predict(constant.rates, constant.batches)
    return change, change - WIDTH * law.rms, change + WIDTH * law.rms


class Influence:
    """SGD's law: loss = L + s sum_t kappa_t / (2 B_t), kappa from a pilot's measured spectrum.

    For AdamW the influence is that of SGD in Adam's scales, frozen where the pilot ended.
    ``scaled`` fits s to what constant batches of other sizes do; else s = 1, as measured.
    """

    def __init__(self, folder, scaled):
        self.folder, self.scaled = folder, scaled

    def fit(self, runs):
        self.optimizer = runs[0].facts["optimizer"]
        self.spectrum = pilot_of(runs, self.folder)
        noise = np.array([self._noise(run.rates, run.batches) for run in runs])
        losses = np.array([run.final_loss for run in runs])
        level, mean = float(losses.mean()), float(noise.mean())
        # Rates have a level of their own, so that only sizes decide on s.
        shapes = np.array([run.facts["rates"] for run in runs])
        for shape in set(shapes):
            noise[shapes == shape] -= noise[shapes == shape].mean()
            losses[shapes == shape] -= losses[shapes == shape].mean()
        self.scale = 1.0
        if self.scaled:
            self.scale = max(float(noise @ losses) / float(noise @ noise), 0.0)
        self.level = level - self.scale * mean
        self.rms = float(np.sqrt(np.mean((losses - self.scale * noise) ** 2)))

    def _noise(self, rates, batches):
        return 0.5 * float((noise_influence(self.spectrum, self.optimizer, rates) / batches).sum())

    def predict(self, rates, batches):
        return self.level + self.scale * self._noise(rates, batches)

    def difference(self, run, constant):
        return with_band(self, run, constant)


class MeanField:
    """loss = L + s excess of linear regression with the pilot's spectrum, under the real optimizer.

    Adam's mean field in a generic basis, or SGD's exact recursion, on merged updates. Fitted to
    constant batches: the unit of the rates, the exponent of the target's energy over the ranks,
    the label noise, L and s.
    """

    # log of the rates' unit, exponent of the energy less 1, log of the noise over the signal.
    GRID = np.arange(-6.0, 6.1, 1.0), (0.15, 0.4, 0.8, 1.4), (-4.0, -1.0, 2.0, 5.0)
    BOUNDS = (-8.0, 0.02, -8.0), (8.0, 3.0, 8.0)
    STARTS = 4

    def __init__(self, folder):
        self.folder = folder

    def fit(self, runs):
        nodes = pilot_of(runs, self.folder).nodes()
        self.rule = runs[0].rule
        self.mu, self.count = nodes.eigenvalues, nodes.multiplicity
        self.rank = np.cumsum(self.count) - 0.5 * (self.count - 1.0)
        self.unit = 1.0 / (float(self.mu[0]) * max(run.rates.max() for run in runs))
        groups = by_schedule(runs)
        losses = np.array([np.mean([run.final_loss for run in group]) for group in groups])

        def residuals(theta):
            excess = np.array([self._excess(theta, g[0].rates, g[0].batches) for g in groups])
            if not np.isfinite(excess).all():
                return np.full(losses.size, 10.0)
            self.linear = optimize.nnls(np.column_stack([excess, np.ones_like(excess)]), losses)[0]
            return self.linear[0] * excess + self.linear[1] - losses

        grid = sorted(itertools.product(*self.GRID), key=lambda x: np.square(residuals(x)).sum())
        fits = [
            optimize.least_squares(
                residuals, start, bounds=self.BOUNDS, max_nfev=60, diff_step=1e-3
            )
            for start in grid[: self.STARTS]
        ]
        best = min(fits, key=lambda fit: fit.cost)
        self.theta = best.x
        self.rms = math.sqrt(np.mean(residuals(best.x) ** 2))

    def _excess(self, theta, rates, batches):
        scale, decay, noise = theta
        energy = self.rank ** -(1.0 + decay) / self.mu
        signal = float(self.count @ (self.mu * energy))
        problem = bl.Problem.from_spectrum(
            self.mu, energy / signal, math.exp(noise), multiplicity=self.count
        )
        rows = Rows.of(rates.size, MERGED_ROWS)
        table = rows.table(math.exp(scale) * self.unit * rates, self.rule)
        return excess_on_rows(problem, table, self.rule, 1.0 / rows.mean(batches))

    def predict(self, rates, batches):
        return float(self.linear @ [self._excess(self.theta, rates, batches), 1.0])

    def difference(self, run, constant):
        return with_band(self, run, constant)


class OnNodes:
    """The same theory without a pilot, on a power law: fitted to whole curves, means over seeds."""

    def fit(self, runs):
        means = [
            bl.Run(
                group[0].rates,
                group[0].batches,
                group[0].steps,
                np.mean([run.losses for run in group], axis=0),
            )
            for group in by_schedule(runs)
        ]
        self.law = MechanisticLaw(runs[0].rule).fit(means)
        errors = [self.predict(run.rates, run.batches) - run.final_loss for run in means]
        self.rms = math.sqrt(np.mean(np.square(errors)))

    def predict(self, rates, batches):
        return self.law.predict(rates, batches)

    def difference(self, run, constant):
        return with_band(self, run, constant)


class Fitted:
    """bl.fit_law: its form chosen by schedules left out, with its own band."""

    def fit(self, runs):
        self.law = bl.fit_law(runs)

    def predict(self, rates, batches):
        return self.law.predict(rates, batches).final

    def difference(self, run, constant):
        return self.law.difference(
            (run.rates, run.batches), (constant.rates, constant.batches), level=0.9
        )


def by_schedule(runs):
    """Runs with the same rates and batches, whatever their seeds."""
    groups = defaultdict(list)
    for run in runs:
        groups[run.facts["rates"], run.facts["schedule"]].append(run)
    return list(groups.values())


def baselines(folder=None):
    """Law's name -> a function that makes it; ``folder`` has blocks that are not the package's."""
    return {
        "no effect": NoEffect,
        "SGD's influence, measured": lambda: Influence(folder, scaled=False),
        "SGD's influence, scaled": lambda: Influence(folder, scaled=True),
        "mean field of a pilot's spectrum": lambda: MeanField(folder),
        "Adam's mean field on nodes": OnNodes,
        "bl.fit_law": Fitted,
    }


def pilot_of(runs, folder):
    """The spectrum of a pilot of the same model and optimizer."""
    for block in sorted({run.facts["block"] for run in runs}):
        try:
            return bl.datasets.pilot_spectrum(block, PILOT_RATES, folder=folder)
        except bl.InputError:
            continue
    raise NoPilotError(f"no pilot of {runs[0].facts['task']}, {runs[0].facts['optimizer']}")
