"""Shared by the expectations over datasets: the assembly of a result, and its caveats."""

from __future__ import annotations

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw._base.kernels.common import products
from batchlaw.model.problem import Problem
from batchlaw.risk.result import Note, Risk
from batchlaw.risk.stability import excess_note

APPROXIMATE = Note(
    "an approximation: docs/mean_field.md compares its stated errors with exact averages",
    "approximation",
)


def reuse_name(replacement: bool) -> str:
    return f"multi-pass SGD, {'with' if replacement else 'without'} replacement"


def remaining(problem: Problem, rates: FloatArray) -> FloatArray:
    """prod_t (1 - gamma_t mu_j), the share of each direction not yet learned."""
    return np.asarray(products(problem.eigenvalues, rates), dtype=np.float64)


def degrees_of_freedom(problem: Problem, rates: FloatArray) -> float:
    """df = sum_j n_j (1 - prod_t (1 - gamma_t mu_j)): the number of directions fitted."""
    return float(problem.multiplicity @ (1.0 - remaining(problem, rates)))


def averaged_risk(
    problem: Problem,
    procedure: str,
    method: str,
    bias: FloatArray | float,
    variance: FloatArray | float,
    fluctuation: FloatArray | float,
    uncertainty: FloatArray | float,
    notes: tuple[Note, ...] = (),
) -> Risk:
    """GD's parts, the same for every schedule, and each schedule's fluctuation."""
    same = np.ones_like(fluctuation)
    grown = excess_note(problem, bias + variance + np.asarray(fluctuation))
    return Risk(
        procedure=procedure,
        method=problem.described(method),
        irreducible=problem.irreducible,
        approximation=problem.approximation,
        bias=bias * same,
        variance=variance * same,
        fluctuation=fluctuation,
        uncertainty=uncertainty,
        notes=(APPROXIMATE, *notes, *(() if grown is None else (grown,))),
    )
