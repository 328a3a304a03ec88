"""One cell of a sweep: a setting as a flat mapping, and the numbers that come of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw.batches.allocation import FAMILIES, METHODS
from batchlaw.design.choices import (
    DRAWN,
    PARTS,
    SHAPES,
    BatchChoice,
    ProblemChoice,
    RateChoice,
    SolverChoice,
)
from batchlaw.model.problem import KINDS, Problem

# Sections of a grid, and what each is made of.
CHOICES: dict[str, Any] = {
    "problem": ProblemChoice,
    "rates": RateChoice,
    "batches": BatchChoice,
    "solver": SolverChoice,
}
# A cell says all that its result depends on, which the name of a file does not.
NAMES = {
    "problem": (*DRAWN, *KINDS),
    "rates": ("wsd", *SHAPES, "constant"),
    "batches": (*FAMILIES, *METHODS),
}
EXACT, SIMULATED = SOLVERS = ("exact", "simulated")
# What a sweep adds to the solver: which one, and the draws of the simulated one.
DRAWS = {"solver": str, "repetitions": int, "data_seed": int}
REPETITIONS, DATA_SEED = 100, 0


@dataclass(frozen=True, eq=False)
class Prepared:
    """All that a solver needs, without having solved."""

    problem: Problem
    gamma: FloatArray
    kappa: FloatArray
    sizes: list[FloatArray]
    solver: SolverChoice


def prepare(cell: Mapping[str, Any]) -> Prepared:
    """Build the parts of a cell; ValueError where they do not fit together."""
    solver = _part(cell, SolverChoice)
    solver.check()
    checks.choice("solver", cell.get("solver", EXACT), SOLVERS)
    if cell.get("solver", EXACT) == EXACT:
        for name in ("repetitions", "data_seed"):
            if name in cell:
                raise ValueError(f"the exact solver has no use for {name}")
    else:
        solver.check_simulated()
    gamma = _part(cell, RateChoice).build()
    batches = _part(cell, BatchChoice)
    problem = _problem(_part(cell, ProblemChoice))
    kappa = solver.influence(problem, gamma)
    sizes: list[FloatArray] = []
    if solver.procedure != "gd":
        sizes = list(batches.build(kappa, solver.max_batch).values())
    return Prepared(problem, gamma, kappa, sizes, solver)


def solve(cell: Mapping[str, Any]) -> dict[str, float]:
    """The risk of a cell and its parts; of a simulation with their standard errors."""
    made = prepare(cell)
    solver = made.solver
    parts = ("total", "irreducible", "approximation", *PARTS[solver.procedure])
    summaries = solver.summaries(made.kappa, made.sizes)
    out = {name: _number(value) for name, value in summaries.items()}
    if cell.get("solver", EXACT) == EXACT:
        risk = solver.expected(made.problem, made.gamma, made.sizes)
        out |= {part: _number(getattr(risk, part)) for part in parts}
        return out | {"relative_error": float(np.max(risk.uncertainty))}
    risk = solver.simulated(
        made.problem,
        made.gamma,
        made.sizes,
        cell.get("repetitions", REPETITIONS),
        cell.get("data_seed", DATA_SEED),
    )
    for part in parts:
        # One pass is simulated without its two sources of variance.
        if getattr(risk, part) is None:
            continue
        out[part] = _number(getattr(risk, part))
        if part == "total" or part in risk.leave_one_out:
            out[f"{part}_se"] = _number(risk.standard_error(part))
    return out


def _part(cell: Mapping[str, Any], kind: Any) -> Any:
    """The fields of one choice; "inf" is text in a cell, because JSON has no infinity."""
    names = {field.name for field in fields(kind)}
    given = {name: value for name, value in cell.items() if name in names}
    if given.get("m") == "inf":
        given["m"] = np.inf
    if kind is BatchChoice:
        given.setdefault("batches", "oracle")
    for name in NAMES.keys() & given.keys():
        checks.choice(name, given[name], NAMES[name])
    return kind(**given)


@lru_cache(maxsize=4)
def _problem(choice: ProblemChoice) -> Problem:
    """Neighbouring cells share their problem, and a draw costs more than most solutions."""
    return choice.build()


def _number(value: Any) -> float:
    return float(np.asarray(value).ravel()[0])
