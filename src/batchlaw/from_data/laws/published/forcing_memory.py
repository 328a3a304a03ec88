"""The forcing-memory law of SGD: rates and batches, through their ratio alone."""

from __future__ import annotations

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.from_data.laws.published.base import PublishedLaw, Shape
from batchlaw.from_data.laws.published.pieces import Stretches, rows, stretches

# So near to 1 the integral of a power is a logarithm.
NEAR_ONE = 1e-7


class ForcingMemoryLaw(PublishedLaw):
    r"""Wang, Liu and Chen 2026, equation 5.3.

    L(T) = Linf + AF (1 + T)^-qF
           + int_0^T (A0 + A1 (1 + u)^-qF) / r(u) (1 + cK (T - u))^-qK du,

    where T = g_1 + ... + g_n and r = B_k / g_k during update k. The 1 of 1 + T is in the unit of
    the rates, as in the paper, which is about SGD. The warmup counts as any other update.
    """

    name = "forcing-memory law"
    summary = "SGD's law in the sum of rates and in batch over rate"
    source = "Wang, Liu and Chen, 2026, arXiv 2609.40148"
    parameters = ("Linf", "AF", "qF", "A0", "A1", "cK", "qK")

    def shapes(self, peak: float) -> tuple[Shape, ...]:
        """qF, cK, qK; the authors find qF of 0.3 to 0.4 and qK near 1."""
        return (
            Shape((0.3, 0.8, 2.0), 0.01, 100.0),
            Shape((1e-3 / peak, 1e-2 / peak, 1e-1 / peak), 1e-7 / peak, 1e4 / peak),
            Shape((0.5, 1.0, 2.0), 1e-3, 100.0),
        )

    def prepare(self, rates: FloatArray, batches: FloatArray, steps: IntArray) -> Stretches:
        return stretches(rates, batches, steps)

    def terms(self, shape: FloatArray, prepared: Stretches) -> FloatArray:
        q_forcing, c, q_memory = shape
        p = prepared
        forcing = (1.0 + p.clock_then) ** -q_forcing
        # Noise for each unit of the clock; where the rate is 0 there is none.
        length = np.diff(p.bounds)
        injected = np.divide(p.noise, length, out=np.zeros_like(length), where=length > 0.0)
        middle = 0.5 * (p.bounds[1:] + p.bounds[:-1])
        weights = np.column_stack([injected, injected * (1.0 + middle) ** -q_forcing])
        noise = np.zeros((p.clock_then.size, 2))
        for block, pieces in rows(p.known):
            edges = p.bounds[: pieces.stop + 1]
            since = np.maximum(p.clock_then[block, None] - edges, 0.0)
            survived = -np.diff(_integral(c * since, q_memory), axis=1) / c
            noise[block] = survived @ weights[pieces]
        return np.column_stack([np.ones_like(forcing), forcing, noise])

    def split(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        return theta[[0, 1, 3, 4]], theta[[2, 5, 6]]

    def join(self, amplitudes: FloatArray, shape: FloatArray) -> FloatArray:
        level, forcing, noise, error = amplitudes
        q_forcing, c, q_memory = shape
        return np.array([level, forcing, q_forcing, noise, error, c, q_memory])


def _integral(x: FloatArray, q: float) -> FloatArray:
    """The integral of (1 + v)^-q from 0 to x."""
    if abs(1.0 - q) < NEAR_ONE:
        return np.log1p(x)
    return np.asarray(np.expm1((1.0 - q) * np.log1p(x)) / (1.0 - q))
