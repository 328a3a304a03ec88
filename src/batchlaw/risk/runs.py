"""The paper's three procedures, run once on a dataset: features (N, M) and labels (N,).

All start from zero, take an update rule, ``rule=bl.sgd(...)``, and return final iterates, or what
the rule reads out of them: (M,), or (S, M) for S schedules. The batches for a seed do not depend
on the rule. Adam works in the coordinates of the features, whatever its ``basis``, and with
"generic" has one scale for all of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import Batches, FloatArray
from batchlaw._base.errors import InputError
from batchlaw._base.kernels import sgd
from batchlaw._base.kernels.common import aligned_zeros
from batchlaw.risk.stepping import descent_of, sampling_of, steps_of
from batchlaw.schedule.update_rule import UpdateRule

Dataset = tuple[FloatArray, FloatArray]


def gradient_descent(
    dataset: Dataset, rates: ArrayLike, *, rule: UpdateRule | None = None
) -> FloatArray:
    """Normal GD, theta_t = theta_{t-1} - gamma_t (Sigma_hat theta_{t-1} - b_hat) (section 2, 1)."""
    features, labels = check_dataset(dataset)
    gamma = checks.vector("rates", rates)
    covariance, forcing = sgd.second_moments(features, labels[None, :])
    start = aligned_zeros(*forcing.shape)
    final: FloatArray = descent_of(rule, gamma).descend(covariance, forcing, start)[0]
    return final


def one_pass_sgd(
    dataset: Dataset, rates: ArrayLike, batches: Batches, *, rule: UpdateRule | None = None
) -> FloatArray:
    """One-pass batch SGD: every sample once, in the dataset's order (section 2, 2)."""
    features, labels = check_dataset(dataset)
    gamma = checks.vector("rates", rates)
    sizes = checks.batches(batches, gamma.size, total=labels.size)
    steps = steps_of(rule, gamma)
    state = steps.start(sizes.shape[0], features.shape[1])
    start = np.zeros((2, sizes.shape[0]), dtype=np.int64)
    steps.one_pass(features, labels, 0, sizes, start[0], start[1], state)
    u = steps.result(state)
    return u[0] if checks.is_single(batches) else u


def multi_pass_sgd(
    dataset: Dataset,
    rates: ArrayLike,
    batches: Batches,
    seed: int | np.random.Generator,
    *,
    replacement: bool = False,
    reshuffle: bool = False,
    rule: UpdateRule | None = None,
) -> FloatArray:
    """Multi-pass batch SGD: each batch a fresh uniform subset of the dataset (section 2, 3).

    ``replacement`` draws within a batch with replacement instead; ``reshuffle`` goes
    through a new random order of the dataset each epoch.
    """
    features, labels = check_dataset(dataset)
    gamma = checks.vector("rates", rates)
    sizes = checks.batches(batches, gamma.size, maximum=None if replacement else labels.size)
    steps = steps_of(rule, gamma)
    state = steps.start(sizes.shape[0], features.shape[1])
    way = sampling_of(replacement, reshuffle)
    steps.reuse((features, labels), sizes, np.random.default_rng(seed), way, state)
    u = steps.result(state)
    return u[0] if checks.is_single(batches) else u


def check_dataset(dataset: Dataset) -> Dataset:
    features = np.ascontiguousarray(dataset[0], dtype=np.float64)
    labels = np.ascontiguousarray(dataset[1], dtype=np.float64)
    if features.ndim != 2 or labels.shape != features.shape[:1] or not labels.size:
        raise InputError(
            "dataset",
            "must be features (N, M) with labels (N,)",
            f"shapes {features.shape} and {labels.shape}",
        )
    if not (np.isfinite(features).all() and np.isfinite(labels).all()):
        raise InputError("dataset", "must be finite", "NaN or infinity")
    return features, labels
