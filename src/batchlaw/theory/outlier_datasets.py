r"""Rare datasets that carry the plain average over datasets in theorem 2.

A dataset with one sample of ||z||^2 = r, far above the others, makes multi-pass SGD unstable: at a
step that weights the sample by m, of mean 1 and variance (N - 1) rho, its direction is multiplied
by 1 - gamma (m r/N + ...), and the mean square of that may exceed 1. Second moments around GD are
then multiplied by a number that grows like r^(2 L), while the probability of r falls only like
exp(-r/(2 mu_1)). So E over all datasets is finite but decided by datasets that nobody will ever
see. The theorem's law is about the average on the event {max_i ||z_i||^2 <= r_0}, or a median.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.model.norm_tail import log_largest_norm_tail
from batchlaw.model.problem import Problem

# Norms at which growth and probability are compared.
NORMS = 96
# Longer runs are represented by about this many of their steps.
STEPS = 4096


@dataclass(frozen=True, eq=False)
class OutlierDatasets:
    """What one outlying sample does to the fluctuation, against how rarely it occurs.

    Attributes
    ----------
    peak
        gamma, the highest rate.
    largest_norm
        r_0: no sample of ||z||^2 <= r_0 multiplies second moments by more than 1 to the run's end.
    log_failure
        log P(max_i ||z_i||^2 > r_0), the event's complement.
    norms : (K,) array
        r from r_0 on.
    log_growth : (K,) array
        log of the factor by which a sample of norm r multiplies second moments.
    log_probability : (K,) array
        log P(max_i ||z_i||^2 > r).
    """

    peak: float
    largest_norm: float
    log_failure: float
    norms: FloatArray
    log_growth: FloatArray
    log_probability: FloatArray

    @property
    def limit(self) -> float:
        """c of the event {gamma max_i ||z_i||^2 <= c}."""
        return self.peak * self.largest_norm

    @property
    def probability(self) -> float:
        """Of the event."""
        return -math.expm1(self.log_failure)

    @property
    def log_weights(self) -> FloatArray:
        """log(growth x probability) for every norm."""
        return self.log_growth + self.log_probability

    @property
    def log_weight(self) -> float:
        """The largest of them: log of what outlying datasets add, in units of the fluctuation."""
        return float(self.log_weights.max())

    @property
    def heaviest(self) -> tuple[float, float]:
        """The norm that adds most, and the log of its probability."""
        k = int(self.log_weights.argmax())
        return float(self.norms[k]), float(self.log_probability[k])

    @property
    def crossing(self) -> float:
        """The smallest norm whose growth exceeds its rarity; infinite if there is none."""
        over = np.flatnonzero(self.log_weights > 0.0)
        return float(self.norms[over[0]]) if over.size else math.inf

    @property
    def dominate(self) -> bool:
        """Whether the plain average is that of outlying datasets."""
        return self.log_weight > 0.0

    def __str__(self) -> str:
        lines = [
            f"average: over datasets with gamma max ||z_i||^2 <= {self.limit:.4g}, all but "
            f"{_power(self.log_failure)} of them, or a median;",
            "  in the plain expectation the others add about "
            f"{_power(self.log_weight)} times the fluctuation",
        ]
        if self.dominate:
            norm, log_probability = self.heaviest
            lines[-1] += ","
            lines.append(
                f"  most of it at max ||z_i||^2 near {norm:.3g}, of probability "
                f"{_power(log_probability)}"
            )
        return "\n".join(lines)


def outlier_datasets(
    problem: Problem, rates: FloatArray, rho: FloatArray, samples: float
) -> OutlierDatasets:
    """Growth and probability of datasets with one outlying sample.

    Parameters
    ----------
    rates : (L,) array
        gamma_t.
    rho : (L,) array
        The fluctuation factors rho_t of one schedule (``fluctuation_factors``).
    samples
        N.
    """
    top = float(problem.eigenvalues[0])
    grow = growth_of(problem, rates, rho, samples)
    start = _first_growth(grow, top)
    # Beyond 4 mu_1 L the growth, at most like r^(2 L), rises more slowly than rarity.
    end = max(8.0 * top * rates.size, 4.0 * start)
    norms = np.geomspace(max(start, top), end, NORMS)
    log_probability = log_largest_norm_tail(problem, samples, norms)
    return OutlierDatasets(
        peak=float(rates.max()),
        largest_norm=start,
        log_failure=float(log_probability[0]) if start > 0.0 else 0.0,
        norms=norms,
        log_growth=np.array([grow(r) for r in norms]),
        log_probability=log_probability,
    )


def growth_of(
    problem: Problem, rates: FloatArray, rho: FloatArray, samples: float
) -> Callable[[float], float]:
    r"""log of the factor by which a sample of ||z||^2 = r multiplies second moments, as a function.

    Such a sample lies along the first direction, where the exact recursion given the data is, with
    the other samples at their mean moments,

        C <- C [ (1 - gamma nu)^2 + gamma^2 rho (m4 - nu^2) ],
        nu = (r + (N - 1) mu_1)/N,    m4 = (r^2 + 3 (N - 1) mu_1^2)/N.

    Without the other samples that is (1 - x)^2 + (N - 1) rho x^2, x = gamma r/N. The factor is the
    largest product from some step to the last one, at least 1.
    """
    N, top = float(samples), float(problem.eigenvalues[0])
    stride = -(-rates.size // STEPS)
    g, strength = rates[::stride], (rates**2 * rho)[::stride]

    def log_growth(r: float) -> float:
        nu = (r + (N - 1.0) * top) / N
        fourth = (r * r + 3.0 * (N - 1.0) * top * top) / N
        with np.errstate(divide="ignore"):  # a step may remove the direction altogether
            steps = np.log((1.0 - g * nu) ** 2 + strength * (fourth - nu * nu))
        return float(stride * max(np.cumsum(steps[::-1]).max(), 0.0))

    return log_growth


def _first_growth(grow: Callable[[float], float], top: float) -> float:
    """The largest r up to which nothing grows; 0 where ordinary samples already do."""
    if grow(top) > 0.0:
        return 0.0
    low, high = top, 2.0 * top
    while grow(high) == 0.0:
        low, high = high, 2.0 * high
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if grow(middle) == 0.0 else (low, middle)
    return low


def _power(log: float) -> str:
    """exp(log) in scientific notation, also where it is no double."""
    exponent = math.floor(log / math.log(10.0))
    if -5 <= exponent <= 5:
        return f"{math.exp(log):.2g}"
    return f"1e{exponent:+d}"
