"""Bounds on multi-pass SGD's fluctuation around gradient descent: appendices I and J.

Given a dataset: features z_i (N, M) in Sigma's eigenbasis and labels. C_A = max_i ||z_i||^2, A the
mass of the rates, P_t = prod_{s>t} (I - gamma_s Sigma_hat), and rho_t = (N - B_t)/(B_t (N - 1))
without replacement (J) or 1/B_t with it (I). The exact fluctuation is not computed here: pass it
as ``fluctuation`` to compare it with the bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.batches.effective import fluctuation_factors
from batchlaw.influences.weights import influence
from batchlaw.model.problem import Problem
from batchlaw.risk.runs import Dataset
from batchlaw.theory.bounds.bound import Bound, Condition
from batchlaw.theory.bounds.gd_variance import covariance_replacement, rate_log_samples
from batchlaw.theory.bounds.gradient_run import GradientRun, check_width
from batchlaw.theory.bounds.kernels import (
    EmpiricalSpectrum,
    empirical_kernels,
    mass_below_spectrum,
)
from batchlaw.theory.bounds.power_law import power_law_conditions
from batchlaw.theory.bounds.schedule import contraction


def batch_covariance(problem: Problem, dataset: Dataset, rates: ArrayLike) -> Bound:
    r"""G_t <= sigma_xi^2 Sigma_hat (lemma wr-dynamic-covariance, I.1). One entry per step.

    sigma_xi^2 = 2 max_{i,t} [(z_i . (theta_{t-1} - u*))^2 + e_i^2] with e = y - Z u*. The value is
    the largest eigenvalue of G_t relative to Sigma_hat, on its range.
    """
    problem = problem.expanded()
    run = GradientRun.of(problem, dataset, rates)
    half = run.spectrum.whitener()
    Zw = run.spectrum.features @ half
    values = np.empty(run.rates.size)
    for t, residual in enumerate(run.residuals):
        scaled = Zw * residual[:, None]
        mean = scaled.sum(axis=0) / residual.size
        covariance = scaled.T @ scaled / residual.size - np.outer(mean, mean)
        values[t] = np.linalg.eigvalsh(covariance)[-1]
    return Bound(
        "covariance of one sample's gradient noise",
        "I.1, lemma wr-dynamic-covariance",
        0.0,
        values,
        run.noise_ceiling,
    )


def transition_covariance(features: ArrayLike) -> Bound:
    r"""(1/N) sum_i (z_i z_i' - Sigma_hat)^2 <= C_A Sigma_hat (I.1, below the transition identity).

    The value is the left side's largest eigenvalue relative to Sigma_hat.

    Parameters
    ----------
    features : (N, M) array
        One dataset, in any basis.
    """
    spectrum = EmpiricalSpectrum.of(features)
    half = spectrum.whitener()
    Z = spectrum.features
    norms = np.einsum("ij,ij->i", Z, Z)
    Zw = Z @ half
    square = (Zw * norms[:, None]).T @ Zw / norms.size
    whitened = half.T @ np.diag(spectrum.eigenvalues**2) @ half
    return Bound(
        "covariance of one sample's curvature",
        "I.1, display after wr-dynamic-transition-cov",
        0.0,
        float(np.linalg.eigvalsh(square - whitened)[-1]),
        float(norms.max()),
        terms=float(norms.max()),
    )


def lower_covariance_factor(features: ArrayLike, rates: ArrayLike) -> Bound:
    r"""E[G_t] >= sigma^2 beta Sigma_hat, beta = [(N-1)/N - 2 A C_A/N]_+ (lemma I.1, lower).

    The paper's universal C is 2: the loss is exactly its two cross terms. The value is the exact
    factor, the smallest relative eigenvalue of the noise's part of E[G_t] over all t,
    (N-1)/N Sigma_hat - (1/N) avg[(z z' - Sigma_hat) W_t (z z' - Sigma_hat)] with
    W_t = (I - C_t^2) Sigma_hat^-1; it is smallest at the last step because W_t grows.

    Parameters
    ----------
    features : (N, M) array
        One dataset, in any basis.
    """
    spectrum = EmpiricalSpectrum.of(features)
    gamma = checks.vector("rates", rates)
    N, nu = spectrum.samples, spectrum.eigenvalues
    # (1 - C^2)/x by its recursion, finite at x = 0, over the steps before the last.
    weight, survival = np.zeros_like(nu), np.ones_like(nu)
    for rate in gamma[:-1]:
        shrink = 1.0 - rate * nu
        weight += survival**2 * rate * (1.0 + shrink)
        survival *= shrink
    half = spectrum.whitener()
    Zw = spectrum.features @ half
    quadratic = spectrum.features**2 @ weight
    spread = (Zw * quadratic[:, None]).T @ Zw / N - half.T @ np.diag(nu**2 * weight) @ half
    value = (N - 1) / N - float(np.linalg.eigvalsh(spread)[-1]) / N
    mass, largest = float(gamma.sum()), spectrum.largest_norm
    return Bound(
        "lower covariance factor",
        "I.1, lemma wr-dynamic-covariance-lower",
        max((N - 1) / N - 2.0 * mass * largest / N, 0.0),
        value,
        (N - 1) / N,
        conditions=(contraction(float(gamma.max()) * float(nu[0])),),
        terms=1.0,
    )


def conditional_fluctuation(
    problem: Problem,
    dataset: Dataset,
    rates: ArrayLike,
    batches: ArrayLike,
    fluctuation: float = math.nan,
    *,
    replacement: bool = False,
    form: str = "cross",
) -> Bound:
    r"""The fluctuation given the whole dataset (lemma batch-D2-analogue, I.2, and its use in I.4).

    Below, F = sum_t rho_t gamma_t^2 tr(Sigma P_t G_t P_t), which drops the transitions' noise.
    Above, by ``form``:

    - "cross": (9/8) sigma_xi^2 K with the cross-kernel, K = sum_t rho_t kappa_t^x.
    - "printed": the paper's next step, R_p (kappa^(1) + kappa^(0)/A) for kappa^x.
    - "sharp": F + g/(2 - g) G K with g = gamma C_A and G the largest G_t relative to Sigma_hat.
      The source is exact, and C <= gamma G/(2 - g) I is the invariant of the lemma's proof with
      its constant optimised; it needs g < 2 instead of g <= 1/8.

    Parameters
    ----------
    fluctuation
        The exact fluctuation, if known.
    form
        Upper side: "cross", "printed" or "sharp".
    """
    checks.choice("form", form, ("cross", "printed", "sharp"))
    problem = problem.expanded()
    run = GradientRun.of(problem, dataset, rates)
    rho = _factors(batches, run, replacement)
    kernels = empirical_kernels(problem.eigenvalues, run.features, run.rates)
    lower = float((rho * run.rates**2) @ run.first_order(problem.eigenvalues))
    conditions = data_conditions(run.features, run.rates)
    kernel = float(rho @ kernels.cross)
    if form == "sharp":
        g = conditions[0].measured
        worst = float(np.max(batch_covariance(problem, dataset, rates).value))
        upper = lower + _feedback(g) * worst * kernel
        conditions = (
            Condition(
                "largest-norm-contraction", "gamma max ||z_i||^2 < 2", g, math.nextafter(2.0, 0.0)
            ),
        )
    else:
        if form == "printed":
            ridge = 1.0 / float(run.rates.sum())
            norm = covariance_replacement(problem.eigenvalues, run.features, ridge).value
            kernel = float(np.max(norm)) ** 2 * float(
                rho @ (kernels.square + ridge * kernels.plain)
            )
        upper = 1.125 * run.noise_ceiling * kernel
    return Bound(
        f"fluctuation given the data ({form})",
        "I.2, lemma batch-D2-analogue; J, corollary wor-batch-fluc",
        lower,
        fluctuation,
        upper,
        conditions=conditions,
    )


def expected_fluctuation(
    problem: Problem,
    features: ArrayLike,
    rates: ArrayLike,
    batches: ArrayLike,
    fluctuation: float = math.nan,
    *,
    replacement: bool = False,
) -> Bound:
    r"""The fluctuation given the features, averaged over the labels (I.4 and J).

    Below, s2 beta sum_t rho_t kappa_t^x (lemma wr-batch-fluc-lower-empirical). The lemma's sigma^2
    is s2 here: its proof also holds for averages over the whole residual y - z.u*, which is
    independent of z. Above, lemma batch-D2-analogue with
    E[G_t] <= (s2 + max_i (z_i . C u*)^2) Sigma_hat and 2/(2 - g), g = gamma C_A < 2, for its 9/8;
    the paper has no such statement.

    Parameters
    ----------
    features : (N, M) array
        One dataset, in Sigma's eigenbasis.
    fluctuation
        The exact fluctuation, if known.
    """
    problem = problem.expanded()
    spectrum = EmpiricalSpectrum.of(features)
    check_width(problem, spectrum.features, "features")
    gamma = checks.vector("rates", rates)
    rho = fluctuation_factors(batches, gamma.size, spectrum.samples, replacement=replacement)[0]
    kernels = empirical_kernels(problem.eigenvalues, features, gamma)
    kernel = float(rho @ kernels.cross)
    beta = lower_covariance_factor(features, gamma)
    g = float(gamma.max()) * spectrum.largest_norm
    mean = spectrum.basis.T @ problem.optimum
    worst = 0.0
    for rate in gamma:
        worst = max(worst, float(((spectrum.features @ mean) ** 2).max()))
        mean = mean * (1.0 - rate * spectrum.eigenvalues)
    return Bound(
        "fluctuation over the labels",
        "I.4, lemma wr-batch-fluc-lower-empirical; J, corollary wor-batch-fluc",
        problem.noise_variance * float(beta.lower) * kernel,
        fluctuation,
        (1.0 + _feedback(g)) * (problem.noise_variance + worst) * kernel,
        conditions=(
            *beta.conditions,
            Condition(
                "largest-norm-contraction", "gamma max ||z_i||^2 < 2", g, math.nextafter(2.0, 0.0)
            ),
        ),
    )


def fluctuation_order(
    problem: Problem,
    dataset: Dataset,
    rates: ArrayLike,
    batches: ArrayLike,
    a: float,
    fluctuation: float = math.nan,
    *,
    replacement: bool = False,
) -> Bound:
    r"""sum_t rho_t kappa_t <~ Fluc <~ F_mp sum_t rho_t kappa_t, population kernel (I.4).

    No constants. Lemmas wr-batch-fluc-upper and wr-batch-fluc-source, corollary wor-batch-fluc.

    Parameters
    ----------
    fluctuation
        The exact fluctuation, if known.
    """
    problem = problem.expanded()
    run = GradientRun.of(problem, dataset, rates)
    rho = _factors(batches, run, replacement)
    kernel = float(rho @ influence(problem.eigenvalues, run.rates))
    factors = leave_one_out(problem, dataset, run.rates, a)
    mass, N = float(run.rates.sum()), run.labels.size
    return Bound(
        "fluctuation by the population kernel",
        "I.4, lemmas wr-batch-fluc-upper, wr-batch-fluc-source; J, corollary wor-batch-fluc",
        kernel,
        fluctuation,
        factors.total * kernel,
        constant_explicit=False,
        conditions=(
            *data_conditions(run.features, run.rates),
            *power_law_conditions(problem.eigenvalues, a)[1],
            rate_log_samples(float(run.rates.max()), N),
            Condition("mass", "A >= 1", mass, 1.0, at_least=True),
            Condition("mass-below-samples", "A log N <= N", mass * math.log(N), N),
            mass_below_spectrum(mass, N, a),
            Condition(
                "learned-directions", "A^(1/a) <= M", mass ** (1.0 / a), problem.eigenvalues.size
            ),
        ),
    )


@dataclass(frozen=True)
class LeaveOneOut:
    """The factors of appendix I.4 for one dataset.

    Attributes
    ----------
    residual
        a_max, the largest ``|y_i - z_i . theta_t^(-i)|``.
    replacement
        R_p.
    shift
        B_Delta.
    total
        F_mp.
    noise_ceiling
        sigma_xi^2, which the paper claims to be at most a constant times F_mp / R_p.
    """

    residual: float
    replacement: float
    shift: float
    total: float
    noise_ceiling: float


def leave_one_out(
    problem: Problem, dataset: Dataset, rates: ArrayLike, a: float, epsilon: float | None = None
) -> LeaveOneOut:
    """F_mp and its parts from all N leave-one-out runs of GD (I.4), with s from ``reuse_exponent``.

    Parameters
    ----------
    epsilon
        As for ``reuse_exponent``.
    """
    s = reuse_exponent(checks.real("a", a, above=1.0), epsilon)
    problem = problem.expanded()
    run = GradientRun.of(problem, dataset, rates)
    Z, y = run.features, run.labels
    N, mass = y.size, float(run.rates.sum())
    covariance, forcing = Z.T @ Z / N, Z.T @ y / N
    theta = np.zeros_like(Z)
    fits = residual = 0.0
    for rate in run.rates:
        left_out = np.einsum("ij,ij->i", Z, theta) - y
        # Row i runs on the data without sample i, whose term is taken out of the gradient.
        theta = theta - rate * (theta @ covariance - forcing - Z * (left_out / N)[:, None])
        fit = np.einsum("ij,ij->i", Z, theta)
        fits = max(fits, float((fit**2).max()))
        residual = max(residual, float(np.abs(y - fit).max()))
    norm = covariance_replacement(problem.eigenvalues, Z, 1.0 / mass).value
    ratio = float(np.max(norm)) ** 2
    shift = residual**2 * run.spectrum.largest_norm * ratio * mass ** (2.0 - s) / N**2
    weighted = float((Z**2 @ problem.eigenvalues**-s).max())
    clean = Z @ problem.optimum
    parts = float((clean**2).max()) + float(((y - clean) ** 2).max()) + fits + weighted * shift
    return LeaveOneOut(residual, ratio, shift, ratio * parts, run.noise_ceiling)


def reuse_exponent(a: float, epsilon: float | None = None) -> float:
    """s = 1 - 1/(a (1 - epsilon/2)) of appendix I.4, positive.

    Parameters
    ----------
    epsilon
        Any number in (0, 1 - 1/a), as in the paper; the middle if None.
    """
    epsilon = (1.0 - 1.0 / a) / 2.0 if epsilon is None else epsilon
    return 1.0 - 1.0 / (a * (1.0 - epsilon / 2.0))


def data_conditions(features: ArrayLike, rates: ArrayLike) -> tuple[Condition, ...]:
    """gamma max_i ||z_i||^2 <= 1/8, the hypothesis of appendices I and J."""
    largest = EmpiricalSpectrum.of(features).largest_norm
    return (
        Condition(
            "largest-norm", "gamma max ||z_i||^2 <= 1/8", float(np.max(rates)) * largest, 0.125
        ),
    )


def _feedback(g: float) -> float:
    """g/(2 - g), the share that random transitions add to the source; g = gamma C_A."""
    return g / (2.0 - g) if g < 2.0 else math.inf


def _factors(batches: ArrayLike, run: GradientRun, replacement: bool) -> FloatArray:
    rho = fluctuation_factors(batches, run.rates.size, run.labels.size, replacement=replacement)
    if rho.shape[0] != 1:
        raise InputError("batches", "must be one schedule", f"{rho.shape[0]}")
    return np.asarray(rho[0], dtype=np.float64)
