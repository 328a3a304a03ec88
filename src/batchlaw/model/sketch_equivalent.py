r"""The Gaussian sketch of an infinite power law, without drawing one.

Sigma = S H S^T, with M rows of N(0, 1/M) entries in S, has a deterministic equivalent: for z
in the upper half plane let t(z), Im t > 0, solve

    z = t (1 - (1/M) sum_i lambda_i / (lambda_i - t)).

Then tr (Sigma - z)^-1 = -M/t, and the target energies mu_j v_j^2, with Approx at zero, have
the Stieltjes transform (1/z) sum_i i^-b t / (lambda_i - t). With q = -t and z = 0 this is
sum_i lambda_i/(lambda_i + q) = M and Approx = sum_i i^-b q/(lambda_i + q).

The average over sketches has terms of relative size 1/M beside these. H^1/2 S^T S H^1/2 is the
sample covariance of M Gaussian rows and shares Sigma's spectrum, so they are those of
``risk.sample_spectrum``, with the roles of samples and rows exchanged. With t' = dt/dz and
S_3 = sum_i lambda_i^2/(lambda_i - t)^3, the two transforms gain

    t'^2 S_3 / M    and    (t t'/(z M)) sum_i i^-b [ lambda_i^2/(lambda_i - t)^3
                                                   + (t t'/M) S_3 lambda_i/(lambda_i - t)^2 ].

The spectrum is cut into cells; contour integrals give the moments of each, and Gauss nodes
reproduce them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.model.nodes import (
    END_CORRECTION,
    FROZEN_EIGENVALUE,
    Nodes,
    power_sum_after,
    truncation_nodes,
)
from batchlaw.model.slow_direction import with_slow_direction

ComplexArray = NDArray[np.complex128]

PANEL_POINTS = 16
ARC_POINTS = 40  # the terms of size 1/M are singular at the edges of the spectrum
CELL_NODES = 4
OPEN_GAP = 0.2  # of dz/dt; in a narrower gap the edges on both sides are too near
LARGEST_HEAD = 128
LARGEST_A = 6.0  # beyond this 10^12 directions span more digits than the cells resolve
NEGLIGIBLE_COUNT = 1e-7  # cells with fewer directions are dropped
FEW_ROWS = 2  # up to this rare slow sketches can dominate a long run
MANY_ROWS = 1e5  # beyond this terms of size 1/M^2 are below those of the nodes


def sketch_nodes(a: float, b: float, sketch: float, count: int) -> Nodes:
    """The average over Gaussian sketches to order 1/M, in about ``count`` nodes.

    At most a cell of nodes for two directions: at smaller distances the terms of size 1/M are
    a signed measure. ``leading`` of the result is the same without these terms; ``slow``, of one
    or two rows, has a slowest direction that varies between sketches. With infinitely many rows
    the sketch loses nothing, and this is the infinite truncation.
    """
    if math.isinf(sketch):
        return truncation_nodes(a, b, sketch, count)
    if checks.real("a", a) > LARGEST_A:
        raise InputError("a", f"must be at most {LARGEST_A} for a sketch", repr(a))
    head = min(max(count // 4, min(count // 2, 16)), LARGEST_HEAD)
    ambient = _Ambient.power_law(a, b, sketch, head)
    bottom, top, q0 = _ends(ambient)
    edges, points = _cells(ambient, bottom, top, int(min(count, 2.0 * sketch + 16.0)))
    averaged, leading = _cell_moments(ambient, edges)
    while (bad := _not_positive(averaged, leading)).any():
        # A cell goes together with the one below it; the lowest with the one above.
        lost = max(int(np.flatnonzero(bad)[0]), 1)
        edges, points = np.delete(edges, lost), np.delete(points, lost - 1)
        averaged, leading = _cell_moments(ambient, edges)
    approximation = float((ambient.weight @ (q0 / (ambient.eigenvalues + q0))).real)
    signal = power_sum_after(b, 0)
    nodes = _scaled(averaged, points, sketch, signal, approximation + ambient.lost_energy(q0))
    if sketch > MANY_ROWS:
        return nodes
    return replace(
        nodes,
        leading=_scaled(leading, points, sketch, signal, approximation),
        slow=with_slow_direction(nodes, a, sketch) if sketch <= FEW_ROWS else None,
    )


def _not_positive(averaged: _Moments, leading: _Moments) -> NDArray[np.bool_]:
    """Cells of the leading order that the terms of size 1/M leave without mass or energy."""
    lost = (averaged.count[:, 0] <= NEGLIGIBLE_COUNT) | (averaged.energy[:, 0] < 0.0)
    return lost & (leading.count[:, 0] > NEGLIGIBLE_COUNT)


def _scaled(
    cells: _Moments, points: NDArray[np.int64], rows: float, signal: float, approximation: float
) -> Nodes:
    """Nodes of all cells, largest eigenvalue first.

    Cells of negligible mass are dropped, and the others scaled to the exact totals.
    """
    mu, counts, energy = _gauss_nodes(cells, points)
    counts *= rows / counts.sum()
    energy *= (signal - approximation) / energy.sum()
    order = np.argsort(-mu)
    return Nodes(mu[order], (energy / (counts * mu))[order], counts[order], approximation)


@dataclass(frozen=True, eq=False)
class _Ambient:
    r"""The infinite power law as a quadrature rule for sums over its coordinates.

    sum_i f(i) = sum_k n_k f(x_k), with lambda_k = x_k^-a and weight_k = n_k x_k^-b.
    The first coordinates are kept. The other nodes lie on a path that turns away from the real
    axis to arg x = pi/(2a), where lambda/(lambda - t) is smooth for every t in the closed upper
    half plane: the sums stay accurate as t approaches the spectrum of H, where real nodes would
    be poles.
    """

    rows: float
    head: int
    continuum: float  # the eigenvalue where individual coordinates end
    eigenvalues: ComplexArray
    counts: ComplexArray
    weight: ComplexArray

    @classmethod
    def power_law(cls, a: float, b: float, rows: float, head: int) -> _Ambient:
        first_counts = np.ones(head)
        first_counts[-END_CORRECTION.size :] += END_CORRECTION[::-1]
        start, turn = head + 0.5, 0.5 * math.pi / a
        # Up to eigenvalues of 1e-5 times the smallest |t|, which is about rows^-a.
        length = math.log(max(1e5 ** (1.0 / a) * 1.3 * rows / start, 10.0))
        leg = 1j * turn * np.append(0.0, 4.0 ** np.arange(-6.0, 1.0))
        line = 1j * turn + np.linspace(0.0, length, 1 + math.ceil(0.5 * length / turn))
        y, dy = _panels(np.append(leg, line[1:]))
        path = start * np.exp(y)
        x = np.append(np.arange(1.0, head + 1.0), path)
        counts = np.append(first_counts, path * dy)
        # Beyond the path, two nodes with the first two moments of lambda and of the energy.
        end = start * np.exp(line[-1])
        trace, squares, energy, moment = (
            end ** (1.0 - s) / (s - 1.0) for s in (a, 2.0 * a, b, a + b)
        )
        return cls(
            rows,
            head,
            start**-a,
            np.append(x**-a, [squares / trace, moment / energy]),
            np.append(counts, [trace**2 / squares, 0.0]),
            np.append(counts * x**-b, [0.0, energy]),
        )

    def preimage(self, t: ComplexArray) -> tuple[ComplexArray, ComplexArray]:
        """z(t) and its derivative 1 - (1/M) sum_i lambda_i^2 / (lambda_i - t)^2."""
        ratio = self.eigenvalues / (self.eigenvalues - t[..., None])
        # Not "@": synchronising BLAS threads costs more than these small sums.
        mean = np.einsum("...k,k->...", ratio, self.counts) / self.rows
        ratio *= ratio
        return t * (1.0 - mean), 1.0 - np.einsum("...k,k->...", ratio, self.counts) / self.rows

    def real_preimage(self, t: float) -> tuple[float, float]:
        z, slope = self.preimage(np.array([t + 0.0j]))
        return float(z[0].real), float(slope[0].real)

    def transforms(self, t: ComplexArray, z: ComplexArray) -> ComplexArray:
        """z times the Stieltjes transforms of counts and energies, to leading order and next.

        The leading ones are sum_i lambda_i/(lambda_i - t) and sum_i i^-b t/(lambda_i - t). Axes:
        leading or averaged, counts or energies, points.
        """
        lam, n, weight = self.eigenvalues, self.counts, self.weight
        inverse = 1.0 / (lam - t[..., None])

        def total(power: int, terms: ComplexArray) -> ComplexArray:
            return np.asarray(np.einsum("...k,k->...", inverse**power, terms))

        leading = np.stack([total(1, lam * n), t * total(1, weight)])
        dt = 1.0 / (1.0 - total(2, lam**2 * n) / self.rows) / self.rows
        third = total(3, lam**2 * n)
        rest = total(3, lam**2 * weight) + t * dt * third * total(2, lam * weight)
        return np.stack(
            [leading, leading + np.stack([self.rows * z * dt**2 * third, t * dt * rest])]
        )

    def lost_energy(self, q0: float) -> float:
        """What the terms of size 1/M add to Approx: minus the second transform's gain at z = 0."""
        inverse = 1.0 / (self.eigenvalues + q0)
        slope = self.real_preimage(-q0)[1]
        squares, cubes = self.eigenvalues * inverse**2, self.eigenvalues**2 * inverse**3
        share = (self.weight @ squares) / (self.counts @ squares)
        gain = (self.weight - share * self.counts) @ cubes
        return float(gain.real) * q0 / (self.rows * slope)


