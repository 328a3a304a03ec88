"""Which member of the family: the one that predicts schedules best that it was not fitted to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.from_data.laws.curves import Group
from batchlaw.from_data.laws.least_squares import Fit, fit
from batchlaw.from_data.laws.member import Member

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
    for fold in range(min(FOLDS, len(groups))):
        own = range(fold, len(groups), FOLDS)
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
