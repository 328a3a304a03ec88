r"""Population eigenvalues from a sample: the Marchenko-Pastur map, inverted.

Sample eigenvalues spread: the large ones are too large and the small ones too small, by a
share that does not vanish until the samples are many times the effective dimension. With
m(z) = (1/n) sum_i 1/(nu_i - z) over the n eigenvalues of Z Z^T / n and w = -1/m, the population's
eigenvalues satisfy to leading order, at every z off the spectrum,

    sum_j mu_j / (w - mu_j) = n (z/w - 1),

explicit in the data. Each side counts directions and fluctuates by about one of them at any
scale, so an unweighted least-squares fit with nonnegative masses on a logarithmic grid of mu,
at points z on rays from zero, weighs all scales equally (after El Karoui, 2008). The trace,
whose estimate has no bias, and the number of directions are constrained.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError, arg
from batchlaw.model.problem import Problem
from batchlaw.model.spectrum import Directions

# Ratio of neighbouring eigenvalues on the grid of the fit.
GRID_RATIO = 1.12
# Angles of the rays in the upper half plane, and points per factor of 10 along a ray.
RAY_ANGLES = (0.6, 1.5, math.pi)
POINTS_PER_DECADE = 8
# Weight of the two constraints, in directions.
CONSTRAINT_WEIGHT = 30.0
# Sample eigenvalues below this share of the largest are rounding errors.
RANK_TOLERANCE = 1e-10


def check_features(
    features: ArrayLike, *, fewest: int = 2, allow_constant: bool = False
) -> FloatArray:
    """The features as an array of finite numbers, or an ``InputError`` that says what is wrong.

    Parameters
    ----------
    features : (n, p) array
        One row per sample.
    fewest
        The smallest n allowed.
    allow_constant
        Accept columns that do not vary.
    """
    try:
        Z = np.asarray(features, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("features", "must be an array of numbers") from None
    if Z.ndim != 2 or not Z.size:
        raise InputError("features", "must be a table, one row per sample", f"shape {Z.shape}")
    if Z.shape[0] < fewest:
        raise InputError("features", f"must have at least {fewest} rows", f"{Z.shape[0]}")
    if not np.isfinite(Z).all():
        row, column = np.argwhere(~np.isfinite(Z))[0]
        got = f"{Z[row, column]} in row {row + 1}, column {column + 1}"
        raise InputError("features", "must be finite", got)
    constant = Z.max(axis=0) == Z.min(axis=0)
    if constant.any() and not allow_constant:
        raise InputError(
            "features",
            f"must vary in every column, {int(constant.sum())} of {Z.shape[1]} are constant, "
            f"the first is column {int(np.argmax(constant)) + 1}",
            hint="drop or allow them",
        )
    largest = float(np.abs(Z).max())
    if not largest:
        raise InputError("features", "must not all be zero")
    # Eigenvalues are sums of squares, and matter down to RANK_TOLERANCE times the largest.
    low = np.sqrt(np.finfo(float).tiny / RANK_TOLERANCE * Z.size)
    high = np.sqrt(np.finfo(float).max / Z.size)
    if not low < largest < high:
        raise InputError(
            "features",
            "must have squares that floating point can hold: the largest may lie "
            f"between {low:.2g} and {high:.2g}",
            f"{largest:.2g}",
        )
    return Z


def decompose(Z: FloatArray, samples: int) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues of Z^T Z / samples, decreasing, and the rows' squares in its eigenbasis.

    Computed from the smaller of the two Gram matrices.
    """
    if Z.shape[0] <= Z.shape[1]:
        nu, U = np.linalg.eigh(Z @ Z.T / samples)
        nu = np.maximum(nu, 0.0)
        squares = samples * nu * U**2
    else:
        nu, V = np.linalg.eigh(Z.T @ Z / samples)
        squares = (Z @ V) ** 2
    return np.maximum(nu[::-1], 0.0), np.ascontiguousarray(squares[:, ::-1])


def centred(Z: FloatArray, centre: bool) -> tuple[FloatArray, int]:
    """The rows and their degrees of freedom: removing the mean costs one."""
    return (Z - Z.mean(axis=0), Z.shape[0] - 1) if centre else (Z, Z.shape[0])


