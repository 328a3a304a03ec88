"""A power law of any size as a few hundred nodes, each representing many directions.

SGD treats directions with the same eigenvalue and target energy alike, so a sum over the
directions i = 1..M is a sum of a function that is smooth in log i. The first directions are
kept individually; the others are replaced by Gauss-Legendre nodes in log i.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.model.power_law import power_law

# sum_{i>P} f(i) = int_{P+1/2}^inf f + sum_k END_CORRECTION[k] f(P-k), exact for cubics f: the
# Euler-Maclaurin series at the midpoint P + 1/2 (f'/24 - 7 f'''/5760) in terms of the four
# directions before it, so that no direction gets a negative multiplicity.
END_CORRECTION = np.array([703.0, -1389.0, 909.0, -223.0]) / 5760.0

# Directions with smaller eigenvalues move by less than 1e-9 until the rates sum to 1e9.
FROZEN_EIGENVALUE = 1e-18

PANEL_POINTS = 16
MIN_NODES = 12


@dataclass(frozen=True, eq=False)
class Nodes:
    """Directions that share an eigenvalue and a target energy, largest eigenvalue first.

    Attributes
    ----------
    eigenvalues, target_energy, multiplicity : arrays
        mu_j, the squared coordinate of u* in one direction, and the number of directions
        that share them, which need not be an integer.
    approximation : float
        Approx, the target energy outside these directions.
    leading, slow : Nodes, optional
        The same without the terms of relative size 1/M, and with a slowest direction that varies:
        what the error of an average over sketches is estimated from.
    """

    eigenvalues: FloatArray
    target_energy: FloatArray
    multiplicity: FloatArray
    approximation: float
    leading: Nodes | None = None
    slow: Nodes | None = None


def power_sum_after(exponent: float, last: float) -> float:
    """sum_{i > last} i^-exponent, to rounding, for exponent > 1 and any integer ``last``."""
    if math.isinf(last):
        return 0.0
    # scipy.special.zeta(exponent, last + 1) is as accurate (both within 1e-15), but often differs
    # in the last bit, which would change exported plans and stored results.
    start = max(last, 1000)
    listed = power_law(exponent, int(last) + 1, 1000).sum() if last < 1000 else 0.0
    s, x = exponent, start + 0.5
    series = 1.0 / (s - 1.0) - s / (24.0 * x**2) + 7.0 * s * (s + 1.0) * (s + 2.0) / (5760.0 * x**4)
    return float(listed + x ** (1.0 - s) * series)


def truncation_nodes(a: float, b: float, sketch: float, count: int) -> Nodes:
    r"""The leading directions i = 1..sketch of a power law, as about ``count`` nodes.

    Direction i has eigenvalue i^-a and mu v^2 = i^-b; Approx = sum_{i > sketch} i^-b.
    A third of the nodes are the first directions themselves. If eigenvalues fall below 1e-18
    long before the end (always for sketch = inf), the rest is a single node with the trace and
    the target energy of the directions that it replaces.
    """
    approximation = power_sum_after(b, sketch)
    if sketch <= count:
        i = np.arange(1.0, sketch + 1.0)
        return Nodes(i**-a, i ** (a - b), np.ones_like(i), approximation)
    head = count // 3
    reach = max(FROZEN_EIGENVALUE ** (-1.0 / a), 10.0 * head)
    lumped = sketch > 2.0 * reach
    i, counts = _with_ends(head, math.inf if lumped else sketch, reach, count)
    mu, energy = i**-a, i ** (a - b)
    if lumped:
        node = _lump(a, b, reach, sketch)
        parts = zip((mu, energy, counts), node, strict=True)
        mu, energy, counts = (np.append(values, value) for values, value in parts)
    return Nodes(mu, energy, counts, approximation)


def _with_ends(head: int, sketch: float, reach: float, count: int) -> tuple[FloatArray, FloatArray]:
    """Positions and multiplicities: the head, log-spaced nodes, the last four if finite."""
    ends = END_CORRECTION.size
    first = np.arange(1.0, head + 1.0)
    first_counts = np.ones(head)
    first_counts[-ends:] += END_CORRECTION[::-1]
    if math.isinf(sketch):
        middle, middle_counts = log_nodes(head + 0.5, reach, count - head - 1)
        return np.append(first, middle), np.append(first_counts, middle_counts)
    last = sketch - np.arange(ends - 1.0, -1.0, -1.0)
    middle, middle_counts = log_nodes(head + 0.5, last[0] - 0.5, count - head - ends)
    positions = np.concatenate([first, middle, last])
    return positions, np.concatenate([first_counts, middle_counts, 1.0 + END_CORRECTION])


def log_nodes(low: float, high: float, count: int) -> tuple[FloatArray, FloatArray]:
    """Composite Gauss-Legendre rule for int_low^high f(x) dx, panels of equal width in log x."""
    panels = max(count // PANEL_POINTS, 1)
    points, weights = np.polynomial.legendre.leggauss(count // panels)
    edges = np.linspace(math.log(low), math.log(high), panels + 1)
    half = 0.5 * (edges[1] - edges[0])
    x = np.exp((edges[:-1, None] + half * (points + 1.0)).ravel())
    return x, np.tile(half * weights, panels) * x


def _lump(a: float, b: float, reach: float, sketch: float) -> tuple[float, float, float]:
    """(mu, v^2, n) with the trace and the target energy of all directions in (reach, sketch].

    n is their number; if that is infinite, n is chosen to keep the sum of mu^2 as well.
    """
    trace, energy, squares = (
        reach ** (1.0 - s) / (s - 1.0) - power_sum_after(s, sketch) for s in (a, b, 2.0 * a)
    )
    number = trace**2 / squares if math.isinf(sketch) else sketch + 0.5 - reach
    return trace / number, energy / trace, number
