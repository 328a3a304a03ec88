"""The momentum law: what falls of the rate gain comes in with a fixed memory, in steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.from_data.laws.published.base import PublishedLaw, Shape


class Falls(NamedTuple):
    """Sum of rates at the measured steps; fall of the rate at every update; the steps."""

    clock_then: FloatArray
    falls: FloatArray
    steps: IntArray


class MomentumLaw(PublishedLaw):
    r"""Tissue et al. 2024.

    L(n) = L0 + A S1^-alpha - C S2,  S1 = sum_{i<=n} g_i,  S2 = sum_{i<=n} m_i,
    m_i = lambda m_{i-1} + g_{i-1} - g_i.

    The warmup counts in both: its rises are negative falls. The authors fix lambda (0.99 to 0.999);
    here it is fitted.
    """

    name = "momentum law"
    summary = "a power law in the sum of rates, less the sum of a momentum of its falls"
    source = "Tissue et al., 2024, arXiv 2408.11029"
    parameters = ("L0", "A", "alpha", "C", "lambda")

    def shapes(self, peak: float) -> tuple[Shape, ...]:
        """alpha, and the memory 1 / (1 - lambda) in steps."""
        return (
            Shape((0.2, 0.3, 0.5, 0.8, 1.2), 0.01, 5.0),
            Shape((30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0), 1.5, 1e7),
        )

    def prepare(self, rates: FloatArray, batches: FloatArray, steps: IntArray) -> Falls:
        falls = -np.diff(rates, prepend=rates[0])
        return Falls(np.cumsum(np.append(0.0, rates))[steps], falls, steps)

    def terms(self, shape: FloatArray, prepared: Falls) -> FloatArray:
        from scipy import signal

        alpha, memory = shape
        clock_then, falls, steps = prepared
        with np.errstate(divide="ignore"):  # before the first update
            forward = clock_then**-alpha
        momentum = signal.lfilter([1.0], [1.0, -(1.0 - 1.0 / memory)], falls)
        area = np.cumsum(np.append(0.0, momentum))[steps]
        return np.column_stack([np.ones_like(area), forward, -area])

    def split(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        return theta[[0, 1, 3]], np.array([theta[2], 1.0 / (1.0 - theta[4])])

    def join(self, amplitudes: FloatArray, shape: FloatArray) -> FloatArray:
        level, a, c = amplitudes
        return np.array([level, a, shape[0], c, 1.0 - 1.0 / shape[1]])
