"""Settings of the claims about Adam: problems, rates by their effective size, hypotheses."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import Batches, FloatArray
from batchlaw.evidence.claims.claim import Claim
from batchlaw.model.problem import Problem
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.risk.result import Risk
from batchlaw.schedule.adam import GENERIC, Adam
from batchlaw.theory.adam_limit import preconditioned
from batchlaw.theory.bounds.bound import Condition

NODES = 100
# Acts as infinite: no schedule here reaches its last direction.
DIRECTIONS = 10**12
OURS = "ours: docs/adam.md"


def claim(name: str, sentence: str) -> Claim:
    """A claim of this family."""
    return Claim(f"adam/{name}", f"Adam: {sentence}", OURS)


@dataclass(frozen=True)
class Setting:
    """A power law, label noise, and the optimizer.

    Attributes
    ----------
    a, b, sigma
        Exponents and the standard deviation of the label noise.
    beta1, beta2, basis
        Of Adam; eps is 0.
    """

    a: float
    b: float
    sigma: float
    beta1: float = 0.9
    beta2: float = 0.999
    basis: str = GENERIC

    @property
    def problem(self) -> Problem:
        """On nodes, averaged over targets."""
        return Problem.power_law_nodes(self.a, self.b, DIRECTIONS, sigma=self.sigma, nodes=NODES)

    @property
    def rule(self) -> Adam:
        """With eps = 0: v is tiny where there are many directions."""
        return Adam(self.beta1, self.beta2, eps=0.0, basis=self.basis)

    @property
    def name(self) -> str:
        """For the case of a check."""
        betas = f"betas {self.beta1:g}, {self.beta2:g}"
        return f"a = {self.a:g}, b = {self.b:g}, sigma = {self.sigma:g}, {betas}, {self.basis}"

    def unit(self, batch: float) -> float:
        """Adam's rate whose effective rate times the largest eigenvalue is 1 at this batch."""
        largest = float(preconditioned(self.problem, self.rule).eigenvalues[0])
        return math.sqrt(self.problem.noise_variance / batch) / largest

    def risk(self, rates: FloatArray, batches: Batches) -> Risk:
        """By the mean field."""
        return one_pass_risk(self.problem, rates, batches, rule=self.rule)

    def hypotheses(self, largest_batch: float, excess: float = 0.0) -> tuple[Condition, ...]:
        """Label noise dominates the second moment, at the start and, by ``excess``, at the end."""
        problem = self.problem
        mu, energy, n = problem.eigenvalues, problem.target_energy, problem.multiplicity
        s2 = problem.noise_variance
        if self.basis == GENERIC:
            gradient = float(n @ (mu**2 * energy)) / problem.trace
        else:
            gradient = float((mu * energy).max())
        return (
            Condition(
                "unlearned", "excess/s2 << 1", max(float(n @ (mu * energy)), excess) / s2, 1.0,
                kind="small",
            ),
            Condition(
                "gradient", "mean gradient's share of v at the start << 1",
                largest_batch * gradient / s2, 1.0, kind="small",
            ),
        )  # fmt: skip


def part(risk: Risk, name: str) -> FloatArray:
    """A part of the risk of every schedule."""
    return np.atleast_1d(np.asarray(getattr(risk, name), dtype=np.float64))
