"""Data laws other than the paper's: label residuals, features, and their exact risk.

One-pass SGD depends on a data law through few moments, because every batch is fresh: the
covariance Sigma, E[(z . x)^2 z z^T] and E[residual^2 z z^T]. So a law that is not Gaussian
changes two numbers and one vector of the exact recursion, and no exponent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import Batches, FloatArray
from batchlaw._base.kernels.fourth_moments import fourth_moment_moments
from batchlaw.evidence.claims.outside.departure import Departure
from batchlaw.model.problem import Problem
from batchlaw.risk.result import Risk
from batchlaw.risk.simulate import Draw
from batchlaw.schedule.update_rule import check_stable

Coordinates = Callable[[int, int, np.random.Generator], FloatArray]
Residuals = Callable[[FloatArray, np.random.Generator], FloatArray]


def gaussian_coordinates(n: int, directions: int, rng: np.random.Generator) -> FloatArray:
    """The paper's features: independent standard Gaussians."""
    return rng.standard_normal((n, directions))


def sign_coordinates(n: int, directions: int, rng: np.random.Generator) -> FloatArray:
    """Independent signs, of the smallest possible kurtosis: E x^4 = 1."""
    return np.where(rng.integers(0, 2, (n, directions)) == 1, 1.0, -1.0)


def student_coordinates(n: int, directions: int, rng: np.random.Generator) -> FloatArray:
    """Independent Student variables with 6 degrees of freedom, scaled to variance 1: E x^4 = 6."""
    return rng.standard_t(6.0, (n, directions)) * math.sqrt(4.0 / 6.0)


def mixed_coordinates(n: int, directions: int, rng: np.random.Generator) -> FloatArray:
    """Gaussians with a common scale r: r^2 = 3 for a fifth of the samples, 1/2 for the others.

    E r^2 = 1 and E r^4 = 2, as for a multivariate Student law with 6 degrees of freedom, but
    all moments exist, and so do standard errors.
    """
    scale = np.where(rng.random((n, 1)) < 0.2, math.sqrt(3.0), math.sqrt(0.5))
    return scale * rng.standard_normal((n, directions))


def gaussian_residuals(x: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The paper's residuals: Gaussian, independent of the features."""
    return rng.standard_normal(x.shape[:1])


def student_residuals(x: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Student with 3 degrees of freedom, scaled to variance 1: no third moment."""
    return rng.standard_t(3.0, x.shape[:1]) / math.sqrt(3.0)


def uneven_residuals(x: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Heteroscedastic, of variance x_1^2: 1 on average, and E[residual^2 x_1^2] = 3."""
    return x[:, 0] * rng.standard_normal(x.shape[:1])


def quadratic_residuals(x: FloatArray, rng: np.random.Generator) -> FloatArray:
    """(x_1^2 - 1)/sqrt(2): labels without noise, under a misspecified model.

    Uncorrelated with the features, so u* is unchanged; E[residual^2 x_1^2] = 5. Its effect on
    the mean iterate is odd in x, and vanishes.
    """
    return (x[:, 0] ** 2 - 1.0) / math.sqrt(2.0)


@dataclass(frozen=True)
class DataLaw:
    """A law of (z, y) with the problem's covariance, u* and residual variance.

    Attributes
    ----------
    departure
        From the paper's Gaussian data.
    coordinates, residuals
        x = Sigma^-1/2 z in the eigenbasis, and (y - z . u*)/sqrt(s2) given x.
    self_weight, cross_weight
        E[(z . v)^2 z z^T] - Sigma v v^T Sigma has the diagonal
        self_weight mu^2 v^2 + cross_weight mu (mu . v^2): 1 and 1 for Gaussians, 1 + k and 1 for
        independent coordinates with excess kurtosis k, 2 tau - 1 and tau for Gaussians with a
        common scale r, E r^4 = tau.
    top_noise
        E[residual^2 x_1^2], 1 where the residual is independent; 1 in all other directions.
    """

    departure: Departure
    coordinates: Coordinates = gaussian_coordinates
    residuals: Residuals = gaussian_residuals
    self_weight: float = 1.0
    cross_weight: float = 1.0
    top_noise: float = 1.0

    @property
    def gaussian(self) -> bool:
        """Whether all moments that the risk depends on are those of Gaussian data."""
        return (self.self_weight, self.cross_weight, self.top_noise) == (1.0, 1.0, 1.0)

    @property
    def far(self) -> bool:
        """Whether the level of Var is far from the Gaussian one in short runs."""
        return max(self.cross_weight, self.top_noise) > 1.0

    def draw(self, problem: Problem) -> Draw:
        """``draw(n, rng)`` for the simulators."""
        scale, optimum = np.sqrt(problem.eigenvalues), problem.optimum
        deviation = math.sqrt(problem.noise_variance)

        def draw(n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
            x = self.coordinates(n, scale.size, rng)
            features = x * scale
            return features, features @ optimum + deviation * self.residuals(x, rng)

        return draw


def _features(id_: str, name: str) -> Departure:
    return Departure(id_, name, "outside assumption 1.A")


def _noise(id_: str, name: str) -> Departure:
    return Departure(id_, name, "outside assumption 1.B")


GAUSSIAN = DataLaw(_features("gaussian-features", "Gaussian"))
HEAVY_NOISE = DataLaw(
    _noise("student-noise", "Student label noise, 3 degrees of freedom"),
    residuals=student_residuals,
)
UNEVEN_NOISE = DataLaw(
    _noise("uneven-noise", "label noise of variance x_1^2"),
    residuals=uneven_residuals,
    top_noise=3.0,
)
NO_NOISE = DataLaw(
    _noise("noiseless", "no label noise, a quadratic term"),
    residuals=quadratic_residuals,
    top_noise=5.0,
)
SIGNS = DataLaw(_features("sign-features", "sign features"), sign_coordinates, self_weight=-1.0)
STUDENT = DataLaw(
    _features("student-features", "Student features, 6 degrees of freedom"),
    student_coordinates,
    self_weight=4.0,
)
MIXED = DataLaw(
    _features("mixed-features", "Gaussian features of random scale"),
    mixed_coordinates,
    self_weight=3.0,
    cross_weight=2.0,
)


def one_pass_risk_under(law: DataLaw, problem: Problem, rates: ArrayLike, batches: Batches) -> Risk:
    r"""Exact risk of one-pass SGD under a data law, in O(T M) per schedule.

    The recursion of ``one_pass_risk`` with D x = self_weight mu^2 x + cross_weight mu (mu . x) and,
    in the top direction, a noise source ``top_noise`` times as strong. Off-diagonal second moments
    never reach the diagonal, because every odd moment of the coordinates vanishes.
    """
    gamma = check_stable(rates, float(problem.eigenvalues[0]))
    sizes = checks.batches(batches, gamma.size, whole=False).astype(np.float64)
    source = problem.noise_variance * problem.eigenvalues
    source[0] *= law.top_noise
    out = np.empty((sizes.shape[0], 3))
    state = (problem.eigenvalues, problem.multiplicity, problem.target_energy)
    fourth_moment_moments(*state, source, law.self_weight, law.cross_weight, gamma, sizes, out)
    bias, noise, covariance = out[0] if checks.is_single(batches) else out.T
    return Risk(
        procedure="one-pass SGD",
        method=problem.described(f"exact, {law.departure.name}"),
        irreducible=problem.irreducible,
        approximation=problem.approximation,
        bias=bias,
        variance=noise + covariance,
        variance_noise=noise,
        variance_covariance=covariance,
    )
