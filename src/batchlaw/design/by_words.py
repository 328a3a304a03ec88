"""A case from words: plain values by name, as options, files and pages give them.

A word that would have no effect is refused.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError, arg
from batchlaw._base.files import read_columns, read_schedule
from batchlaw._base.words import refuse_unused
from batchlaw.batches.allocation import FAMILIES, METHODS, allocate, schedule_families
from batchlaw.design.case import Case
from batchlaw.design.vocabulary import (
    BATCHES,
    DEFAULTS,
    DRAWN,
    EXACT,
    PROBLEMS,
    SIMULATED,
    SOLVERS,
)
from batchlaw.model.problem import KINDS, Problem
from batchlaw.risk.procedure import Procedure, procedure_by_words
from batchlaw.schedule.optimizers import rule_by_words
from batchlaw.schedule.registry import RATE_PARAMETERS, RATE_SCHEDULES, rates_by_name
from batchlaw.schedule.update_rule import UpdateRule

Words = Mapping[str, Any]


def word(words: Words, name: str) -> Any:
    """The value of a word, or its default."""
    value = words.get(name)
    return DEFAULTS[name] if value is None else value


def problem_by_words(words: Words) -> Problem:
    """The problem that the words describe."""
    kind = word(words, "problem")
    if kind in PROBLEMS:
        unused = ("d", "seed") if kind in KINDS else ()
        refuse_unused(words, unused, f"problem {kind}")
        names = ("seed", "d", "m", "a", "b", "sigma")
        return _named_problem(kind, *(word(words, n) for n in names), bool(words.get("prior")))
    refuse_unused(words, ("d", "seed", "m", "a", "b"), "a spectrum from a file")
    problem = _from_file(file_of("problem", kind, PROBLEMS), word(words, "sigma"))
    return problem.prior_mean() if words.get("prior") else problem


@lru_cache(maxsize=8)
def _named_problem(
    kind: str, seed: int, d: int, m: float, a: float, b: float, sigma: float, prior: bool
) -> Problem:
    """Cached, because the cases of a sweep share it and drawing costs more than most solutions."""
    if kind in KINDS:
        rows = math.inf if float(m) == math.inf else checks.count("sketch", m)
        problem = Problem.power_law_nodes(a, b, rows, kind=kind, sigma=sigma)
    elif kind == "paper":
        problem = Problem.paper(seed, d, checks.count("sketch", m), a, b, sigma)
    else:
        problem = Problem.power_law(a, b, checks.count("sketch", m), d, sigma, seed=seed)
    return problem.prior_mean() if prior else problem


def _from_file(path: Path, sigma: float) -> Problem:
    sigma = checks.real("sigma", sigma, at_least=0.0, at_most=1e100)
    columns = read_columns(path, needed=("eigenvalue", "energy"), optional=("multiplicity",))
    return Problem.from_spectrum(
        columns["eigenvalue"], columns["energy"], sigma**2, columns.get("multiplicity")
    )


def problem_seed(words: Words) -> int | None:
    """The seed of the draws, or None for a problem without draws."""
    return int(word(words, "seed")) if word(words, "problem") in DRAWN else None


def file_of(name: str, value: str, known: tuple[str, ...]) -> Path:
    """A file given in place of a known name; the refusal of anything else lists the names."""
    path = Path(value)
    if not path.suffix and not os.path.exists(value):
        raise InputError(name, f"must be one of {', '.join(known)} or a CSV file", repr(value))
    return path


def rates_by_words(words: Words) -> FloatArray:
    """The rates that the words describe."""
    name = word(words, "rates")
    parameters = {key: words.get(key) for key in RATE_PARAMETERS}
    if name in RATE_SCHEDULES:
        return rates_by_name(name, word(words, "steps"), word(words, "gamma"), parameters)
    refuse_unused(words, (*RATE_PARAMETERS, "steps", "gamma"), "a file of rates")
    return read_schedule(file_of("rates", name, tuple(RATE_SCHEDULES)), "rate")


def budget_by_words(words: Words, steps: int) -> int:
    """The budget in samples for this number of updates."""
    if words.get("budget") is not None:
        refuse_unused(words, ("mean_batch",), f"a {arg('budget')}")
        return int(words["budget"])
    return steps * checks.count("mean_batch", word(words, "mean_batch"))


def batches_by_words(
    words: Words, influence: FloatArray, max_batch: int | None, default: str
) -> dict[str, FloatArray]:
    """Every schedule by name, in the order of the words."""
    names = (words.get("batches") or default).split(",")
    if "" in names:
        raise InputError("batches", "must be names separated by commas", repr(words.get("batches")))
    budget = budget_by_words(words, influence.size)
    families: dict[str, Any] = {}
    if any(name in FAMILIES for name in names):
        families = dict(schedule_families(influence, budget, max_batch=max_batch))

    def schedule(name: str) -> Any:
        if name in families:
            return families[name]
        if name in METHODS:
            return allocate(influence, budget, method=name, max_batch=max_batch)
        return read_schedule(file_of("batches", name, BATCHES), "batch")

    return {name: np.asarray(schedule(name), dtype=np.float64) for name in names}


def is_simulated(words: Words, procedure: Procedure, rule: UpdateRule) -> bool:
    """Whether Monte Carlo is asked for, or the only solver of the procedure with this rule."""
    solved = procedure.solves(rule)
    solver = words.get("solver") or (EXACT if solved else SIMULATED)
    if checks.choice("solver", solver, SOLVERS) == SIMULATED:
        return True
    refuse_unused(words, ("repetitions", "data_seed"), "the exact solver")
    if not solved:
        what = f" with {arg(rule.departure)}" if procedure.solvable else ""
        raise InputError(
            "solver", f"must be {SIMULATED} for procedure {procedure.name}{what}", solver
        )
    return False


def case_by_words(words: Words, *, batches: str = "oracle,constant") -> Case:
    """The case that the words describe; ``batches`` names the schedules where the words do not."""
    procedure, rule = procedure_by_words(words), rule_by_words(words)
    procedure.check_rule(rule)
    is_simulated(words, procedure, rule)  # refuses a solver that there is not
    gamma = rates_by_words(words)
    case = Case(problem_by_words(words), gamma, procedure=procedure, rule=rule)
    if not procedure.summary:
        return case
    return case.with_batches(batches_by_words(words, case.influence, procedure.max_batch, batches))
