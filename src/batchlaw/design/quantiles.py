"""Quantiles of drawn values, with intervals that hold for any distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw._base.uncertain import with_error
from batchlaw.risk.result import Risk

# Digits of a quantile and of the ends of its interval.
DIGITS = 4


@dataclass(frozen=True, eq=False, repr=False)
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
        Quantiles and the ends of their intervals. Where there are too few repetitions for an end,
        the lower is the least possible value of the term, and the upper is infinite.
    mean, standard_error : (S,) arrays
        Of the same runs. The mean may miss what rare datasets add.
    confidence
        Probability that an interval covers its quantile, at least.
    repetitions
        Runs that are counted.
    seed
        Of their data and batches.
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
    seed: int
    share: float = 1.0
    exact: Risk | None = None

    @property
    def exact_mean(self) -> FloatArray | None:
        """The exact mean of the term, one per schedule, where there is one."""
        if self.exact is None:
            return None
        mean = np.asarray(getattr(self.exact, self.term), dtype=np.float64)
        return np.broadcast_to(mean, (len(self.schedules),))

    def __repr__(self) -> str:
        exact = self.exact_mean
        schedules = [
            f"{name}: mean {with_error(float(self.mean[s]), float(self.standard_error[s]))}"
            + ("" if exact is None else f" (exact {exact[s]:.6g})")
            + "".join(f", {level:g}: {self.cell(s, k)}" for k, level in enumerate(self.levels))
            for s, name in enumerate(self.schedules)
        ]
        return f"Quantiles({self.heading()}; {'; '.join(schedules)})"

    def heading(self) -> str:
        """What was drawn, and how often."""
        return (
            f"quantiles of the {self.term} over {self.over}, {self.repetitions} runs, "
            f"seed {self.seed}, intervals of {100 * self.confidence:.3g} %"
        )

    def cell(self, schedule: int, level: int) -> str:
        """A quantile with its interval, by row of the schedule and place of the level."""
        ends = (self.low, self.values, self.high)
        low, value, high = (_shown(float(array[schedule, level])) for array in ends)
        if np.isinf(self.high[schedule, level]):
            return f"{value} (above {low})"
        return f"{value} ({low}..{high})"

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


def _shown(value: float) -> str:
    """To ``DIGITS`` digits, zeros at the end included."""
    return f"{value:#.{DIGITS}g}".rstrip(".") if value else "0"


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
    least: float = -math.inf,
    **names: Any,
) -> Quantiles:
    """Quantiles of (R, S) values, one column per schedule, none of them below ``least``.

    ``names`` are the other fields.
    """
    R, S = values.shape
    # Ranks 0 and R + 1 are as far out as a value can be.
    low, high = np.full((1, S), least), np.full((1, S), np.inf)
    ordered = np.concatenate([low, np.sort(values, axis=0), high]).T
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
