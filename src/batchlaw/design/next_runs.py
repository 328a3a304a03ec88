r"""Which short runs to make next, so that the value of a batch schedule is known best.

The question is the difference in final loss between batch schedules and the constant batch, at a
target run. With the law linear around its parameters (`law_knowledge.py`) its standard deviation
after a set A of runs is

.. math:: \sigma_A^2 = s^T (P^{-1} + \sum_{i \in A} M_i)^{-1} s + (c_A \delta)^2

with s the slopes of the difference, and delta the law's own error, which counts twice (c = 2) while
no run has had such batches and such a change, as in ``TrainingLaw.difference``. Over several
schedules it is the root of the mean square: a linear (A-, or D-c-optimal) design.

A set of a given number of runs minimises sigma_A (1 + share), share being the samples of its runs
over those of the target: to halve the error is worth a target run. It is built greedily and then
improved by exchanges.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError, arg
from batchlaw.batches.allocation import allocate
from batchlaw.batches.limits import Limits
from batchlaw.batches.rules import KeepsRates, rules_of
from batchlaw.design.law_knowledge import Knowledge, Seen
from batchlaw.design.short_runs import FEWEST_UPDATES, LENGTHS, ShortRun, catalogue
from batchlaw.from_data.laws.bands import STRANGE
from batchlaw.from_data.laws.training_law import TrainingLaw
from batchlaw.schedule.update_rule import UpdateRule

# The schedules whose value is asked for, unless others are given. Their batches are within this
# factor of the mean, as those of a plan.
RULES = ("early-large", "like the rate", "Li-Bu-Xu")
WITHIN = 4.0
FEWEST, MOST = 2, 6
# Another run is not recommended if it lowers the standard deviation by less than this share.
WORTH = 0.1
# Rounds of exchanges; each ends the search if it changes nothing.
ROUNDS = 20
LOSS = 3.0


@dataclass(frozen=True)
class RunSet:
    """A set of short runs, and what it is expected to tell.

    Attributes
    ----------
    runs
    deviation
        Standard deviation of the differences after these runs, with the law's own error.
    of_parameters
        The part of it that comes from the law's parameters.
    samples, updates
        Of all runs together, as shares of the target run.
    """

    runs: tuple[ShortRun, ...]
    deviation: float
    of_parameters: float
    samples: float
    updates: float


@dataclass(frozen=True)
class NextRuns:
    """The best set of each number of runs, and the one that is recommended.

    Attributes
    ----------
    now : RunSet
        Without a run.
    sets
        One set for each number of runs, from two on.
    recommended
        The smallest after which another run lowers the standard deviation by less than 10 %.
    differences
        What the law so far expects of each schedule: final loss less that of the constant batch.
    error
        Assumed standard deviation of a run's losses around the law.
    notes
        What the answer assumes, and what it leaves open.
    """

    now: RunSet
    sets: tuple[RunSet, ...]
    recommended: RunSet
    differences: dict[str, float]
    error: float
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Search:
    """Everything about candidates and schedules that a set's standard deviation depends on.

    Attributes
    ----------
    information : (C, k, k) array
        L^T M L of every candidate, P = L L^T.
    slopes : (S, k) array
        L^T s of every schedule's difference.
    misfit
        delta.
    covered : (C, S, 3) array
        Whether a candidate has the smallest batch, the largest and the change of a schedule.
    known : (S, 3) array
        The same for the runs so far.
    samples, updates : (C,) arrays
        Shares of the target's.
    most
        The largest share of samples that a set may have.
    """

    information: FloatArray
    slopes: FloatArray
    misfit: float
    covered: NDArray[np.bool_]
    known: NDArray[np.bool_]
    samples: FloatArray
    updates: FloatArray
    most: float

    def deviations(
        self, chosen: Sequence[int], others: NDArray[np.intp] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Standard deviations of a set with each of ``others``: whole, and of the parameters."""
        more = others is not None
        base = np.eye(self.slopes.shape[1]) + self.information[list(chosen)].sum(axis=0)
        matrices = base + self.information[others] if more else base[None]
        solved = np.linalg.solve(
            matrices, np.broadcast_to(self.slopes.T, (len(matrices), *self.slopes.T.shape))
        )
        variance = np.maximum(np.einsum("sk,cks->cs", self.slopes, solved), 0.0)
        seen = self.known | self.covered[list(chosen)].any(axis=0)
        covered = (seen | self.covered[others] if more else seen[None]).all(axis=2)
        own = (self.misfit * np.where(covered, 1.0, 1.0 + STRANGE)) ** 2
        return (
            np.sqrt((variance + own).mean(axis=1)),
            np.sqrt(variance.mean(axis=1)),
        )

    def scores(self, chosen: Sequence[int], others: NDArray[np.intp]) -> FloatArray:
        """What is minimised, of a set with each of ``others``; infinite beyond the limit."""
        share = self.samples[list(chosen)].sum() + self.samples[others]
        whole, _ = self.deviations(chosen, others)
        score = whole * (1.0 + share)
        score[share > self.most * (1.0 + 1e-9)] = math.inf
        return np.asarray(score)

    def score(self, chosen: Sequence[int]) -> float:
        return float(self.scores(chosen[:-1], np.array(chosen[-1:]))[0])

    def best(self, count: int, start: Sequence[int] = ()) -> list[int]:
        """A set of ``count`` candidates that includes no candidate twice; empty if none is allowed.

        Greedy from ``start``, then each member is exchanged for the best other one until nothing
        changes.
        """
        chosen = list(start)
        while len(chosen) < count:
            others = self._others(chosen, count - len(chosen) - 1)
            if not others.size:
                return []
            chosen.append(int(others[np.argmin(self.scores(chosen, others))]))
        for _ in range(ROUNDS):
            before = list(chosen)
            for place in range(count):
                rest = chosen[:place] + chosen[place + 1 :]
                others = self._others(rest, 0)
                score = self.scores(rest, others)
                if score.min() < self.score(chosen) * (1.0 - 1e-9):
                    better = int(others[np.argmin(score)])
                    chosen = [*chosen[:place], better, *chosen[place + 1 :]]
            if sorted(chosen) == sorted(before):
                break
        return sorted(chosen)

    def next_set(self, chosen: Sequence[int], count: int) -> list[int]:
        """The best set of ``count`` candidates that tells no less than a smaller one; or empty."""
        found = [self.best(count)]
        if chosen:
            others = self._others(chosen, 0)
            if others.size:
                more = int(others[np.argmin(self.scores(chosen, others))])
                found += [[*chosen, more], self.best(count, chosen)]
            limit = float(self.deviations(chosen)[0][0])
            found = [s for s in found if s and self.deviations(s)[0][0] <= limit * (1.0 + 1e-12)]
        return min((s for s in found if s), key=self.score, default=[])

    def _others(self, chosen: Sequence[int], to_come: int) -> NDArray[np.intp]:
        """Candidates that leave room for ``to_come`` of the cheapest others."""
        free = np.setdiff1d(np.arange(self.samples.size), chosen)
        if free.size <= to_come:
            return free[:0]
        cost = self.samples[free]
        cheap = np.sort(cost)[: to_come + 1]
        # One that is itself among the cheapest leaves the next one to the others.
        rest = np.where(cost <= cheap[-1], cheap.sum() - cost, cheap[:-1].sum())
        spent = self.samples[list(chosen)].sum() + cost + rest
        return np.asarray(free[spent <= self.most * (1.0 + 1e-9)])


