"""Summaries of a schedule by influence: B_eff for one pass, rho_eff for data reuse."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import Batches, FloatArray
from batchlaw._base.errors import InputError


def effective_batch(influence: ArrayLike, batches: Batches) -> float | FloatArray:
    """B_eff, the influence-weighted harmonic mean of the batch sizes (paper, section 3).

    1/B_eff = sum_t (kappa_t / B_t) / sum_t kappa_t. One number, or one per schedule.
    """
    kappa = _shares(influence)
    sizes = checks.batches(batches, kappa.size, whole=False)
    return _scalar_if_single(1.0 / ((1.0 / sizes) @ kappa), batches)


def effective_fluctuation(
    influence: ArrayLike, batches: Batches, samples: int, *, replacement: bool = False
) -> float | FloatArray:
    """rho_eff, the influence-weighted mean of rho_t (paper, section 3).

    rho_t = (N - B_t)/(B_t (N - 1)) for batches without replacement from N = ``samples``
    and 1/B_t with replacement. One number, or one per schedule.
    """
    kappa = _shares(influence)
    rho = fluctuation_factors(batches, kappa.size, samples, replacement=replacement)
    return _scalar_if_single(rho @ kappa, batches)


def fluctuation_factors(
    batches: Batches, steps: int, samples: int, *, replacement: bool = False
) -> FloatArray:
    """rho_t of every step, as a (schedules, steps) array."""
    N = checks.count("samples", samples, minimum=1 if replacement else 2)
    sizes = checks.batches(batches, steps, whole=False, maximum=None if replacement else N)
    return 1.0 / sizes if replacement else (N - sizes) / (sizes * (N - 1.0))


def _shares(influence: ArrayLike) -> FloatArray:
    """kappa_t / sum kappa, without intermediate overflow."""
    kappa = checks.vector("influence", influence)
    if not kappa.any():
        raise InputError(
            "influence", "must not be zero at every step", hint="are the rates too small?"
        )
    kappa = kappa / kappa.max()
    return np.asarray(kappa / kappa.sum())


def _scalar_if_single(values: FloatArray, batches: Batches) -> float | FloatArray:
    return float(values[0]) if checks.is_single(batches) else values
