"""Power laws over the ambient coordinates."""

from __future__ import annotations

import numpy as np

from batchlaw._base.checks import FloatArray


def power_law(exponent: float, first: int, last: int) -> FloatArray:
    """i^-exponent for i = first..last, both included; coordinates start at 1.

    With exponent a these are the eigenvalues lambda_i of H (paper, assumption 1.C);
    with exponent b the target energies E[lambda_i (w*_i)^2] (assumption 2).
    """
    return np.arange(first, last + 1, dtype=np.float64) ** -exponent