def spectrum_of(rows: FloatArray, samples: int) -> FloatArray:
    """Eigenvalues of rows^T rows / samples above rounding, decreasing."""
    gram = rows @ rows.T if rows.shape[0] <= rows.shape[1] else rows.T @ rows
    nu = np.asarray(np.linalg.eigvalsh(gram / samples)[::-1], dtype=np.float64)
    kept: FloatArray = nu[nu > max(RANK_TOLERANCE * float(nu[0]), 0.0)]
    return kept[:samples]


def sample_eigenvalues(
    features: ArrayLike, *, centre: bool = False, allow_constant: bool = False
) -> tuple[FloatArray, int]:
    """Nonzero eigenvalues of the sample covariance, decreasing, and its degrees of freedom.

    Those are n, or n - 1 with ``centre``.

    Parameters
    ----------
    features : (n, p) array
        One row per sample.
    centre, allow_constant
        As in ``estimate_spectrum``.
    """
    Z = check_features(features, fewest=2 + centre, allow_constant=allow_constant)
    # Scaling by a power of two is exact; squares then neither overflow nor underflow.
    exponent = int(np.frexp(np.abs(Z).max())[1])
    rows, samples = centred(np.ldexp(Z, -exponent), centre)
    nu = spectrum_of(rows, samples)
    if not nu.size:
        raise InputError("features", "must differ between rows if their mean is removed")
    return np.ldexp(nu, 2 * exponent), samples


def population_spectrum(
    eigenvalues: ArrayLike, samples: int, dim: int
) -> tuple[FloatArray, FloatArray]:
    """Population eigenvalues (decreasing) and their multiplicities, from those of a sample.

    Parameters
    ----------
    eigenvalues : (r,) array
        Eigenvalues of the sample covariance, positive, at most min(samples, dim) of them.
    samples
        n, the rows of the sample.
    dim
        p, its columns.
    """
    nu = np.sort(checks.vector("eigenvalues", eigenvalues, positive=True))[::-1]
    n = checks.count("samples", samples)
    p = checks.count("dim", dim)
    if nu.size > min(n, p):
        raise InputError(
            "eigenvalues",
            f"must number at most min({arg('samples')}, {arg('dim')}) = {min(n, p)}",
            f"{nu.size}",
        )
    top, x = float(nu[0]), nu / nu[0]
    grid, masses = _fit(x[x > RANK_TOLERANCE], n, p)
    mu, multiplicity = _whole_directions(grid, masses, p)
    return top * mu, multiplicity


def _fit(x: FloatArray, n: int, p: int) -> tuple[FloatArray, FloatArray]:
    """Atoms and their masses, for sample eigenvalues whose largest is 1."""
    from scipy.optimize import nnls

    trace = float(x.sum())
    lowest = 0.1 * min(float(x[-1]), trace / p)
    size = math.ceil(math.log(1.0 / lowest) / math.log(GRID_RATIO)) + 1.0
    grid = GRID_RATIO ** -np.arange(size)
    spread = math.log(3.0 / (0.3 * max(float(x[-1]), 1e-6)))
    radii = 3.0 * np.exp(-np.arange(0.0, spread, math.log(10.0) / POINTS_PER_DECADE))
    z = np.multiply.outer(np.exp(1j * np.array(RAY_ANGLES)), radii).ravel()
    # The other n - r eigenvalues of Z Z^T / n are zero.
    m = ((1.0 / (x - z[:, None])).sum(axis=1) - (n - x.size) / z) / n
    w = -1.0 / m
    counts = n * (z / w - 1.0)
    shares = grid / (w[:, None] - grid)
    above = z.imag > 1e-9 * np.abs(z)
    trace_row = CONSTRAINT_WEIGHT * grid / trace
    count_row = np.full(grid.size, CONSTRAINT_WEIGHT / p)
    design = np.vstack([shares.real, shares.imag[above], trace_row, count_row])
    # Directions without variance count among the p: a last column, for eigenvalue zero.
    empty = np.append(np.zeros(design.shape[0] - 1), CONSTRAINT_WEIGHT / p)
    constraints = [CONSTRAINT_WEIGHT, CONSTRAINT_WEIGHT]
    values = np.concatenate([counts.real, counts.imag[above], constraints])
    masses = nnls(np.column_stack([design, empty]), values)[0][:-1]
    # The fit meets the trace only approximately; rescaling makes it the sample's.
    masses *= trace / float(masses @ grid)
    return grid[masses > 0.0], masses[masses > 0.0]


