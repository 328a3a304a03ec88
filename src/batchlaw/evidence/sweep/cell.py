"""One cell of a sweep: a case in words, as a flat mapping, and its results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from batchlaw._base import checks
from batchlaw.design.by_words import case_by_words, is_simulated, word
from batchlaw.design.case import Case
from batchlaw.design.vocabulary import BATCHES, PROBLEMS, SECTIONS
from batchlaw.schedule.registry import RATE_SCHEDULES

# The whole risk, and what lies above the best predictor.
WHOLE = ("total", "excess")


def prepare(cell: Mapping[str, Any]) -> Case:
    """The case of a cell, not yet solved; ``InputError`` where its words do not fit together."""
    words = _words(cell)
    # A cell holds everything its result depends on; a file name does not.
    for name, known in (("problem", PROBLEMS), ("rates", RATE_SCHEDULES), ("batches", BATCHES)):
        if name in words:
            checks.choice(name, words[name], known)
    return case_by_words(words, batches="oracle")


def solve(cell: Mapping[str, Any]) -> dict[str, float]:
    """The risk of a cell and its parts, with standard errors if it is simulated."""
    case, words = prepare(cell), _words(cell)
    parts = (*WHOLE, "irreducible", "approximation", *case.procedure.parts)
    numbers = {name: _number(value) for name, value in case.summaries().items()}
    if not is_simulated(words, case.procedure, case.rule):
        risk = case.risk()
        numbers |= {part: _number(getattr(risk, part)) for part in parts}
        return numbers | {"relative_error": float(np.max(risk.uncertainty))}
    risk = case.simulate(word(words, "repetitions"), word(words, "data_seed"), threads=1)
    for part in parts:
        # The simulation of one pass does not split the variance by its two sources.
        if getattr(risk, part) is None:
            continue
        numbers[part] = _number(getattr(risk, part))
        if part in WHOLE or part in risk.leave_one_out:
            numbers[f"{part}_se"] = _number(risk.standard_error(part))
    return numbers


def _words(cell: Mapping[str, Any]) -> dict[str, Any]:
    """The words of a cell; "inf" is stored as text, because JSON has no infinity."""
    known = {word.name for words in SECTIONS.values() for word in words()}
    words = {name: value for name, value in cell.items() if name in known}
    if words.get("m") == "inf":
        words["m"] = np.inf
    return words


def _number(value: Any) -> float:
    return float(np.asarray(value).ravel()[0])
