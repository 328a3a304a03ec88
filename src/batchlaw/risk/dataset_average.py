r"""Averages over datasets with an error that is computed, by the contour or by drawn spectra.

The contour has the mean resolvent to order 1/N. The change from the order before, a share c of
each part, shows how fast the series converges here: its next terms are of the relative size
c^2, c/N and 1/N^2. Where that leaves GD's excess less accurate than ``MAX_ERROR`` (few samples,
a bias that is almost gone) the sample covariance is drawn instead, if it is small
enough (``drawn_spectra``), and the error is statistical.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw._base.kernels.common import products
from batchlaw.model.problem import Problem
from batchlaw.risk.contour_solution import contour_parts, gradient_descent_parts
from batchlaw.risk.drawn_spectra import average_over_spectra, draws_allowed
from batchlaw.risk.eigenvalue_spread import resummed_bias
from batchlaw.risk.over_datasets import averaged_risk
from batchlaw.risk.result import SCHEDULE, Note, Risk
from batchlaw.risk.sample_spectrum import (
    ComplexArray,
    Resolvent,
    contour_resolvent,
    sample_spectrum,
)
from batchlaw.risk.single_samples import outlier_error, rotation_error, unstable_share

# Relative error of GD's excess above which spectra are drawn.
MAX_ERROR = 0.03
# Relative error above which the series in 1/N says nothing: the error is unknown.
UNKNOWN = 0.5
# The same for drawn spectra: with errors that large, draws miss datasets that matter.
UNKNOWN_DRAWN = 0.1
# GD's unstable datasets are part of an average if they are more frequent than this.
UNSTABLE = 1e-4
# Rounding error of the contour's sums, in units of the signal and the label noise.
ROUNDING = 1e-13
# The stated error over the size of the next order.
SAFETY = 2.0
# Standard errors of a drawn average that are stated.
STANDARD_ERRORS = 2.5
# Relative error of a part above which the result has a note about it.
POOR_PART = 0.1
WHY_UNKNOWN = "rare datasets decide the average, and nothing here bounds them"
PARTS = ("bias", "variance", "fluctuation")


@dataclass(frozen=True, eq=False)
class DatasetAverage:
    """Bias, variance and fluctuation over datasets, (S, K, 3), with errors.

    Attributes
    ----------
    parts
        The values; the axis K is the steps of a trajectory, or 1 long.
    part_error
        Absolute error of every part.
    excess_error
        Absolute error of their sum, (S, K).
    drawn
        Number of sample covariances drawn; 0 for the contour.
    """

    parts: FloatArray
    part_error: FloatArray
    excess_error: FloatArray
    drawn: int = 0

    @property
    def relative_error(self) -> FloatArray:
        """Error of the excess over the excess, (S, K); infinite where it is unknown."""
        excess = self.parts.sum(axis=-1)
        share = np.full_like(excess, np.inf)
        # An excess of zero, without signal and noise, is exact.
        share[(excess == 0.0) & (self.excess_error == 0.0)] = 0.0
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow is refused
            np.divide(self.excess_error, excess, out=share, where=excess > 0.0)
        known = share <= (UNKNOWN_DRAWN if self.drawn else UNKNOWN)
        return np.asarray(np.where(known, share, np.inf))

    @property
    def descent_error(self) -> float:
        """The largest relative error of GD's excess along the run."""
        descent = self.parts[0, :, :2].sum(axis=-1)
        error = self.part_error[0, :, :2].sum(axis=-1)
        return float(np.where(error > 0.0, error / np.maximum(descent, 1e-300), 0.0).max())

    def risk(self, problem: Problem, procedure: str, samples: int, *, single: bool) -> Risk:
        """The result, for one schedule or for several; the last axis is dropped if 1 long."""
        index = (0 if single else slice(None), 0 if self.parts.shape[1] == 1 else slice(None))
        scalar = single and self.parts.shape[1] == 1

        def chosen(values: FloatArray) -> FloatArray | float:
            return float(values[index]) if scalar else values[index]

        how = f"{self.drawn} drawn spectra" if self.drawn else "mean field"
        return averaged_risk(
            problem,
            procedure,
            f"{how} over datasets of {samples} samples",
            chosen(self.parts[:, :, 0]),
            chosen(self.parts[:, :, 1]),
            chosen(self.parts[:, :, 2]),
            chosen(self.relative_error),
            self._notes(),
        )

    def _notes(self) -> tuple[Note, ...]:
        """Sentences about parts that are known much worse than their sum, and unknown errors."""
        end, error = self.parts[:, -1], self.part_error[:, -1]
        if np.isinf(self.relative_error).any():
            rows = np.flatnonzero(np.isinf(self.relative_error).any(axis=1))
            only = int(rows[0]) if rows.size == 1 < self.parts.shape[0] else None
            return (Note(f"the error{SCHEDULE} is unknown: {WHY_UNKNOWN}", "unknown error", only),)
        poor = np.divide(error, end, out=np.zeros_like(end), where=end > 0.0).max(axis=0)
        return tuple(
            Note(
                f"{name} alone is known to {share:.0%} only: rare datasets decide it", "part error"
            )
            for name, share in zip(PARTS, poor, strict=True)
            if share > POOR_PART
        )