def _panels(corners: ComplexArray) -> tuple[ComplexArray, ComplexArray]:
    """Gauss-Legendre points and weights on the straight pieces of a complex path."""
    u, w = np.polynomial.legendre.leggauss(PANEL_POINTS)
    half = 0.5 * np.diff(corners)[:, None]
    return (corners[:-1, None] + half * (u + 1.0)).ravel(), (half * w).ravel()


def _ends(ambient: _Ambient) -> tuple[float, float, float]:
    """A point below and one above the spectrum of Sigma, and q0 = -t(0).

    Outside the spectrum t is real and dz/dt > 0; an edge is where dz/dt = 0.
    """
    guess = 1.0 / ambient.rows
    q0 = _crossing(lambda q: -ambient.real_preimage(-q)[0], guess)
    edge = _crossing(lambda q: ambient.real_preimage(-q)[1], guess)
    above = _crossing(lambda s: ambient.real_preimage(1.0 + s)[1] - 0.5, 1.0)
    bottom = ambient.real_preimage(-math.sqrt(edge * q0))[0]
    return bottom, ambient.real_preimage(1.0 + max(above, 0.5))[0], q0


def _crossing(function: Callable[[float], float], start: float) -> float:
    """The point where a function turns from negative to positive, by bisection in the logarithm.

    SciPy's ``brentq`` needs a quarter of the evaluations, which saves 2 of 80 ms per problem;
    but importing it takes 0.2 of a command's 1.2 s, and last digits of exported plans change.
    """
    low = high = start
    while function(low) > 0.0:
        low *= 0.1
    while function(high) < 0.0:
        high *= 10.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if function(middle) > 0.0 else (middle, high)
    return math.sqrt(low * high)


