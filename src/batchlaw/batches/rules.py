"""Rules that people use to choose batch sizes, each a small value in one registry, ``RULES``.

A rule of one of three kinds: ``KeepsRates`` turns the rates into batches at equal steps and
samples, ``FollowsNoise`` does so from the gradient noise along a run, and ``ChangesRates`` returns
rates and batches of its own, with its own number of steps, at equal samples.

A rule is free of a machine's limits, except that batches are whole and at least 1. What was read of
each rule's source is in docs/rules.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.batches.allocation import allocate

# Late-large: after this share of the updates, batches are this many times as large.
SWITCH, LARGER = 0.75, 8.0
# Batch doubling has this many stages of equal length.
DOUBLING_STAGES = 4
# Room for rounding where a rate has fallen by exactly the factor of a cut, and in sums.
ROUNDING = 1e-9


class Schedule(NamedTuple):
    """Rates and whole batches of a run."""

    rates: FloatArray
    batches: IntArray


@dataclass(frozen=True)
class Rule(ABC):
    """A rule's name, what it does in one sentence, and whose it is."""

    name: str
    summary: str
    source: str

    @abstractmethod
    def schedule(
        self, rates: FloatArray, samples: int, noise: FloatArray | None = None
    ) -> Schedule:
        """The rates and batches that the rule makes of given rates.

        Parameters
        ----------
        rates : (T,) array
            The given rates.
        samples
            Sum of the batches.
        noise : (T,) array, optional
            Noise scale before every update with these rates, for rules that follow it.
        """


@dataclass(frozen=True)
class KeepsRates(Rule):
    """Batches in proportion to ``shape(rates)``."""

    shape: Callable[[FloatArray], FloatArray]

    def schedule(
        self, rates: FloatArray, samples: int, noise: FloatArray | None = None
    ) -> Schedule:
        return Schedule(rates, in_proportion(self.shape(rates), samples))


@dataclass(frozen=True)
class FollowsNoise(Rule):
    """Batches in proportion to the noise scale, which must be known before every update."""

    def schedule(
        self, rates: FloatArray, samples: int, noise: FloatArray | None = None
    ) -> Schedule:
        assert noise is not None
        largest = noise[np.isfinite(noise)].max(initial=1.0)
        return Schedule(rates, in_proportion(np.minimum(noise, largest) / largest, samples))


@dataclass(frozen=True)
class ChangesRates(Rule):
    """``change(rates, samples)`` has rates, batches and a number of updates of its own."""

    change: Callable[[FloatArray, int], Schedule]

    def schedule(
        self, rates: FloatArray, samples: int, noise: FloatArray | None = None
    ) -> Schedule:
        return self.change(rates, samples)


RULES: dict[str, Rule] = {}
Kind = TypeVar("Kind", bound=Rule)


def rules_of(kind: type[Kind]) -> dict[str, Kind]:
    """The registered rules of one kind, by name."""
    return {name: rule for name, rule in RULES.items() if isinstance(rule, kind)}


def register(rule: Rule) -> None:
    RULES[rule.name] = rule


def in_proportion(shape: FloatArray, samples: int) -> IntArray:
    """Whole batches of at least 1 with a given sum, in proportion to a shape."""
    # ``allocate`` follows square roots.
    return np.asarray(allocate(shape**2, samples), dtype=np.int64)


def cuts(rates: FloatArray, factor: float) -> IntArray:
    """How many times each rate has fallen by ``factor`` below the largest before it.

    A cut is never taken back. Where the rate is zero there is no further cut.
    """
    peaks = np.maximum.accumulate(rates)
    falls = np.ones_like(rates)
    np.divide(peaks, rates, out=falls, where=rates > 0.0)
    passed = np.floor(np.log(falls) / math.log(factor) + ROUNDING).astype(np.int64)
    return np.maximum.accumulate(passed)


