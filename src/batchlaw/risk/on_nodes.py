"""What a reader should know of a risk on nodes that stand for an average over sketches."""

from __future__ import annotations

from batchlaw.model.problem import Problem
from batchlaw.risk.result import Note

# Errors of Approx below this share of it are not worth a note.
WORTH_A_NOTE = 0.01


def approximation_notes(problem: Problem) -> tuple[Note, ...]:
    """The error of Approx, which ``uncertainty`` (of the excess) does not contain."""
    error = problem.approximation_error
    if error <= WORTH_A_NOTE * problem.approximation:
        return ()
    share = 100.0 * error / problem.approximation
    text = f"the approximation, {problem.approximation:.3g}, is the average over sketches"
    return (Note(f"{text} to about {share:.2g} %: {problem.multiplicity.sum():g} rows", "nodes"),)
