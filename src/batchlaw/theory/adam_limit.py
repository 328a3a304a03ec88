r"""Adam where noise dominates its second moment: SGD at rates that the batches set.

With a gradient G of variance mu_j s2 / B_t in direction j, and v at its mean,

    sqrt(v_hat_t) = sqrt(p_j s2 y_t),    y_t = bias-corrected average of 1/B with beta2's memory,

where p_j is the mean eigenvalue (basis "generic"), mu_j ("eigen"), or Sigma_jj ("sketch"). The
step is SGD's on the eigenvalues lambda_j = mu_j / sqrt(p_j) (those of P^(1/2) Sigma P^(1/2) with
P = diag(Sigma)^(-1/2) in a sketch's own coordinates) at the *effective rates*

    eta_t = g_t / sqrt(s2 y_t).

Held longer than the memory, a batch gives y_t = 1/B_t: then eta_t ~ g_t sqrt(B_t), and the noise
that a step injects, eta_t^2 s2 / B_t = g_t^2, does not depend on the batch. The excess is a
function of the rates eta and of x_t = 1/B_t,

    E(eta, x) = sum_j lambda_j e_j prod_t (1 - eta_t lambda_j)^2 + s2 sum_t eta_t^2 x_t k_t(eta),
    k_t = sum_j lambda_j^2 prod_{s>t} (1 - eta_s lambda_j)^2,

so that a batch acts directly, as in SGD, and through every later rate:

    dE/dx_u = s2 eta_u^2 k_u - sum_{t>=u} w_tu (dE/d log eta_t) / (2 y_t),    y_t = sum_u w_tu x_u.

Batches of a given sum are stationary where B_u^2 is proportional to this. SGD's square-root rule
is the first term alone. beta1 only delays the steps and does not enter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.signal import lfilter

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw.batches.sharing import water_fill
from batchlaw.model.problem import Problem
from batchlaw.schedule.adam import GENERIC, SKETCH, Adam

# Rounds of the fixed point; without memory a round takes 3/4 of the distance.
ROUNDS = 120


@dataclass(frozen=True, eq=False)
class LimitSlopes:
    """The limit's excess and what each x_t = 1/B_t does to it.

    Attributes
    ----------
    bias, noise
        The two parts of E.
    direct, by_rate : (T,) arrays
        dE/dx_t through the noise of update t, and through its own and all later rates.
    """

    bias: float
    noise: float
    direct: FloatArray
    by_rate: FloatArray

    @property
    def excess(self) -> float:
        """E."""
        return self.bias + self.noise

    @property
    def total(self) -> FloatArray:
        """dE/dx_t."""
        return self.direct + self.by_rate


def preconditioned(problem: Problem, rule: Adam) -> Problem:
    """The problem that SGD at the effective rates solves: P^(1/2) Sigma P^(1/2), P = p^(-1/2)."""
    if rule.basis == SKETCH:
        sigma = problem.covariance
        root = np.diag(sigma) ** 0.25
        eigenvalues, axes = np.linalg.eigh(sigma / np.outer(root, root))
        energy = ((root * problem.target) @ axes) ** 2
        return Problem.from_spectrum(eigenvalues[::-1], energy[::-1], problem.noise_variance)
    scale = np.sqrt(problem.eigenvalues)
    if rule.basis == GENERIC:
        scale = np.full_like(scale, math.sqrt(problem.trace / problem.multiplicity.sum()))
    return Problem.from_spectrum(
        problem.eigenvalues / scale,
        problem.target_energy * scale,
        problem.noise_variance,
        problem.multiplicity,
    )


def inverse_batch(batches: ArrayLike, rule: Adam) -> FloatArray:
    """y_t: the average of 1/B that v holds, with the memory of beta2 and bias-corrected."""
    x = 1.0 / np.asarray(batches, dtype=np.float64)
    steps = np.arange(1.0, x.shape[-1] + 1.0)
    average = lfilter([1.0 - rule.beta2], [1.0, -rule.beta2], x, axis=-1)
    return np.asarray(average / (1.0 - rule.beta2**steps))


def effective_rates(
    problem: Problem, rates: ArrayLike, batches: ArrayLike, rule: Adam
) -> FloatArray:
    """eta_t, the rates at which SGD on ``preconditioned`` does what Adam does.

    Parameters
    ----------
    problem
        Its label noise must dominate what is not yet learned.
    rates : (T,) array
        Adam's step sizes g_t.
    batches : (T,) or (S, T) array
        Batch sizes.
    rule
        beta2 and the basis; eps must be negligible.
    """
    g = checks.vector("rates", rates)
    return np.asarray(g / np.sqrt(problem.noise_variance * inverse_batch(batches, rule)))


def learning_batch(rates: ArrayLike, batches: ArrayLike, rule: Adam) -> FloatArray:
    """The constant batch with the same sum of effective rates, so with the same bias.

    Without memory it is (sum g_t sqrt(B_t) / sum g_t)^2, a power mean of exponent 1/2; for
    batches that change within the memory it is the harmonic mean.
    """
    g = checks.vector("rates", rates)
    return np.asarray(((g / np.sqrt(inverse_batch(batches, rule))).sum(axis=-1) / g.sum()) ** 2)


def limit_slopes(problem: Problem, rates: ArrayLike, batches: ArrayLike, rule: Adam) -> LimitSlopes:
    """E and its derivative in every 1/B_t; dense, O(T M) memory."""
    x = 1.0 / checks.vector("batches", batches)
    eta = effective_rates(problem, rates, batches, rule)
    sgd = preconditioned(problem, rule)
    lam, s2 = sgd.eigenvalues, sgd.noise_variance
    kept = 1.0 - np.outer(eta, lam)
    after = _suffix_products(kept**2)
    weight = sgd.multiplicity * lam
    bias = weight * sgd.target_energy * after[0] * kept[0] ** 2
    injected = s2 * eta**2 * x
    k = after @ (weight * lam)
    # What earlier noise is left in each direction before an update, and how a rate contracts it.
    left = np.zeros_like(kept)
    for t in range(1, eta.size):
        left[t] = left[t - 1] * kept[t - 1] ** 2 + injected[t - 1]
    contraction = -2.0 * lam / kept
    forgetting = (left * after * kept**2 * contraction) @ (weight * lam)
    in_rates = contraction @ bias + forgetting + 2.0 * s2 * eta * x * k
    y = inverse_batch(batches, rule)
    return LimitSlopes(
        float(bias.sum()),
        float(injected @ k),
        s2 * eta**2 * k,
        _through_memory(-0.5 * eta * in_rates / y, rule),
    )


def limit_batches(
    problem: Problem, rates: ArrayLike, budget: float, rule: Adam, *, min_batch: float = 1.0
) -> FloatArray:
    """Stationary batches of the limit: the fixed point B_u ~ sqrt(dE/dx_u), clipped from below.

    Parameters
    ----------
    problem, rates, rule
        As in ``effective_rates``.
    budget
        sum_t B_t.
    min_batch
        The smallest batch.
    """
    g = checks.vector("rates", rates)
    batches = np.full(g.size, budget / g.size)
    for _ in range(ROUNDS):
        slopes = np.maximum(limit_slopes(problem, g, batches, rule).total, 0.0)
        batches = np.sqrt(batches * water_fill(np.sqrt(slopes), budget, min_batch, budget))
        batches *= budget / batches.sum()
    return batches


def squared_rate_gain(rates: ArrayLike) -> float:
    """T sum g^2 / (sum g)^2: the learning batch of B_t ~ g_t^2 over a constant batch's.

    Without memory B_t ~ g_t^2 gives the largest sum of g_t sqrt(B_t) for a given sum of batches
    (Cauchy and Schwarz): where bias dominates it is the best schedule.
    """
    g = checks.vector("rates", rates)
    return float(g.size * (g @ g) / g.sum() ** 2)


def _suffix_products(factors: FloatArray) -> FloatArray:
    """Products of all later rows, (T, M)."""
    products = np.ones_like(factors)
    products[:-1] = np.cumprod(factors[:0:-1], axis=0)[::-1]
    return products


def _through_memory(values: FloatArray, rule: Adam) -> FloatArray:
    """sum_{t>=u} w_tu values_t, the transpose of the average in ``inverse_batch``."""
    steps = np.arange(1.0, values.size + 1.0)
    corrected = values / (1.0 - rule.beta2**steps)
    return np.asarray(lfilter([1.0 - rule.beta2], [1.0, -rule.beta2], corrected[::-1])[::-1])