def _cells(
    ambient: _Ambient, bottom: float, top: float, count: int
) -> tuple[FloatArray, NDArray[np.int64]]:
    """Cell boundaries in increasing order, and the number of nodes of each cell.

    The leading eigenvalues of a large sketch are narrow bumps, each in its own cell, with
    boundaries in the gaps. Below them cells have equal width in log x, but start narrow where
    the bumps end.
    """
    gaps = _gaps(ambient)
    # A bump's relative width is 1/sqrt(M), and n nodes leave an error of its 2n-th power.
    bump_nodes = 4 if ambient.rows < 1e3 else 2 if ambient.rows < 1e10 else 1
    bump_nodes = max(min(bump_nodes, count // max(2 * gaps.size, 1)), 1)
    cells = max((count - bump_nodes * gaps.size) // CELL_NODES, 2)
    upper = np.append(gaps[::-1], top)
    floor = max(bottom, FROZEN_EIGENVALUE)
    frozen = cells // 6 if bottom < FROZEN_EIGENVALUE else 0
    length = math.log(upper[0] / floor)
    steps = np.ones(cells - frozen)
    if gaps.size > 1:
        first = 0.5 * math.log(gaps[-2] / gaps[-1]) * steps.size / length
        steps = np.minimum(first * 2.0 ** np.minimum(np.arange(steps.size), 60), 1.0)
    bulk = upper[0] * np.exp(-length * np.cumsum(steps)[:-1] / steps.sum())
    edges = np.concatenate([np.geomspace(bottom, floor, frozen + 1), bulk[::-1], upper])
    return edges, np.repeat([1, CELL_NODES, bump_nodes], [frozen, steps.size, gaps.size])


def _gaps(ambient: _Ambient) -> FloatArray:
    """A point in each gap between the leading bumps of the spectrum, largest first.

    In a gap dz/dt > 0 between two eigenvalues of H; the point with the largest slope is taken.
    """
    lam = np.append(ambient.eigenvalues[: ambient.head].real, ambient.continuum)
    mix = np.linspace(0.0, 1.0, 18)[1:-1]
    t = lam[:-1, None] ** (1.0 - mix) * lam[1:, None] ** mix
    z, slope = ambient.preimage(t.astype(np.complex128))
    best = slope.real.argmax(axis=1)[:, None]
    is_open = np.take_along_axis(slope.real, best, axis=1)[:, 0] > OPEN_GAP
    count = ambient.head if is_open.all() else int(np.argmin(is_open))
    return np.take_along_axis(z.real, best, axis=1)[:count, 0]


@dataclass(frozen=True, eq=False)
class _Moments:
    """Per cell: middle, half width, and moments of ((x - middle)/half)^k of both measures."""

    middle: FloatArray
    half: FloatArray
    count: FloatArray
    energy: FloatArray


def _cell_moments(ambient: _Ambient, edges: FloatArray) -> tuple[_Moments, _Moments]:
    """(1/pi) Im of the integrals of both transforms along an arc over each cell.

    With the terms of size 1/M, and to leading order.

    The arc is a half ellipse in log z. For the counts -M/t is replaced by
    (1/z) sum_i lambda_i/(lambda_i - t): the difference -M/z is real on the real axis, and
    without it a cell that holds one of 10^12 directions loses no digits.
    """
    low, high = edges[:-1, None], edges[1:, None]
    u, w = np.polynomial.legendre.leggauss(ARC_POINTS)
    angle = 0.5 * math.pi * (1.0 - u)
    width = 0.5 * np.log(high / low)
    height = np.minimum(width, 1.0)
    z = np.sqrt(low * high) * np.exp(width * np.cos(angle) + 1j * height * np.sin(angle))
    dz = 0.5 * math.pi * w * z * (width * np.sin(angle) - 1j * height * np.cos(angle))
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    powers = ((z - middle) / half)[..., None] ** np.arange(2 * CELL_NODES + 1)
    transforms = ambient.transforms(_solve_arcs(ambient, z), z)
    moments = np.einsum("kp,omkp,kpj->omkj", dz / z, transforms, powers, optimize=True)
    leading, averaged = moments.imag / math.pi
    ends = middle[:, 0], half[:, 0]
    return _Moments(*ends, *averaged), _Moments(*ends, *leading)


def _solve_arcs(ambient: _Ambient, z: ComplexArray) -> ComplexArray:
    """t(z) on all arcs at once, from the middle of each to its two ends.

    Exactly one solution has Im t > 0. A damped fixed-point iteration finds it far from the real
    axis; Newton's method follows it from there, starting each point from its neighbour's t/z.
    """
    t = np.empty_like(z)
    middle = z.shape[1] // 2
    top = z[:, middle]
    start = top.copy()
    for _ in range(20):
        start = start + 0.5 * (top - ambient.preimage(start)[0])
    for side in (range(middle, z.shape[1]), range(middle - 1, -1, -1)):
        ratio = start / top
        for k in side:
            t[:, k] = _newton(ambient, z[:, k], ratio * z[:, k])
            ratio = t[:, k] / z[:, k]
    return t


def _newton(ambient: _Ambient, z: ComplexArray, t: ComplexArray) -> ComplexArray:
    for _ in range(100):
        value, slope = ambient.preimage(t)
        step = (value - z) / slope
        # At most half the way to the real axis; scipy.optimize.newton does not damp its steps.
        step /= np.maximum(2.0 * step.imag / t.imag, 1.0)
        t = t - step
        if (np.abs(step) <= 1e-13 * np.abs(t)).all():
            return t
    raise ArithmeticError("the sketch's spectrum was not found: Newton's method did not converge")


def _gauss_nodes(
    cells: _Moments, points: NDArray[np.int64]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Eigenvalues, counts and target energies of nodes that reproduce each cell's moments."""
    rows = []
    for k in np.flatnonzero(cells.count[:, 0] > NEGLIGIBLE_COUNT):
        nodes = _cell_rule(cells.count[k], cells.energy[k], int(points[k]))
        nodes[0] = cells.middle[k] + cells.half[k] * nodes[0]
        rows.append(nodes)
    mu, counts, energy = np.concatenate(rows, axis=1)
    return mu, counts, energy


def _cell_rule(count: FloatArray, energy: FloatArray, points: int) -> FloatArray:
    """Gauss rule of the counts on [-1, 1], and energies on the same nodes: (3, n) array.

    Fewer than ``points`` nodes if the moments do not determine that many.
    """
    for n in range(points, 1, -1):
        hankel = count[np.add.outer(np.arange(n + 1), np.arange(n + 1))]
        try:
            R = np.linalg.cholesky(hankel).T
        except np.linalg.LinAlgError:
            continue
        # The Jacobi matrix of the orthogonal polynomials, from the Cholesky factor.
        diagonal = np.diag(R)[:n]
        above = np.append(0.0, np.diag(R, 1)[:n] / diagonal)
        off = diagonal[1:] / diagonal[:-1]
        u, vectors = np.linalg.eigh(np.diag(np.diff(above)) + np.diag(off, -1), UPLO="L")
        powers = u ** np.arange(n)[:, None]
        share = np.linalg.solve(powers, energy[:n])
        if (np.abs(u) < 1.0).all() and (share >= 0.0).all():
            return np.stack([u, count[0] * vectors[0] ** 2, share])
    return np.array([[count[1] / count[0]], [count[0]], [max(energy[0], 0.0)]])
