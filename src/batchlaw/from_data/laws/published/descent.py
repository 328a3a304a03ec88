"""How the authors of the multi-power law fit it: a short descent from a simpler law."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.from_data.laws.published.fitting import (
    HUBER_DELTA,
    LEAST_SHARE,
    Points,
    Start,
    refine,
)
from batchlaw.from_data.laws.published.multi_power import MultiPowerLaw

# The authors' settings; their step sizes are for runs whose largest rate is THEIR_PEAK.
THEIR_PEAK = 3e-4
STEP_SIZES = np.array([5e-2, 5e-2, 5e-3, 5e-2, 5e-2, 5e-3, 5e-3])
FIRST_SHAPE = (1.0, 0.5, 0.5)
MOST_STEPS, PATIENCE = 200, 20
# AdamW as PyTorch has it.
BETA1, BETA2, EPS, WEIGHT_DECAY = 0.9, 0.999, 1e-8, 0.01
DIFFERENCE = 1e-6


class MultiPowerDescent(MultiPowerLaw):
    """The multi-power law with its authors' own fit.

    L0 + A S_1^-alpha - B (peak - g_n) is fitted first. From there, with C = 1 and beta = gamma =
    0.5, AdamW takes at most 200 steps in the parameters themselves and ends 20 steps after its
    best. B, in the hundreds, hardly moves in that time, and the least objective is not reached:
    on the authors' curves that is half as large or less, and predicts other schedules worse.
    Rates are measured in units in which their peak is that of the authors.
    """

    name = "multi-power law, authors' fit"
    summary = MultiPowerLaw.summary + "; a short descent that ends before the minimum"
    minimizes = False

    def search(self, points: Points, prepared: list[Any], peak: float) -> Start:
        unit = peak / THEIR_PEAK
        level, a, alpha, b = _simple_law(points, prepared, peak, unit)

        def predicted(theta: FloatArray) -> FloatArray:
            amplitudes, shape = self.split(_in_rates(theta, unit))
            return points.terms(shape) @ amplitudes

        theta = _adamw(points, predicted, np.array([level, a, alpha, b, *FIRST_SHAPE]))
        return self.split(_in_rates(theta, unit))


def _simple_law(points: Points, prepared: list[Any], peak: float, unit: float) -> FloatArray:
    """L0, A, alpha, B of the law in which a fall of the rate gains all at once."""
    clock = np.concatenate([run.clock_then for run in prepared]) / unit
    fallen = (peak - np.concatenate([run.rate_then for run in prepared])) / unit

    def terms(shape: FloatArray) -> FloatArray:
        return np.column_stack([np.ones_like(clock), clock ** -shape[0], -fallen])

    simple = Points(points.losses, terms, points.bounds[:1])
    starts = [simple.best_amplitudes(np.array([alpha])) for alpha in (0.2, 0.4, 0.6, 0.8)]
    (level, a, b), (alpha,) = refine(simple, starts)
    return np.array([level, a, alpha, b])


def _in_rates(theta: FloatArray, unit: float) -> FloatArray:
    """Parameters for rates in units of ``unit``, as parameters for the rates themselves."""
    level, a, alpha, b, c, beta, gamma = theta
    rescaled = [level, a * unit**alpha, alpha, b / unit, c * unit ** (gamma - 1.0), beta, gamma]
    return np.array(rescaled)


def _adamw(
    points: Points, predicted: Callable[[FloatArray], FloatArray], theta: FloatArray
) -> FloatArray:
    """The best of the parameters that AdamW passes through, from ``theta`` on."""
    first, second = np.zeros_like(theta), np.zeros_like(theta)
    best, least, best_step = theta, np.inf, 0
    for step in range(1, MOST_STEPS + 1):
        here = predicted(theta)
        error = points.log_errors(here)
        objective = points.huber(error)
        if objective < least:
            best, least, best_step = theta, objective, step
        if step - best_step >= PATIENCE:
            break
        pull = -np.clip(error, -HUBER_DELTA, HUBER_DELTA)
        pull /= np.maximum(here, LEAST_SHARE * points.losses)
        size = DIFFERENCE * np.maximum(np.abs(theta), DIFFERENCE)
        moved = theta + np.diag(size)
        gradient = np.array([pull @ (predicted(m) - here) for m in moved]) / size
        first += (1.0 - BETA1) * (gradient - first)
        second += (1.0 - BETA2) * (gradient**2 - second)
        mean, square = first / (1.0 - BETA1**step), second / (1.0 - BETA2**step)
        theta = theta * (1.0 - STEP_SIZES * WEIGHT_DECAY)
        theta = theta - STEP_SIZES * mean / (np.sqrt(square) + EPS)
    return best
