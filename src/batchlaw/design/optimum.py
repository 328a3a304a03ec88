"""The batch sizes that minimise the exact variance, with a certificate, or Adam's excess."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from batchlaw._base import checks
from batchlaw._base.errors import InputError, Unstable, arg
from batchlaw.batches.limits import Limits
from batchlaw.design.adam_optimum import adam_optimum
from batchlaw.design.descent import (
    Feasible,
    Point,
    descend,
    duality_gap,
    kkt_residual,
    starting_point,
)
from batchlaw.design.sensitivity import adam_slopes
from batchlaw.design.variance_objective import Objective, general_objective, plain_objective
from batchlaw.design.whole_batches import whole_batches
from batchlaw.model.problem import Problem
from batchlaw.schedule.adam import Adam
from batchlaw.schedule.update_rule import SGD, UpdateRule, check_stable, linear, rule_of

# Below this KKT residual the optimum is called certified.
CERTIFIED_RESIDUAL = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class Optimum:
    """An optimal batch schedule and what is proven about it; usable wherever batches are.

    Attributes
    ----------
    batches : (T,) array
        int64, or float64 where real batches were asked for.
    variance
        The objective at ``batches``: exact variance (one pass), expected fluctuation (multi-pass),
        or for Adam, whose batches also move the bias, the whole excess with v at its mean.
    kkt_residual
        Of the continuous optimum: the largest relative excess of what one more sample is worth
        at a step below its maximum over a step above its minimum. Zero at the optimum. For
        Adam: the relative first-order gain from moving a mean batch between two steps.
    lower_bound
        No schedule within the bounds has a smaller objective, whole or real: the continuous
        optimum's objective minus its duality gap.
    rounds
        Gradient evaluations needed for the continuous optimum; for Adam, the number of starts.
    certificate
        What was proven and what was not, in words.
    optima
        For Adam: the objective at the real optimum from every start, which may differ.
    """

    batches: NDArray[Any]
    variance: float
    kkt_residual: float
    lower_bound: float
    rounds: int
    certificate: str
    optima: tuple[float, ...] = ()

    @property
    def gap(self) -> float:
        """Relative distance to ``lower_bound``: no schedule is better by more than this.

        Infinite where the certificate proves no bound.
        """
        if self.variance == 0.0:
            return 0.0
        return self.variance / self.lower_bound - 1.0 if self.lower_bound > 0.0 else math.inf

    def __len__(self) -> int:
        return int(self.batches.size)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.batches, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        return (
            f"Optimum({self.batches.size} batches of {self.batches.min():g} to "
            f"{self.batches.max():g}, variance {self.variance:.6g}, {self.certificate})"
        )


def optimal_batches(
    problem: Problem,
    rates: ArrayLike,
    budget: int,
    *,
    min_batch: int = 1,
    max_batch: int | None = None,
    integer: bool = True,
    rule: UpdateRule | None = None,
    momentum: float | ArrayLike = 0.0,
    nesterov: bool = False,
    pytorch: bool = False,
    average: ArrayLike | str | None = None,
    samples: int | None = None,
    replacement: bool = False,
    multiple_of: int = 1,
    stages: int | None = None,
) -> Optimum:
    r"""Share ``budget`` samples among the updates so that the exact variance is smallest.

    Influence is the variance to first order in 1/B_t; this takes all orders. With x_t
    = 1/B_t and w_t = dVar/dx_t, which an adjoint recursion gives for all steps in O(T M),
    the optimum is where w_t/B_t^2 is the same for all steps between their bounds. Var is
    a polynomial in x, at most linear in each x_t, with no negative coefficient: it is convex
    in B (a product of 1/B's is exp(-sum log B)), and the optimum is unique.

    Integers come from the greedy rule on w_t at the real optimum, and from exchanges of one
    sample between two steps for as long as one improves the exact variance.

    With Adam the whole excess is minimised, in the mean field with v at its mean. It is not known
    to be convex: the result is the best stationary point from the starts, the rules that people
    use, with its residual and what every start led to, and without a bound.

    Parameters
    ----------
    problem
        Spectrum, target and noise.
    rates : (T,) array
        Step sizes gamma_t.
    budget
        sum_t B_t.
    min_batch
        Smallest batch allowed.
    max_batch
        Largest batch allowed.
    integer
        False for the continuous optimum itself, with real batch sizes.
    rule
        The update rule, ``bl.sgd(...)``; the variance is that of the iterate or average
        that it returns.
    momentum
        Shorthand for ``rule``, as in ``bl.sgd``.
    nesterov
        Likewise.
    pytorch
        Likewise.
    average
        Likewise.
    samples
        N, for multi-pass SGD on N samples: what is minimised is the expected fluctuation
        of ``expected_fluctuation_simple``, an approximation, for plain SGD. Batches without
        replacement are at most N, and x_t = rho_t, which is convex only up to B = N/2.
    replacement
        With ``samples``: draw within a batch with replacement, x_t = 1/B_t.
    multiple_of
        With Adam: every batch is a multiple of this.
    stages
        With Adam: the largest number of constant stages.
    """
    rule = rule_of(rule, momentum=momentum, nesterov=nesterov, pytorch=pytorch, average=average)
    limits = Limits(min_batch, max_batch, multiple_of, stages)
    if isinstance(rule, Adam):
        if samples is not None:
            raise InputError("samples", "needs plain SGD, without momentum and averaging")
        return _with_adam(problem, checks.vector("rates", rates), budget, rule, limits, integer)
    for name, value, default in (("multiple_of", multiple_of, 1), ("stages", stages, None)):
        if value != default:
            raise InputError(name, "needs Adam here: for SGD use allocate with the influence")
    update = linear(rule, "the optimum")
    gamma = check_stable(rates, float(problem.eigenvalues[0]), update)
    if samples is not None:
        samples = _dataset_size(samples, update, replacement)
        if not replacement:
            given = samples if max_batch is None else checks.count("max_batch", max_batch)
            max_batch = min(given, samples)
    elif replacement:
        raise InputError("replacement", f"needs {arg('samples')}, the size of the dataset")
    low, high, _, budget = Limits(min_batch, max_batch).units_in_full(gamma.size, budget)
    feasible = Feasible(budget, low, min(high, budget - low * (gamma.size - 1)))
    if update.plain:
        objective = plain_objective(problem, gamma, samples, replacement)
    else:
        coefficients, weights = update.coefficients(gamma), update.weights(gamma.size)
        objective = general_objective(problem, coefficients, weights)

    real, rounds = _real_optimum(objective, feasible, gamma)
    # With x_t = rho_t the objective is convex in B only up to N/2.
    convex_up_to = float(feasible.high)
    if samples is not None and not replacement:
        convex_up_to = min(convex_up_to, samples / 2.0)
    residual = kkt_residual(real.batches, real.slopes, feasible.low, feasible.high)
    bound = _lower_bound(objective, real, feasible, convex_up_to)
    certificate = _convexity_claim(residual, real, feasible, convex_up_to)
    if samples is not None:
        certificate += ", for the expected fluctuation over datasets, an approximation"
    if problem.coarser is not None:
        certificate += f", on nodes ({problem.description})"
    if not integer:
        return Optimum(real.batches, real.variance, residual, bound, rounds, certificate)

    directions = problem.eigenvalues.size
    batches, exchanged = whole_batches(objective, real.slopes, feasible, directions)
    variance, _ = objective(batches.astype(np.float64))
    certificate += "; as integers " + (
        "no exchange of one sample improves it"
        if exchanged
        else "by the greedy rule alone, with too many steps to try every exchange"
    )
    return Optimum(batches, variance, residual, bound, rounds, certificate)


def _with_adam(
    problem: Problem,
    gamma: NDArray[np.float64],
    budget: int,
    rule: Adam,
    limits: Limits,
    integer: bool,
) -> Optimum:
    if not gamma.any():
        raise InputError("rates", "must not all be zero")
    if not integer and limits.multiple_of != 1:
        raise InputError("multiple_of", "needs integer batches", "integer=False")
    found = adam_optimum(problem, gamma, budget, rule, limits)
    batches = found.whole if integer else found.real
    excess = adam_slopes(problem, gamma, batches.astype(np.float64), rule)[0]
    spread = max(found.optima) / min(found.optima) - 1.0
    certificate = (
        f"the best of {len(found.optima)} starts, stationary to {found.residual:.1e}, without a "
        f"proven bound; the real optima of the starts differ by up to {100.0 * spread:.2g} %"
    )
    return Optimum(
        batches, excess, found.residual, 0.0, len(found.optima), certificate, found.optima
    )


def _dataset_size(samples: int, rule: SGD, replacement: bool) -> int:
    if not rule.plain:
        raise InputError("samples", "needs plain SGD, without momentum and averaging")
    return checks.count("samples", samples, minimum=1 if replacement else 2)


def _real_optimum(
    objective: Objective, feasible: Feasible, gamma: NDArray[np.float64]
) -> tuple[Point, int]:
    start = starting_point(objective, gamma.size, feasible)
    if start is None:
        raise Unstable(
            "rates",
            f"is unstable for {feasible.budget} samples on {gamma.size} updates: the second moment "
            "overflows although the mean contracts",
            subject=f"peak rate {gamma.max():.6g}",
        )
    return descend(objective, start, feasible)


def _lower_bound(
    objective: Objective, real: Point, feasible: Feasible, convex_up_to: float
) -> float:
    """What no schedule beats, or zero where only a stationary point is known."""
    if real.batches.max() > convex_up_to:
        return 0.0
    gap = duality_gap(real, feasible.budget, feasible.low, convex_up_to)
    return real.variance - objective.scale * gap


def _convexity_claim(residual: float, real: Point, feasible: Feasible, convex_up_to: float) -> str:
    if residual >= CERTIFIED_RESIDUAL:
        return f"not converged: KKT residual {residual:.1e}"
    if real.batches.max() > convex_up_to:
        return (
            f"a stationary point to KKT residual {residual:.1e}, no proven bound: without "
            f"replacement convexity holds for batches up to N/2 = {convex_up_to:g} only"
        )
    where = "" if convex_up_to == feasible.high else f" among batches up to N/2 = {convex_up_to:g}"
    return f"optimal{where} by convexity to KKT residual {residual:.1e}"
