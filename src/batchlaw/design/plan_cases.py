"""The excess of batch schedules over the range of problems that a plan must hold for.

Rates are known only by their shape: in every case the peak is a multiple of the one that is best
there for a constant batch. Adam works in a generic basis, SGD in any.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import InputError
from batchlaw._base.kernels import merged_steps as kernels
from batchlaw._base.kernels import moments
from batchlaw._base.machine import cores
from batchlaw.design import plan_range
from batchlaw.design.noise_scale import noise_scale_at
from batchlaw.model.problem import Problem
from batchlaw.risk.adam_diagonal import diagonal_moments
from batchlaw.risk.stability import largest_stable_rate
from batchlaw.schedule.adam import GENERIC, Adam
from batchlaw.schedule.averages import running_readout
from batchlaw.schedule.update_rule import SGD, UpdateRule

# Nodes for 4096 directions: the excess changes by less than 1e-4 with 200.
NODES = 24
# Rows into which the updates are merged: to search, and to score what was found.
SEARCH_ROWS, SCORE_ROWS = 160, 1000
# Updates up to which schedules are scored update by update.
SINGLE_UPDATES = 4000
# Steps D mu_1 between which the best peak of a constant batch is sought.
SMALLEST_STEP, LARGEST_STEP, PEAKS = 1e-5, 60.0, 48
# The largest peak of SGD, as a share of the one at which the second moment grows.
STABLE_SHARE = 0.8
REFINEMENTS = 12
# Stands for the logarithm of an excess that overflows.
UNSTABLE = 700.0


@dataclass(frozen=True, eq=False)
class Rows:
    """Updates merged into rows: ``ends`` (R + 1,) are the last updates, from 0."""

    ends: IntArray

    @classmethod
    def of(cls, steps: int, most: int) -> Rows:
        ends = np.round(np.linspace(0.0, steps, min(steps, most) + 1))
        return cls(ends.astype(np.int64))

    @property
    def counts(self) -> FloatArray:
        return np.diff(self.ends).astype(np.float64)

    def mean(self, values: FloatArray) -> FloatArray:
        """The mean of a value per update within every row."""
        sums: FloatArray = np.add.reduceat(values, self.ends[:-1], axis=-1)
        return sums / self.counts

    def table(self, rates: FloatArray, rule: UpdateRule) -> FloatArray:
        """Rows (rate, shrink, keep2, correct1, correct2, c) of the compiled loops."""
        c, gamma = self.counts, self.mean(rates)
        ones = np.ones_like(c)
        if isinstance(rule, Adam):
            done = self.ends[1:]
            corrections = [1.0 / (1.0 - beta**done) for beta in (rule.beta1, rule.beta2)]
            return np.stack(
                [gamma, gamma * rule.weight_decay, rule.beta2**c, *corrections, c], axis=1
            )
        # The velocity sums gradients: its steady rate is gamma / (1 - beta).
        return np.stack([gamma / (1.0 - momentum(rule)), 0.0 * c, ones, ones, ones, c], axis=1)


def momentum(rule: UpdateRule) -> float:
    """beta1 of Adam, or beta of SGD; refuses what plans over the range cannot follow."""
    if not isinstance(rule, (Adam, SGD)):
        raise InputError("rule", "must be Adam or a form of SGD for a plan over a range", rule.name)
    if rule.averages:
        raise InputError("average", "needs a spectrum: a plan over a range is for the last iterate")
    beta = rule.beta1 if isinstance(rule, Adam) else rule.momentum
    if np.ndim(beta):
        raise InputError("momentum", "must be one number for a plan over a range")
    return float(beta)


@dataclass(frozen=True)
class Grid:
    """Every combination of these is a case."""

    exponents: tuple[float, ...] = plan_range.EXPONENTS
    target_exponents: tuple[float, ...] = plan_range.TARGET_EXPONENTS
    noise_to_signal: tuple[float, ...] = plan_range.NOISE_TO_SIGNAL
    rate_scales: tuple[float, ...] = plan_range.RATE_SCALES


RANGE = Grid()


@dataclass(frozen=True)
class PlanCase:
    """One problem of the range with its peak rate."""

    a: float
    b: float
    noise_to_signal: float
    rate_scale: float
    peak: float
    problem: Problem

    @property
    def words(self) -> dict[str, float]:
        names = ("a", "b", "noise_to_signal", "rate_scale")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, eq=False)
class PlanCases:
    """The cases of the range for one rule and one shape of the rates.

    ``shape`` are the rates over their peak, and ``single_updates`` says whether schedules are
    scored update by update.
    """

    cases: tuple[PlanCase, ...]
    rule: UpdateRule
    shape: FloatArray
    rows: Rows
    single_updates: bool

    @classmethod
    def of(
        cls,
        rates: FloatArray,
        mean_batch: float,
        rule: UpdateRule,
        rows: int = SEARCH_ROWS,
        grid: Grid = RANGE,
    ) -> PlanCases:
        """The range, or another grid, for these rates, up to their peak, and a mean batch."""
        shape, merged = rates / rates.max(), Rows.of(rates.size, SEARCH_ROWS)
        momentum(rule)
        problems = list(_problems(grid))
        with ThreadPoolExecutor(cores()) as pool:
            peaks = pool.map(lambda p: _best_peak(p[1], shape, mean_batch, rule, merged), problems)
        found = zip(problems, peaks, strict=True)
        cases = [
            PlanCase(*words, scale, min(scale * peak, largest), problem)
            for (words, problem), peak in found
            for largest in [_largest_peak(problem, mean_batch, rule)]
            for scale in grid.rate_scales
        ]
        single = rates.size <= SINGLE_UPDATES
        return cls(tuple(cases), rule, shape, Rows.of(rates.size, rows), single)

    def on_rows(self, most: int) -> PlanCases:
        return replace(self, rows=Rows.of(self.shape.size, most))

    def with_shape(self, shape: FloatArray) -> PlanCases:
        """The same problems and peaks with other rates, given over the peak of these."""
        return replace(self, shape=shape, rows=Rows.of(shape.size, SCORE_ROWS))

    def excess(self, batches: FloatArray) -> FloatArray:
        """(S, K) excesses of schedules (S, T) in the cases."""
        sizes = np.atleast_2d(batches)
        return self._by_threads(lambda case: self._of_case(case, sizes))

    def own_excess(self, batches: FloatArray) -> FloatArray:
        """(K,) excesses where every case has batches of its own, (K, T)."""
        with ThreadPoolExecutor(cores()) as pool:
            found = pool.map(lambda c, b: self._of_case(c, b[None])[0], self.cases, batches)
            return np.array(list(found))

    def noise_scales(self, batch: float) -> FloatArray:
        """(K, T) noise scales before every update of a pilot run with a constant batch."""
        pilots = [
            pilot_noise_scales(case.problem, case.peak * self.shape, batch, self.rule)
            for case in self.cases
        ]
        return np.array(pilots)

    def _of_case(self, case: PlanCase, sizes: FloatArray) -> list[float]:
        if self.single_updates:
            return _single_updates(case, self, sizes)
        table = self.rows.table(case.peak * self.shape, self.rule)
        return list(excesses_on_rows(case.problem, table, self.rule, 1.0 / self.rows.mean(sizes)))

    def _by_threads(self, of_case: Callable[[PlanCase], Sequence[float]]) -> FloatArray:
        with ThreadPoolExecutor(cores()) as pool:
            return np.array(list(pool.map(of_case, self.cases))).T

    def ratios(
        self, schedules: Sequence[FloatArray | IntArray], constant: FloatArray | IntArray
    ) -> list[FloatArray]:
        """(K,) ratios of every schedule's excess to a constant batch's, at its number of samples.

        A schedule that spends more, or less, is scaled: limits may let a constant batch spend only
        a part of the budget.
        """
        samples = float(constant.sum())
        scaled = [sizes * (samples / float(sizes.sum())) for sizes in schedules]
        excess = self.excess(np.stack([constant, *scaled]).astype(np.float64))
        return list(excess[1:] / excess[0])


class CaseSlopes:
    """log excess of every case and its slopes in the batch of every row, by threads."""

    def __init__(self, cases: PlanCases) -> None:
        self.counts = cases.rows.counts
        self._rule = cases.rule
        self._work = [
            (case.problem, cases.rows.table(case.peak * cases.shape, cases.rule))
            for case in cases.cases
        ]
        self._pool = ThreadPoolExecutor(cores())

    def __len__(self) -> int:
        return len(self._work)

    def one(self, k: int, batches: FloatArray) -> tuple[float, FloatArray]:
        """Of case k: the logarithm, and its slopes (R,)."""
        problem, table = self._work[k]
        slopes = np.empty(batches.size)
        saved = np.empty((batches.size + 1, 2, problem.eigenvalues.size + 1))
        excess = kernels.merged_slopes(
            *_arguments(problem, table, self._rule), 1.0 / batches, saved, slopes
        )
        if not math.isfinite(excess):
            return UNSTABLE, np.zeros_like(batches)
        return math.log(excess), -slopes / (batches**2 * excess)

    def map(self, function: Callable[[int], float]) -> FloatArray:
        """A number for every case, by threads."""
        return np.array(list(self._pool.map(function, range(len(self)))))

    def all(self, batches: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(K,) logarithms and (K, R) slopes."""
        parts = np.array_split(np.arange(len(self)), cores())
        done = self._pool.map(lambda part: [self.one(k, batches) for k in part], parts)
        logs, slopes = zip(*itertools.chain.from_iterable(done), strict=True)
        return np.array(logs), np.array(slopes)