def dataset_average(
    problem: Problem,
    rates: FloatArray,
    rho: FloatArray,
    samples: int,
    nodes: int | None,
    *,
    trajectory: bool = False,
) -> DatasetAverage:
    """The parts of multi-pass SGD's risk; with rho = 0 those of GD."""
    contour = _by_contour(problem, rates, rho, samples, nodes, trajectory)
    if unstable_share(problem, rates, samples) > UNSTABLE:
        return replace(contour, excess_error=np.full_like(contour.excess_error, np.inf))
    draws = draws_allowed(problem, rates.size)
    # Decided by GD, which all schedules share: a schedule's result does not depend on the others.
    if not draws or contour.descent_error <= MAX_ERROR or not np.isfinite(contour.parts).all():
        return contour
    drawn = _by_draws(problem, rates, rho, samples, draws, trajectory)
    return drawn if drawn.descent_error < contour.descent_error else contour


def _by_contour(
    problem: Problem,
    rates: FloatArray,
    rho: FloatArray,
    N: int,
    nodes: int | None,
    trajectory: bool,
) -> DatasetAverage:
    s2, reach = problem.noise_variance, float(rates.sum())
    resolvent = contour_resolvent(problem, N, reach, nodes)
    psi = products(resolvent.points, rates)
    parts, leading = (
        contour_parts(
            sample_spectrum(problem, N, resolvent, leading=order == 0),
            s2,
            rates,
            rho,
            N,
            psi,
            trajectory=trajectory,
        )
        for order in (1, 0)
    )
    with np.errstate(invalid="ignore"):  # an overflow, which is refused
        change = np.abs(parts - leading)
        size = np.abs(parts)
        share = np.divide(change, size, out=np.zeros_like(size), where=size > 0.0)
        error = SAFETY * size * (2.0 * share**2 + 2.0 * share / N + 1.0 / N**2)
    signal = float((problem.multiplicity * problem.eigenvalues) @ problem.target_energy)
    error += ROUNDING * (signal + s2)
    error += quadrature_error(problem, resolvent, psi, rates, N) * size
    if nodes is not None:
        finer = contour_resolvent(problem, N, reach)
        spectrum, at = sample_spectrum(problem, N, finer), products(finer.points, rates)
        error += np.abs(
            contour_parts(spectrum, s2, rates, rho, N, at, trajectory=trajectory) - parts
        )
    bias = parts[0, -1, 0]
    if bias > 0.0:
        resummed = resummed_bias(problem, N, resolvent, psi, reach)
        smaller = max(min(bias, abs(resummed)), np.finfo(float).tiny)
        error[:, :, 0] += size[:, :, 0] * min(abs(resummed - bias) / smaller, 1e9)
    error[:, :, 2] += _rotation(problem, rates, rho, N, parts)
    # Negative by no more than its error, a part is zero.
    parts = np.where((parts < 0.0) & (parts >= -error), 0.0, parts)
    return DatasetAverage(parts, error, error.sum(axis=-1))


def _by_draws(
    problem: Problem, rates: FloatArray, rho: FloatArray, N: int, draws: int, trajectory: bool
) -> DatasetAverage:
    average = average_over_spectra(problem, rates, rho, N, draws, trajectory=trajectory)
    rotation = _rotation(problem, rates, rho, N, average.mean)
    error = STANDARD_ERRORS * average.error
    error[:, :, 2] += rotation
    excess_error = STANDARD_ERRORS * average.excess_error + rotation
    return DatasetAverage(average.mean, error, excess_error, draws)


def _rotation(
    problem: Problem, rates: FloatArray, rho: FloatArray, N: int, parts: FloatArray
) -> FloatArray:
    """Error of the fluctuation from rotating the samples anew at every step, (S, K)."""
    rotation = rotation_error(problem, rates, rho, N) + 1.0 / N**2
    share = SAFETY * rotation + outlier_error(problem, rates, rho, N)
    size = np.abs(parts[:, :, 2])
    with np.errstate(invalid="ignore"):  # an overflow, which is refused
        return np.asarray(np.where(size > 0.0, share[:, None] * size, 0.0))


def quadrature_error(
    problem: Problem, resolvent: Resolvent, psi: ComplexArray, rates: FloatArray, N: int
) -> float:
    """Relative change of GD's excess with 1.5 times as many points on the contour."""
    nodes = 3 * psi.size // 2 * 2
    finer = contour_resolvent(problem, N, float(rates.sum()), nodes)
    coarse, fine = (
        sum(gradient_descent_parts(sample_spectrum(problem, N, r), problem.noise_variance, p))
        for r, p in ((resolvent, psi), (finer, products(finer.points, rates)))
    )
    return abs(coarse - fine) / abs(fine) if fine else 0.0