def _whole_directions(
    grid: FloatArray, masses: FloatArray, p: int
) -> tuple[FloatArray, FloatArray]:
    """Cut the masses into directions of mass one, largest first, each at its mean eigenvalue.

    A leading direction may be split between two neighbouring atoms; left as two directions of
    half the mass, it would fluctuate less. A unit inside one atom has that atom's eigenvalue.
    """
    mass = np.append(0.0, np.cumsum(masses))
    trace = np.append(0.0, np.cumsum(masses * grid))
    # The number of directions is only nearly p; any excess mass is shared among all of them.
    unit = max(float(mass[-1]) / p, 1.0)
    total = math.ceil(float(mass[-1]) / unit - 1e-9)
    edges = np.append(unit * np.arange(float(total)), mass[-1])
    first = np.clip(np.searchsorted(mass, edges[:-1], side="right") - 1, 0, grid.size - 1)
    last = np.clip(np.searchsorted(mass, edges[1:], side="left") - 1, 0, grid.size - 1)
    mean = np.diff(np.interp(edges, mass, trace))
    within_atom = (first == last) & (np.diff(edges) > unit - 1e-9)
    mu = np.where(within_atom, unit * grid[first], mean)
    starts = np.flatnonzero(np.append(True, mu[1:] != mu[:-1]))
    return mu[starts], np.diff(np.append(starts, mu.size)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class EstimatedSpectrum:
    """The spectrum of the population's covariance, estimated from a sample.

    Attributes
    ----------
    eigenvalues, multiplicity : (K,) arrays
        The population's eigenvalues, corrected for the sample size, and how many directions
        share each.
    sample_eigenvalues : (r,) array
        The sample's eigenvalues, which spread more.
    samples, dim
        n and p.
    """

    eigenvalues: FloatArray
    multiplicity: FloatArray
    sample_eigenvalues: FloatArray
    samples: int
    dim: int

    @property
    def trace(self) -> float:
        """tr(Sigma), estimated without bias."""
        return float(self.sample_eigenvalues.sum())

    @property
    def stable_rank(self) -> float:
        """tr(Sigma) over its largest eigenvalue."""
        return self.trace / float(self.eigenvalues[0])

    @property
    def participation(self) -> float:
        """tr(Sigma)^2 / tr(Sigma^2)."""
        return self.trace**2 / float(self.multiplicity @ self.eigenvalues**2)

    def each(self) -> FloatArray:
        """The corrected eigenvalues, one entry per direction."""
        return np.repeat(self.eigenvalues, self.multiplicity.astype(np.int64))

    def directions(self, peak: float) -> Sequence[Directions]:
        """As a ``Spectrum``: the corrected eigenvalues, for any rates."""
        return [Directions(self.eigenvalues, self.multiplicity)]

    def problem(self, noise_variance: float = 1.0) -> Problem:
        """A problem with this spectrum and target zero, since features alone tell no target."""
        target = np.zeros_like(self.eigenvalues)
        return Problem.from_spectrum(self.eigenvalues, target, noise_variance, self.multiplicity)


def estimate_spectrum(
    features: ArrayLike, *, centre: bool = False, allow_constant: bool = False
) -> EstimatedSpectrum:
    """Population eigenvalues, estimated from features.

    Parameters
    ----------
    features : (n, p) array
        One row per sample; n < p is allowed.
    centre
        Remove the mean of the rows. SGD sees E[z z^T], so only if the model removes it too.
    allow_constant
        Accept columns that do not vary.
    """
    nu, samples = sample_eigenvalues(features, centre=centre, allow_constant=allow_constant)
    dim = int(np.shape(features)[1])
    mu, multiplicity = population_spectrum(nu, samples, dim)
    return EstimatedSpectrum(mu, multiplicity, nu, samples, dim)
