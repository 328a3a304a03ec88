"""The coordinates in which an update rule works.

Problems and their samples are in Sigma's eigenbasis. SGD commutes with rotations; Adam does not,
so its samples are rotated before the first update, and its results back after the last.
"""

from __future__ import annotations

from dataclasses import dataclass

from batchlaw._base.checks import FloatArray
from batchlaw.model.problem import Problem
from batchlaw.risk.runs import Dataset
from batchlaw.schedule.adam import Adam
from batchlaw.schedule.update_rule import UpdateRule


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Orthonormal axes (M, M), one eigenvector of Sigma per row; None for the eigenbasis itself."""

    axes: FloatArray | None = None

    def enter(self, vectors: FloatArray) -> FloatArray:
        """Vectors (..., M) of the eigenbasis in these coordinates."""
        return vectors if self.axes is None else vectors @ self.axes

    def leave(self, vectors: FloatArray) -> FloatArray:
        """Vectors (..., M) in these coordinates, back in the eigenbasis."""
        return vectors if self.axes is None else vectors @ self.axes.T

    def dataset(self, dataset: Dataset) -> Dataset:
        """Samples of the eigenbasis with their features in these coordinates."""
        features, labels = dataset
        return self.enter(features), labels


def coordinates_of(rule: UpdateRule, problem: Problem) -> Coordinates:
    """Where a rule works; Adam in a sketch's own coordinates needs a drawn problem."""
    if isinstance(rule, Adam) and rule.in_sketch:
        return Coordinates(problem.axes)
    return Coordinates()
