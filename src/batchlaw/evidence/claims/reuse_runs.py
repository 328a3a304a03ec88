"""Multi-pass runs on a dataset of fixed size, with the number of epochs as the variable.

Each term is divided by that of one pass with the same updates: GD's bias by the one-pass bias,
GD's variance by (s2/N) sum_j (1 - prod_t (1 - gamma_t mu_j))^2, its value where no sample is
seen twice, and the fluctuation by the one-pass variance at 1/B = rho.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.evidence.claims.check_settings import RATE, parts, peak_rate, wide_problem
from batchlaw.model.problem import Problem
from batchlaw.risk.multi_pass import gradient_descent_risk, multi_pass_risk
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.risk.over_datasets import degrees_of_freedom, remaining
from batchlaw.schedule.rates import wsd

# Samples per update.
BATCH = 4


@dataclass(frozen=True, eq=False)
class ReuseRuns:
    """Runs of several lengths on datasets of one size, (K,) arrays in order of length.

    Attributes
    ----------
    a, b, samples
        The power law, and N.
    steps, epochs, share
        L, B L/N and df/N.
    bias, variance, fluctuation
        The terms of multi-pass SGD; the variance per unit of s2.
    bias_factor, variance_factor, fluctuation_factor
        The same over those of one pass with the same updates.
    error, descent_error
        The largest relative error that the mean field states for the excess of a run, and for
        that of gradient descent.
    """

    a: float
    b: float
    samples: int
    steps: IntArray
    epochs: FloatArray
    share: FloatArray
    bias: FloatArray
    variance: FloatArray
    fluctuation: FloatArray
    bias_factor: FloatArray
    variance_factor: FloatArray
    fluctuation_factor: FloatArray
    error: float
    descent_error: float


def reuse_runs(
    a: float, b: float, samples: int, shares: FloatArray, rate: float = RATE
) -> ReuseRuns:
    """Mean-field risks of WSD runs whose df/N is about each of ``shares``."""
    problem = wide_problem(a, b)
    gamma = peak_rate(problem, rate)
    steps = np.array([steps_for(problem, gamma, share * samples) for share in shares])
    runs = [wsd(int(L), gamma) for L in steps]
    N, rho = samples, fluctuation_factor(samples)
    risks = [multi_pass_risk(problem, r, np.full(r.size, float(BATCH)), samples=N) for r in runs]
    descents = [gradient_descent_risk(problem, r, samples=N) for r in runs]
    fresh = [one_pass_risk(problem, r, np.full(r.size, 1.0 / rho)) for r in runs]
    variance = parts(risks, "variance") / problem.noise_variance
    return ReuseRuns(
        a,
        b,
        N,
        steps,
        BATCH * steps / N,
        np.array([degrees_of_freedom(problem, r) / N for r in runs]),
        parts(risks, "bias"),
        variance,
        parts(risks, "fluctuation"),
        parts(risks, "bias") / parts(fresh, "bias"),
        variance / np.array([fresh_variance(problem, r, N) for r in runs]),
        parts(risks, "fluctuation") / parts(fresh, "variance"),
        float(np.max(parts(risks, "uncertainty"))),
        float(np.max(parts(descents, "uncertainty"))),
    )


def steps_for(problem: Problem, peak: float, freedom: float) -> int:
    """Length of the WSD run that fits this many directions: df(L) = ``freedom``, about."""
    mu, n = problem.eigenvalues, problem.multiplicity
    low, high = 0.0, 60.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        fitted = float(n @ -np.expm1(-math.exp(middle) * mu))
        low, high = (middle, high) if fitted < freedom else (low, middle)
    # The mass of a long WSD schedule is proportional to its length.
    return max(round(math.exp(low) / float(wsd(10**4, peak).mean())), 3)


def fluctuation_factor(samples: int, batch: float = BATCH) -> float:
    """rho = (N - B)/(B (N - 1))."""
    return (samples - batch) / (batch * (samples - 1))


def fresh_variance(problem: Problem, rates: FloatArray, samples: int) -> float:
    """sum_j (1 - prod_t (1 - gamma_t mu_j))^2 / N: GD's variance over s2 without reuse."""
    learned = 1.0 - remaining(problem, rates)
    return float(problem.multiplicity @ learned**2) / samples


def drawn_risks(
    problem: Problem, rates: FloatArray, samples: int, datasets: int, seed: int
) -> dict[str, FloatArray]:
    """The terms given each of several drawn datasets, exact; GD's averaged over the labels.

    GD costs next to nothing, so there are eight times as many datasets for it.
    """
    batches = np.full(rates.size, float(BATCH))
    data = [problem.sample(samples, np.random.default_rng([seed, k])) for k in range(8 * datasets)]
    descent = [gradient_descent_risk(problem, rates, (features, None)) for features, _ in data]
    noisy = [multi_pass_risk(problem, rates, batches, dataset=d) for d in data[:datasets]]
    return {
        "bias": parts(descent, "bias"),
        "variance": parts(descent, "variance"),
        "fluctuation": parts(noisy, "fluctuation"),
    }
