"""Influence at a few steps for many spectra, from tables of f_t over a grid of eigenvalues."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray

# Steps at which a band is computed; its width is interpolated in between.
KNOTS = 33
# Eigenvalues of the tables: how many, and the smallest as a share of the largest.
NODES, SMALLEST_SHARE = 1024, 1e-8
# Clips log f_t / x^2 so that its exponential neither underflows nor, if rates are unstable,
# overflows.
LOG_UNDERFLOW = -600.0


@dataclass(frozen=True, eq=False)
class KnotTable:
    """log f_t(x) / x^2 = sum_{s>t} log (1 - gamma_s x)^2 at knots t and nodes x.

    Attributes
    ----------
    rates : (T,) array
        gamma_t.
    knots : (K,) array
        Steps t, counted from 0.
    nodes : (X,) array
        Increasing eigenvalues.
    survival, slope : (K, X) arrays
        log f_t(x) / x^2 and its derivative in x.
    """

    rates: FloatArray
    knots: FloatArray
    nodes: FloatArray
    survival: FloatArray
    slope: FloatArray

    @classmethod
    def of(cls, rates: FloatArray, largest: float) -> KnotTable:
        """Tables for eigenvalues up to ``largest``."""
        knots = np.unique(np.linspace(0, rates.size - 1, KNOTS).astype(np.int64))
        nodes = largest * np.geomspace(SMALLEST_SHARE, 1.0, NODES)
        survival = np.zeros((knots.size, NODES))
        for k in range(knots.size - 2, -1, -1):
            survival[k] = survival[k + 1]
            for gamma in rates[knots[k] + 1 : knots[k + 1] + 1]:
                survival[k] += 2.0 * np.log(np.abs(1.0 - gamma * nodes) + 1e-300)
        survival = np.clip(survival, LOG_UNDERFLOW, -LOG_UNDERFLOW)
        slope = np.asarray(np.gradient(survival, nodes, axis=1))
        return cls(rates, knots.astype(np.float64), nodes, survival, slope)

    def values_and_slopes(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """f_t and f_t' at eigenvalues x: (K, M) arrays."""
        log_x, nodes = np.log(x), np.log(self.nodes)
        survival = np.exp([np.interp(log_x, nodes, row) for row in self.survival])
        log_slope = np.array([np.interp(log_x, nodes, row) for row in self.slope])
        value = x**2 * survival
        return value, 2.0 * x * survival + value * log_slope

    def log_influence(self, eigenvalues: FloatArray, multiplicity: FloatArray) -> FloatArray:
        """log tr f_t(Sigma) at the knots."""
        value, _ = self.values_and_slopes(eigenvalues)
        return np.log(np.maximum(value @ multiplicity, math.exp(LOG_UNDERFLOW)))

    def everywhere(self, values: FloatArray) -> FloatArray:
        """Values at the knots, interpolated to all steps."""
        return np.interp(np.arange(self.rates.size), self.knots, values)

    def log_shape(self, log_influence: FloatArray) -> FloatArray:
        """log of sqrt(kappa_t / gamma_t^2) over the mean of sqrt(kappa_t), at the knots."""
        level = float(log_influence.max())
        mean = np.mean(self.rates * np.exp(0.5 * (self.everywhere(log_influence) - level)))
        return np.asarray(0.5 * (log_influence - level) - math.log(mean))

    def shape_moves(self, log_influence: FloatArray, moves: FloatArray) -> FloatArray:
        """Changes of log_shape, (n, K), if log_influence changes by ``moves``, (n, K)."""
        level = float(log_influence.max())
        root = self.rates * np.exp(0.5 * (self.everywhere(log_influence) - level))
        shares = np.array([root @ self.everywhere(hat) for hat in np.eye(self.knots.size)])
        mean = moves @ (shares / shares.sum())
        return np.asarray(0.5 * (moves - mean[:, None]))

    def widest(
        self, low: FloatArray, high: FloatArray, samples: int
    ) -> tuple[FloatArray, FloatArray]:
        """The widest bounds among knots that the data cannot tell apart.

        f_t depends on eigenvalues through their products with the later rates. Eigenvalues are
        known to a factor of about exp(sqrt(2/n)), half of it to either side; the step at which
        the first order of the error vanishes is uncertain by the same factor.
        """
        after = (self.rates.sum() - np.cumsum(self.rates))[self.knots.astype(np.int64)]
        factor = math.exp(0.5 * math.sqrt(2.0 / samples))
        near = after[:, None] <= factor * after + 1e-12 * after[0]
        near &= near.T
        return (
            np.array([[row[near[k]].min() for k in range(row.size)] for row in low]),
            np.array([[row[near[k]].max() for k in range(row.size)] for row in high]),
        )
