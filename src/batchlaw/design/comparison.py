"""Schedules used in practice against the best by influence, at an equal budget."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw.batches.allocation import allocate
from batchlaw.batches.effective import effective_batch
from batchlaw.batches.rules import RULES
from batchlaw.influences.weights import influence
from batchlaw.model.problem import Problem
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.risk.result import Risk
from batchlaw.schedule.update_rule import check_stable

# Each stage of batch doubling has half the rate and twice the batch of the one before.
DOUBLING_STAGES = 4


@dataclass(frozen=True, eq=False)
class Compared:
    """One schedule of the comparison, with its rates, which batch doubling changes."""

    name: str
    rates: FloatArray
    batches: FloatArray
    effective_batch: float
    risk: Risk


def noise_scales(problem: Problem, rates: ArrayLike) -> FloatArray:
    """B_noise before every step: trace of the sample gradients' covariance over ``|mean|^2``.

    For Gaussian features at the mean iterate, with error m: the covariance of z (z.m - r) is
    Sigma (m.Sigma m + s2) + Sigma m m^T Sigma, and the mean is Sigma m.

    Parameters
    ----------
    problem
        Spectrum, target and noise.
    rates : (T,) array
        Step sizes gamma_t.
    """
    gamma = check_stable(rates, float(problem.eigenvalues[0]))
    mu, multiplicity = problem.eigenvalues, problem.multiplicity
    square = problem.target_energy.copy()
    scale = np.empty(gamma.size)
    for t, g in enumerate(gamma):
        mean = float((multiplicity * mu**2) @ square)
        residual = float((multiplicity * mu) @ square) + problem.noise_variance
        noise = problem.trace * residual + mean
        scale[t] = noise / mean if mean > 0.0 else np.inf
        square *= (1.0 - g * mu) ** 2
    return scale


def compare(
    problem: Problem, rates: ArrayLike, budget: int, *, max_batch: int | None = None
) -> list[Compared]:
    """Exact one-pass risk at an equal budget and number of updates, the best by influence first.

    ``greedy`` (optimal integers for the influence), ``constant``, ``linear ramp``
    (B_t ~ t), ``batch doubling`` (four stages; the rate is halved and the batch doubled at
    each), ``late-large`` (batches eight times as large in the last quarter) and ``noise
    scale`` (B_t ~ gradient noise scale of the mean iterate).

    Parameters
    ----------
    problem
        Spectrum, target and noise.
    rates : (T,) array
        Step sizes gamma_t.
    budget
        Sum of the batch sizes of each schedule.
    max_batch
        Largest batch allowed.
    """
    gamma = check_stable(rates, float(problem.eigenvalues[0]))
    T = gamma.size
    t = np.arange(1, T + 1, dtype=np.float64)
    stage = np.minimum((t - 1) * DOUBLING_STAGES // T, DOUBLING_STAGES - 1)
    warm = np.minimum(np.maximum.accumulate(gamma) / gamma.max(), 1.0)
    noise = noise_scales(problem, gamma)
    finite = np.isfinite(noise)
    shapes: dict[str, tuple[FloatArray, FloatArray]] = {
        "constant": (gamma, RULES["constant"](gamma)),
        "linear ramp": (gamma, RULES["linear ramp"](gamma)),
        "batch doubling": (gamma.max() * warm * 0.5**stage, 2.0**stage),
        "late-large": (gamma, RULES["late-large"](gamma)),
        "noise scale": (gamma, np.where(finite, noise, noise[finite].max(initial=1.0))),
    }
    kappa = influence(problem, gamma)
    rows = [_scored("greedy", problem, gamma, allocate(kappa, budget, max_batch=max_batch))]
    for name, (schedule_rates, weights) in shapes.items():
        batches = allocate(weights**2, budget, max_batch=max_batch)
        rows.append(_scored(name, problem, schedule_rates, batches))
    return rows


def _scored(name: str, problem: Problem, rates: FloatArray, batches: ArrayLike) -> Compared:
    sizes = np.asarray(batches, dtype=np.float64)
    effective = effective_batch(influence(problem, rates), sizes)
    risk = one_pass_risk(problem, rates, sizes)
    return Compared(name, rates, sizes, checks.real("effective batch", effective), risk)
