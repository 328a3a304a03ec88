"""Update rules as steps over batches: what simulators and single runs execute.

How samples are drawn and what a step does with them do not know each other: an update rule is a
``Steps``, and is then run in one pass and in every way of reusing a dataset, on the same batches
for the same seed. To add a rule, write a subclass of ``RowSteps`` and an entry of ``STEPS``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import InputError, arg
from batchlaw._base.kernels import adam_steps, rules, sampling, sgd
from batchlaw._base.kernels.common import aligned_zeros
from batchlaw.schedule.adam import GENERIC, Adam
from batchlaw.schedule.averages import running_readout
from batchlaw.schedule.update_rule import PLAIN, SGD, UpdateRule, rule_of

# Row numbers drawn at once: 512 KB stay in cache.
MOST_ROWS = 2**16


class Sampling(NamedTuple):
    """A way of drawing batches from a dataset: its loop of plain SGD, and its rows for any rule."""

    title: str
    plain: Callable[..., None]
    rows: Callable[..., int]


def sampling_of(replacement: bool, reshuffle: bool) -> Sampling:
    """The way that the two options of multi-pass SGD ask for."""
    if replacement and reshuffle:
        raise InputError("replacement", f"and {arg('reshuffle')} exclude each other", "both")
    if reshuffle:
        return Sampling("reshuffled by epochs", sgd.reshuffled, sampling.epochs)
    if replacement:
        return Sampling("with replacement", sgd.with_replacement, sampling.independent_rows)
    return Sampling("without replacement", sgd.without_replacement, sampling.subsets)


class Steps(ABC):
    """An update rule at given rates, for S schedules of batches ``sizes`` (S, T) side by side."""

    @abstractmethod
    def start(self, schedules: int, directions: int) -> FloatArray:
        """The state of every schedule before the first update, u = 0."""

    @abstractmethod
    def one_pass(
        self,
        features: FloatArray,
        labels: FloatArray,
        offset: int,
        sizes: IntArray,
        done: IntArray,
        position: IntArray,
        state: FloatArray,
    ) -> None:
        """Run every schedule over the batches that lie entirely in a window of the samples.

        The window holds samples offset, offset + 1, ...; ``done`` (updates) and ``position``
        (samples used) of each schedule move on in place, as does ``state``.
        """

    @abstractmethod
    def reuse(
        self,
        dataset: tuple[FloatArray, FloatArray],
        sizes: IntArray,
        rng: np.random.Generator,
        way: Sampling,
        state: FloatArray,
    ) -> None:
        """Run every schedule to its end on batches drawn from a dataset."""

    @abstractmethod
    def result(self, state: FloatArray) -> FloatArray:
        """What is read out of every schedule's state, (S, M)."""


class Descends(ABC):
    """Steps that also run on the gradient of a whole dataset."""

    @abstractmethod
    def descend(self, covariance: FloatArray, forcing: FloatArray, start: FloatArray) -> FloatArray:
        """GD with the gradient Sigma_hat u - b_hat for K right-hand sides ``forcing`` (K, M).

        Returns the readouts (K, M) from starts (K, M); ``start`` may be overwritten.
        """


class PlainSteps(Steps, Descends):
    """Plain SGD's last iterate, in loops that draw and step at once."""

    def __init__(self, rates: FloatArray) -> None:
        self.rates = rates

    def start(self, schedules: int, directions: int) -> FloatArray:
        return aligned_zeros(schedules, directions)

    def one_pass(
        self,
        features: FloatArray,
        labels: FloatArray,
        offset: int,
        sizes: IntArray,
        done: IntArray,
        position: IntArray,
        state: FloatArray,
    ) -> None:
        sgd.one_pass(features, labels, offset, self.rates, sizes, done, position, state)

    def reuse(
        self,
        dataset: tuple[FloatArray, FloatArray],
        sizes: IntArray,
        rng: np.random.Generator,
        way: Sampling,
        state: FloatArray,
    ) -> None:
        way.plain(*dataset, self.rates, sizes, rng, state)

    def result(self, state: FloatArray) -> FloatArray:
        return state

    def descend(self, covariance: FloatArray, forcing: FloatArray, start: FloatArray) -> FloatArray:
        sgd.gradient_descent(covariance, forcing, self.rates, start)
        return start


class RowSteps(Steps):
    """A rule that is given the rows of its batches; the state of a schedule is (K, M)."""

    # Rows K of a schedule's state, and the one that is the result.
    height: int
    readout: int

    @abstractmethod
    def follow(
        self,
        features: FloatArray,
        labels: FloatArray,
        rows: Any,
        first: int,
        sizes: IntArray,
        state: FloatArray,
    ) -> None:
        """Updates first, first + 1, ... of one schedule, in place.

        Their batches follow each other in ``rows``.
        """

    def start(self, schedules: int, directions: int) -> FloatArray:
        return aligned_zeros(schedules, self.height, directions)

    def result(self, state: FloatArray) -> FloatArray:
        return state[:, self.readout]

    def one_pass(
        self,
        features: FloatArray,
        labels: FloatArray,
        offset: int,
        sizes: IntArray,
        done: IntArray,
        position: IntArray,
        state: FloatArray,
    ) -> None:
        rows = np.arange(labels.size, dtype=np.uint64)
        for s, schedule in enumerate(sizes):
            first = int(done[s])
            # A batch has at least one sample, so no more updates than samples can fit.
            ends = position[s] + np.cumsum(schedule[first : first + labels.size])
            fit = int(np.searchsorted(ends, offset + labels.size, side="right"))
            if fit:
                batches = schedule[first : first + fit]
                self.follow(
                    features, labels, rows[position[s] - offset :], first, batches, state[s]
                )
                done[s], position[s] = first + fit, ends[fit - 1]

    def reuse(
        self,
        dataset: tuple[FloatArray, FloatArray],
        sizes: IntArray,
        rng: np.random.Generator,
        way: Sampling,
        state: FloatArray,
    ) -> None:
        features, labels = dataset
        rows = np.arange(labels.size, dtype=np.uint64)
        for s, schedule in enumerate(sizes):
            used = labels.size
            for updates in _pieces(schedule):
                batches = schedule[updates]
                picked = np.empty(int(batches.sum()), dtype=np.uint64)
                used = way.rows(rng, rows, used, batches, picked)
                self.follow(features, labels, picked, updates.start, batches, state[s])


