"""The functional scaling law in its practical form: falls of the rate weighted by their time."""

from __future__ import annotations

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.from_data.laws.published.base import PublishedLaw, Shape, warmup
from batchlaw.from_data.laws.published.pieces import Changes, changes, rows


class FunctionalScalingLaw(PublishedLaw):
    r"""Li et al. 2025, for one model and one batch size.

    L(n) = L0 + c1 T^-s
           - c2 sum_{i<=n} (g_{i-1} - g_i) (c3 + T_i^-s) (1 - (1 + c4 (T - T_i))^-gamma),

    where T_i = g_1 + ... + g_i is the intrinsic time after update i, and T = T_n. The warmup counts
    in T; its rises do not count in the sum, in which T_i^-s would let the first ones decide.
    """

    name = "functional scaling law"
    summary = "a power law in intrinsic time, less what falls of the rate gain by their time"
    source = "Li et al., NeurIPS 2025, arXiv 2509.19189"
    parameters = ("L0", "c1", "s", "c2", "c3", "c4", "gamma")

    def shapes(self, peak: float) -> tuple[Shape, ...]:
        """s, c4, gamma; c4 starts where c4 T is 1 after 10, 100 or 1000 updates at the peak."""
        return (
            Shape((0.2, 0.4, 0.7, 1.1), 0.01, 5.0),
            Shape((1e-3 / peak, 1e-2 / peak, 1e-1 / peak), 1e-7 / peak, 1e4 / peak),
            Shape((0.3, 0.8, 2.0), 1e-3, 100.0),
        )

    def prepare(self, rates: FloatArray, batches: FloatArray, steps: IntArray) -> Changes:
        return changes(rates, steps, after=warmup(rates))

    def terms(self, shape: FloatArray, prepared: Changes) -> FloatArray:
        s, c4, gamma = shape
        p = prepared
        with np.errstate(divide="ignore"):  # before the first update
            forward = p.clock_then**-s
        weights = -np.column_stack([p.size, p.size * p.clock**-s])
        gain = np.zeros((p.clock_then.size, 2))
        for block, pieces in rows(p.known):
            time_since = np.maximum(p.clock_then[block, None] - p.clock[pieces], 0.0)
            gain[block] = np.expm1(-gamma * np.log1p(c4 * time_since)) @ weights[pieces]
        return np.column_stack([np.ones_like(forward), forward, gain])

    def split(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        level, c1, s, c2, c3, c4, gamma = theta
        return np.array([level, c1, c2 * c3, c2]), np.array([s, c4, gamma])

    def join(self, amplitudes: FloatArray, shape: FloatArray) -> FloatArray:
        level, c1, both, c2 = amplitudes
        s, c4, gamma = shape
        return np.array([level, c1, s, c2, both / c2, c4, gamma])
