"""Which solver serves each basis of Adam: moments of many schedules, and slopes in the batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from batchlaw._base.checks import FloatArray
from batchlaw.risk.adam_diagonal import diagonal_moments, diagonal_slopes
from batchlaw.risk.adam_matrix import matrix_moments
from batchlaw.risk.adam_matrix_slopes import matrix_slopes
from batchlaw.risk.adam_preconditioned import preconditioned_moments, preconditioned_slopes
from batchlaw.schedule.adam import EIGEN, GENERIC, SKETCH, SKETCH_DIAGONAL


class Solver(NamedTuple):
    """``moments(problem, rates, batches, rule, trajectory, spread)`` and the slopes at its end."""

    moments: Callable[..., FloatArray]
    slopes: Callable[..., tuple[float, FloatArray]]


SOLVERS = {
    SKETCH: Solver(matrix_moments, matrix_slopes),
    SKETCH_DIAGONAL: Solver(preconditioned_moments, preconditioned_slopes),
    EIGEN: Solver(diagonal_moments, diagonal_slopes),
    GENERIC: Solver(diagonal_moments, diagonal_slopes),
}