def _single_updates(case: PlanCase, cases: PlanCases, batches: FloatArray) -> list[float]:
    """The excess of schedules (S, T) without merging updates."""
    rates, problem, rule = case.peak * cases.shape, case.problem, cases.rule
    if isinstance(rule, Adam):
        generic = replace(rule, basis=GENERIC)
        return list(diagonal_moments(problem, rates, batches, generic).sum(axis=1))
    assert isinstance(rule, SGD)
    out = np.empty((batches.shape[0], 1, 3))
    state = (problem.eigenvalues, problem.multiplicity, problem.target_energy)
    if rule.plain:
        moments.one_pass_moments(*state, problem.noise_variance, rates, batches, out)
    else:
        rows = rule.coefficients(rates), batches, running_readout(None, rates.size)
        moments.general_moments(*state, problem.noise_variance, *rows, out)
    return list(out[:, 0].sum(axis=1))


def pilot_noise_scales(
    problem: Problem, rates: FloatArray, batch: float, rule: UpdateRule
) -> FloatArray:
    """(T,) noise scales before every update of a run with a constant batch, in a generic basis.

    At the iterates of that run, of which the mean field knows the squares; within a row of merged
    updates, that of its first.
    """
    rows = Rows.of(rates.size, SCORE_ROWS)
    table, shares = rows.table(rates, rule), np.full((1, rows.counts.size), 1.0 / batch)
    # Zeros stay where a run of SGD is unstable.
    squares = np.zeros((rows.counts.size, problem.eigenvalues.size))
    if isinstance(rule, Adam):
        saved = np.empty((rows.counts.size + 1, 2, problem.eigenvalues.size + 1))
        kernels.merged_excess(*_arguments(problem, table, rule), shares[0], saved)
        squares = saved[:-1, 0, :-1] + saved[:-1, 1, :-1] ** 2
    else:
        kernels.fixed_excess(
            *_nodes(problem), table, momentum(rule), shares, squares[None], np.empty(1)
        )
    return np.repeat(noise_scale_at(problem, squares), np.diff(rows.ends))


