"""The empirical kernels of appendix I.3 for features as they come, in any basis."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.errors import InputError, arg
from batchlaw.from_data.estimated_spectrum import RANK, check_features
from batchlaw.schedule.update_rule import check_stable
from batchlaw.theory.bounds.kernels import EmpiricalKernels, EmpiricalSpectrum, empirical_kernels


def data_kernels(
    features: ArrayLike, rates: ArrayLike, held_out: ArrayLike | None = None
) -> EmpiricalKernels:
    """kappa^(0), kappa^(1) and the cross-kernel of a dataset.

    The cross-kernel needs Sigma. Other samples, ``held_out``, stand for it without bias;
    without them the dataset stands for itself, and the cross-kernel equals kappa^(1).
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
    own = np.linalg.eigvalsh(Z.T @ Z / Z.shape[0])[-1]
    gamma = check_stable(checks.vector("rates", rates), float(own))
    # Directions that the others lack are all but zero: the kernels need positive eigenvalues.
    mu = np.maximum(reference.eigenvalues, RANK**2 * reference.eigenvalues[0])
    return empirical_kernels(mu, Z @ reference.basis, gamma)
