"""GD and multi-pass SGD: exact given a dataset, approximate on average over datasets."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import Batches
from batchlaw._base.errors import InputError, arg
from batchlaw.model.problem import Problem
from batchlaw.risk.given_dataset import fluctuation_given_dataset
from batchlaw.risk.gradient_descent import given_dataset, given_features
from batchlaw.risk.mean_field import expected_gradient_descent_risk, expected_risk_mean_field
from batchlaw.risk.result import Risk
from batchlaw.risk.runs import Dataset
from batchlaw.risk.simple_recursion import expected_fluctuation_simple
from batchlaw.schedule.update_rule import UpdateRule, rule_of

METHODS = ("mean-field", "simple")


def gradient_descent_risk(
    problem: Problem,
    rates: ArrayLike,
    dataset: Dataset | tuple[ArrayLike, None] | None = None,
    *,
    samples: int | None = None,
    rule: UpdateRule | None = None,
    trajectory: bool = False,
) -> Risk:
    """Risk of normal GD (paper, section 2), on a dataset or over datasets of ``samples``.

    Given features and labels it is exact: bias, variance (the response to the realised label
    residuals) and the cross term between the two. With None for the labels it is exact after
    averaging over them: Bias + s2 Var. With ``samples`` it is the mean-field expectation of
    ``multi_pass_risk``, an approximation; ``trajectory`` gives it after every update, as there.
    ``rule`` is the update rule, ``bl.sgd(...)``, plain by default; another one needs a dataset.
    """
    _either(dataset, samples)
    _check_trajectory(trajectory, dataset)
    if dataset is not None:
        features, labels = dataset
        if labels is None:
            return given_features(problem, rates, features, rule=rule)
        return given_dataset(problem, rates, (np.asarray(features), labels), rule=rule)
    _check_mean_field(rule, "simulate_gradient_descent")
    N = checks.count("samples", samples)
    return expected_gradient_descent_risk(problem, rates, N, trajectory=trajectory)


def multi_pass_risk(
    problem: Problem,
    rates: ArrayLike,
    batches: Batches,
    *,
    samples: int | None = None,
    dataset: Dataset | None = None,
    replacement: bool = False,
    method: str = METHODS[0],
    truncate: int | None = None,
    rule: UpdateRule | None = None,
    trajectory: bool = False,
) -> Risk:
    """Risk of multi-pass batch SGD: GD's, and the fluctuation around it (paper, section 2).

    With a dataset it is exact given that dataset, averaged over the batches. With ``samples``
    = N it is the expectation over datasets, without sampling any, and an approximation: the
    dynamical mean field gives all parts; "simple" the fluctuation alone, in O(T M), and
    refuses where its error would be large. ``docs/mean_field.md`` shows how far to trust them.

    The expectation over datasets is the average within the max-norm event of theorem 2,
    {gamma max_i ||z_i||^2 <= c}: datasets outside, rarer than one in ten thousand, are left out.
    They may decide the plain expectation, which is then no number that anybody could measure
    (``multi_pass_law`` computes c and what they add).

    Parameters
    ----------
    rates : (T,) array
        Step sizes gamma_t.
    batches : (T,) or (S, T) array, or several by name
        Batch sizes B_t, at most N without replacement.
    replacement
        Whether a batch is drawn with replacement.
    method
        For the expectation over datasets: "mean-field" or "simple".
    truncate
        Given a dataset: couple only this many directions, with the error reported; faster
        for many schedules (see ``fluctuation_given_dataset``).
    rule
        Given a dataset: the update rule, ``bl.sgd(...)``; plain SGD by default, and the only one
        over datasets.
    trajectory
        For the mean field: give every part with a last axis of T + 1, the risk before and after
        every update.
    """
    _either(dataset, samples)
    _check_trajectory(trajectory, dataset, method)
    checks.choice("method", method, METHODS)
    if dataset is not None:
        return fluctuation_given_dataset(
            problem,
            rates,
            batches,
            dataset,
            replacement=replacement,
            truncate=truncate,
            rule=rule,
        ).named(batches)
    _check_mean_field(rule, "simulate_multi_pass")
    if truncate is not None:
        raise InputError("truncate", "belongs to the exact risk given a dataset")
    N = checks.count("samples", samples)
    if method == "simple":
        simple = expected_fluctuation_simple(problem, rates, batches, N, replacement=replacement)
        return simple.named(batches)
    return expected_risk_mean_field(
        problem, rates, batches, N, replacement=replacement, trajectory=trajectory
    ).named(batches)


def _check_mean_field(rule: UpdateRule | None, simulator: str) -> None:
    """Refuse a rule that the expectation over datasets has no derivation for."""
    if rule is not None and not rule_of(rule).plain:
        raise InputError(
            "rule",
            f"must be plain SGD over datasets of {arg('samples')}",
            rule.title("SGD"),
            hint=f"give one {arg('dataset')}, or use {simulator}",
        )


def _either(dataset: object, samples: int | None) -> None:
    if (dataset is None) == (samples is None):
        raise InputError(
            "samples",
            "must be given, the size of datasets to average over; or a dataset, and not both",
        )


def _check_trajectory(trajectory: bool, dataset: object, method: str = METHODS[0]) -> None:
    if trajectory and dataset is not None:
        raise InputError("trajectory", "belongs to the expectation over datasets", "a dataset")
    if trajectory and method != METHODS[0]:
        raise InputError("trajectory", "belongs to the mean field", f"method {method}")