def _problems(grid: Grid) -> Iterator[tuple[tuple[float, float, float], Problem]]:
    axes = grid.exponents, grid.target_exponents, grid.noise_to_signal
    for a, b, noise in itertools.product(*axes):
        size = plan_range.DIRECTIONS
        quiet = Problem.power_law_nodes(a, b, size, sigma=0.0, nodes=NODES)
        signal = float(quiet.multiplicity @ (quiet.eigenvalues * quiet.target_energy))
        sigma = math.sqrt(noise * (signal + quiet.approximation))
        yield (a, b, noise), Problem.power_law_nodes(a, b, size, sigma=sigma, nodes=NODES)


def _best_peak(
    problem: Problem, shape: FloatArray, mean_batch: float, rule: UpdateRule, rows: Rows
) -> float:
    """The peak with the least excess of a constant batch, by a grid and then bounded search."""
    from scipy.optimize import minimize_scalar

    shares = np.full(rows.counts.size, 1.0 / mean_batch)

    def excess(log_peak: float) -> float:
        table = rows.table(math.exp(log_peak) * shape, rule)
        value = excess_on_rows(problem, table, rule, shares)
        return value if math.isfinite(value) else math.inf

    unit = _unit_rate(problem, mean_batch, rule)
    top = min(LARGEST_STEP * unit, _largest_peak(problem, mean_batch, rule))
    grid = np.log(np.geomspace(SMALLEST_STEP * unit, top, PEAKS))
    values = [excess(x) for x in grid]
    best = int(np.argmin(values))
    bounds = grid[max(best - 1, 0)], grid[min(best + 1, PEAKS - 1)]
    found = minimize_scalar(
        excess, bounds=bounds, method="bounded", options={"maxiter": REFINEMENTS}
    )
    return math.exp(found.x if found.fun < values[best] else grid[best])


