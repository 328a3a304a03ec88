r"""Expected risk of multi-pass SGD over datasets: a mean field, without drawing a dataset.

Given the dataset, the covariance C around GD has an exact recursion with a term
Z^T diag(f_i^2 + z_i^T C z_i) Z / N, f the residuals of GD. For Gaussian data a rotation of
the N samples leaves every distribution unchanged, and the average over it is known: for
vectors x, y, f of R^N rotated together,

    E sum_i x_i y_i f_i^2 = [(x . y) |f|^2 + 2 (x . f)(y . f)] / (N + 2).

With the gradient q = Z^T f / N and the mean squared residual of a sample,
V = |f|^2 / N + tr(Sigma_hat C), that gives

    C <- A C A + g^2 rho { N/(N+2) V Sigma_hat + (N-2)/(N+2) (q q^T + Sigma_hat C Sigma_hat) }.

Now everything except V is a polynomial of Sigma_hat. Three approximations: the average over
rotations is taken independently at every step, although from the second on C depends on the
rotation too; V is replaced by its mean; and the averages over Sigma_hat are those of
``sample_spectrum``, to relative order 1/N. For many samples at a fixed df/N, without the
second term, these are the two-time equations of dynamical mean field theory; for df/N = 0,
with it, one-pass SGD.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import Batches, FloatArray, IntArray
from batchlaw._base.errors import InputError, Unstable
from batchlaw._base.kernels import mean_field
from batchlaw._base.kernels.common import products
from batchlaw.batches.effective import fluctuation_factors
from batchlaw.model.problem import Problem
from batchlaw.risk.on_nodes import approximation_notes
from batchlaw.risk.over_datasets import averaged_risk, degrees_of_freedom, reuse_name
from batchlaw.risk.result import Note, Risk
from batchlaw.risk.sample_spectrum import (
    SampleSpectrum,
    largest_sample_eigenvalue,
    sample_spectrum,
)
from batchlaw.risk.stability import check_overflow
from batchlaw.schedule.update_rule import check_stable

# At most one dataset in this many has a sample larger than the outlier considered.
OUTLIER_RARITY = 10.0
# Growth of an outlier's squared residual above which the result carries a note.
MAX_OUTLIER_GROWTH = 3.0
# exp(-60) is below rounding of 1.
LOG_UNDERFLOW = -60.0
# Squares of exp(350) are near the largest double, exp(709).
LOG_OVERFLOW = 350.0


def expected_risk_mean_field(
    problem: Problem,
    rates: ArrayLike,
    batches: Batches,
    samples: int,
    *,
    replacement: bool = False,
    nodes: int | None = None,
    trajectory: bool = False,
) -> Risk:
    """Expected risk of multi-pass SGD over datasets and batches, an approximation.

    Bias is GD's without label noise, variance its response to label noise, fluctuation
    what the batches add: the terms of ``simulate_multi_pass``. A schedule of L steps costs
    a few thousand L operations, independent of N and M. docs/mean_field.md lists measured
    errors.

    Parameters
    ----------
    rates : (L,) array
        Step sizes gamma_t.
    batches : (L,) or (S, L) array
        Batch sizes B_t; they need not be whole numbers.
    samples : int
        N.
    replacement : bool
        Draw within a batch with replacement.
    nodes : int
        Points of the contour integral, even and at least 8; by default enough for its error
        to be below rounding. ``uncertainty`` is the change with 1.5 times as many, or the
        error of the model itself where that is larger (``model_error``).
    trajectory : bool
        Give every part with a last axis of L + 1: the risk before and after every update.
    """
    gamma, N = _check_run(problem, rates, samples)
    sizes = checks.batches(batches, gamma.size, whole=False, maximum=None if replacement else N)
    rho = fluctuation_factors(sizes, gamma.size, N, replacement=replacement)
    spectrum = sample_spectrum(problem, N, float(gamma.sum()), _check_nodes(nodes))
    bias, variance, fluctuation = _solve(
        spectrum, problem.noise_variance, gamma, rho, N, trajectory=trajectory
    )
    # A negative fluctuation is the rounding error of a growth that has decayed again.
    lost = fluctuation < -1e-6 * (bias + variance)
    check_overflow(np.where(lost, np.inf, fluctuation), gamma, sizes)
    risk = averaged_risk(
        problem,
        reuse_name(replacement),
        f"mean field over datasets of {N} samples",
        bias,
        variance,
        fluctuation[0] if checks.is_single(batches) else fluctuation,
        max(_quadrature_error(problem, spectrum, gamma, N), model_error(problem, gamma, N)),
    )
    risk = _with_outliers(risk, float(outlier_growth(problem, gamma, rho, N).max()))
    risk = replace(risk, notes=(*risk.notes, *approximation_notes(problem)))
    if problem.coarser is None:
        return risk

    def parts_of(other: Problem) -> FloatArray:
        options = {"replacement": replacement, "trajectory": trajectory}
        return _stacked(expected_risk_mean_field(other, rates, batches, N, nodes=nodes, **options))

    change = float(np.max(problem.node_error(parts_of, _stacked(risk))))
    return replace(risk, uncertainty=max(risk.uncertainty, change))


def _stacked(risk: Risk) -> FloatArray:
    return np.stack(np.broadcast_arrays(risk.bias, risk.variance, risk.fluctuation), axis=-1)


def _with_outliers(risk: Risk, growth: float) -> Risk:
    """The result, without a claim about its error where rare datasets dominate."""
    if growth <= MAX_OUTLIER_GROWTH:
        return risk
    note = Note(
        f"updates multiply an outlying sample's squared residual by {growth:.3g}: rare datasets "
        "may decide the exact average, and are left out here",
        "outliers",
    )
    return replace(risk, uncertainty=np.inf, notes=(*risk.notes, note))


def model_error(problem: Problem, rates: FloatArray, samples: int) -> float:
    """Relative error of the mean field's parts, as measured against exact averages over datasets.

    The limits of docs/mean_field.md: 0.15 % from N = 64 on and 0.6 % from 16 on while less
    than half of the samples' freedom is used (df/N), 1 % and 3 % beyond; 10 % below N = 16.
    """
    if samples < 16:
        return 0.1
    easy = degrees_of_freedom(problem, rates) <= 0.5 * samples
    if samples < 64:
        return 0.006 if easy else 0.03
    return 0.0015 if easy else 0.01


def expected_gradient_descent_risk(
    problem: Problem,
    rates: ArrayLike,
    samples: int,
    *,
    nodes: int | None = None,
    trajectory: bool = False,
) -> Risk:
    """Expected risk of normal GD over datasets of N = ``samples``: bias and variance alone.

    The same averages as ``expected_risk_mean_field``, whose fluctuation vanishes at B_t = N.
    """
    gamma, N = _check_run(problem, rates, samples)
    spectrum = sample_spectrum(problem, N, float(gamma.sum()), _check_nodes(nodes))
    bias: FloatArray | float
    variance: FloatArray | float
    if trajectory:
        no_noise = np.zeros((1, gamma.size))
        until, _ = _lifetimes(spectrum, gamma, no_noise)
        bias = _target(spectrum, gamma, no_noise, until, trajectory)[0]
        variance = _descent_variance(spectrum, problem.noise_variance, gamma)
    else:
        bias, variance = _gradient_descent(spectrum, problem.noise_variance, gamma)
    risk = averaged_risk(
        problem,
        "normal GD",
        f"mean field over datasets of {N} samples",
        bias,
        variance,
        0.0 * bias,
        max(_quadrature_error(problem, spectrum, gamma, N), model_error(problem, gamma, N)),
    )
    return _with_outliers(risk, float(outlier_growth(problem, gamma, np.zeros((1, 1)), N).max()))


def _solve(
    spectrum: SampleSpectrum,
    s2: float,
    gamma: FloatArray,
    rho: FloatArray,
    N: int,
    *,
    finite: bool = True,
    trajectory: bool = False,
) -> tuple[FloatArray | float, FloatArray | float, FloatArray]:
    """Bias, variance, and each schedule's fluctuation; along a last axis with ``trajectory``.

    Without ``finite``, the average over rotations is replaced by its limit for many samples at
    a fixed df/N, in which the second term of the recursion vanishes.
    """
    spread, feedback = (N / (N + 2), (N - 2) / (N + 2)) if finite else (1.0, 0.0)
    level = np.empty((rho.shape[0], gamma.size + 1 if trajectory else 1))
    mean_field.contour_fluctuation(
        spectrum.points,
        spectrum.trace,
        spectrum.target,
        spectrum.readout,
        s2,
        gamma,
        rho,
        spread * N,
        feedback,
        level,
    )
    # q q^T and its effect on C: u*'s part of E[u u^T], minus GD's in the row without noise.
    strength = np.vstack([np.zeros_like(gamma), feedback * gamma**2 * rho])
    until, largest = _lifetimes(spectrum, gamma, strength)
    # An overflow is refused anyway: skip the costly pairs of points.
    if not np.isfinite(level).all() or largest > LOG_OVERFLOW:
        return *_gradient_descent(spectrum, s2, gamma), np.full(rho.shape[0], np.inf)
    target = _target(spectrum, gamma, strength, until, trajectory)
    level += target[1:] - target[0]
    if trajectory:
        return target[0], _descent_variance(spectrum, s2, gamma), level
    return *_gradient_descent(spectrum, s2, gamma), level[:, 0]


def _lifetimes(
    spectrum: SampleSpectrum, gamma: FloatArray, strength: FloatArray
) -> tuple[IntArray, float]:
    """Step at which each point's product underflows, and the largest logarithm of any product."""
    until, largest = mean_field.lifetimes(
        spectrum.points, gamma, strength.max(axis=0), LOG_UNDERFLOW
    )
    return until, largest


