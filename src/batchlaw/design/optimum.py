"""The batch sizes that minimise the exact variance, with a certificate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import InputError, Unstable, arg
from batchlaw._base.kernels import adjoint
from batchlaw.batches.limits import Limits
from batchlaw.batches.sharing import greedy as share_whole
from batchlaw.batches.sharing import water_fill
from batchlaw.model.problem import Problem
from batchlaw.risk.simple_recursion import LARGEST_SHARE
from batchlaw.schedule.update_rule import UpdateRule, check_stable, linear, rule_of

# The KKT residual that is aimed at, and the one below which the optimum is called certified.
AIM, CERTIFIED = 1e-10, 1e-9
ROUNDS = 5_000
LARGEST_DAMPING = 1e9
# A round is taken back where the slope along it turns into more than this share of its negative.
OVERSHOOT = 0.9
# Relative changes of the objective below this are rounding.
ROUNDING = 1e-12
# Variances and slopes from here on count as overflow: there is room for sums of them.
LARGEST = 1e280
# Steps^2 x directions up to which every exchange of one sample is tried: some ten seconds.
EXCHANGE_WORK = 1e9


@dataclass(frozen=True, eq=False, repr=False)
class Optimum:
    """An optimal batch schedule and what is proven of it; goes wherever batches go.

    Attributes
    ----------
    batches : (T,) array
        int64, or float64 where real batches were asked for.
    variance
        The objective at ``batches``: exact variance (one pass), or expected fluctuation
        (multi-pass).
    kkt_residual
        At the continuous optimum: how much more, relatively, the next sample is worth at
        some step below its maximum than at some step above its minimum. Zero at the optimum.
    lower_bound
        What no schedule within the bounds beats, whole or real: the continuous optimum's
        objective less its duality gap.
    rounds
        Evaluations of the objective's gradient that the continuous optimum took.
    certificate
        In words, what was proven and what was not.
    """

    batches: NDArray[Any]
    variance: float
    kkt_residual: float
    lower_bound: float
    rounds: int
    certificate: str

    @property
    def gap(self) -> float:
        """Relative distance to ``lower_bound``: no schedule is better by more. Infinite where
        the certificate proves no bound."""
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
) -> Optimum:
    r"""Share ``budget`` samples among the updates so that the exact variance is smallest.

    Influence is the first order of the variance in 1/B_t; this takes all of it. With x_t
    = 1/B_t and w_t = dVar/dx_t, which an adjoint recursion gives for all steps in O(T M),
    the optimum is where w_t/B_t^2 is the same for all steps between their bounds. Var is
    a polynomial in x, at most linear in each x_t, with no negative coefficient: it is convex
    in B (a product of 1/B's is exp(-sum log B)), and the optimum is unique.

    Integers come from the greedy rule on w_t at the real optimum, and from exchanges of one
    sample between two steps as long as one improves the exact variance.

    Parameters
    ----------
    rates : (T,) array
        Step sizes gamma_t.
    budget
        sum_t B_t.
    min_batch
        No batch below it.
    max_batch
        No batch above it.
    integer
        False for real batch sizes, the continuous optimum itself.
    rule
        The update rule, ``bl.sgd(...)``; the variance is that of what it reads out.
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
    """
    options: dict[str, Any] = {
        "momentum": momentum,
        "nesterov": nesterov,
        "pytorch": pytorch,
        "average": average,
    }
    update = linear(rule_of(rule, **options), "the optimum")
    gamma = check_stable(rates, float(problem.eigenvalues[0]), update)
    if samples is not None:
        if not update.plain:
            raise InputError("samples", "needs plain SGD, without momentum and averaging")
        samples = checks.count("samples", samples, minimum=1 if replacement else 2)
        if not replacement:
            given = samples if max_batch is None else checks.count("max_batch", max_batch)
            max_batch = min(given, samples)
    elif replacement:
        raise InputError("replacement", f"needs {arg('samples')}, the size of the dataset")
    low, high, _, budget = Limits(min_batch, max_batch).units_in_full(gamma.size, budget)
    high = min(high, budget - low * (gamma.size - 1))
    if update.plain:
        objective = _plain_objective(problem, gamma, samples, replacement)
    else:
        objective = _general_objective(
            problem, update.coefficients(gamma), update.weights(gamma.size)
        )
    start = _start(objective, gamma.size, budget, low, high)
    if start is None:
        raise Unstable(
            "rates",
            f"is unstable for {budget} samples on {gamma.size} updates: the second moment "
            "overflows although the mean contracts",
            subject=f"peak rate {gamma.max():.6g}",
        )
    real, rounds = _descend(objective, start, budget, low, high)
    residual = kkt_residual(real.batches, real.slopes, low, high)
    largest, bound = float(real.batches.max()), real.variance
    convex = float(high)
    if samples is not None and not replacement:
        convex = min(convex, samples / 2.0)
    if largest > convex:
        bound = 0.0  # a stationary point: nothing is proven about others
    else:
        bound -= objective.scale * _duality_gap(real, budget, low, convex)
    proof = _claim(residual, largest, convex, high)
    if samples is not None:
        proof += ", for the expected fluctuation over datasets, an approximation"
    if problem.coarser is not None:
        proof += f", on nodes ({problem.description})"
    if not integer:
        return Optimum(real.batches, real.variance, residual, bound, rounds, proof)
    batches, searched = _integers(objective, real.slopes, budget, low, high, problem)
    variance, _ = objective(batches.astype(np.float64))
    proof += "; as integers " + (
        "no exchange of one sample improves it"
        if searched
        else "by the greedy rule alone, with too many steps to try every exchange"
    )
    return Optimum(batches, variance, residual, bound, rounds, proof)


def model_noise(
    problem: Problem, rates: ArrayLike, *, rule: UpdateRule | None = None
) -> FloatArray:
    """s2 + bias_t before each step: the mean squared residual of the model, without batch noise.

    The bias is that of the mean iterate, where the step takes its gradient. For
    ``plan_weights``; a pilot run's loss before each step serves as well.
    """
    update = linear(rule, "the model's noise")
    gamma = check_stable(rates, float(problem.eigenvalues[0]), update)
    levels = np.empty(gamma.size)
    state = (problem.eigenvalues, problem.multiplicity, problem.target_energy)
    adjoint.mean_levels(*state, update.coefficients(gamma), levels)
    return problem.noise_variance + levels


def plan_weights(influence: ArrayLike, noise: ArrayLike) -> FloatArray:
    """kappa_t times the noise level of step t: ``allocate`` then follows sqrt(kappa_t noise_t).

    The paper's oracle takes the noise as constant; along a run it falls with the training
    residual. Only ratios between steps matter, so any loss-like quantity will do.
    """
    kappa = checks.vector("influence", influence)
    level = checks.vector("noise", noise)
    checks.same_length("noise", level.size, kappa.size, "steps")
    # Scaled first, so that neither factor can overflow the product.
    return np.asarray(kappa / max(kappa.max(), np.finfo(float).tiny) * level)


@dataclass(frozen=True, eq=False)
class _Point:
    """A schedule, its variance, and the slopes w_t there."""

    batches: FloatArray
    variance: float
    slopes: FloatArray


@dataclass(frozen=True)
class _Objective:
    """Var and w_t = dVar/dx_t for shares x = scale/B - offset, never negative."""

    slopes: Callable[[FloatArray], tuple[float, FloatArray]]
    scale: float = 1.0
    offset: float = 0.0

    def shares(self, batches: FloatArray) -> FloatArray:
        return np.maximum(self.scale / batches - self.offset, 0.0)

    def __call__(self, batches: FloatArray) -> tuple[float, FloatArray]:
        return self.slopes(self.shares(batches))


def _plain_objective(
    problem: Problem, gamma: FloatArray, samples: int | None, replacement: bool
) -> _Objective:
    mu, n = problem.eigenvalues, problem.multiplicity
    shrink = np.ones_like(gamma)
    if samples is not None:
        degrees = np.empty(gamma.size + 1)
        adjoint.fitted(mu, n, gamma, degrees)
        if degrees[-1] > LARGEST_SHARE * samples:
            raise InputError(
                "samples",
                f"must be more for the expected fluctuation: it needs df/N of at most "
                f"{LARGEST_SHARE}",
                f"{degrees[-1] / samples:.3g} with {samples}",
            )
        shrink = (1.0 - degrees[:-1] / samples) ** 2

    def slopes(shares: FloatArray) -> tuple[float, FloatArray]:
        w = np.empty_like(gamma)
        state = (mu, n, problem.target_energy, problem.noise_variance)
        return float(adjoint.plain_slopes(*state, gamma, shrink, shares, w)), w

    if samples is None or replacement:
        return _Objective(slopes)
    # rho = (N - B)/(B (N - 1)).
    return _Objective(slopes, samples / (samples - 1.0), 1.0 / (samples - 1.0))


def _general_objective(problem: Problem, rule: FloatArray, weights: FloatArray) -> _Objective:
    def slopes(shares: FloatArray) -> tuple[float, FloatArray]:
        w = np.empty(shares.size)
        state = (problem.eigenvalues, problem.multiplicity, problem.target_energy)
        variance = adjoint.general_slopes(*state, problem.noise_variance, rule, weights, shares, w)
        return float(variance), w

    return _Objective(slopes)


def kkt_residual(batches: FloatArray, slopes: FloatArray, low: float, high: float) -> float:
    """Largest relative violation of the optimality conditions, zero at the optimum.

    A sample more at step t lowers the variance by about w_t/B_t^2. No step that can take
    one may gain more than a step that can give one loses.
    """
    gain = slopes / batches**2
    best = float(gain[batches < high].max(initial=0.0))
    least = float(gain[batches > low].min(initial=np.inf))
    return max(1.0 - least / best, 0.0) if best > 0.0 else 0.0


def _start(objective: _Objective, steps: int, budget: int, low: int, high: int) -> _Point | None:
    """The better of the constant schedule and the optimum to first order in the shares."""
    _, w = objective.slopes(np.zeros(steps))
    first_order = water_fill(np.sqrt(w), float(budget), float(low), float(high))
    points = [_evaluate(objective, b) for b in (first_order, np.full(steps, budget / steps))]
    return min((p for p in points if p is not None), key=lambda p: p.variance, default=None)


def _descend(
    objective: _Objective, point: _Point, budget: int, low: int, high: int
) -> tuple[_Point, int]:
    """The optimum over real batches, and the rounds it took.

    B <- clip(c (w B^p)^{1/(2+p)}) with the same sum. Every such move goes downhill:
    unclipped it is B_t (c' gain_t^{1/(2+p)} - 1), of the sign of the gain less its water
    level. At p = 0 it is the optimum for fixed w, but it overshoots where w falls
    steeply in B. So p is raised where the slope along the move turns over, and otherwise
    set to where a straight line through the two slopes would have put the minimum.
    """
    damping, rounds, lowest = 0.0, 0, point.variance
    residual = kkt_residual(point.batches, point.slopes, low, high)
    while residual > AIM and rounds < ROUNDS and damping < LARGEST_DAMPING:
        rounds += 1
        shape = _damped_roots(point, damping)
        moved = _evaluate(objective, water_fill(shape, float(budget), float(low), float(high)))
        tried, damping = damping, 2.0 * damping + 2.0
        if moved is None or moved.variance > lowest * (1.0 + ROUNDING):
            continue
        move = moved.batches - point.batches
        slope, end = _slope(point, move), _slope(moved, move)
        new_residual = kkt_residual(moved.batches, moved.slopes, low, high)
        # Next to the optimum both slopes are rounding, and the residual has to judge.
        if end > -OVERSHOOT * slope and new_residual >= residual:
            continue
        turn = slope / (slope - end) if slope < min(end, 0.0) else np.inf
        damping = max((2.0 + tried) / min(max(turn, 0.5), 1.5) - 2.0, 0.0)
        point, residual, lowest = moved, new_residual, min(lowest, moved.variance)
    return point, rounds


def _evaluate(objective: _Objective, batches: FloatArray) -> _Point | None:
    """None where the second moment overflows."""
    variance, slopes = objective(batches)
    finite = variance < LARGEST and float(slopes.max()) < LARGEST
    return _Point(batches, variance, slopes) if finite else None


def _damped_roots(point: _Point, damping: float) -> FloatArray:
    """(w B^p)^{1/(2+p)} up to a factor, by logarithms: B^p would overflow."""
    w = point.slopes
    if not w.any():
        return w
    logs = np.log(w, where=w > 0.0, out=np.full(w.size, -np.inf))
    logs = (logs + damping * np.log(point.batches)) / (2.0 + damping)
    return np.asarray(np.exp(logs - logs.max()))


def _slope(point: _Point, move: FloatArray) -> float:
    """dVar along a move that keeps the sum: what all gains share cancels, and goes first."""
    moving = move != 0.0
    if not moving.any():
        return 0.0
    gain = (point.slopes / point.batches**2)[moving]
    return -float((gain - gain.mean()) @ move[moving])


def _duality_gap(point: _Point, budget: int, low: int, high: float) -> float:
    """By how much the tangent at a point falls, at most, over all feasible schedules.

    Var is convex and lies above its tangent, whose minimum fills the steps of largest gain.
    """
    T = point.batches.size
    left = np.maximum(budget - low * T - (high - low) * np.arange(T), 0.0)
    corner = np.empty(T)
    order = np.argsort(-(point.slopes / point.batches**2), kind="stable")
    corner[order] = low + np.minimum(left, high - low)
    return max(-_slope(point, corner - point.batches), 0.0)


def _claim(residual: float, largest: float, convex: float, high: int) -> str:
    if residual >= CERTIFIED:
        return f"not converged: KKT residual {residual:.1e}"
    if largest > convex:
        return (
            f"a stationary point to KKT residual {residual:.1e}, no proven bound: without "
            f"replacement convexity holds for batches up to N/2 = {convex:g} only"
        )
    where = "" if convex == high else f" among batches up to N/2 = {convex:g}"
    return f"optimal{where} by convexity to KKT residual {residual:.1e}"


def _integers(
    objective: _Objective, slopes: FloatArray, budget: int, low: int, high: int, problem: Problem
) -> tuple[IntArray, bool]:
    """Whole batches, and whether they were proven to be the best among their neighbours."""
    greedy = [share_whole(w, budget, low, high) for w in (slopes, np.ones(slopes.size))]
    # Where the variance of the first overflows, constant batches may still be finite.
    values = np.array([objective(batches.astype(np.float64))[0] for batches in greedy])
    batches = greedy[int(np.where(np.isfinite(values), values, np.inf).argmin())]
    if slopes.size**2 * problem.eigenvalues.size > EXCHANGE_WORK:
        return batches, False
    return _exchange(objective, batches, low, high), True


def _exchange(objective: _Objective, batches: IntArray, low: int, high: int) -> IntArray:
    """Move one sample from step i to step j as long as that lowers the variance.

    Var is linear in each x_t, so with x_i raised by d_i the slopes w_j' at the new point give
    the exact change for every j at once, w_i d_i - w_j' d_j. As no coefficient is negative,
    w_j' <= w_j + d_i min(w_i/x_j, w_j/x_i), which rules most steps i out beforehand.
    """
    sizes = batches.astype(np.float64)
    variance, w = objective(sizes)
    i = quiet = 0
    while quiet < sizes.size:
        quiet += 1
        j = _taker(objective, sizes, variance, w, i, high) if sizes[i] > low else None
        if j is not None:
            sizes[i] -= 1.0
            sizes[j] += 1.0
            variance, w = objective(sizes)
            quiet = 0
        i = (i + 1) % sizes.size
    return sizes.astype(np.int64)


def _taker(
    objective: _Objective, sizes: FloatArray, variance: float, w: FloatArray, i: int, high: int
) -> int | None:
    """The step to which step i should give a sample, or None."""
    x = objective.shares(sizes)
    raised = objective.scale / (sizes[i] * (sizes[i] - 1.0))
    lowered = objective.scale / (sizes * (sizes + 1.0))
    open_ = sizes < high
    open_[i] = False
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        most = w + raised * np.fmin(w[i] / x, w / x[i])
    if not (most * lowered > w[i] * raised)[open_].any():
        return None
    without = sizes.copy()
    without[i] -= 1.0
    _, slopes = objective(without)
    change = np.where(open_, w[i] * raised - slopes * lowered, np.inf)
    j = int(change.argmin())
    return j if change[j] < -ROUNDING * variance else None
