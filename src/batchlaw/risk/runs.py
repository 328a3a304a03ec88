"""The paper's three procedures, run once on a dataset: features (N, M) and labels (N,).

All start from zero and return final iterates: (M,), or (S, M) for S schedules.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import Batches, FloatArray
from batchlaw._base.errors import InputError, arg
from batchlaw._base.kernels import sgd
from batchlaw._base.kernels.common import aligned_zeros

Dataset = tuple[FloatArray, FloatArray]


def gradient_descent(dataset: Dataset, rates: ArrayLike) -> FloatArray:
    """Normal GD, theta_t = theta_{t-1} - gamma_t (Sigma_hat theta_{t-1} - b_hat) (section 2, 1)."""
    features, labels = check_dataset(dataset)
    gamma = checks.vector("rates", rates)
    theta = aligned_zeros(1, features.shape[1])
    covariance, forcing = sgd.second_moments(features, labels[None, :])
    sgd.gradient_descent(covariance, forcing, gamma, theta)
    final: FloatArray = theta[0]
    return final


def one_pass_sgd(dataset: Dataset, rates: ArrayLike, batches: Batches) -> FloatArray:
    """One-pass batch SGD: every sample once, in the dataset's order (section 2, 2)."""
    features, labels = check_dataset(dataset)
    gamma = checks.vector("rates", rates)
    sizes = checks.batches(batches, gamma.size, total=labels.size)
    u = aligned_zeros(sizes.shape[0], features.shape[1])
    start = np.zeros((2, sizes.shape[0]), dtype=np.int64)
    sgd.one_pass(features, labels, 0, gamma, sizes, start[0], start[1], u)
    return u[0] if checks.is_single(batches) else u


def multi_pass_sgd(
    dataset: Dataset,
    rates: ArrayLike,
    batches: Batches,
    seed: int | np.random.Generator,
    *,
    replacement: bool = False,
    reshuffle: bool = False,
) -> FloatArray:
    """Multi-pass batch SGD: each batch a fresh uniform subset of the dataset (section 2, 3).

    ``replacement`` draws within a batch with replacement instead; ``reshuffle`` goes
    through a new random order of the dataset each epoch.
    """
    features, labels = check_dataset(dataset)
    gamma = checks.vector("rates", rates)
    sizes = checks.batches(batches, gamma.size, maximum=None if replacement else labels.size)
    u = aligned_zeros(sizes.shape[0], features.shape[1])
    run = reuse_kernel(replacement, reshuffle)
    run(features, labels, gamma, sizes, np.random.default_rng(seed), u)
    return u[0] if checks.is_single(batches) else u


def reuse_kernel(replacement: bool, reshuffle: bool) -> Callable[..., None]:
    """The compiled loop for a way of sampling batches from a dataset."""
    if replacement and reshuffle:
        raise InputError("replacement", f"and {arg('reshuffle')} exclude each other", "both")
    if reshuffle:
        return sgd.reshuffled
    return sgd.with_replacement if replacement else sgd.without_replacement


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