def _target(
    spectrum: SampleSpectrum,
    gamma: FloatArray,
    strength: FloatArray,
    until: IntArray,
    trajectory: bool,
) -> FloatArray:
    """u*^T psi Sigma psi u* with psi^2 -> (1 - g z)^2 + e z^2, one row for each row of e."""
    z, pairs = spectrum.points, spectrum.pairs
    out = np.empty((strength.shape[0], gamma.size + 1 if trajectory else 1))
    if not trajectory:
        # After long runs only a few dozen points have not underflowed.
        live = np.flatnonzero(until == gamma.size)
        z, until = z[live], until[live]
        pairs = pairs[np.ix_(live, np.append(live, live + spectrum.points.size))]
    mean_field.pair_products(z, pairs, gamma, strength, until, out)
    return out


def _gradient_descent(
    spectrum: SampleSpectrum, s2: float, gamma: FloatArray
) -> tuple[float, float]:
    """u*^T psi Sigma psi u* and (s2/N) tr(Sigma (1 - psi)^2 / Sigma_hat), psi = prod (1 - g z)."""
    z = spectrum.points
    psi = products(z, gamma)
    bias = 2.0 * (psi @ spectrum.pairs @ np.append(psi, psi.conj())).real
    return float(bias), float(2.0 * s2 * (spectrum.readout @ ((1.0 - psi) ** 2 / z)).real)


