"""The batch schedule that a law of training runs predicts the least final loss for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import InputError
from batchlaw.batches.limits import Limits
from batchlaw.batches.rules import KeepsRates, rules_of
from batchlaw.batches.stages import best_stages
from batchlaw.design.plan_search import Cells, minimise, start_cells
from batchlaw.design.within_limits import within_limits
from batchlaw.from_data.laws.curves import ROWS, Rows
from batchlaw.from_data.laws.member import Member
from batchlaw.from_data.laws.training_law import TrainingLaw

# Cells of constant batch in the first search; rounds of descent from every start, and from the
# best ``REFINED`` of them.
CELLS, START_ROUNDS, REFINED, FINAL_ROUNDS = 20, 12, 3, 60
# Step of the numeric slopes, in the logarithm of a batch.
STEP = 1e-4
# Ends of stages are moved by rows: the longest jump as a share of them, halved down to one.
LONGEST_JUMP = 1.0 / 16.0
# Samples of a row in the search for stages, so that no batch is at the least one.
MANY = 10**9
# Rates of zero, and rules that follow them, count as this share of the largest batch.
LEAST_SHARE = 1e-6
# An excess below this is none.
SMALLEST = 1e-300
# Passes of the search in whole numbers, and updates x schedules that it evaluates at most.
PASSES, WORK = 8, 2e7


def law_optimum(
    law: TrainingLaw,
    rates: ArrayLike,
    budget: int,
    limits: Limits,
    *,
    beyond: bool = False,
) -> IntArray:
    """Whole batches (T,) within the limits with the least final loss that the law predicts.

    Of all that is found: never worse, by the law, than a constant batch or than a rule that keeps
    the rates, each as the limits allow. A local search from many starts, not a proof.

    Parameters
    ----------
    law : TrainingLaw
        What predicts the loss.
    rates : (T,) array
        Step sizes.
    budget
        Samples in all.
    limits
        Constraints on the batches.
    beyond
        Whether batches may leave those of the runs; otherwise only the constant batch may.
    """
    gamma = checks.vector("rates", rates)
    return LawSearch(law, gamma, checks.count("budget", budget), limits, beyond).best()


@dataclass(frozen=True, eq=False)
class FinalLoss:
    """The final loss of batch schedules under fixed rates, by a law: what a search evaluates."""

    law: TrainingLaw
    gamma: FloatArray

    def of(self, batches: FloatArray | IntArray) -> float:
        """Of a batch for every update."""
        sizes = np.asarray(batches, dtype=np.float64)
        end = np.array([self.gamma.size])
        rows = Rows.of(self.gamma, sizes, end, self.law.member.scale)
        terms = self.law.member.terms(rows, self.law.fit.coordinates)
        return float((terms @ self.law.fit.factors)[0])

    def log_excess(self, batches: FloatArray) -> float:
        """log of what is left above the law's floor, of a batch for every row."""
        member, rows = self._coarse
        here = replace(rows, noise=member.scale.batch / batches)
        terms, factors = member.terms(here, self.law.fit.coordinates), self.law.fit.factors
        excess = float(terms[0, 1:] @ factors[1:])
        return math.log(max(excess, SMALLEST)) if math.isfinite(excess) else -math.log(SMALLEST)

    @property
    def row_steps(self) -> int:
        """Updates of a row, except for the last one."""
        return self._coarse[0].scale.steps

    @cached_property
    def row_counts(self) -> FloatArray:
        """(R,) updates of every row."""
        first = np.arange(0, self.gamma.size, self.row_steps)
        return np.diff(first, append=self.gamma.size).astype(np.float64)

    @cached_property
    def _coarse(self) -> tuple[Member, Rows]:
        own = self.law.member
        steps = max(own.scale.steps, -(-self.gamma.size // ROWS))
        member = replace(own, scale=replace(own.scale, steps=steps))
        even = np.full(self.gamma.size, own.scale.batch)
        return member, Rows.of(self.gamma, even, np.array([self.gamma.size]), member.scale)


def seen_limits(law: TrainingLaw, limits: Limits) -> Limits | None:
    """The limits within the batches of the runs; None where no batch is in both."""
    unit = limits.multiple_of
    low = max(limits.min_batch, math.ceil(law.seen.smallest_batch - 1e-9))
    high = math.floor(law.seen.largest_batch + 1e-9)
    if limits.max_batch is not None:
        high = min(high, limits.max_batch)
    if -(-low // unit) > high // unit:
        return None
    return replace(limits, min_batch=low, max_batch=high)


class LawSearch:
    """The search for one setting.

    ``constant`` is the constant batch that the limits allow.
    """

    def __init__(
        self, law: TrainingLaw, gamma: FloatArray, budget: int, limits: Limits, beyond: bool = False
    ) -> None:
        self.law, self.gamma, self.budget = law, gamma, budget
        limits.units(gamma.size, budget)
        self.loss = FinalLoss(law, gamma)
        self.constant = within_limits(np.ones(gamma.size), budget, limits)
        self.limits = limits if beyond else self._inside(limits)

    def _inside(self, limits: Limits) -> Limits | None:
        """The limits within the runs' batches, where they can spend the budget."""
        inside = seen_limits(self.law, limits)
        if inside is None:
            return None
        try:
            inside.units(self.gamma.size, self.budget)
        except InputError:
            return None
        return inside

    def best(self) -> IntArray:
        """The best of what the search finds, and of constant batches."""
        if self.limits is None or self.limits.stages == 1 or self.gamma.size == 1:
            return self.constant
        candidates = [self.constant, *self._rules(), *self._found()]
        losses = np.array([self.loss.of(batches) for batches in candidates])
        losses = np.where(np.isfinite(losses), losses, np.inf)
        best = int(losses.argmin())
        if losses.size == 1:
            return self.constant
        # Not from the constant batch, which may lie outside of what may be searched.
        polished = self._polished(candidates[1 + int(losses[1:].argmin())])
        return polished if self.loss.of(polished) < losses[best] else candidates[best]

    def _rules(self) -> Iterator[IntArray]:
        """Rules that keep the rates, within the limits."""
        for shape in self._shapes[: len(rules_of(KeepsRates))]:
            yield from self._whole(self._staged(shape))

    def _whole(self, by_row: FloatArray) -> list[IntArray]:
        """Whole batches near those of the rows; none where the factor of the limits forbids it."""
        assert self.limits is not None
        real = np.repeat(by_row, self.loss.row_counts.astype(np.int64))
        try:
            return [within_limits(real, self.budget, self.limits)]
        except InputError:
            return []

    @cached_property
    def _shapes(self) -> list[FloatArray]:
        """Starts, by row: the rules, then what falls and rises and what rises and falls."""
        first = np.arange(0, self.gamma.size, self.loss.row_steps)
        counts = self.loss.row_counts
        shapes = [
            np.add.reduceat(rule.shape(self.gamma), first) / counts
            for rule in rules_of(KeepsRates).values()
        ]
        hill = np.sin(np.pi * (np.arange(counts.size) + 0.5) / counts.size)
        return [*shapes, 1.0 + 3.0 * hill, 4.0 - 3.0 * hill]

    def _cells(self, ends: IntArray) -> Cells:
        assert self.limits is not None
        low, high, unit, _ = self.limits.units(self.gamma.size, self.budget)
        bounds = float(self.budget), float(low * unit), float(high * unit)
        return Cells.of(ends, self.loss.row_counts, *bounds)

    def _value_of(self, ends: IntArray) -> Callable[[FloatArray], tuple[float, FloatArray]]:
        """The log excess, and its numeric slopes in the batch of every row."""
        log_excess, lengths = self.loss.log_excess, np.diff(ends)

        def value_of(by_row: FloatArray) -> tuple[float, FloatArray]:
            value, slopes = log_excess(by_row), np.empty(lengths.size)
            for i, (begin, end) in enumerate(itertools.pairwise(ends)):
                moved = by_row.copy()
                moved[begin:end] *= math.exp(STEP)
                slopes[i] = (log_excess(moved) - value) / STEP
            sizes = by_row[ends[:-1]]
            return value, np.repeat(slopes / (sizes * lengths), lengths)

        return value_of

    def _staged(self, by_row: FloatArray) -> FloatArray:
        """A shape in at most the allowed number of stages.

        Where sum kappa_t B_t^-beta is least, a departure costs in proportion to B_t times its
        square in the logarithm, whatever beta is: as in ``best_stages`` for kappa = B^2.
        """
        assert self.limits is not None
        stages = self.limits.stages
        positive: FloatArray = np.maximum(by_row, LEAST_SHARE * by_row.max())
        if stages is None or stages >= by_row.size:
            return positive
        kappa = (positive / positive.mean()) ** 2
        budget = MANY * kappa.size
        staged = best_stages(kappa, budget, Limits(stages=stages), integer=False)
        return np.array(staged.batches, dtype=np.float64)

    def _found(self) -> Iterator[IntArray]:
        count = self.loss.row_counts.size
        ends = np.unique(np.linspace(0, count, min(CELLS, count) + 1).round().astype(np.int64))
        cells, value_of = self._cells(ends), self._value_of(ends)
        begun = [
            minimise(cells, start_cells(cells, shape), value_of, START_ROUNDS)
            for shape in self._shapes
        ]
        for sizes, _ in sorted(begun, key=lambda pair: pair[1])[:REFINED]:
            free, _ = minimise(cells, sizes, value_of, FINAL_ROUNDS)
            yield from self._whole(self._in_stages(cells, free))

    def _in_stages(self, cells: Cells, free: FloatArray) -> FloatArray:
        """Batches by row: the free optimum where every step may differ, or the best stages."""
        assert self.limits is not None
        if self.limits.stages is None:
            centres = 0.5 * (cells.ends[1:] + cells.ends[:-1])
            places = np.arange(self.loss.row_counts.size) + 0.5
            return np.asarray(np.exp(np.interp(places, centres, np.log(free))))
        by_row = self._staged(cells.rows(free))
        ends = np.concatenate([[0], np.flatnonzero(np.diff(by_row)) + 1, [by_row.size]])
        stages = self._cells(ends)
        sizes = start_cells(stages, by_row)
        sizes, value = minimise(stages, sizes, self._value_of(ends), FINAL_ROUNDS)
        jump = max(int(LONGEST_JUMP * by_row.size), 1)
        while jump:
            ends, sizes, value = self._moved(ends, sizes, value, jump)
            jump //= 2
        return np.repeat(sizes, np.diff(ends))

    def _moved(
        self, ends: IntArray, sizes: FloatArray, value: float, jump: int
    ) -> tuple[IntArray, FloatArray, float]:
        """Move every end by a jump where that lowers the loss; then the best sizes for them."""
        for i in range(1, ends.size - 1):
            for move in (-jump, jump):
                trial = ends.copy()
                trial[i] += move
                if not trial[i - 1] < trial[i] < trial[i + 1]:
                    continue
                cells = self._cells(trial)
                moved = cells.batches(np.log(sizes))
                found = self.loss.log_excess(cells.rows(moved))
                if found < value:
                    ends, sizes, value = trial, moved, found
        sizes, value = minimise(self._cells(ends), sizes, self._value_of(ends), FINAL_ROUNDS)
        return ends, sizes, value

    def _polished(self, batches: IntArray) -> IntArray:
        """Whole batches after exchanges between stages, for as long as the loss falls."""
        assert self.limits is not None
        if self.limits.stages is None or self.limits.batch_factor is not None:
            return batches
        ends = np.append(np.flatnonzero(np.diff(batches)) + 1, batches.size)
        sizes, value = batches[ends - 1], self.loss.of(batches)
        left = int(WORK / batches.size)
        for _ in range(PASSES):
            before = value
            for move in (self._exchanges, self._shifts):
                for trial_ends, trial in itertools.islice(move(ends, sizes), left):
                    left -= 1
                    found = self.loss.of(np.repeat(trial, np.diff(trial_ends, prepend=0)))
                    if found < value:
                        ends, sizes, value = trial_ends, trial, found
            if value == before:
                break
        return np.repeat(sizes, np.diff(ends, prepend=0))

    def _exchanges(self, ends: IntArray, sizes: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
        """Raise one stage by a unit, and lower another by as much as the budget needs."""
        assert self.limits is not None
        low, high, unit, _ = self.limits.units(self.gamma.size, self.budget)
        lengths = np.diff(ends, prepend=0)
        left = self.budget - int(lengths @ sizes)
        for i in range(sizes.size):
            if sizes[i] + unit > high * unit:
                continue
            needed = int(lengths[i]) * unit - left
            for j in range(sizes.size) if needed > 0 else (i,):
                trial = sizes.copy()
                trial[i] += unit
                if j != i:
                    trial[j] -= -(-needed // (int(lengths[j]) * unit)) * unit
                if trial[j] >= low * unit and (j != i or needed <= 0):
                    yield ends, trial

    def _shifts(self, ends: IntArray, sizes: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
        """Move one end, or two so that the samples stay within the budget."""
        steps, count = self.loss.row_steps, ends.size - 1
        for i in range(count):
            for move in (-4 * steps, -steps, -1, 1, steps, 4 * steps):
                one = ends.copy()
                one[i] += move
                for j in range(count):
                    trial = one.copy()
                    if j != i:
                        if sizes[j] == sizes[j + 1]:
                            continue
                        left = self.budget - int(np.diff(one, prepend=0) @ sizes)
                        trial[j] += math.floor(left / int(sizes[j] - sizes[j + 1]))
                    lengths = np.diff(trial, prepend=0)
                    if lengths.min() > 0 and int(lengths @ sizes) <= self.budget:
                        yield trial, sizes
