"""Which law of loss curves: the one that predicts schedules best that it was not fitted to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.from_data.laws.curves import Group, schedule_key
from batchlaw.from_data.laws.least_squares import Fit, fit
from batchlaw.from_data.laws.member import Member
from batchlaw.from_data.laws.published.base import PublishedLaw
from batchlaw.from_data.run import Run

FOLDS = 5


@dataclass(frozen=True)
class Candidate:
    """A member fitted to all schedules, and its errors on each when that one was left out.

    Attributes
    ----------
    fit : Fit
    held_out : (S,) array
        Root mean square error over the last 30 % of every schedule, predicted from the others.
    errors : (S,) array
        The error of its last loss: predicted less measured.
    """

    fit: Fit
    held_out: FloatArray
    errors: FloatArray

    @property
    def score(self) -> float:
        return math.sqrt(float(np.mean(self.held_out**2)))


def cross_validated(member: Member, groups: Sequence[Group]) -> Candidate:
    """Fit all schedules, and each fold from the others; every search begins at the full fit."""
    full = fit(member, groups)
    held_out, errors = np.empty(len(groups)), np.empty(len(groups))
    for own in _folds(groups):
        others = [g for i, g in enumerate(groups) if i not in own]
        found = fit(member, others, [full.coordinates])
        for i in own:
            error = found.curve(groups[i]) - groups[i].losses
            held_out[i] = math.sqrt(float(np.mean(error[groups[i].tail] ** 2)))
            errors[i] = error[-1]
    return Candidate(full, held_out, errors)


def best(candidates: Sequence[Candidate]) -> Candidate:
    """The least error on schedules left out; of equals, the simplest."""
    return min(candidates, key=lambda c: c.score)


def published_scores(
    laws: Sequence[PublishedLaw], groups: Sequence[Group]
) -> dict[str, float | str]:
    """What `Candidate.score` is for a member, for published laws in the same folds, by name.

    They see the same losses as the members do, seeds averaged; every schedule counts once. Folds
    are searched from the fit to all schedules, as those of members are. Six laws on ten
    schedules take about 50 s. A law that cannot be fitted has the reason in place of its error.
    """
    runs = [Run(g.run.rates, g.run.batches, g.steps, g.losses) for g in groups]
    scores: dict[str, float | str] = {}
    for law in laws:
        try:
            scores[law.name] = _published_score(law, groups, runs)
        except InputError as error:
            scores[law.name] = str(error)
    return scores


def _published_score(law: PublishedLaw, groups: Sequence[Group], runs: list[Run]) -> float:
    full = law.fit(runs)
    starts = [full.theta] if law.minimizes else None
    squares = np.empty(len(groups))
    for own in _folds(groups):
        found = law.fit([run for i, run in enumerate(runs) if i not in own], starts=starts)
        amplitudes, shape = law.split(found.theta)
        for i in own:
            run, at = runs[i], groups[i].tail
            prepared = law.prepare(run.rates, run.batches, run.steps[at])
            # Not its `curve`, which refuses a floor below 0, where a short descent may end.
            error = law.terms(shape, prepared) @ amplitudes - run.losses[at]
            squares[i] = np.mean(error**2)
    return math.sqrt(float(np.mean(squares)))


def _folds(groups: Sequence[Group]) -> list[list[int]]:
    """Which groups are left out together; those of one schedule, measured at other steps, are."""
    numbers = schedules(groups)
    most = min(FOLDS, max(numbers) + 1)
    return [[i for i, k in enumerate(numbers) if k % FOLDS == fold] for fold in range(most)]


def schedules(groups: Sequence[Group]) -> list[int]:
    """The number of every group's schedule, from 0 in their order."""
    keys = [schedule_key(g.run) for g in groups]
    place = {key: k for k, key in enumerate(dict.fromkeys(keys))}
    return [place[key] for key in keys]
