"""The slowest direction of a sketch, spread as in drawn sketches.

The equivalent's spectrum ends at an edge, and beyond a certain time nothing is left to learn. The
last direction of drawn sketches varies: rare slow ones dominate the bias of a long run with few
rows. Given the others, its eigenvalue is about (1/M) sum_{i>=M} lambda_i z_i^2 with standard
Gaussian z: a chi-square with nu = (sum lambda_i)^2 / sum lambda_i^2 degrees of freedom.
"""

from __future__ import annotations

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.model.nodes import Nodes, power_sum_after

POINTS = 16


def with_slow_direction(nodes: Nodes, a: float, rows: float) -> Nodes:
    """The same nodes with the last direction replaced by a chi-square of its mean and energy.

    A slow direction has little of the target, too: its energy mu v^2 is proportional to mu.
    """
    n, mu = nodes.multiplicity, nodes.eigenvalues
    before = np.append(np.cumsum(n[::-1])[::-1][1:], 0.0)
    taken = np.clip(1.0 - before, 0.0, n)
    energy = float((taken * mu) @ nodes.target_energy) / float(taken @ mu)
    trace, squares = (power_sum_after(s, rows - 1.0) for s in (a, 2.0 * a))
    share, weight = _chi_square(trace**2 / squares)
    last = float(taken @ mu) * share
    values = np.append(mu, last)
    order = np.argsort(-values)
    return Nodes(
        values[order],
        np.append(nodes.target_energy, np.full(last.size, energy))[order],
        np.append(n - taken, weight)[order],
        nodes.approximation,
    )


def _chi_square(degrees: float) -> tuple[FloatArray, FloatArray]:
    """Points and weights of a chi-square over its mean: Gauss points (generalised Laguerre) below.

    Those above the mean are one point: a large eigenvalue is learned soon, and must stay stable.
    """
    alpha, k = 0.5 * degrees - 1.0, np.arange(POINTS)
    off = np.sqrt(k[1:] * (k[1:] + alpha))
    x, vectors = np.linalg.eigh(np.diag(2.0 * k + alpha + 1.0) + np.diag(off, -1), UPLO="L")
    x, weight = x / (alpha + 1.0), vectors[0] ** 2
    slow = x < 1.0
    rest = float(weight[~slow].sum())
    return (
        np.append(x[slow], float(weight[~slow] @ x[~slow]) / rest),
        np.append(weight[slow], rest),
    )
