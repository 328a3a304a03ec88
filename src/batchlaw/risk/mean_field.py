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

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import Batches, FloatArray
from batchlaw._base.errors import InputError, Unstable
from batchlaw.batches.effective import fluctuation_factors
from batchlaw.model.problem import Problem
from batchlaw.risk.dataset_average import dataset_average
from batchlaw.risk.on_nodes import approximation_notes
from batchlaw.risk.over_datasets import reuse_name
from batchlaw.risk.result import SCHEDULE, Note, Risk
from batchlaw.risk.sample_spectrum import largest_sample_eigenvalue
from batchlaw.risk.single_samples import NOTED_ERROR, outlier_error
from batchlaw.risk.stability import check_overflow
from batchlaw.schedule.update_rule import check_stable


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
    a few thousand L operations, independent of N and M; up to a second more where sample spectra
    are drawn (``drawn_spectra``). ``uncertainty`` is computed
    (``dataset_average``), infinite where it is unknown; docs/mean_field.md has it next to
    the true errors.

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
        to be below rounding. ``uncertainty`` has the change with 1.5 times as many in it.
    trajectory : bool
        Give every part with a last axis of L + 1: the risk before and after every update.
    """
    gamma, N = _check_run(problem, rates, samples)
    sizes = checks.batches(batches, gamma.size, whole=False, maximum=None if replacement else N)
    rho = fluctuation_factors(sizes, gamma.size, N, replacement=replacement)
    average = dataset_average(problem, gamma, rho, N, _check_nodes(nodes), trajectory=trajectory)
    fluctuation = average.parts[:, :, 2]
    # A negative fluctuation is the rounding error of a growth that has decayed again.
    lost = fluctuation < -1e-6 * average.parts[:, :, :2].sum(axis=-1) - average.part_error[:, :, 2]
    check_overflow(np.where(lost, np.inf, fluctuation), gamma, sizes)
    single = checks.is_single(batches)
    risk = average.risk(problem, reuse_name(replacement), N, single=single)
    notes = (*_outlier_notes(problem, gamma, rho, N), *approximation_notes(problem))
    risk = replace(risk, notes=(*risk.notes, *notes))
    if problem.coarser is None:
        return risk

    def parts_of(other: Problem) -> FloatArray:
        options = {"replacement": replacement, "trajectory": trajectory}
        return _stacked(expected_risk_mean_field(other, rates, batches, N, nodes=nodes, **options))

    return _with_node_error(risk, problem, parts_of)


def _with_node_error(
    risk: Risk, problem: Problem, parts_of: Callable[[Problem], FloatArray]
) -> Risk:
    """The result with the error of its nodes in ``uncertainty``."""
    change = problem.node_error(parts_of, _stacked(risk))
    return replace(risk, uncertainty=risk.uncertainty + change)


def _stacked(risk: Risk) -> FloatArray:
    return np.stack(np.broadcast_arrays(risk.bias, risk.variance, risk.fluctuation), axis=-1)


def _outlier_notes(
    problem: Problem, gamma: FloatArray, rho: FloatArray, N: int
) -> tuple[Note, ...]:
    """A sentence where samples with large norms may decide the average."""
    error = outlier_error(problem, gamma, rho, N)
    worst = int(error.argmax())
    if error[worst] <= NOTED_ERROR:
        return ()
    note = Note(
        f"batch noise{SCHEDULE} amplifies samples with a large norm: rare datasets may decide the "
        "exact average, and are left out here",
        "outliers",
        worst if error.size > 1 else None,
    )
    return (note,)


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
    rho = np.zeros((1, gamma.size))
    average = dataset_average(problem, gamma, rho, N, _check_nodes(nodes), trajectory=trajectory)
    risk = average.risk(problem, "normal GD", N, single=True)
    risk = replace(risk, notes=(*risk.notes, *approximation_notes(problem)))
    if problem.coarser is None:
        return risk

    def parts_of(other: Problem) -> FloatArray:
        return _stacked(
            expected_gradient_descent_risk(other, rates, N, nodes=nodes, trajectory=trajectory)
        )

    return _with_node_error(risk, problem, parts_of)


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
