"""Quantiles of drawn values, with intervals that hold for any distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.risk.result import Risk


@dataclass(frozen=True, eq=False)
class Quantiles:
    """Quantiles of a term of the final risk.

    Attributes
    ----------
    over
        What varies: "batches" (given a dataset), "datasets" (and batches), or "sketches" (and
        datasets and batches).
    term
        "excess", "total" or "fluctuation".
    schedules
        Names of the S schedules.
    levels : (K,) array
        Probabilities.
    values, low, high : (S, K) arrays
        Quantiles and the ends of their intervals; infinite where there are too few repetitions.
    mean, standard_error : (S,) arrays
        Of the same runs. The mean may miss what rare datasets add.
    confidence
        Probability that an interval covers its quantile, at least.
    repetitions
        Runs that are counted.
    share
        Runs that are counted over all runs; below 1 where ``max_norm`` left some out.
    exact
        The exact risk whose mean this is, part by part, where there is one: given a dataset the
        average over batches from second moments, and for one pass the average over data.
    """

    over: str
    term: str
    schedules: tuple[str, ...]
    levels: FloatArray
    values: FloatArray
    low: FloatArray
    high: FloatArray
    mean: FloatArray
    standard_error: FloatArray
    confidence: float
    repetitions: int
    share: float = 1.0
    exact: Risk | None = None

    @property
    def exact_mean(self) -> FloatArray | None:
        """The exact mean of the term, one per schedule, where there is one."""
        if self.exact is None:
            return None
        mean = np.asarray(getattr(self.exact, self.term), dtype=np.float64)
        return np.broadcast_to(mean, (len(self.schedules),))

    def rows(self) -> list[dict[str, Any]]:
        """One row per schedule: mean, its standard error, the exact mean, then every quantile."""
        exact = self.exact_mean
        return [
            {
                "schedule": name,
                "mean": float(self.mean[s]),
                "mean_se": float(self.standard_error[s]),
                "exact_mean": None if exact is None else float(exact[s]),
                "quantiles": [
                    {
                        "level": float(level),
                        "value": float(self.values[s, k]),
                        "low": float(self.low[s, k]),
                        "high": float(self.high[s, k]),
                    }
                    for k, level in enumerate(self.levels)
                ],
            }
            for s, name in enumerate(self.schedules)
        ]


def interval_ranks(repetitions: int, level: float, confidence: float) -> tuple[int, int]:
    """Ranks (from 1) of the order statistics that enclose a quantile with this confidence.

    X_(j) is above the quantile if fewer than j of the R values are at most the quantile, a
    binomial number. Rank 0 or R + 1 means that R is too small for that end.
    """
    from scipy.stats import binom

    outside = 0.5 * (1.0 - confidence)
    number = binom(repetitions, level)
    return int(number.ppf(outside)), int(number.ppf(1.0 - outside)) + 1


def quantiles_of(
    values: FloatArray,
    levels: FloatArray,
    confidence: float,
    **names: Any,
) -> Quantiles:
    """Quantiles of (R, S) values, one column per schedule; ``names`` are the other fields."""
    R = values.shape[0]
    # Ranks 0 and R + 1 are infinitely far out.
    ends = np.full((1, values.shape[1]), np.inf)
    ordered = np.concatenate([-ends, np.sort(values, axis=0), ends]).T
    ranks = np.array([interval_ranks(R, level, confidence) for level in levels])
    # The smallest value that a share of at least ``level`` does not exceed.
    middle = np.maximum(np.ceil(R * levels - 1e-9), 1.0).astype(int)
    with np.errstate(invalid="ignore"):  # infinite runs
        mean, spread = values.mean(axis=0), values.std(axis=0, ddof=1)
    return Quantiles(
        levels=levels,
        values=ordered[:, middle],
        low=ordered[:, ranks[:, 0]],
        high=ordered[:, ranks[:, 1]],
        mean=mean,
        standard_error=spread / math.sqrt(R),
        confidence=confidence,
        repetitions=R,
        **names,
    )
