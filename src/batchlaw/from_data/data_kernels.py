"""The empirical kernels of appendix I.3 for features in any basis."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.errors import InputError, arg
from batchlaw.from_data.estimated_spectrum import RANK_TOLERANCE, check_features
from batchlaw.schedule.update_rule import check_stable
from batchlaw.theory.bounds.kernels import EmpiricalKernels, EmpiricalSpectrum, empirical_kernels


def data_kernels(
    features: ArrayLike, rates: ArrayLike, held_out: ArrayLike | None = None
) -> EmpiricalKernels:
    """kappa^(0), kappa^(1) and the cross-kernel of a dataset.

    The cross-kernel needs Sigma, which is estimated from ``held_out`` without bias.

    Parameters
    ----------
    features : (n, p) array
        The dataset, one row per sample.
    held_out : (m, p) array, optional
        Other samples. Without them the dataset is used, and the cross-kernel equals kappa^(1).
    """
    Z = check_features(features, allow_constant=True)
    if held_out is None:
        others = Z
    else:
        others = check_features(held_out, allow_constant=True)
        if others.shape[1] != Z.shape[1]:
            raise InputError(
                "held_out",
                f"must have the {Z.shape[1]} columns of {arg('features')}",
                f"{others.shape[1]}",
            )
    reference = EmpiricalSpectrum.of(others)
    largest = np.linalg.eigvalsh(Z.T @ Z / Z.shape[0])[-1]
    gamma = check_stable(checks.vector("rates", rates), float(largest))
    # The kernels need positive eigenvalues, also in directions that ``held_out`` lacks.
    mu = np.maximum(reference.eigenvalues, RANK_TOLERANCE**2 * reference.eigenvalues[0])
    return empirical_kernels(mu, Z @ reference.basis, gamma)