def next_runs(
    rates: ArrayLike,
    budget: int,
    *,
    law: TrainingLaw | None = None,
    rule: UpdateRule | None = None,
    loss: float | None = None,
    error: float | None = None,
    schedules: Mapping[str, ArrayLike] | None = None,
    most_runs: int = MOST,
    max_compute: float = 1.0,
    min_batch: int = 1,
    max_batch: int | None = None,
    multiple_of: int = 1,
) -> NextRuns:
    """Two to six short runs after which the value of a batch schedule is known best.

    The value is the difference in final loss to the constant batch at a target run. The answer is
    an approximation: the law is taken as linear around the parameters that it has now, or around
    expected ones (docs/next_runs.md).

    Parameters
    ----------
    rates : (T,) array
        Of the target run.
    budget
        Samples of the target run.
    law
        The law of the runs so far; None for expected parameters with wide spreads.
    rule
        The optimizer, if there is no law.
    loss
        About the final loss of the target run, if there is no law; 3 by default.
    error
        Standard deviation of a run's losses around the law; by default what the law's own runs
        show, or 0.3 % of the loss.
    schedules
        Batches of the target run by name, whose value is asked for; by default the rules
        early-large, like the rate and Li-Bu-Xu, within a factor of 4 of the mean.
    most_runs
        The largest number of runs, from 2 to 6.
    max_compute
        The most samples of all runs together, as a share of the budget.
    min_batch, max_batch, multiple_of
        Limits of every batch of the short runs.
    """
    gamma = checks.vector("rates", rates)
    if gamma.max() <= 0.0:
        raise InputError("rates", "must have one above 0")
    budget = checks.count("budget", budget, minimum=gamma.size)
    most_runs = checks.count("most_runs", most_runs, minimum=FEWEST)
    if most_runs > MOST:
        raise InputError("most_runs", f"must be at most {MOST}", f"{most_runs}")
    max_compute = checks.real("max_compute", max_compute, above=0.0)
    if error is not None:
        error = checks.real("error", error, above=0.0)
    mean = budget / gamma.size
    known = _knowledge(gamma, mean, law, rule, loss, error)
    asked = {
        name: sizes
        for name, sizes in _schedules(gamma, budget, schedules).items()
        if np.ptp(sizes) > 0.0
    }
    if not asked:
        name = "budget" if schedules is None else "schedules"
        raise InputError(name, "must let batches change: every schedule is constant", f"{budget}")
    shortest = max(math.ceil(1.2 * known.shortest()), FEWEST_UPDATES)
    if round(LENGTHS[-1] * gamma.size) < shortest:
        raise InputError(
            "rates",
            f"must have at least {2 * shortest} updates: a fit looks at no loss before update "
            f"{known.shortest()}, and short runs have at most half of the target's",
            f"{gamma.size}",
        )
    listed = catalogue(gamma, budget, Limits(min_batch, max_batch, multiple_of), shortest)
    candidates = [run for run in listed if run.samples <= max_compute * budget]
    search, differences = _search(known, gamma, budget, asked, candidates, max_compute)
    sets: list[RunSet] = []
    chosen: list[int] = []
    for count in range(FEWEST, most_runs + 1):
        larger = search.next_set(chosen, count)
        if not larger:
            break
        chosen = larger
        sets.append(_run_set(search, chosen, candidates))
    if not sets:
        raise InputError(
            "max_compute",
            f"must allow {FEWEST} short runs, with {arg('rates')} and limits of batches like these",
            f"{max_compute:g}",
        )
    notes = [*_notes(known, law, gamma, mean)]
    if len(sets) < most_runs - FEWEST + 1:
        notes.append(
            f"no set of {FEWEST + len(sets)} runs within {max_compute:.1%} of the target's samples "
            "tells more"
        )
    now = _run_set(search, [], candidates)
    return NextRuns(now, tuple(sets), _recommended(sets), differences, known.error, tuple(notes))


