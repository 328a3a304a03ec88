"""A plan for an unknown problem: the batches that hold over a whole range of problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import InputError
from batchlaw.batches.limits import Limits
from batchlaw.batches.rules import KeepsRates, Schedule, rules_of
from batchlaw.batches.stages import best_stages
from batchlaw.design.plan_cases import RANGE, SCORE_ROWS, CaseSlopes, Grid, PlanCases, Rows
from batchlaw.design.plan_search import (
    Cells,
    Judge,
    judged,
    mean,
    minimise,
    start_cells,
    worst,
)
from batchlaw.design.rule_scores import ratios_of
from batchlaw.design.within_limits import within_limits
from batchlaw.influences.weights import influence_proxy
from batchlaw.model.spectrum import USUAL_STEP
from batchlaw.schedule.update_rule import UpdateRule

# Whether a plan is recommended, in words.
EVERYWHERE = "better than constant in every case"
NOTHING = "no schedule found is better than constant in every case"
# Cells of constant batch in the search; rounds of descent: of a case's own optimum, from every
# start, and from the best of them.
CELLS, OWN_ROUNDS, START_ROUNDS, FINAL_ROUNDS = 32, 30, 10, 50
# Ratios of two schedules from merged updates are within this of those from single updates.
RATIO_ERROR = 0.005
# A plan is recommended only where it gains this share in the median case: the mean field itself is
# within 3 % along a run, and a smaller gain is not worth a change of batches.
WORTH = 0.03
# Shares of a plan's departure from a constant batch that are tried, the largest first.
DEPARTURES = (1.0, 0.8, 0.6)
# Numbers of stages that are searched for. A plan with many stages may fail where one with fewer
# does not, so that all up to the limit are tried, the most first, until one is recommended. What is
# recommended under a limit then is so under any that is larger.
STAGE_COUNTS = (16, 12, 8, 6, 5, 4, 3, 2)
# Starts of the search, besides SGD's influence.
STARTING_RULES = ("constant", "early-large", "like the rate", "linear ramp", "Li-Bu-Xu")
PROXY_EXPONENT = 1.5


@dataclass(frozen=True, eq=False)
class RobustPlan:
    """A plan over a range of problems, and what it is worth in each of them.

    Attributes
    ----------
    batches : (T,) array
        The schedule to use: the constant one where none is recommended, unless asked for boldly.
    constant : (T,) array
        The most even schedule that the limits allow.
    recommended
        Whether ``batches`` are better than constant ones by the stated standard.
    standard
        Which standard a recommended plan meets, or that none does, in words.
    cases
        The problems of the range: a, b, noise_to_signal and rate_scale.
    ratios : (K,) array
        Excess of ``batches`` over that of ``constant``.
    regret : (K,) array
        log of the excess over the best schedule found for that case alone.
    constant_regret : (K,) array
        The same of ``constant``.
    """

    batches: IntArray
    constant: IntArray
    recommended: bool
    standard: str
    cases: tuple[dict[str, float], ...]
    ratios: FloatArray
    regret: FloatArray
    constant_regret: FloatArray


def robust_plan(
    rates: ArrayLike,
    budget: int,
    rule: UpdateRule,
    limits: Limits,
    *,
    bold: bool = False,
    grid: Grid = RANGE,
) -> RobustPlan:
    """Batches for a rule and a shape of the rates over the range of ``design.plan_range``.

    The schedule of least worst regret is recommended where it beats a constant batch in every
    case, by more than the error of a ratio, and gains at least ``WORTH`` in the median case. With
    ``bold`` the schedule of least mean regret is taken. That no case may lose is not enough: a
    schedule chosen so lost when it was trained (docs/adam.md).

    Parameters
    ----------
    rates : (T,) array
        Step sizes; only their shape matters, because every case has a peak of its own.
    budget
        Samples in all.
    rule
        Adam or SGD, read out at the last iterate.
    limits
        Constraints on the batches.
    bold
        Take the schedule of least mean regret, whether recommended or not.
    grid
        The problems, in place of the range's.
    """
    gamma = checks.vector("rates", rates)
    if not gamma.any():
        raise InputError("rates", "must not all be zero")
    search = PlanSearch(gamma, checks.count("budget", budget), rule, limits, grid)
    return _verdict(search, bold)


def score(
    rates: ArrayLike,
    schedules: Mapping[str, ArrayLike | Schedule],
    rule: UpdateRule,
    grid: Grid = RANGE,
) -> dict[str, FloatArray]:
    """(K,) ratios of every schedule's excess to a constant batch's, over the same range.

    The constant batch is the schedule named "constant", or one with the first one's sum, to which
    the others are scaled. A
    ``Schedule`` has rates of its own, in the units of ``rates``, and its own number of updates.
    """
    gamma = checks.vector("rates", rates)
    runs = {
        name: given if isinstance(given, Schedule) else _with_rates(gamma, given)
        for name, given in schedules.items()
    }
    first = next(iter(runs.values())).batches
    even = np.full(gamma.size, first.sum() / gamma.size)
    constant = runs["constant"].batches if "constant" in runs else even
    cases = PlanCases.of(gamma, float(constant.mean()), rule, SCORE_ROWS, grid)
    least = cases.excess(np.asarray(constant, dtype=np.float64))[0]
    peak, samples = float(gamma.max()), float(constant.sum())
    return {name: ratios_of(cases, peak, run, samples, least) for name, run in runs.items()}


def _with_rates(gamma: FloatArray, batches: ArrayLike) -> Schedule:
    return Schedule(gamma, checks.batches(batches, gamma.size, whole=False)[0])


class PlanSearch:
    """The search for one setting, over the range or over another grid of problems.

    ``constant_logs`` and, after ``prepare``, ``best_logs`` are the logarithms of every case's
    excess with a constant batch and with the best schedule found for that case alone.
    """

    def __init__(
        self,
        gamma: FloatArray,
        budget: int,
        rule: UpdateRule,
        limits: Limits,
        grid: Grid = RANGE,
    ) -> None:
        self.gamma, self.budget, self.limits = gamma, budget, limits
        low, high, unit, _ = limits.units(gamma.size, budget)
        self.cases = PlanCases.of(gamma, budget / gamma.size, rule, grid=grid)
        self.slopes = CaseSlopes(self.cases)
        self.rows = self.cases.rows
        self.bounds = float(budget), float(low * unit), float(high * unit)
        even = np.full(self.rows.counts.size, budget / gamma.size)
        self.constant_logs, _ = self.slopes.all(even)
        self.best_logs = self.constant_logs

    def prepare(self) -> None:
        """Starts, and the optimum of every case alone."""
        ends = Rows.of(self.rows.counts.size, CELLS).ends
        self.cells = Cells.of(ends, self.rows.counts, *self.bounds)
        self.starts = [start_cells(self.cells, shape) for shape in self._shapes()]
        self.best_logs = self._own_optima()

    def _shapes(self) -> list[FloatArray]:
        """The starts, by row."""
        rules = rules_of(KeepsRates)
        shapes = [rules[name].shape(self.gamma) for name in STARTING_RULES]
        trace = USUAL_STEP / float(self.gamma.max())
        shapes.append(np.sqrt(influence_proxy(self.gamma, PROXY_EXPONENT, trace)))
        return [self.rows.mean(shape) for shape in shapes]

    def _own_optima(self) -> FloatArray:
        """log excess of the best schedule found for every case alone, or of a constant one."""
        cells, starts = self.cells, self.starts
        at_starts = np.array([self.slopes.all(cells.rows(start))[0] for start in starts])
        first = at_starts.argmin(axis=0)

        def own(k: int) -> float:
            return minimise(cells, starts[first[k]], lambda b: self.slopes.one(k, b), OWN_ROUNDS)[1]

        return np.minimum(self.slopes.map(own), self.constant_logs)

    def schedules(self, judge: Judge, reference: FloatArray) -> Iterator[tuple[FloatArray, Limits]]:
        """Real batches, and their limits, for each of ``tried_limits``.

        Free cells are sought from all starts, then stages of the same shape.
        """
        cells, value_of = self.cells, judged(self.slopes, reference, judge)
        found = [minimise(cells, start, value_of, START_ROUNDS) for start in self.starts]
        best = min(found, key=lambda pair: pair[1])[0]
        sizes, _ = minimise(cells, best, value_of, FINAL_ROUNDS)
        by_row = cells.rows(sizes)
        for limits in tried_limits(self.limits):
            if limits.stages is None:
                centres = 0.5 * (self.rows.ends[cells.ends[1:]] + self.rows.ends[cells.ends[:-1]])
                logs = np.interp(np.arange(self.gamma.size) + 0.5, centres, np.log(sizes))
                yield np.asarray(np.exp(logs)), limits
                continue
            stages = Limits(stages=limits.stages)
            staged = best_stages(by_row**2, int(by_row.sum()) + by_row.size, stages, integer=False)
            ends = np.append(0, staged.ends)
            stage_cells = Cells.of(ends, self.rows.counts, *self.bounds)
            start = np.add.reduceat(by_row, ends[:-1]) / np.diff(ends)
            in_stages, _ = minimise(stage_cells, start, value_of, FINAL_ROUNDS)
            yield np.repeat(stage_cells.rows(in_stages), np.diff(self.rows.ends)), limits


def tried_limits(limits: Limits) -> Iterator[Limits]:
    """The limits with each number of stages that is searched for, the most first."""
    if limits.stages is None:
        yield limits
    for count in STAGE_COUNTS:
        if limits.stages is None or count <= limits.stages:
            yield replace(limits, stages=count)


def _verdict(search: PlanSearch, bold: bool) -> RobustPlan:
    """The first schedule that meets a standard; else the bold one if asked for, else constant."""
    budget, limits = search.budget, search.limits
    constant = within_limits(np.ones(search.gamma.size), budget, limits)
    cases = search.cases.on_rows(SCORE_ROWS)
    found = _Found(constant, np.ones(len(cases.cases)), "")
    if search.gamma.size > 1 and limits.stages != 1:
        search.prepare()
        found = _recommended(search, cases, constant) or found
        if bold:
            real, its_limits = next(search.schedules(mean, search.best_logs))
            boldest = within_limits(real, budget, its_limits)
            found = _Found(boldest, cases.ratios([boldest], constant)[0], found.standard)
    constant_regret = search.constant_logs - search.best_logs
    return RobustPlan(
        batches=found.batches,
        constant=constant,
        recommended=bool(found.standard),
        standard=found.standard or NOTHING,
        cases=tuple(case.words for case in cases.cases),
        ratios=found.ratios,
        regret=constant_regret + np.log(found.ratios),
        constant_regret=constant_regret,
    )


@dataclass(frozen=True, eq=False)
class _Found:
    batches: IntArray
    ratios: FloatArray
    standard: str


def _recommended(search: PlanSearch, cases: PlanCases, constant: IntArray) -> _Found | None:
    for real, limits in search.schedules(worst, search.best_logs):
        # Where whole numbers make a case lose, a part of the departure may still be safe.
        options = [within_limits(real**share, search.budget, limits) for share in DEPARTURES]
        for batches, ratios in zip(options, cases.ratios(options, constant), strict=True):
            if ratios.max() <= 1.0 - RATIO_ERROR and np.median(ratios) <= 1.0 - WORTH:
                return _Found(batches, ratios, EVERYWHERE)
    return None