def trade(rates: FloatArray, samples: int, *, factor: float, kept: float) -> Schedule:
    """At each cut of the rate by ``factor``: the rate over ``factor ** (1 - kept)``, the batch
    times ``factor``, with the cuts where they are in samples.

    Between cuts the rate stays, as a staircase; until the first one it is the largest rate so far,
    so that warmup is kept. An update with m times the batch takes the place of m given updates.

    Parameters
    ----------
    rates : (T,) array
        The given rates, for batches of samples / T.
    samples
        Sum of the batches.
    factor
        By how much the rate falls from one cut to the next.
    kept
        The exponent of that factor which the rate keeps: 0 halves the rate for a factor of 2, 1/2
        divides it by sqrt(2), and 1 leaves it.
    """
    passed = cuts(rates, factor)
    longest = math.ceil(math.log(rates.size, factor))
    # Lists, because single items of arrays are slow.
    lowered = (np.maximum.accumulate(rates) * factor ** ((kept - 1.0) * passed)).tolist()
    growth = (factor ** np.minimum(passed, longest).astype(np.float64)).tolist()
    steps, at, own, ends = rates.size, 0.0, [], [0]
    while at < steps:
        t = math.floor(at + ROUNDING)
        own.append(lowered[t])
        at = min(at + growth[t], steps)
        ends.append(math.floor(at * samples / steps + ROUNDING) if at < steps else samples)
    batches = np.diff(ends)
    # The samples left for the last update may be a part of one.
    some = batches > 0
    return Schedule(np.array(own)[some], batches[some].astype(np.int64))


def _updates(rates: FloatArray) -> FloatArray:
    """1, 2, ..., T."""
    return np.arange(1.0, rates.size + 1.0)


def _stage(rates: FloatArray) -> FloatArray:
    """Of every update, the stage of batch doubling: 0, 1, 2, 3."""
    return np.floor((_updates(rates) - 1.0) * DOUBLING_STAGES / rates.size)


def _rate_over_root_to_come(rates: FloatArray) -> FloatArray:
    r"""B_t ~ gamma_t / sqrt(sum_k gamma_k  sum_{k >= t} gamma_k), up to the total's factor.

    The rate to come includes the update itself, or the last batch would be infinite.
    """
    to_come = np.cumsum(rates[::-1])[::-1]
    return rates / np.sqrt(np.maximum(to_come, np.finfo(float).tiny))


def _doubled_and_halved(rates: FloatArray, samples: int) -> Schedule:
    stage = _stage(rates)
    peaks = np.maximum.accumulate(rates)
    return Schedule(peaks * 0.5**stage, in_proportion(2.0**stage, samples))


for _rule in (
    KeepsRates("constant", "The same batch throughout.", "usual practice", np.ones_like),
    KeepsRates("linear ramp", "The batch grows linearly, B_t ~ t.", "usual practice", _updates),
    KeepsRates(
        "late-large",
        f"The late switch: batches {LARGER:g} times as large in the last quarter of the updates.",
        "Wang et al. 2026; our switch and factor",
        lambda rates: np.where(_updates(rates) > SWITCH * rates.size, LARGER, 1.0),
    ),
    KeepsRates(
        "early-large",
        "The batch falls linearly, B_t ~ T - t + 1.",
        "the paper, appendix L",
        lambda rates: _updates(rates)[::-1],
    ),
    KeepsRates(
        "like the rate",
        "Batches in proportion to the rates, B_t ~ gamma_t.",
        "usual practice: the linear scaling of rates and batches",
        lambda rates: rates,
    ),
    KeepsRates(
        "batch doubling",
        f"The batch doubles from each of {DOUBLING_STAGES} equal stages to the next.",
        "usual practice",
        lambda rates: 2.0 ** _stage(rates),
    ),
    KeepsRates(
        "Li-Bu-Xu",
        "B_t ~ gamma_t over the root of the total rate times the rate to come, its own included.",
        "Li, Bu and Xu; second-hand",
        _rate_over_root_to_come,
    ),
    FollowsNoise(
        "noise scale",
        "Batches in proportion to the trace of the gradients' covariance over the squared mean.",
        "McCandlish et al. 2018",
    ),
    ChangesRates(
        "batch doubling, rate halved",
        f"From each of {DOUBLING_STAGES} equal stages to the next, twice the batch and half the "
        "rate, after the given warmup.",
        "usual practice",
        _doubled_and_halved,
    ),
    ChangesRates(
        "batch doubling, no decay",
        "Where the given rate has halved, the rate stays and the batch doubles.",
        "Smith et al. 2018",
        lambda rates, samples: trade(rates, samples, factor=2.0, kept=1.0),
    ),
    ChangesRates(
        "Seesaw",
        "Where the given rate has halved, the rate over sqrt(2) and twice the batch.",
        "Meterez et al. 2025",
        lambda rates, samples: trade(rates, samples, factor=2.0, kept=0.5),
    ),
    ChangesRates(
        "Seesaw, cuts of 1.1",
        "Where the given rate has fallen by 1.1, the rate over sqrt(1.1) and 1.1 times the batch.",
        "Meterez et al. 2025, their experiments",
        lambda rates, samples: trade(rates, samples, factor=1.1, kept=0.5),
    ),
):
    register(_rule)