def _knowledge(
    gamma: FloatArray,
    mean: float,
    law: TrainingLaw | None,
    rule: UpdateRule | None,
    loss: float | None,
    error: float | None,
) -> Knowledge:
    if law is None:
        if not isinstance(rule, UpdateRule):
            raise InputError("rule", "must be given where there is no law", hint="bl.adam(...)")
        level = LOSS if loss is None else checks.real("loss", loss, above=0.0)
        return Knowledge.of_nothing(rule, gamma, mean, level, error)
    if not isinstance(law, TrainingLaw):
        raise InputError("law", "must be a law that bl.fit_law made", type(law).__name__)
    for name, value in (("rule", rule), ("loss", loss)):
        if value is not None:
            raise InputError(name, "has no use with a law, which has its own")
    return Knowledge.of_law(law, gamma, error)


def _schedules(
    gamma: FloatArray, budget: int, given: Mapping[str, ArrayLike] | None
) -> dict[str, FloatArray]:
    if given is None:
        mean = budget / gamma.size
        low, high = max(1, math.floor(mean / WITHIN)), math.ceil(WITHIN * mean)
        rules = rules_of(KeepsRates)
        return {
            # ``allocate`` follows square roots.
            name: np.asarray(
                allocate(rules[name].shape(gamma) ** 2, budget, min_batch=low, max_batch=high),
                dtype=np.float64,
            )
            for name in RULES
        }
    if not isinstance(given, Mapping) or not given:
        raise InputError("schedules", "must be batches by name", repr(given)[:60])
    sizes = checks.batches(given, gamma.size, whole=False)
    sums = sizes.sum(axis=1)
    for name, total in zip(given, sums, strict=True):
        if not math.isclose(total, budget, rel_tol=0.01):
            raise InputError(
                "schedules",
                f"must each have the samples of {arg('budget')}, {budget}",
                f"{total:g} in {name}",
            )
    return dict(zip(given, sizes, strict=True))