def _unit_rate(problem: Problem, mean_batch: float, rule: UpdateRule) -> float:
    """The rate at which D mu_1 is about 1."""
    first = float(problem.eigenvalues[0])
    if not isinstance(rule, Adam):
        return (1.0 - momentum(rule)) / first
    noise = problem.trace * problem.noise_variance / float(problem.multiplicity.sum())
    return math.sqrt(noise / mean_batch) / first


def _largest_peak(problem: Problem, mean_batch: float, rule: UpdateRule) -> float:
    """Of SGD, such that its second moment contracts; none for Adam, whose v grows with errors."""
    if isinstance(rule, Adam):
        return math.inf
    return STABLE_SHARE * largest_stable_rate(problem, mean_batch, rule=rule)


def excess_on_rows(
    problem: Problem, table: FloatArray, rule: UpdateRule, shares: FloatArray
) -> float:
    """The final excess on merged updates, ``Rows.table``; ``shares`` (R,) are 1/B."""
    return float(excesses_on_rows(problem, table, rule, shares[None])[0])


def excesses_on_rows(
    problem: Problem, table: FloatArray, rule: UpdateRule, shares: FloatArray
) -> FloatArray:
    """(S,) final excesses of schedules (S, R), as ``excess_on_rows``."""
    out = np.empty(shares.shape[0])
    if not isinstance(rule, Adam):
        none = np.empty((0, 0, 0))
        kernels.fixed_excess(*_nodes(problem), table, momentum(rule), shares, none, out)
        return out
    saved = np.empty((shares.shape[1] + 1, 2, problem.eigenvalues.size + 1))
    for s, row in enumerate(shares):
        out[s] = kernels.merged_excess(*_arguments(problem, table, rule), row, saved)
    return out


def _nodes(problem: Problem) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    energy = problem.target_energy
    return problem.eigenvalues, problem.multiplicity, energy, problem.noise_variance


def _arguments(
    problem: Problem, table: FloatArray, rule: UpdateRule
) -> tuple[FloatArray, FloatArray, FloatArray, float, FloatArray, float, float, bool]:
    eps = rule.eps if isinstance(rule, Adam) else 0.0
    return (*_nodes(problem), table, momentum(rule), eps, isinstance(rule, Adam))
