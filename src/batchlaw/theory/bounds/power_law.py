r"""Whether a spectrum is a power law: the hypothesis mu_j ~ j^-a, measured.

c_low j^-a <= mu_j <= c_up j^-a holds for any finite spectrum with some constants; what the
paper's lemmas use is that c_up/c_low does not grow. It is measured, with a given or fitted a.
"""

from __future__ import annotations

import math

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.theory.bounds.bound import Condition

# The largest factor between mu_j and c j^-a, with the best c, at which a spectrum counts as a
# power law. A Gaussian sketch of one has 1.4 at M = 64, a = 2.
LARGEST_FACTOR = 3.0


def spectrum_exponent(eigenvalues: FloatArray, multiplicity: FloatArray | None = None) -> float:
    """The a that brings mu_j j^a nearest to a constant: least squares over equal steps of log j.

    Infinite for a single direction, which is a power law of any exponent.
    """
    n = np.ones_like(eigenvalues) if multiplicity is None else multiplicity
    x, y = np.log(ranks(n)), np.log(eigenvalues)
    weight = n / ranks(n)
    x, y = x - np.average(x, weights=weight), y - np.average(y, weights=weight)
    spread = float(weight @ x**2)
    return -float(weight @ (x * y)) / spread if spread > 0.0 else math.inf


def power_law_conditions(
    eigenvalues: FloatArray, a: float | None = None, multiplicity: FloatArray | None = None
) -> tuple[float, tuple[Condition, ...]]:
    """a, given or fitted, and the conditions mu_j ~ j^-a and a > 1.

    The spread is sqrt(c_up/c_low), the factor on either side of c j^-a with the best c.
    """
    n = np.ones_like(eigenvalues) if multiplicity is None else multiplicity
    exponent = spectrum_exponent(eigenvalues, n) if a is None else a
    spread = 1.0
    if math.isfinite(exponent):
        # A node of many directions has to fit at its first and at its last one.
        last = np.maximum(np.cumsum(n), 1.0)
        first = np.maximum(last - n + 1.0, 1.0)
        logs = np.log(eigenvalues) + exponent * np.log([first, last])
        spread = math.exp(0.5 * float(logs.max() - logs.min()))
    return exponent, (
        Condition("spectrum", "mu_j ~ j^-a, within a factor of 3", spread, LARGEST_FACTOR),
        Condition("exponent", "a > 1", exponent, math.nextafter(1.0, 2.0), at_least=True),
    )


def ranks(multiplicity: FloatArray) -> FloatArray:
    """j, the middle of the directions of each node."""
    return np.maximum(np.cumsum(multiplicity) - 0.5 * multiplicity + 0.5, 1.0)