def _search(
    known: Knowledge,
    gamma: FloatArray,
    budget: int,
    asked: Mapping[str, FloatArray],
    candidates: Sequence[ShortRun],
    most: float,
) -> tuple[Search, dict[str, float]]:
    constant, base = known.final(gamma, np.full(gamma.size, budget / gamma.size))
    ends = {name: known.final(gamma, sizes) for name, sizes in asked.items()}
    needed = [Seen.of(sizes) for sizes in asked.values()]
    covered = [[Seen.of(run.batches).covers(need) for need in needed] for run in candidates]
    have = [known.seen.covers(need) if known.seen else (False,) * 3 for need in needed]
    k = base.size
    tables = [known.information(run.rates, run.batches) for run in candidates]
    search = Search(
        np.array(tables).reshape(-1, k, k),
        np.array([slope - base for _, slope in ends.values()]),
        known.misfit,
        np.array(covered, dtype=bool).reshape(-1, len(needed), 3),
        np.array(have, dtype=bool),
        np.array([run.samples / budget for run in candidates]),
        np.array([run.steps / gamma.size for run in candidates]),
        most,
    )
    return search, {name: value - constant for name, (value, _) in ends.items()}


def _run_set(search: Search, chosen: Sequence[int], candidates: Sequence[ShortRun]) -> RunSet:
    whole, part = search.deviations(chosen)
    return RunSet(
        tuple(candidates[i] for i in chosen),
        float(whole[0]),
        float(part[0]),
        float(search.samples[list(chosen)].sum()),
        float(search.updates[list(chosen)].sum()),
    )


def _recommended(sets: Sequence[RunSet]) -> RunSet:
    for own, larger in itertools.pairwise(sets):
        if larger.deviation > (1.0 - WORTH) * own.deviation:
            return own
    return sets[-1]


def _notes(
    known: Knowledge, law: TrainingLaw | None, gamma: FloatArray, mean: float
) -> Iterator[str]:
    yield (
        "an approximation: the law is taken as linear around its parameters, and as right but for "
        "errors of the stated sizes"
    )
    yield f"the law's own error in a difference, {known.misfit:.4f}, is left after any runs"
    if law is None:
        yield "no law: expected parameters with wide spreads; fit these runs, then design again"
        return
    for name, factor in law.seen.beyond(gamma, np.full(gamma.size, mean)).items():
        yield f"beyond the law's runs by a factor of {factor:.3g}: the target's {name}"
    if known.member.batch_exponents and not law.member.batch_exponents:
        yield "the law's runs have one batch size: what a batch does is taken as unknown"
