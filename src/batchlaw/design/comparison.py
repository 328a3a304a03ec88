"""Rules that people use against the best by influence, at an equal budget."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw.batches.allocation import allocate
from batchlaw.batches.effective import effective_batch
from batchlaw.batches.rules import RULES
from batchlaw.design.noise_scale import noise_scales
from batchlaw.influences.weights import influence
from batchlaw.model.problem import Problem
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.risk.result import Risk
from batchlaw.schedule.update_rule import check_stable


@dataclass(frozen=True, eq=False)
class Compared:
    """One schedule of the comparison, with its rates, which some rules change."""

    name: str
    rates: FloatArray
    batches: FloatArray
    effective_batch: float
    risk: Risk


def compare(
    problem: Problem, rates: ArrayLike, budget: int, *, max_batch: int | None = None
) -> list[Compared]:
    """Exact one-pass risk at an equal budget, the best by influence first.

    ``greedy`` (optimal integers for the influence), then the registered rules: those that keep the
    rates, with batches in proportion to their shapes; the noise scale of the mean iterate; and
    those that change the rates, with their own number of updates.

    Parameters
    ----------
    problem
        Spectrum, target and noise.
    rates : (T,) array
        Step sizes gamma_t.
    budget
        Sum of the batch sizes of each schedule.
    max_batch
        Largest batch of ``greedy``; rules are free of it.
    """
    gamma = check_stable(rates, float(problem.eigenvalues[0]))
    best = allocate(influence(problem, gamma), budget, max_batch=max_batch)
    noise = noise_scales(problem, gamma)
    rows = [_scored("greedy", problem, gamma, best)]
    for name, rule in RULES.items():
        own = rule.schedule(gamma, budget, noise)
        rows.append(_scored(name, problem, own.rates, own.batches))
    return rows


def _scored(name: str, problem: Problem, rates: FloatArray, batches: ArrayLike) -> Compared:
    sizes = np.asarray(batches, dtype=np.float64)
    effective = effective_batch(influence(problem, rates), sizes)
    risk = one_pass_risk(problem, rates, sizes)
    return Compared(name, rates, sizes, checks.real("effective batch", effective), risk)
