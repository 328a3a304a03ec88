"""Case: a whole setting, from the problem to its risk.

The only place that goes through all five steps: problem, rates, influence, batches, risk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import Batches, FloatArray
from batchlaw._base.errors import InputError, arg
from batchlaw.influences.weights import influence
from batchlaw.model.problem import Problem
from batchlaw.risk.procedure import Draws, Procedure, Setup
from batchlaw.risk.procedures import OnePass
from batchlaw.risk.result import Risk
from batchlaw.schedule.update_rule import PLAIN, UpdateRule

# Monte Carlo by default: repetitions, and the seed of their data.
REPETITIONS, SEED = 100, 0


@dataclass(frozen=True, eq=False)
class Case:
    """A problem, rates, batches and the procedure that is run with them.

    Attributes
    ----------
    problem
        Spectrum, target and noise.
    rates : (T,) array
        Step sizes.
    batches
        Batch sizes of one schedule, of several, or of several by name, as for every solver;
        empty where the procedure has none.
    procedure
        One pass by default (``batchlaw.risk.procedures``).
    rule
        The update rule, ``bl.sgd(...)``; plain SGD by default.
    """

    problem: Problem
    rates: ArrayLike
    batches: Batches = ()
    procedure: Procedure = field(default_factory=OnePass)
    rule: UpdateRule = PLAIN

    def __post_init__(self) -> None:
        if not isinstance(self.problem, Problem):
            raise InputError("problem", "must be a Problem", type(self.problem).__name__)
        if not isinstance(self.procedure, Procedure):
            raise InputError("procedure", "must be a Procedure", repr(self.procedure))
        object.__setattr__(self, "rates", checks.vector("rates", self.rates))
        self.procedure.check_rule(self.rule)

    @property
    def gamma(self) -> FloatArray:
        """The rates as an array."""
        return np.asarray(self.rates)

    @cached_property
    def influence(self) -> FloatArray:
        """kappa_t of every update."""
        return influence(self.problem, self.gamma, rule=self.rule)

    def with_batches(self, batches: Batches) -> Case:
        """The same case with other batches; an influence already computed is kept."""
        other = replace(self, batches=batches)
        if "influence" in self.__dict__:
            other.__dict__["influence"] = self.influence
        return other

    def schedules(self) -> dict[str, Any]:
        """The batches by name; "full batch" where every update uses every sample."""
        if not self.procedure.summary:
            return {"full batch": np.zeros(0)}
        if isinstance(self.batches, Mapping):
            return dict(self.batches)
        sizes = checks.batches(self.batches, self.gamma.size, whole=False)
        return {f"schedule {row}": batches for row, batches in enumerate(sizes)}

    def risk(self, *, trajectory: bool = False) -> Risk:
        """The risk without Monte Carlo; with ``trajectory``, before and after every update."""
        if trajectory and not self.procedure.traceable:
            raise InputError("trajectory", f"has no use with procedure {self.procedure.name}")
        if trajectory and not self.solved:
            changed = arg(self.rule.changed[0])
            raise InputError("trajectory", f"has no use where {changed} makes the risk simulated")
        self.procedure.check_solved(self.rule)
        return self.procedure.expected(self._setup, trajectory=trajectory)

    def simulate(
        self, repetitions: int = REPETITIONS, seed: int = SEED, *, threads: int | None = None
    ) -> Risk:
        """The risk by Monte Carlo, with standard errors."""
        return self.procedure.simulated(self._setup, Draws(repetitions, seed, threads))

    def solve(self) -> Risk:
        """The risk without Monte Carlo where the procedure has a solver, else simulated."""
        return self.risk() if self.solved else self.simulate()

    @property
    def solved(self) -> bool:
        """Whether ``risk`` can be computed: there is a solver for this procedure and rule."""
        return self.procedure.solves(self.rule)

    @property
    def _setup(self) -> Setup:
        return Setup(self.problem, self.gamma, self.batches, self.rule)

    def summaries(self) -> dict[str, FloatArray]:
        """B_eff of every schedule for one pass, rho_eff where a dataset is reused."""
        return self.procedure.summaries(self.influence, self.batches)
