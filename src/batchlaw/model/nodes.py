"""A power law of any size as a few hundred nodes, each standing for many directions.

SGD treats directions with the same eigenvalue and target energy alike, so a sum over the
directions i = 1..M is a sum over a function that is smooth in log i. The first directions
are kept one by one; the others are replaced by Gauss-Legendre nodes in log i.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.model.power_law import power_law

# sum_{i>P} f(i) = int_{P+1/2}^inf f + sum_k END[k] f(P-k), exact for cubics f: the
# Euler-Maclaurin series at the midpoint P + 1/2 (f'/24 - 7 f'''/5760) in terms of the four
# directions before it, so that no direction gets a negative multiplicity.
END = np.array([703.0, -1389.0, 909.0, -223.0]) / 5760.0

# A direction with a smaller eigenvalue keeps its start to 1e-9 until the rates sum to 1e9.
FROZEN = 1e-18

PANEL_POINTS = 16
SMALLEST_COUNT = 12


@dataclass(frozen=True, eq=False)
class Nodes:
    """Directions that share an eigenvalue and a target energy, largest eigenvalue first.

    Attributes
    ----------
    eigenvalues, target_energy, multiplicity : arrays
        mu_j, the squared coordinate of u* in one direction, and how many directions
        share them; multiplicities need not be whole.
    approximation : float
        Approx, the target energy outside these directions.
    """

    eigenvalues: FloatArray
    target_energy: FloatArray
    multiplicity: FloatArray
    approximation: float


def power_sum_after(exponent: float, last: float) -> float:
    """sum_{i > last} i^-exponent, to rounding, for exponent > 1 and any whole ``last``."""
    if math.isinf(last):
        return 0.0
    # scipy.special.zeta(exponent, last + 1) is as accurate (both within 1e-15), but its last bit
    # is often another one, and with it those of exported plans and stored results.
    start = max(last, 1000)
    listed = power_law(exponent, int(last) + 1, 1000).sum() if last < 1000 else 0.0
    s, x = exponent, start + 0.5
    series = 1.0 / (s - 1.0) - s / (24.0 * x**2) + 7.0 * s * (s + 1.0) * (s + 2.0) / (5760.0 * x**4)
    return float(listed + x ** (1.0 - s) * series)


def truncation_nodes(a: float, b: float, sketch: float, count: int) -> Nodes:
    r"""The leading directions i = 1..sketch of a power law, as about ``count`` nodes.

    Direction i has eigenvalue i^-a and mu v^2 = i^-b; Approx = sum_{i > sketch} i^-b.
    A third of the nodes are the first directions themselves. Where eigenvalues fall below
    1e-18 long before the end (and at any rate for sketch = inf) the rest is one node with
    the trace and the target energy of what it stands for.
    """
    approximation = power_sum_after(b, sketch)
    if sketch <= count:
        i = np.arange(1.0, sketch + 1.0)
        return Nodes(i**-a, i ** (a - b), np.ones_like(i), approximation)
    head = count // 3
    reach = max(FROZEN ** (-1.0 / a), 10.0 * head)
    lumped = sketch > 2.0 * reach
    i, many = _with_ends(head, math.inf if lumped else sketch, reach, count)
    mu, energy = i**-a, i ** (a - b)
    if lumped:
        node = _lump(a, b, reach, sketch)
        mu, energy, many = (np.append(x, y) for x, y in zip((mu, energy, many), node, strict=True))
    return Nodes(mu, energy, many, approximation)


def _with_ends(head: int, sketch: float, reach: float, count: int) -> tuple[FloatArray, FloatArray]:
    """Positions and multiplicities: the head, log-spaced nodes, and the last four if finite."""
    ends = END.size
    first = np.arange(1.0, head + 1.0)
    first_many = np.ones(head)
    first_many[-ends:] += END[::-1]
    if math.isinf(sketch):
        middle, middle_many = log_nodes(head + 0.5, reach, count - head - 1)
        return np.append(first, middle), np.append(first_many, middle_many)
    last = sketch - np.arange(ends - 1.0, -1.0, -1.0)
    middle, middle_many = log_nodes(head + 0.5, last[0] - 0.5, count - head - ends)
    positions = np.concatenate([first, middle, last])
    return positions, np.concatenate([first_many, middle_many, 1.0 + END])


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

    n is their number; for infinitely many, what keeps the sum of mu^2 as well.
    """
    trace, energy, squares = (
        reach ** (1.0 - s) / (s - 1.0) - power_sum_after(s, sketch) for s in (a, b, 2.0 * a)
    )
    many = trace**2 / squares if math.isinf(sketch) else sketch + 0.5 - reach
    return trace / many, energy / trace, many
