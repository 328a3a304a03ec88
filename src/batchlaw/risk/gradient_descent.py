"""Exact risk of gradient descent on a dataset: the eigenbasis of Sigma_hat makes it a filter."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base.checks import FloatArray
from batchlaw.model.problem import Problem
from batchlaw.risk.empirical import Empirical, check_features, check_finite, check_reused
from batchlaw.risk.result import Risk
from batchlaw.risk.rule_filters import filters
from batchlaw.risk.runs import Dataset, check_dataset
from batchlaw.risk.stability import excess_note
from batchlaw.schedule.update_rule import PLAIN, SGD, UpdateRule, check_stable, linear


@np.errstate(over="ignore", invalid="ignore")  # refused by check_finite
def given_features(
    problem: Problem, rates: ArrayLike, features: ArrayLike, *, rule: UpdateRule | None = None
) -> Risk:
    r"""Exact risk of normal GD on these features, averaged over the labels.

    With Sigma_hat = V nu V^T, f = prod_t (1 - gamma_t nu) and h = (1 - f)/nu
    (paper, appendix A.3; the appendix on GD has Var_GD per unit of noise):

        Bias = |Sigma^{1/2} (u* - V (1 - f) V^T u*)|^2
        Var  = s2/N sum_a h_a^2 nu_a (V^T Sigma V)_aa

    With momentum or averaging f and h are the same two responses of the rule's readout
    (``rule_filters``). Cost O(N M^2 + T M).

    Parameters
    ----------
    rates : (T,) array
        Step sizes gamma_t.
    features : (N, M) array
        Samples z_i in the problem's eigenbasis; N < M is allowed.
    rule
        The update rule, ``bl.sgd(...)``; plain GD by default.
    """
    problem = problem.expanded()
    update = linear(rule, "gradient descent")
    gamma = check_stable(rates, float(problem.eigenvalues[0]), update)
    z, _ = check_dataset((np.asarray(features), np.zeros(np.shape(features)[0])))
    check_features(problem, z)
    data = Empirical.of(problem, z)
    survival, response = filters(data.eigenvalues, gamma, update)
    bias_error = _bias_error(problem, data, survival)
    bias = float(problem.eigenvalues @ bias_error**2)
    captured = (data.root**2).sum(axis=1)
    unit = float(captured @ (response**2 * data.eigenvalues)) / z.shape[0]
    check_finite(np.array([bias, unit]), gamma, data.eigenvalues)
    variance = problem.noise_variance * unit
    return _risk(problem, update, "exact given the features", bias, variance, 0.0)


@np.errstate(over="ignore", invalid="ignore")  # refused by check_finite
def given_dataset(
    problem: Problem, rates: ArrayLike, dataset: Dataset, *, rule: UpdateRule | None = None
) -> Risk:
    """Exact risk of normal GD on this dataset, labels included.

    GD is linear in the labels z . u* + residual, so its error is a bias part and a response
    to the realised residuals; ``variance`` is the squared norm of the second and ``cross``
    twice the Sigma-product of the two, zero only on average over the labels.

    Parameters
    ----------
    rates : (T,) array
        Step sizes gamma_t.
    dataset
        Features (N, M) in the problem's eigenbasis and labels (N,).
    rule
        The update rule, ``bl.sgd(...)``; plain GD by default.
    """
    problem = problem.expanded()
    update = linear(rule, "gradient descent")
    gamma = check_stable(rates, float(problem.eigenvalues[0]), update)
    features, labels = check_reused(problem, dataset)
    data = Empirical.of(problem, features)
    return dataset_risk(problem, gamma, data, (features, labels), update)


def dataset_risk(
    problem: Problem, gamma: FloatArray, data: Empirical, dataset: Dataset, rule: SGD = PLAIN
) -> Risk:
    """``given_dataset`` after the checks, for solvers that already have the eigenbasis."""
    bias_error, noise_error = error_parts(problem, gamma, data, dataset, rule)
    mu = problem.eigenvalues
    parts = np.array(
        [mu @ bias_error**2, mu @ noise_error**2, 2.0 * mu @ (bias_error * noise_error)]
    )
    check_finite(parts, gamma, data.eigenvalues)
    return _risk(problem, rule, "exact given the dataset", *parts.tolist())


def error_parts(
    problem: Problem, gamma: FloatArray, data: Empirical, dataset: Dataset, rule: SGD = PLAIN
) -> tuple[FloatArray, FloatArray]:
    """theta_L - u* in two parts: without label residuals, and the response to them."""
    features, labels = dataset
    survival, response = filters(data.eigenvalues, gamma, rule)
    residual = labels - features @ problem.optimum
    noise_error = data.basis @ (response * data.correlation(residual))
    return _bias_error(problem, data, survival), noise_error


def _bias_error(problem: Problem, data: Empirical, survival: FloatArray) -> FloatArray:
    """-prod_t (I - gamma_t Sigma_hat) u*; the identity outside the basis."""
    u = problem.optimum
    error: FloatArray = data.basis @ ((1.0 - survival) * (data.basis.T @ u)) - u
    return error


def _risk(
    problem: Problem, rule: SGD, method: str, bias: float, variance: float, cross: float
) -> Risk:
    note = excess_note(problem, np.array(bias + variance + cross))
    return Risk(
        procedure=rule.title("normal GD"),
        method=problem.described(method),
        notes=() if note is None else (note,),
        irreducible=problem.irreducible,
        approximation=problem.approximation,
        bias=bias,
        variance=variance,
        cross=cross,
    )