def _descent_variance(spectrum: SampleSpectrum, s2: float, gamma: FloatArray) -> FloatArray:
    return np.asarray(
        mean_field.descent_variance(spectrum.points, spectrum.readout, s2, gamma), dtype=np.float64
    )


def _quadrature_error(
    problem: Problem, spectrum: SampleSpectrum, gamma: FloatArray, N: int
) -> float:
    """Relative change of GD's excess with 1.5 times as many points on the contour."""
    nodes = 3 * spectrum.points.size // 2 * 2
    finer = sample_spectrum(problem, N, float(gamma.sum()), nodes)
    coarse, fine = (
        sum(_gradient_descent(s, problem.noise_variance, gamma)) for s in (spectrum, finer)
    )
    return abs(coarse - fine) / fine if fine else 0.0


def outlier_growth(problem: Problem, gamma: FloatArray, rho: FloatArray, N: int) -> FloatArray:
    """The largest factor by which batch noise multiplies an outlying sample's squared residual.

    A sample with |z|^2 = r has its residual multiplied by 1 - m x, x = gamma r/N, at a
    step that weights it by m, of mean 1 and variance (N - 1) rho: second moments grow by
    (1 - x)^2 + (N - 1) rho x^2. One value per schedule: the largest product over
    consecutive steps. At most one dataset in ten has a sample beyond the r used, because
     P(|z|^2 > tr Sigma + 2 sqrt(y tr Sigma^2) + 2 y mu_1) <= e^-y.
    """
    mu, n = problem.eigenvalues, problem.multiplicity
    y = np.log(OUTLIER_RARITY * N)
    r = problem.trace + 2.0 * np.sqrt(y * (n @ mu**2)) + 2.0 * y * mu[0]
    x = gamma * r / N
    growth = np.log((1.0 - x) ** 2 + (N - 1) * rho * x * x)
    sums = np.cumsum(np.insert(growth, 0, 0.0, axis=-1), axis=-1)
    largest = (sums - np.minimum.accumulate(sums, axis=-1)).max(axis=-1)
    return np.asarray(np.exp(np.minimum(largest, 2.0 * LOG_OVERFLOW)))


def _check_run(problem: Problem, rates: ArrayLike, samples: int) -> tuple[FloatArray, int]:
    gamma = check_stable(rates, float(problem.eigenvalues[0]))
    N = checks.count("samples", samples, minimum=2)
    edge = largest_sample_eigenvalue(problem, N)
    if gamma.max() * edge >= 2.0:
        raise Unstable(
            "rates",
            f"is unstable on {N} samples",
            hint=f"2 / largest eigenvalue of their covariance is about {2.0 / edge:.6g}",
            subject=f"peak rate {gamma.max():.6g}",
        )
    return gamma, N


def _check_nodes(nodes: int | None) -> int | None:
    if nodes is None:
        return None
    nodes = checks.count("nodes", nodes, minimum=8)
    if nodes % 2:
        raise InputError("nodes", "must be even: the contour is symmetric", f"{nodes}")
    return nodes
