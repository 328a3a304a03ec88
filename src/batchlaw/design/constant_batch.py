"""One batch size for the whole run: which is best, and where more samples stop helping.

The static case of the one-pass theorem, B_t = B and T = N/B. Each function takes a model,
(updates, batch) -> ``Parts``: ``by_law`` is the theorem's display, ``exact`` the exact risk.
What is minimised is the reducible risk E R_M - sigma^2, the theorem's left side: the excess and
the approximation together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.design.noise_scale import noise_scales
from batchlaw.design.run_length import MIN_STEPS, Shape
from batchlaw.model.problem import Problem
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.schedule.rates import wsd

SMALLEST_SHARE = 1e-9
LARGEST_BATCH = 1e9
# A search over horizons stops at this ratio of its ends: the reducible risk is flat at its minimum.
BRACKET_RATIO = 1.002


@dataclass(frozen=True)
class Parts:
    """The reducible risk of a run with equal batches."""

    approximation: float
    bias: float
    variance: float

    @property
    def reducible(self) -> float:
        """Their sum, E R_M - sigma^2."""
        return self.approximation + self.bias + self.variance


# (updates, batch size) -> parts of the reducible risk
Model = Callable[[int, float], Parts]


@dataclass(frozen=True)
class BatchChoice:
    """A horizon T with its batch size N/T, not rounded, and the parts of its risk."""

    steps: int
    batch: float
    parts: Parts


@dataclass(frozen=True, eq=False)
class Curve:
    """The reducible risk against the batch size at a fixed N, and its minimum."""

    samples: int
    batches: FloatArray
    reducible: FloatArray
    best: BatchChoice


@dataclass(frozen=True)
class NoiseScale:
    """The gradient noise scale of the mean iterate, at the end and averaged over the rates."""

    final: float
    mean: float


@dataclass(frozen=True)
class Saturation:
    """Where a run of ``steps`` updates saturates, exactly and by the law, and its noise scale."""

    steps: int
    batch: float
    batch_by_law: float
    noise: NoiseScale


def by_law(
    a: float, b: float, sketch: float, peak: float, *, bias: float = 1.0, variance: float = 1.0
) -> Model:
    """The theorem's display as a model, with constants that may have been measured.

    ``Law.constants`` measures ``bias`` and ``variance``; the approximation's constant is 1.

    Parameters
    ----------
    a, b
        Exponents: eigenvalues fall as i^-a, the target's energy as i^-b.
    sketch
        Rows M of the sketch.
    peak
        Highest rate gamma.
    bias
        Constant of the bias.
    variance
        Constant of the variance.
    """
    a, b = checks.real("a", a, above=1.0), checks.real("b", b, above=1.0)
    gamma = checks.real("peak", peak, above=0.0)
    M = checks.real("sketch", sketch, at_least=1.0)
    bias = checks.real("bias", bias, above=0.0)
    variance = checks.real("variance", variance, above=0.0)

    def parts(steps: int, batch: float) -> Parts:
        time = steps / math.log(checks.count("steps", steps, minimum=3))
        directions = min(M, (gamma * time) ** (1.0 / a))
        return Parts(
            M ** (1.0 - b),
            bias * (gamma * steps) ** ((1.0 - b) / a),
            variance * directions / (time * batch),
        )

    return parts


def exact(problem: Problem, peak: float, *, shape: Shape = wsd) -> Model:
    """The exact one-pass risk as a model.

    Parameters
    ----------
    problem
        Spectrum, target and noise.
    peak
        Highest rate gamma.
    shape
        Rate schedule: a function of (steps, peak).
    """
    peak = checks.real("peak", peak, above=0.0)

    def parts(steps: int, batch: float) -> Parts:
        risk = one_pass_risk(problem, shape(steps, peak), np.full(steps, batch))
        return Parts(problem.approximation, float(risk.bias), float(risk.variance))

    return parts


def horizon_exponent(a: float, b: float) -> float:
    """The exponent e of the best horizon, T ~ N^e, up to logarithms and for M large: min(1, a/b).

    The bias falls like T^(-(b-1)/a) and the variance rises like T^(1/a)/N; they meet at
    T^(b/a) ~ N. For b < a that lies beyond N: single samples are best.
    """
    return min(1.0, checks.real("a", a, above=1.0) / checks.real("b", b, above=1.0))


def best_batch(model: Model, samples: int, *, points: int = 25) -> BatchChoice:
    """The horizon T, and so the batch N/T, with the smallest reducible risk for N samples.

    The best horizon on a grid, then golden section to 0.2 per cent in T.

    Parameters
    ----------
    model
        ``exact(...)`` or ``by_law(...)``.
    samples
        Samples N that every run spends.
    points
        Horizons on the grid, from 10 to N.
    """
    N = checks.count("samples", samples, minimum=MIN_STEPS)
    reducible = _reducible_at(model, N)
    grid = _horizons(N, points)
    best = int(np.argmin([reducible(int(steps)) for steps in grid]))
    low, high = int(grid[max(best - 1, 0)]), int(grid[min(best + 1, grid.size - 1)])
    steps = min(int(grid[best]), _golden_section(reducible, low, high), key=reducible)
    return BatchChoice(steps, N / steps, model(steps, N / steps))


def reducible_curve(model: Model, samples: int, *, points: int = 25) -> Curve:
    """The reducible risk against the batch size N/T, largest batch first, and its minimum.

    Parameters
    ----------
    model
        ``exact(...)`` or ``by_law(...)``.
    samples
        Samples N that every run spends.
    points
        Horizons T on the grid, from 10 to N.
    """
    N = checks.count("samples", samples, minimum=MIN_STEPS)
    reducible = _reducible_at(model, N)
    grid = _horizons(N, points)
    values = np.array([reducible(int(steps)) for steps in grid])
    return Curve(N, N / grid, values, best_batch(model, N, points=points))


def largest_harmless_batch(
    model: Model, samples: int, *, share: float = 0.1, best: BatchChoice | None = None
) -> BatchChoice:
    """The largest batch, and so the shortest run, within ``share`` of the best.

    Below the best horizon the reducible risk falls with T, so bisection finds it.

    Parameters
    ----------
    model
        ``exact(...)`` or ``by_law(...)``.
    samples
        Samples N that every run spends.
    share
        Relative increase of the reducible risk that is accepted.
    best
        Result of ``best_batch``, computed if not given.
    """
    N = checks.count("samples", samples, minimum=MIN_STEPS)
    share = checks.real("share", share, above=0.0)
    best = best_batch(model, N) if best is None else best
    reducible, allowed = _reducible_at(model, N), (1.0 + share) * best.parts.reducible
    low, high = MIN_STEPS - 1, best.steps
    # By hand, because T is a whole number; SciPy's bisection is for real numbers.
    while high - low > 1 and high > low * BRACKET_RATIO:
        middle = max(math.isqrt(low * high), low + 1)
        low, high = (low, middle) if reducible(middle) <= allowed else (middle, high)
    return BatchChoice(high, N / high, model(high, N / high))


def saturation_batch(model: Model, steps: int, *, share: float = 0.1) -> float:
    """The batch beyond which a run of T updates gains little from more samples.

    The smallest B (a real number, at least 1) at which the variance is at most ``share`` times
    approximation + bias, to 1e-12; infinite past 10^9. Approximation and bias do not depend on
    B, and the variance falls with it.

    Parameters
    ----------
    model
        ``exact(...)`` or ``by_law(...)``.
    steps
        Updates T.
    share
        Variance over approximation + bias at which the run counts as saturated.
    """
    from scipy.optimize import brentq

    share = checks.real("share", share, at_least=SMALLEST_SHARE)
    T = checks.count("steps", steps, minimum=MIN_STEPS)

    def variance_over_allowed(batch: float) -> float:
        parts = model(T, batch)
        allowed = share * (parts.approximation + parts.bias)
        return parts.variance / allowed if allowed > 0.0 else math.inf

    if variance_over_allowed(1.0) <= 1.0:
        return 1.0
    if variance_over_allowed(LARGEST_BATCH) > 1.0:
        return math.inf

    # In logarithms the variance is nearly a straight line: a few evaluations suffice.
    def log_ratio(log_batch: float) -> float:
        return math.log(variance_over_allowed(math.exp(log_batch)))

    return math.exp(brentq(log_ratio, 0.0, math.log(LARGEST_BATCH), xtol=1e-12))


def noise_scale(problem: Problem, rates: ArrayLike) -> NoiseScale:
    """``noise_scales`` before the last step, and its mean weighted by the rates.

    Known in practice as the critical batch size. It is a property of one step and of the
    spectrum's trace; ``saturation_batch`` is a property of the whole run. docs/laws.md compares
    them.
    """
    scale = noise_scales(problem, rates)
    return NoiseScale(float(scale[-1]), float(np.average(scale, weights=np.asarray(rates))))


def saturation(
    problem: Problem, law: Model, steps: int, peak: float, *, share: float = 0.1, shape: Shape = wsd
) -> Saturation:
    """``saturation_batch`` of the exact risk and of a law, with the noise scale.

    Parameters
    ----------
    problem
        Spectrum, target and noise.
    law
        ``by_law(...)`` of the same exponents.
    steps
        Updates T.
    peak
        Highest rate gamma.
    share
        Variance over approximation + bias at which the run counts as saturated.
    shape
        Rate schedule: a function of (steps, peak).
    """
    return Saturation(
        steps,
        saturation_batch(exact(problem, peak, shape=shape), steps, share=share),
        saturation_batch(law, steps, share=share),
        noise_scale(problem, shape(steps, peak)),
    )


def _horizons(samples: int, points: int) -> IntArray:
    points = checks.count("points", points, minimum=2)
    return np.unique(np.geomspace(MIN_STEPS, samples, points).round().astype(np.int64))


def _reducible_at(model: Model, samples: int) -> Callable[[int], float]:
    cache: dict[int, float] = {}

    def reducible(steps: int) -> float:
        if steps not in cache:
            cache[steps] = model(steps, samples / steps).reducible
        return cache[steps]

    return reducible


def _golden_section(reducible: Callable[[int], float], low: int, high: int) -> int:
    """Golden section over whole numbers, in their logarithm.

    Not ``scipy.optimize.minimize_scalar``, which is for real numbers: it would evaluate the
    same rounded T many times, and the last choice is among neighbours.
    """
    ratio = (math.sqrt(5.0) - 1.0) / 2.0
    while high - low > 2 and high > low * BRACKET_RATIO:
        left = round(low**ratio * high ** (1.0 - ratio))
        right = max(round(low ** (1.0 - ratio) * high**ratio), left + 1)
        low, high = (low, right) if reducible(left) <= reducible(right) else (left, high)
    return min(range(low, high + 1), key=reducible) if high - low <= 2 else low
