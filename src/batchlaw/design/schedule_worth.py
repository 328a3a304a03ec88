"""What a batch schedule is worth in the whole risk: the optimum against a constant batch.

The optimum is the best that any schedule of the same length and sum can do, so a setting where
it changes little is one where the batch may be left alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import InputError
from batchlaw._base.machine import cores
from batchlaw.design.optimum import optimal_batches
from batchlaw.design.run_length import Shape
from batchlaw.model.problem import Problem
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.schedule.rates import wsd
from batchlaw.schedule.update_rule import UpdateRule

# Nodes that stand for the spectrum in a map: its changes then err by less than 0.1 per cent.
NODES = 64


@dataclass(frozen=True)
class Worth:
    """Relative changes from a constant batch to the optimum of the same sum; none is above zero.

    Attributes
    ----------
    total
        Of the whole risk.
    excess
        Of the excess, the risk above that of the best predictor of the sketched model.
    noise
        Of the variance, the part that batches change.
    noise_share
        The variance as a share of the excess, with the constant batch.
    """

    total: float
    excess: float
    noise: float
    noise_share: float


@dataclass(frozen=True, eq=False)
class WorthMap:
    """``Worth`` over a grid of settings.

    Attributes
    ----------
    exponents
        Pairs (a, b): eigenvalues fall as i^-a, the target's energy as i^-b.
    sigmas
        Standard deviations of the label noise.
    steps : (T,) array
        Updates.
    peak
        Highest rate gamma of every run.
    batches : (B,) array
        Mean batch sizes.
    total, excess, noise, noise_share : (exponents, sigmas, T, B) arrays
        As in ``Worth``.
    """

    exponents: tuple[tuple[float, float], ...]
    sigmas: tuple[float, ...]
    steps: IntArray
    peak: float
    batches: IntArray
    total: FloatArray
    excess: FloatArray
    noise: FloatArray
    noise_share: FloatArray

    @property
    def horizons(self) -> FloatArray:
        """Steps times rate, gamma T."""
        return self.peak * self.steps.astype(np.float64)

    def largest_batch(self, gain: float) -> IntArray:
        """The largest batch of the grid at which the excess falls by at least ``gain``.

        (exponents, sigmas, T); zero where it does not at any batch.
        """
        gain = checks.real("gain", gain, above=0.0, at_most=1.0)
        largest = np.where(self.excess <= -gain, self.batches, 0).max(axis=-1)
        return np.asarray(largest, dtype=np.int64)

    def rows(self) -> list[dict[str, Any]]:
        """One row per setting."""
        axes = (range(n) for n in self.excess.shape)
        return [
            {
                "a": self.exponents[e][0],
                "b": self.exponents[e][1],
                "sigma": self.sigmas[s],
                "steps": int(self.steps[t]),
                "rate": self.peak,
                "steps_times_rate": float(self.horizons[t]),
                "batch": int(self.batches[k]),
                "total_change": float(self.total[e, s, t, k]),
                "excess_change": float(self.excess[e, s, t, k]),
                "noise_change": float(self.noise[e, s, t, k]),
                "noise_share_of_excess": float(self.noise_share[e, s, t, k]),
            }
            for e, s, t, k in itertools.product(*axes)
        ]


def worth(
    problem: Problem,
    rates: ArrayLike,
    budget: int,
    *,
    min_batch: int = 1,
    max_batch: int | None = None,
    rule: UpdateRule | None = None,
) -> Worth:
    """What the optimal batches change against a constant batch, at equal updates and samples.

    Batches need not be whole numbers here: with whole ones a schedule gains at most this.

    Parameters
    ----------
    problem
        Spectrum, target and noise.
    rates : (T,) array
        Step sizes gamma_t.
    budget
        Samples of each schedule.
    min_batch
        Smallest batch allowed.
    max_batch
        Largest batch allowed.
    rule
        The update rule, ``bl.sgd(...)``; plain SGD by default.
    """
    gamma = checks.vector("rates", rates)
    best = optimal_batches(
        problem, gamma, budget, min_batch=min_batch, max_batch=max_batch, integer=False, rule=rule
    )
    schedules = {"optimum": best.batches, "constant": np.full(gamma.size, budget / gamma.size)}
    risk = one_pass_risk(problem, gamma, schedules, rule=rule)
    variance, excess = np.asarray(risk.variance), np.asarray(risk.excess)
    if variance[1] == 0.0:
        return Worth(0.0, 0.0, 0.0, 0.0)
    total, above, noise = (
        risk.ratio(term, "optimum", "constant")[0] - 1.0 for term in ("total", "excess", "variance")
    )
    return Worth(total, above, noise, float(variance[1] / excess[1]))


def worth_map(
    exponents: Sequence[tuple[float, float]],
    sigmas: Sequence[float],
    steps: Sequence[int],
    batches: Sequence[int],
    *,
    peak: float,
    sketch: float = 10**6,
    shape: Shape = wsd,
    nodes: int = NODES,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> WorthMap:
    """``worth`` over exponents, noise levels, run lengths and batches, from the exact risk.

    Parameters
    ----------
    exponents
        Pairs (a, b).
    sigmas
        Standard deviations of the label noise.
    steps
        Updates of the runs.
    batches
        Mean batch sizes: a run has steps x batch samples.
    peak
        Highest rate gamma.
    sketch
        Rows M of the sketch, for which the problem is what a Gaussian sketch gives on average.
    shape
        Rate schedule: a function of (steps, peak).
    nodes
        Nodes that stand for the spectrum.
    threads
        Defaults to the cores this process may use. The result does not depend on it.
    progress
        Called with the number of settings just finished.
    """
    lengths = [checks.count("steps", T) for T in steps]
    sizes = [checks.count("batches", B) for B in batches]
    for name, values in (
        ("exponents", exponents),
        ("sigmas", sigmas),
        ("steps", lengths),
        ("batches", sizes),
    ):
        if not values:
            raise InputError(name, "must not be empty")
    peak = checks.real("peak", peak, above=0.0)
    problems = [
        [
            Problem.power_law_nodes(a, b, sketch, kind="sketch", sigma=sigma, nodes=nodes)
            for sigma in sigmas
        ]
        for a, b in exponents
    ]
    parts = np.empty((4, len(exponents), len(sigmas), len(lengths), len(sizes)))
    # The longest runs first, so that no core ends with them.
    cells = sorted(np.ndindex(*parts.shape[1:]), key=lambda cell: -lengths[cell[2]])

    def solve(cell: tuple[int, ...]) -> None:
        e, s, t, k = cell
        found = worth(problems[e][s], shape(lengths[t], peak), lengths[t] * sizes[k])
        parts[:, e, s, t, k] = found.total, found.excess, found.noise, found.noise_share

    threads = cores() if threads is None else checks.count("threads", threads)
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(solve, cells):
            if progress is not None:
                progress(1)
    pairs = tuple((float(a), float(b)) for a, b in exponents)
    levels = tuple(float(sigma) for sigma in sigmas)
    return WorthMap(pairs, levels, np.array(lengths), peak, np.array(sizes), *parts)
