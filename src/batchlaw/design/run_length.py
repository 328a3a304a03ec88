"""For a fixed number of samples: how many updates, at which rate, and in how much time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError, Unstable
from batchlaw.batches.allocation import allocate
from batchlaw.influences.weights import influence
from batchlaw.model.problem import Problem
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.risk.result import Risk
from batchlaw.schedule.rates import wsd

# (steps, peak) -> (steps,) rates
Shape = Callable[[int, float], FloatArray]

# The fewest updates of a WSD schedule with a tenth of warmup.
MIN_STEPS = 10
# A search evaluates every horizon of an interval this short.
EXHAUSTIVE_WIDTH = 64


@dataclass(frozen=True)
class CostModel:
    """Wall-clock time of a run.

    A batch is processed in waves of ``width`` samples, the last one perhaps not full.

    Parameters
    ----------
    step_seconds
        Time of one wave.
    sample_seconds
        Additional time per sample.
    width
        Samples processed in parallel; None where any batch is one wave.
    """

    step_seconds: float = 1.0
    sample_seconds: float = 0.0
    width: int | None = None

    def __post_init__(self) -> None:
        checks.real("step_seconds", self.step_seconds, at_least=0.0)
        checks.real("sample_seconds", self.sample_seconds, at_least=0.0)
        if self.width is not None:
            checks.count("width", self.width)

    @classmethod
    def measured(cls, seconds: Mapping[int, float]) -> CostModel:
        """From the time of an update at two batch sizes; any batch is one wave.

        Parameters
        ----------
        seconds
            Batch size to seconds.
        """
        if len(seconds) != 2:
            raise InputError("step_seconds", "must be at two batch sizes", f"{len(seconds)}")
        (small, short), (large, long) = sorted(seconds.items())
        per_sample = (long - short) / (large - small)
        if not 0.0 <= per_sample * small <= short:
            needed = "must grow with the batch, and not faster than it"
            raise InputError("step_seconds", needed, f"{small}:{short:g},{large}:{long:g}")
        return cls(short - per_sample * small, per_sample)

    def seconds(self, batches: FloatArray) -> float:
        """Time of a run with these batches."""
        waves = np.ones_like(batches) if self.width is None else np.ceil(batches / self.width)
        return float(self.step_seconds * waves.sum() + self.sample_seconds * batches.sum())


@dataclass(frozen=True, eq=False)
class RunChoice:
    """One horizon and peak rate with the best whole batches by influence, exact risk and cost."""

    steps: int
    peak: float
    rates: FloatArray
    batches: FloatArray
    risk: Risk
    seconds: float

    @property
    def total(self) -> float:
        """Total risk."""
        return float(self.risk.total)


def evaluate(
    problem: Problem,
    samples: int,
    steps: int,
    peak: float,
    *,
    shape: Shape = wsd,
    cost: CostModel | None = None,
    max_batch: int | None = None,
) -> RunChoice | None:
    """Exact one-pass risk of the best whole batches at a horizon; None where it diverges."""
    rates = shape(steps, peak)
    try:
        kappa = influence(problem, rates)
        batches = np.asarray(allocate(kappa, samples, max_batch=max_batch), dtype=np.float64)
        risk = one_pass_risk(problem, rates, batches)
    except Unstable:
        return None
    return RunChoice(steps, peak, rates, batches, risk, (cost or CostModel()).seconds(batches))


def best_run_length(
    problem: Problem, samples: int, peak: float, *, shape: Shape = wsd, points: int = 40
) -> RunChoice:
    """The best number of updates for N = ``samples``, each with its best whole batches.

    Fewer updates have less noise and more bias (the horizon-noise trade-off of theorem 1).
    Searched on a grid of horizons, then among whole numbers around the best of them.

    Parameters
    ----------
    problem
        Spectrum, target and noise.
    samples
        Samples N that every run spends.
    peak
        Highest rate.
    shape
        Rate schedule: a function of (steps, peak).
    points
        Horizons on the grid, from 10 to N.
    """
    choices = _horizons(problem, samples, lambda steps: peak, shape, points, None)
    totals = {choice.steps: choice.total for choice in choices}
    grid = sorted(totals)
    best_index = grid.index(min(grid, key=totals.__getitem__))
    low, high = grid[max(best_index - 1, 0)], grid[min(best_index + 1, len(grid) - 1)]

    def loss(steps: int) -> float:
        if steps not in totals:
            choice = evaluate(problem, samples, steps, peak, shape=shape)
            totals[steps] = math.inf if choice is None else choice.total
        return totals[steps]

    # Ternary search by hand: horizons are whole numbers, and each is evaluated only once.
    while high - low > EXHAUSTIVE_WIDTH:
        third = (high - low) // 3
        if loss(low + third) < loss(high - third):
            high -= third
        else:
            low += third
    # Rounding of phases and batches makes the minimum rough: try every horizon near it.
    for steps in range(low, high + 1):
        loss(steps)
    best = evaluate(problem, samples, min(totals, key=totals.__getitem__), peak, shape=shape)
    assert best is not None  # the grid has a stable horizon
    return best


def best_run_length_and_rate(
    problem: Problem, samples: int, *, shape: Shape = wsd, points: int = 20
) -> RunChoice:
    """The best pair (T, gamma) for N = ``samples``, each with its best whole batches.

    Parameters
    ----------
    problem
        Spectrum, target and noise.
    samples
        Samples N that every run spends.
    shape
        Rate schedule: a function of (steps, peak).
    points
        Horizons on the grid, from 10 to N.
    """
    choices = run_length_choices(problem, samples, shape=shape, points=points)
    best = min(choices, key=lambda choice: choice.total)
    # The grid of horizons is coarse: search between its points at the best rate.
    finer = best_run_length(problem, samples, best.peak, shape=shape, points=points)
    return min(best, finer, key=lambda choice: choice.total)


def frontier(
    problem: Problem,
    samples: int,
    cost: CostModel,
    *,
    shape: Shape = wsd,
    points: int = 20,
) -> list[RunChoice]:
    """Choices that no other beats in both risk and wall-clock time, fastest first.

    With a parallel width, every horizon is also tried with batches capped at each number of
    waves, down to the fewest that hold all samples: a lower cap is faster and noisier.

    Parameters
    ----------
    problem
        Spectrum, target and noise.
    samples
        Samples N that every run spends.
    cost
        Wall-clock time of a run.
    shape
        Rate schedule: a function of (steps, peak).
    points
        Horizons on the grid, from 10 to N.
    """
    choices = run_length_choices(problem, samples, shape=shape, points=points, cost=cost)
    for choice in tuple(choices):
        for cap in _caps(choice, cost):
            capped = evaluate(
                problem, samples, choice.steps, choice.peak, shape=shape, cost=cost, max_batch=cap
            )
            choices += [] if capped is None else [capped]
    kept: list[RunChoice] = []
    for choice in sorted(choices, key=lambda c: (c.seconds, c.total)):
        if not kept or choice.total < kept[-1].total:
            kept.append(choice)
    return kept


def _caps(choice: RunChoice, cost: CostModel) -> list[int]:
    """Batches of whole waves, below the largest of the choice, that can still hold all samples."""
    if cost.width is None:
        return []
    most = math.ceil(float(choice.batches.max()) / cost.width)
    least = math.ceil(float(choice.batches.mean()) / cost.width)
    return [waves * cost.width for waves in range(least, most)]


def run_length_choices(
    problem: Problem,
    samples: int,
    *,
    shape: Shape = wsd,
    points: int = 20,
    cost: CostModel | None = None,
) -> list[RunChoice]:
    """The best rate of every horizon on a grid, to 0.1 per cent.

    Parameters
    ----------
    problem
        Spectrum, target and noise.
    samples
        Samples N that every run spends.
    shape
        Rate schedule: a function of (steps, peak).
    points
        Horizons on the grid, from 10 to N.
    cost
        Wall-clock time of a run; one second per update by default.
    """
    from scipy.optimize import minimize_scalar

    top = math.log(2.0 / float(problem.eigenvalues[0])) - 1e-9

    def best_peak(steps: int) -> float:
        def loss(log_peak: float) -> float:
            choice = evaluate(problem, samples, steps, math.exp(log_peak), shape=shape)
            # Diverging runs: above any logarithm of a risk, and falling towards stable rates.
            return 1e3 + log_peak if choice is None else math.log(choice.total)

        bounds = top - math.log(1e4), top
        return math.exp(minimize_scalar(loss, bounds=bounds, options={"xatol": 1e-3}).x)

    return _horizons(problem, samples, best_peak, shape, points, cost)


def _horizons(
    problem: Problem,
    samples: int,
    peak_at: Callable[[int], float],
    shape: Shape,
    points: int,
    cost: CostModel | None,
) -> list[RunChoice]:
    samples = checks.count("samples", samples, minimum=MIN_STEPS)
    grid = np.unique(np.geomspace(MIN_STEPS, samples, checks.count("points", points)).astype(int))
    choices = (
        evaluate(problem, samples, int(steps), peak_at(int(steps)), shape=shape, cost=cost)
        for steps in grid
    )
    kept = [choice for choice in choices if choice is not None]
    if not kept:
        raise Unstable(
            "peak", f"is stable for no run length of {samples} samples", subject="this rate"
        )
    return kept
