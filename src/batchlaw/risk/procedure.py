"""Procedure: what is run on the data, and everything that can be computed for it.

To add one, write a subclass and call ``register_procedure``; its name, options and parts then
appear in the command line, sweeps and the page.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from batchlaw._base import checks
from batchlaw._base.checks import Batches, FloatArray
from batchlaw._base.errors import InputError
from batchlaw._base.words import Word, refuse_unused
from batchlaw.model.problem import Problem
from batchlaw.risk.result import Risk
from batchlaw.risk.runs import Dataset
from batchlaw.risk.stepping import check_simulated
from batchlaw.schedule.update_rule import SGD, WORD, UpdateRule


@dataclass(frozen=True, eq=False)
class Setup:
    """What a procedure is run with: a problem, rates, batches and an update rule."""

    problem: Problem
    rates: FloatArray
    batches: Batches
    rule: UpdateRule


@dataclass(frozen=True)
class Draws:
    """Of a simulation: independent repetitions, the seed of their data, and threads (None: all)."""

    repetitions: int
    seed: int
    threads: int | None = None


@dataclass(frozen=True)
class Procedure(ABC):
    """How data are used: in one pass, in several, or all at every update.

    Attributes
    ----------
    name
        Its spelling in options, files and menus.
    title
        Its name in a sentence.
    sampling
        How batches are drawn, in a sentence.
    parts
        The terms of its risk besides the irreducible and the approximation.
    noise
        The term that depends on the batches.
    summary
        "b_eff" or "rho_eff", the number that summarises a schedule; empty without batches.
    reuses
        Whether it reads a dataset more than once.
    solvable
        Whether its risk with plain SGD can be computed without Monte Carlo.
    traceable
        Whether it can be computed after every update.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    sampling: ClassVar[str]
    parts: ClassVar[tuple[str, ...]]
    noise: ClassVar[str]
    summary: ClassVar[str]
    reuses: ClassVar[bool] = True
    solvable: ClassVar[bool] = True
    traceable: ClassVar[bool] = True

    @property
    def max_batch(self) -> int | None:
        """The largest batch that can be drawn."""
        return None

    @property
    def data(self) -> str:
        """Where the samples of a batch come from, in a sentence."""
        return self.sampling

    def check_rule(self, rule: UpdateRule) -> None:
        """Refuse an update rule that this procedure can neither solve nor simulate."""
        if not isinstance(rule, SGD):  # any form of SGD is solved
            check_simulated(rule)

    def solves(self, rule: UpdateRule) -> bool:
        """Whether its risk with this rule can be computed without Monte Carlo."""
        return self.solvable and rule.plain

    def check_solved(self, rule: UpdateRule) -> None:
        """Refuse an update rule for which only Monte Carlo has the risk."""
        if not self.solvable:
            raise InputError("procedure", "has no risk without Monte Carlo", self.name)
        if not self.solves(rule):
            raise InputError(
                rule.departure,
                f"has no risk without Monte Carlo with procedure {self.name}",
                hint="simulate it, or solve it for one dataset",
            )

    @abstractmethod
    def expected(self, setup: Setup, *, trajectory: bool = False) -> Risk:
        """The risk without Monte Carlo: exact, or an approximation that says so."""

    def given(self, setup: Setup, dataset: Dataset) -> Risk:
        """The risk given a dataset, averaged over the batches."""
        raise InputError("dataset", f"has no use with procedure {self.name}")

    @abstractmethod
    def simulated(self, setup: Setup, draws: Draws) -> Risk:
        """The risk by Monte Carlo, with standard errors."""

    def summaries(self, influence: FloatArray, batches: Batches) -> dict[str, FloatArray]:
        """B_eff or rho_eff of every schedule, under its name."""
        return {}


PROCEDURES: dict[str, type[Procedure]] = {}


def register_procedure(kind: type[Procedure]) -> type[Procedure]:
    """Add a procedure under its name; the first one is the default."""
    PROCEDURES[kind.name] = kind
    return kind


def procedure_words() -> dict[str, Word]:
    """The options of all procedures, by name."""
    return {
        each.name: each.metadata[WORD]
        for kind in PROCEDURES.values()
        for each in fields(kind)
        if WORD in each.metadata
    }


def procedure_by_words(given: Mapping[str, Any]) -> Procedure:
    """The procedure that words ask for; an option that it does not have is refused."""
    name = given.get("procedure") or next(iter(PROCEDURES))
    kind = PROCEDURES[checks.choice("procedure", name, PROCEDURES)]
    known = {each.name for each in fields(kind)}
    others = [word for word in procedure_words() if word not in known]
    refuse_unused(given, others, f"procedure {name}")
    return kind(**{word: given[word] for word in known if given.get(word) is not None})
