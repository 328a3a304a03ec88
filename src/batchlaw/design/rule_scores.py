"""Rules that people use, scored over a range of problems against a constant batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw.batches.rules import RULES, FollowsNoise, KeepsRates, Rule, Schedule, rules_of
from batchlaw.design.plan_cases import RANGE, SCORE_ROWS, Grid, PlanCases
from batchlaw.schedule.update_rule import UpdateRule

CONSTANT = "constant"
# A ratio of this size stands for any that is larger, or for a run that overflows.
DIVERGED = 1e6


@dataclass(frozen=True, eq=False)
class RuleScore:
    """What a rule is worth in every case.

    Attributes
    ----------
    ratios : (K,) array
        Its excess over a constant batch's of the same sum, with the given rates; at most
        ``DIVERGED``.
    steps
        Updates that it makes of the samples.
    keeps_rates
        Whether its rates are the given ones; they then make equally many updates.
    """

    ratios: FloatArray
    steps: int
    keeps_rates: bool


def score_rules(
    rates: ArrayLike,
    constant: ArrayLike,
    rule: UpdateRule,
    grid: Grid = RANGE,
    cases: PlanCases | None = None,
) -> dict[str, RuleScore]:
    """Every registered rule at equal samples, those that keep the rates first.

    A rule that changes the rates has its own rates and number of updates; the peak of a case is
    that of the given rates, and its own rates are in proportion to it. The noise scale is that of
    each case, before every update of a pilot run with a constant batch.

    Parameters
    ----------
    rates : (T,) array
        The given step sizes, of which the shape matters.
    constant : (T,) array
        The constant batch that all are compared with; its sum is that of every rule's batches.
    rule
        The update rule: Adam or a form of SGD.
    grid
        The problems.
    cases
        The same problems with their peaks, where they are known already.
    """
    gamma = checks.vector("rates", rates)
    even = checks.batches(constant, gamma.size, whole=True)[0]
    if cases is None:
        cases = PlanCases.of(gamma, float(even.mean()), rule, SCORE_ROWS, grid)
    samples = int(even.sum())
    kept = {
        name: named.schedule(gamma, samples).batches
        for name, named in rules_of(KeepsRates).items()
        if name != CONSTANT
    }
    # Together, because the rates are prepared once for all.
    least, *excess = cases.excess(np.stack([even, *kept.values()]).astype(np.float64))
    scores = {
        name: RuleScore(_ratios(row, least), gamma.size, keeps_rates=True)
        for name, row in zip(kept, excess, strict=True)
    }
    others = {name: named for name, named in RULES.items() if not isinstance(named, KeepsRates)}
    return scores | {
        name: _score(named, gamma, cases, even, least) for name, named in others.items()
    }


def ratios_of(
    cases: PlanCases, peak: float, own: Schedule, samples: float, least: FloatArray
) -> FloatArray:
    """(K,) excesses of rates and batches, given for rates with this peak, over ``least``.

    Batches of another sum are scaled to that of the constant batch.
    """
    sizes = own.batches.astype(np.float64) * (samples / float(own.batches.sum()))
    return _ratios(cases.with_shape(own.rates / peak).excess(sizes)[0], least)


def _ratios(excess: FloatArray, least: FloatArray) -> FloatArray:
    return np.nan_to_num(excess / least, nan=DIVERGED, posinf=DIVERGED).clip(max=DIVERGED)


def _score(
    named: Rule, gamma: FloatArray, cases: PlanCases, even: FloatArray, least: FloatArray
) -> RuleScore:
    samples = int(even.sum())
    if isinstance(named, FollowsNoise):
        noise = cases.noise_scales(float(even.mean()))
        batches = [named.schedule(gamma, samples, row).batches for row in noise]
        ratios = _ratios(cases.own_excess(np.array(batches, dtype=np.float64)), least)
        return RuleScore(ratios, gamma.size, keeps_rates=True)
    own = named.schedule(gamma, samples)
    ratios = ratios_of(cases, float(gamma.max()), own, samples, least)
    return RuleScore(ratios, own.rates.size, keeps_rates=False)