def _pieces(schedule: IntArray) -> Iterator[slice]:
    """Consecutive updates with at most ``MOST_ROWS`` samples, or a single update with more."""
    ends = np.cumsum(schedule)
    first = 0
    while first < schedule.size:
        before = int(ends[first] - schedule[first])
        last = int(np.searchsorted(ends, before + MOST_ROWS, side="right"))
        last = max(last, first + 1)
        yield slice(first, last)
        first = last


class MomentumSteps(RowSteps, Descends):
    """SGD with momentum, averaging or both."""

    height, readout = 3, rules.READOUT

    def __init__(self, rule: SGD, rates: FloatArray) -> None:
        self.coefficients = rule.coefficients(rates)
        self.running = running_readout(rule.readout(rates.size), rates.size)

    def follow(
        self,
        features: FloatArray,
        labels: FloatArray,
        rows: Any,
        first: int,
        sizes: IntArray,
        state: FloatArray,
    ) -> None:
        updates = slice(first, first + sizes.size)
        rules.momentum_steps(
            features,
            labels,
            rows,
            sizes,
            self.coefficients[updates],
            self.running[updates],
            state,
        )

    def descend(self, covariance: FloatArray, forcing: FloatArray, start: FloatArray) -> FloatArray:
        states = aligned_zeros(start.shape[0], self.height, start.shape[1])
        states[:, rules.ITERATE] = states[:, rules.READOUT] = start
        rules.momentum_descent(covariance, forcing, self.coefficients, self.running, states)
        return self.result(states)


class AdamSteps(RowSteps, Descends):
    """Adam in the coordinates of the features that it is given (``risk.coordinates``)."""

    height, readout = 4, adam_steps.READOUT

    def __init__(self, rule: Adam, rates: FloatArray) -> None:
        t = np.arange(1.0, rates.size + 1.0)
        self.steps = np.stack(
            [
                rates / (1.0 - rule.beta1**t),
                1.0 / np.sqrt(1.0 - rule.beta2**t),
                1.0 - rates * rule.weight_decay,
            ],
            axis=1,
        )
        self.moments = (rule.beta1, rule.beta2, rule.eps, rule.basis == GENERIC)
        self.running = running_readout(rule.readout(rates.size), rates.size)

    def follow(
        self,
        features: FloatArray,
        labels: FloatArray,
        rows: Any,
        first: int,
        sizes: IntArray,
        state: FloatArray,
    ) -> None:
        updates = slice(first, first + sizes.size)
        adam_steps.adam_steps(
            features,
            labels,
            rows,
            sizes,
            self.steps[updates],
            self.running[updates],
            *self.moments,
            state,
        )

    def descend(self, covariance: FloatArray, forcing: FloatArray, start: FloatArray) -> FloatArray:
        states = aligned_zeros(start.shape[0], self.height, start.shape[1])
        states[:, adam_steps.ITERATE] = states[:, adam_steps.READOUT] = start
        adam_steps.adam_descent(
            covariance, forcing, self.steps, self.running, *self.moments, states
        )
        return self.result(states)


def _sgd_steps(rule: SGD, rates: FloatArray) -> Steps:
    return PlainSteps(rates) if rule.plain else MomentumSteps(rule, rates)


# Update rule -> its steps at given rates.
STEPS: dict[type[UpdateRule], Callable[[Any, FloatArray], Steps]] = {
    SGD: _sgd_steps,
    Adam: AdamSteps,
}


def steps_of(rule: UpdateRule | None, rates: FloatArray) -> Steps:
    """The steps of a rule, plain SGD by default; a rule that has none is refused."""
    rule = PLAIN if rule is None else rule_of(rule)
    check_simulated(rule)
    return STEPS[type(rule)](rule, rates)


def check_simulated(rule: UpdateRule) -> None:
    """Refuse a rule that has no steps."""
    if type(rule) not in STEPS:
        names = ", ".join(kind.name for kind in STEPS)
        raise InputError("rule", f"must be one of {names} to be simulated", rule.name)


def descent_of(rule: UpdateRule | None, rates: FloatArray) -> Descends:
    """The steps of a rule on whole datasets; a rule without them is refused."""
    steps = steps_of(rule, rates)
    if not isinstance(steps, Descends):
        name = PLAIN.name if rule is None else rule.name
        raise InputError("rule", "must have steps with the gradient of a whole dataset", name)
    return steps
