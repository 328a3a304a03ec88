"""The multi-power law: what every fall of the rate gains, as a power law in the rate to come."""

from __future__ import annotations

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.from_data.laws.published.base import PublishedLaw, Shape
from batchlaw.from_data.laws.published.pieces import Changes, changes, rows

# Rates below it count as it; its largest power, the fifth, does not overflow.
SMALLEST = 1e-50


class MultiPowerLaw(PublishedLaw):
    r"""Luo et al. 2025, as in their code.

    L(n) = L0 + A S_1^-alpha - B sum_{k=2}^n (g_{k-1} - g_k) (1 - (1 + C g_k^-gamma S_k)^-beta),

    where g_k is the rate of update k and S_k = g_k + ... + g_n the rate since, that of update k
    included. The warmup counts in S_1, and its rises count as negative falls.
    """

    name = "multi-power law"
    summary = "a power law in the sum of rates, less one for every fall of the rate"
    source = "Luo et al., ICLR 2025, arXiv 2503.12811"
    parameters = ("L0", "A", "alpha", "B", "C", "beta", "gamma")

    def shapes(self, peak: float) -> tuple[Shape, ...]:
        """alpha, C, beta, gamma, around the start of the authors.

        The authors start at C = 1, beta = gamma = 0.5, with a peak of 3e-4.
        """
        memory = np.sqrt(3e-4 / peak)
        return (
            Shape((0.3, 0.5, 0.8), 0.01, 5.0),
            Shape((0.3 * memory, memory, 5.0 * memory), 1e-6 * memory, 1e6 * memory),
            Shape((0.3, 0.6), 1e-3, 100.0),
            Shape((0.5,), 1e-3, 5.0),
        )

    def prepare(self, rates: FloatArray, batches: FloatArray, steps: IntArray) -> Changes:
        return changes(rates, steps)

    def terms(self, shape: FloatArray, prepared: Changes) -> FloatArray:
        alpha, c, beta, gamma = shape
        p = prepared
        with np.errstate(divide="ignore"):  # before the first update
            forward = p.clock_then**-alpha
        # A rate of 0 has nothing to come that is its own: the bound only avoids 0 x infinity.
        inverse = c * np.maximum(p.level, SMALLEST) ** -gamma
        before = p.clock - p.level
        gain = np.zeros(p.clock_then.size)
        for block, pieces in rows(p.known):
            rate_since = np.maximum(p.clock_then[block, None] - before[pieces], 0.0)
            powers = np.expm1(-beta * np.log1p(inverse[pieces] * rate_since))
            gain[block] = powers @ -p.size[pieces]
        return np.column_stack([np.ones_like(gain), forward, gain])

    def split(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        return theta[[0, 1, 3]], theta[[2, 4, 5, 6]]

    def join(self, amplitudes: FloatArray, shape: FloatArray) -> FloatArray:
        level, a, b = amplitudes
        alpha, c, beta, gamma = shape
        return np.array([level, a, alpha, b, c, beta, gamma])
