"""Bounds on one-pass SGD's variance: appendices A.4, H.1 to H.3 and K.

All are multiples of the raw kernel K = sum_t kappa_t / B_t. Notation: gamma is the largest rate,
R2 = alpha tr(Sigma) with alpha = 3, ||w||^2 = ||w*||_H^2 = Approx + ||u*||_Sigma^2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw.batches.effective import effective_batch
from batchlaw.influences.weights import influence
from batchlaw.model.problem import Problem
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.schedule.update_rule import check_stable
from batchlaw.theory.bounds.bound import Bound, Condition, Number

# Fourth-moment constant of a Gaussian design (lemma aux-sketch-moment).
ALPHA = 3.0


def raw_kernel(problem: Problem, rates: ArrayLike, batches: ArrayLike) -> Number:
    """K = sum_t kappa_t / B_t (definition raw-var-batch, H.1), one number per schedule."""
    kappa = influence(problem.eigenvalues, rates, multiplicity=problem.multiplicity)
    sizes = checks.batches(batches, kappa.size, whole=False)
    kernel = (1.0 / sizes) @ kappa
    return float(kernel[0]) if checks.is_single(batches) else kernel


def additive_noise(
    problem: Problem, rates: ArrayLike, batches: ArrayLike, *, sharp: bool = False
) -> Bound:
    r"""sigma^2 K <= Var_noise <= stilde^2 K / (1 - gamma R2) (theorem batch-wu-C1, H.2).

    stilde^2 = 2 (sigma^2 + alpha ||w||^2). With ``sharp``, by the same proof, s2 below and
    s2 (1 + gamma (tr + mu_1)/(2 - gamma (tr + 2 mu_1))) above, s2 the residual's variance.

    Parameters
    ----------
    sharp
        Use exact Gaussian moments instead of bounds on them.
    """
    kernel = raw_kernel(problem, rates, batches)
    below, above = problem.irreducible, _noise_ceiling(problem) * _gain(problem, rates)
    if sharp:
        below = problem.noise_variance
        above = problem.noise_variance * (1.0 + _feedback(problem, rates))
    return Bound(
        "additive-noise variance" + " (sharp constants)" * sharp,
        "H.2, theorem batch-wu-C1",
        below * kernel,
        _present(one_pass_risk(problem, rates, batches).variance_noise),
        above * kernel,
        conditions=(_sharp_stability if sharp else stability)(problem, rates, batches),
    )


def covariance_fluctuation(
    problem: Problem, rates: ArrayLike, batches: ArrayLike, *, sharp: bool = False
) -> Bound:
    r"""0 <= Var_cov <= alpha ||u*||_Sigma^2 K / (1 - gamma R2) (theorem batch-centered-C1, H.3).

    With ``sharp``, sum_t kappa_t ||m_{t-1}||_Sigma^2 / B_t below, and above the same sum with
    2 ||m_{t-1}||_Sigma^2 + 2 ||u*||_Sigma^2 f, where tr = tr(Sigma) and
    f = gamma (tr + mu_1)/(2 - gamma (tr + 2 mu_1)).

    Parameters
    ----------
    sharp
        Use exact Gaussian moments instead of bounds on them, and the decay of the mean.
    """
    single = checks.is_single(batches)
    risk = one_pass_risk(problem, rates, batches)
    value = np.atleast_1d(_present(risk.variance_covariance))
    signal = _signal(problem)
    if sharp:
        gamma = np.asarray(rates, dtype=np.float64)
        kappa = influence(problem.eigenvalues, gamma, multiplicity=problem.multiplicity)
        shares = kappa / checks.batches(batches, gamma.size, whole=False)
        mean = _mean_norms(problem, gamma)
        lower = shares @ mean
        upper = shares @ (2.0 * mean + 2.0 * signal * _feedback(problem, gamma))
    else:
        lower = np.zeros_like(value)
        upper = np.atleast_1d(
            ALPHA * signal * _gain(problem, rates) * raw_kernel(problem, rates, batches)
        )
    return Bound(
        "covariance-fluctuation variance" + " (sharp constants)" * sharp,
        "H.3, theorem batch-centered-C1",
        float(lower[0]) if single else lower,
        float(value[0]) if single else value,
        float(upper[0]) if single else upper,
        conditions=(_sharp_stability if sharp else stability)(problem, rates, batches),
    )


def raw_variance(problem: Problem, rates: ArrayLike, batches: ArrayLike) -> Bound:
    r"""sigma^2 K <= Var <= (stilde^2 + alpha ||w||^2) K / (1 - gamma R2).

    Proposition raw-var-controls-variance (H.3).
    """
    kernel = raw_kernel(problem, rates, batches)
    ceiling = _noise_ceiling(problem) + ALPHA * _target_norm(problem)
    return Bound(
        "one-pass variance",
        "H.3, proposition raw-var-controls-variance",
        problem.irreducible * kernel,
        one_pass_risk(problem, rates, batches).variance,
        ceiling * _gain(problem, rates) * kernel,
        conditions=stability(problem, rates, batches),
    )


def residual_covariance(problem: Problem) -> Bound:
    """sigma^2 <= s2 <= 2 (sigma^2 + alpha ||w||^2), with E[(y - z.u*)^2 zz'] = s2 Sigma exactly.

    Lemmas batch-wu-C1 (H.2) and aux-sketch-moment (ii) (K).
    """
    return Bound(
        "covariance of the label residual, in units of Sigma/B",
        "H.2, lemma batch-wu-C1; K, lemma aux-sketch-moment",
        problem.irreducible,
        problem.noise_variance,
        _noise_ceiling(problem),
    )


def fourth_moment(eigenvalues: ArrayLike, matrix: ArrayLike) -> Bound:
    r"""tr(Sigma A) Sigma <= E[zz' A zz'] <= 3 tr(Sigma A) Sigma for PSD A.

    Lemma aux-sketch-moment (i) (K). The value is the exact ratio by Isserlis' formula, the largest
    eigenvalue of I + 2 Sigma^1/2 A Sigma^1/2 / tr(Sigma A).

    Parameters
    ----------
    matrix : (M, M) array
        A, positive semidefinite, in Sigma's eigenbasis.
    """
    mu = checks.vector("eigenvalues", eigenvalues, positive=True)
    half = np.sqrt(mu)
    spread = half[:, None] * np.asarray(matrix, dtype=np.float64) * half
    value = 1.0 + 2.0 * float(np.linalg.eigvalsh(spread)[-1]) / float(np.trace(spread))
    return Bound("fourth moment", "K, lemma aux-sketch-moment (i)", 1.0, value, ALPHA)


def uniform_covariance(
    problem: Problem, rates: ArrayLike, batches: ArrayLike
) -> tuple[Bound, Bound]:
    r"""max_t ||C_t|| <= gamma c/(1 - gamma R2) for the noise part and the covariance part.

    c = stilde^2 (lemma batch-wu-C1, H.2) and c = alpha ||u*||^2 (lemma batch-centered-C1, H.3).
    For one schedule. The values come from the full M x M recursion.
    """
    gamma = check_stable(rates, float(problem.eigenvalues[0]))
    sizes = checks.batches(batches, gamma.size, whole=False)[0]
    largest = np.zeros(2)
    for moments in _dense_moments(problem.expanded(), gamma, sizes):
        largest = np.maximum(largest, np.linalg.eigvalsh(moments)[:, -1])
    scale = float(gamma.max()) * _gain(problem, gamma)
    return (
        Bound(
            "largest covariance of the noise part",
            "H.2, lemma batch-wu-C1",
            0.0,
            float(largest[0]),
            scale * _noise_ceiling(problem),
            conditions=stability(problem, gamma, batches),
        ),
        Bound(
            "largest covariance of the covariance part",
            "H.3, lemma batch-centered-C1",
            0.0,
            float(largest[1]),
            scale * ALPHA * _signal(problem),
            conditions=stability(problem, gamma, batches),
        ),
    )


def effective_batch_range(problem: Problem, rates: ArrayLike, batches: ArrayLike) -> Bound:
    """B_min <= B_eff <= B_max (A.4)."""
    kappa = influence(problem.eigenvalues, rates, multiplicity=problem.multiplicity)
    sizes = np.asarray(batches, dtype=np.float64)
    value = effective_batch(kappa, sizes)
    return Bound("effective batch size", "A.4", sizes.min(axis=-1), value, sizes.max(axis=-1))


def stability(problem: Problem, rates: ArrayLike, batches: ArrayLike) -> tuple[Condition, ...]:
    """gamma alpha tr(Sigma) <= 1/4, and no batch below one sample: the hypotheses of appendix H."""
    measured = float(np.max(rates)) * ALPHA * problem.trace
    return (
        Condition("rate", "gamma alpha tr(Sigma) <= 1/4", measured, 0.25),
        _smallest_batch(batches),
    )


def _sharp_stability(
    problem: Problem, rates: ArrayLike, batches: ArrayLike
) -> tuple[Condition, ...]:
    measured = float(np.max(rates)) * (problem.trace + 2.0 * float(problem.eigenvalues[0]))
    return (
        Condition(
            "second-moment-contraction",
            "gamma (tr(Sigma) + 2 mu_1) < 2",
            measured,
            math.nextafter(2.0, 0.0),
        ),
        _smallest_batch(batches),
    )


def _smallest_batch(batches: ArrayLike) -> Condition:
    return Condition("smallest-batch", "B_t >= 1", float(np.min(batches)), 1.0, at_least=True)


def _present(part: Number | None) -> Number:
    """A part of the risk that one-pass SGD always has."""
    assert part is not None
    return part


def _gain(problem: Problem, rates: ArrayLike) -> float:
    """1/(1 - gamma R2), infinite if the feedback is unbounded."""
    margin = 1.0 - float(np.max(rates)) * ALPHA * problem.trace
    return 1.0 / margin if margin > 0.0 else math.inf


def _feedback(problem: Problem, rates: ArrayLike) -> float:
    """Noise that random transitions feed back, as a share of the source.

    With C <= c I the transition adds (gamma^2/B) (S C S + S tr(S C)) <= c (tr + mu_1) S gamma^2/B,
    and c = gamma s2 / (2 - gamma (tr + 2 mu_1)) is invariant.
    """
    gamma, top = float(np.max(rates)), float(problem.eigenvalues[0])
    margin = 2.0 - gamma * (problem.trace + 2.0 * top)
    return gamma * (problem.trace + top) / margin if margin > 0.0 else math.inf


def _signal(problem: Problem) -> float:
    """||u*||_Sigma^2."""
    return float((problem.multiplicity * problem.eigenvalues) @ problem.target_energy)


def _target_norm(problem: Problem) -> float:
    """||w*||_H^2: the parts inside and outside the sketch's range are orthogonal."""
    return _signal(problem) + problem.approximation


def _noise_ceiling(problem: Problem) -> float:
    return 2.0 * (problem.irreducible + ALPHA * _target_norm(problem))


def _mean_norms(problem: Problem, rates: FloatArray) -> FloatArray:
    """||m_{t-1}||_Sigma^2 for t = 1..T."""
    energy = problem.multiplicity * problem.eigenvalues * problem.target_energy
    norms = np.empty(rates.size)
    for t, rate in enumerate(rates):
        norms[t] = energy.sum()
        energy = energy * (1.0 - rate * problem.eigenvalues) ** 2
    return norms


def _dense_moments(problem: Problem, rates: FloatArray, sizes: FloatArray) -> Iterator[FloatArray]:
    """(noise part, covariance part) after every step, each M x M in Sigma's eigenbasis."""
    mu = problem.eigenvalues
    cross = np.outer(mu, mu)
    mean = -problem.optimum
    parts = np.zeros((2, mu.size, mu.size))
    for rate, size in zip(rates, sizes, strict=True):
        shrink = 1.0 - rate * mu
        second_moment = parts.copy()
        second_moment[1] += np.outer(mean, mean)
        spread = cross * second_moment
        diagonal = np.einsum("pjj,j->p", second_moment, mu)[:, None] * mu
        diagonal[0] += problem.noise_variance * mu
        spread[:, np.arange(mu.size), np.arange(mu.size)] += diagonal
        parts = np.outer(shrink, shrink) * parts + rate**2 / size * spread
        mean = shrink * mean
        yield parts
