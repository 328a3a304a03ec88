"""Expected risk of Adam, AdamW and RMSProp in one pass: a mean field of the second moments."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import Batches
from batchlaw._base.errors import InputError
from batchlaw._base.kernels.adam_spread import AT_MEAN, RESUMMED
from batchlaw.model.problem import Problem
from batchlaw.risk.adam_matrix import matrix_moments
from batchlaw.risk.result import Note, Risk
from batchlaw.risk.stability import check_overflow, excess_note
from batchlaw.schedule.adam import Adam

MEAN_FIELD = Note(
    "Adam's risk is a mean field: v is lognormal around its mean and independent of the error; "
    "the uncertainty is estimated from the size of that correction",
    "approximation",
)
# Stated relative error: a share of what v's spread changes, and a floor; the measured errors are
# in docs/adam_mean_field.md.
SHARE_OF_SPREAD, FLOOR = 0.25, 0.01


def adam_risk(
    problem: Problem, rates: ArrayLike, batches: Batches, rule: Adam, trajectory: bool = False
) -> Risk:
    """Mean field of Adam's risk for any rates and batches; see ``one_pass_risk``.

    Bias is the mean iterate's part of the excess and variance the rest. ``uncertainty`` is the
    stated relative error of the excess.
    """
    gamma = checks.vector("rates", rates)
    if not gamma.any():
        raise InputError("rates", "must not all be zero")
    sizes = checks.batches(batches, gamma.size, whole=False)

    at_mean, parts = (
        matrix_moments(problem, gamma, sizes, rule, trajectory, order)
        for order in (AT_MEAN, RESUMMED)
    )
    check_overflow(parts, gamma, sizes)
    excess = parts.sum(axis=-1)
    uncertainty = FLOOR + SHARE_OF_SPREAD * np.abs(at_mean.sum(axis=-1) / excess - 1.0)
    note = excess_note(problem, excess)
    if checks.is_single(batches):
        parts, uncertainty = parts[0], uncertainty[0]
    return Risk(
        procedure=rule.title("one-pass SGD"),
        method="mean field of the second moments",
        irreducible=problem.irreducible,
        approximation=problem.approximation,
        bias=parts[..., 0],
        variance=parts[..., 1],
        uncertainty=uncertainty,
        notes=(MEAN_FIELD, *(() if note is None else (note,))),
    ).named(batches)
