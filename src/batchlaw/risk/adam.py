"""Expected risk of Adam, AdamW and RMSProp in one pass: a mean field of the second moments."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import Batches, FloatArray
from batchlaw._base.errors import InputError
from batchlaw.model.problem import Problem
from batchlaw.risk.adam_bases import SOLVERS
from batchlaw.risk.on_nodes import approximation_notes
from batchlaw.risk.result import Note, Risk
from batchlaw.risk.stability import check_overflow, excess_note
from batchlaw.schedule.adam import SKETCH_DIAGONAL, Adam

MEAN_FIELD = Note(
    "Adam's risk is a mean field; its uncertainty is measured on examples and grows where v and "
    "the error depend on each other (docs/adam_mean_field.md)",
    "approximation",
)
OVER_PRIOR = Note(
    "the target is averaged over its prior before the run: exact for SGD, a further approximation "
    "for Adam, whose risk is not linear in the target, and not part of the stated uncertainty",
    "approximation",
)
DIAGONAL = Note(
    "the covariance of the error is taken as diagonal after preconditioning: within 1 % of the "
    "full mean field in 94 % of 288 rows, further off at high rates, and not meant for an eps that "
    "is near the root of v (docs/adam_mean_field.md)",
    "approximation",
)
# Stated relative error: a floor, a share of what v's spread changes, and what more noise changes
# that is in doubt because v and the error are not independent. Chosen on two rounds of settings;
# the measured errors are in docs/adam_mean_field.md.
FLOOR, SHARE_OF_SPREAD, DOUBT = 0.015, 0.4, 0.7
# Of "sketch-diagonal" against "sketch", on a held-out half of benchmarks/adam_cheap_form.py.
DIAGONAL_ERROR = 0.01


def adam_risk(
    problem: Problem, rates: ArrayLike, batches: Batches, rule: Adam, trajectory: bool = False
) -> Risk:
    """Mean field of Adam's risk for any rates and batches; see ``one_pass_risk``.

    Bias is the mean iterate's part of the excess and variance the rest. ``uncertainty`` is the
    stated relative error of the excess, that of the nodes included.
    """
    gamma = checks.vector("rates", rates)
    if not gamma.any():
        raise InputError("rates", "must not all be zero")
    sizes = checks.batches(batches, gamma.size, whole=False)
    moments = SOLVERS[rule.basis].moments

    def parts_of(nodes: Problem) -> FloatArray:
        return moments(nodes, gamma, sizes, rule, trajectory, spread=True)

    parts = parts_of(problem)
    check_overflow(parts, gamma, sizes)
    excess = parts.sum(axis=-1)
    uncertainty = _stated_error(moments, (problem, gamma, sizes, rule, trajectory), excess)
    if rule.basis == SKETCH_DIAGONAL:
        uncertainty += DIAGONAL_ERROR
    if problem.coarser is not None:
        uncertainty += problem.node_error(parts_of, parts)
    notes = (
        MEAN_FIELD,
        DIAGONAL if rule.basis == SKETCH_DIAGONAL else None,
        OVER_PRIOR if problem.over_prior else None,
        excess_note(problem, excess),
        *approximation_notes(problem),
    )
    if checks.is_single(batches):
        parts, uncertainty = parts[0], uncertainty[0]
    return Risk(
        procedure=rule.title("one-pass SGD"),
        method=problem.described("mean field of the second moments"),
        irreducible=problem.irreducible,
        approximation=problem.approximation,
        bias=parts[..., 0],
        variance=parts[..., 1],
        uncertainty=uncertainty,
        notes=tuple(note for note in notes if note is not None),
    ).named(batches)


def _stated_error(
    moments: Callable[..., FloatArray], run: tuple[object, ...], excess: FloatArray
) -> FloatArray:
    """Relative error of the excess, from two more mean fields; infinite where one diverges."""
    with np.errstate(invalid="ignore", over="ignore"):
        at_mean = moments(*run, spread=False).sum(axis=-1)
        doubted = moments(*run, spread=True, doubt=DOUBT).sum(axis=-1)
        error = FLOOR + SHARE_OF_SPREAD * np.abs(at_mean / excess - 1.0)
        error += np.abs(doubted / excess - 1.0)
    return np.where(np.isfinite(error), error, np.inf)
