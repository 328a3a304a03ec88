"""Statistics of the runs: differences paired by seed, tuned rates, and noise ratios."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.evidence.study.cells import PILOT, usable_pilot
from batchlaw.evidence.study.groups import Group
from batchlaw.evidence.study.schedules import (
    CONSTANT,
    RATES,
    REFERENCE,
    REFERENCE_FACTOR,
    noise_influence,
    spectrum_of,
)
from batchlaw.jobs.store import FAILED, REFUSED, Store, Stored

LEVEL = 0.95
# A prediction fails if it is outside the interval and off by more than this.
MIN_PREDICTION_GAP = 0.05


@dataclass(frozen=True)
class Interval:
    """A mean with the ends of its interval; NaN where there are too few runs."""

    mean: float
    low: float
    high: float

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def side(self) -> int:
        """-1 if the interval is below zero, 1 if it is above, 0 if it contains zero."""
        return -1 if self.high < 0.0 else int(self.low > 0.0)


UNKNOWN = Interval(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Compared:
    """One schedule against constant, in one group.

    Attributes
    ----------
    peak, tuned_peak
        The rate that is best for constant, and for this schedule.
    at_edge
        Whether the tuned peak is at an end of the grid, so that a better one may lie outside.
    loss, tuned_loss
        Mean validation loss at each (see ``tuned_losses``); infinite where a run diverged.
    difference, tuned_difference
        To constant at its best rate, and to constant tuned in the same way; paired by seed.
    measured, predicted, exact
        Noise over constant's at the common peak: from runs, from influence, and exactly.
    diverged
        Runs of this schedule without a result, over all peaks.
    """

    schedule: str
    peak: float
    tuned_peak: float
    at_edge: bool
    loss: float
    tuned_loss: float
    difference: Interval
    tuned_difference: Interval
    measured: Interval
    predicted: float
    exact: float
    diverged: int

    @property
    def prediction_fails(self) -> bool:
        far = abs(self.measured.mean - self.predicted) > MIN_PREDICTION_GAP
        return far and not self.measured.contains(self.predicted)


# schedule -> peak -> seed -> row
Runs = dict[str, dict[float, dict[int, Stored]]]


def runs_of(group: Group, rows: Sequence[Stored]) -> Runs:
    """The rows of a group except failed runs: a bug says nothing about a schedule."""
    names = ("task", "optimizer", "rates", "steps", "mean_batch", "repetitions")
    runs: Runs = {}
    for row in rows:
        cell = row.cell
        in_group = all(cell.get(name) == getattr(group, name) for name in names)
        usable = in_group and row.status != FAILED
        if usable and cell["schedule"] != PILOT and cell["peak"] in group.peaks:
            runs.setdefault(cell["schedule"], {}).setdefault(cell["peak"], {})[cell["seed"]] = row
    return runs


def compare(group: Group, rows: Sequence[Stored], store: Store) -> list[Compared]:
    """Every schedule of the group against constant; empty until constant has runs."""
    runs = runs_of(group, rows)
    if CONSTANT not in runs:
        return []
    best = {name: best_peak(peaks) for name, peaks in runs.items()}
    common = best[CONSTANT]
    kappa = _kappa(group, common, store)
    return [
        _compared(name, runs, common, best[name], kappa) for name in group.schedules if name in runs
    ]


def _compared(
    name: str, runs: Runs, common: float, tuned: float, kappa: FloatArray | None
) -> Compared:
    constant = runs[CONSTANT][common]
    ours = runs[name].get(common, {})
    peaks = sorted(runs[name])
    return Compared(
        schedule=name,
        peak=common,
        tuned_peak=tuned,
        at_edge=len(peaks) > 1 and tuned in (peaks[0], peaks[-1]),
        loss=mean(losses(ours)),
        tuned_loss=mean(tuned_losses(runs[name])),
        difference=paired(losses(ours), losses(constant)),
        tuned_difference=paired(tuned_losses(runs[name]), tuned_losses(runs[CONSTANT])),
        measured=noise_ratio(ours, constant, runs.get(REFERENCE, {}).get(common, {})),
        predicted=_predicted(ours, constant, kappa),
        exact=_exact(ours, constant),
        diverged=sum(
            row.status == REFUSED for by_seed in runs[name].values() for row in by_seed.values()
        ),
    )


def ratios_by_rate(
    group: Group, rows: Sequence[Stored], store: Store, schedule: str
) -> list[tuple[float, Interval, float, float]]:
    """A schedule's noise ratio at every peak: the peak, measured, predicted and exact."""
    runs = runs_of(group, rows)
    ratios = []
    for peak in group.peaks:
        ours, theirs, reference = (
            runs.get(name, {}).get(peak, {}) for name in (schedule, CONSTANT, REFERENCE)
        )
        if ours and theirs:
            predicted = _predicted(ours, theirs, _kappa(group, peak, store))
            measured = noise_ratio(ours, theirs, reference)
            ratios.append((peak, measured, predicted, _exact(ours, theirs)))
    return ratios


def versus(group: Group, rows: Sequence[Stored], ours: str, theirs: str) -> Interval:
    """One schedule less another, each tuned, paired by seed."""
    runs = runs_of(group, rows)
    if ours not in runs or theirs not in runs:
        return UNKNOWN
    return paired(tuned_losses(runs[ours]), tuned_losses(runs[theirs]))


def losses(rows: Mapping[int, Stored], key: str = "validation") -> dict[int, float]:
    """Losses by seed; infinite where the run diverged."""
    return {seed: float(row.result.get(key, math.inf)) for seed, row in rows.items()}


def mean(values: Mapping[int, float]) -> float:
    return float(np.mean(list(values.values()))) if values else math.nan


def best_peak(peaks: Mapping[float, Mapping[int, Stored]]) -> float:
    """The peak with the lowest mean validation loss; the smallest if all diverge."""
    return min(sorted(peaks), key=lambda peak: mean(losses(peaks[peak])))


def tuned_losses(peaks: Mapping[float, Mapping[int, Stored]]) -> dict[int, float]:
    """Losses by seed, each at the best rate of the other seeds, so that tuning adds no bias.

    A rate at which a run diverged is chosen only where there is no other.
    """
    table = {peak: losses(rows) for peak, rows in peaks.items()}
    sound = {peak: of for peak, of in table.items() if math.isfinite(mean(of))} or table

    def best_for_others(seed: int) -> float:
        others = {peak: mean({s: of[s] for s in of if s != seed}) for peak, of in sound.items()}
        return min(sorted(others), key=others.__getitem__)

    seeds = sorted(set.intersection(*(set(of) for of in sound.values())))
    if len(seeds) < 2:
        best = best_peak(peaks)
        return {seed: table[best][seed] for seed in seeds}
    return {seed: sound[best_for_others(seed)][seed] for seed in seeds}


def paired(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Interval:
    """Mean difference over common seeds, with Student's interval."""
    seeds = sorted(set(ours) & set(theirs))
    differences = np.array([ours[seed] for seed in seeds]) - np.array(
        [theirs[seed] for seed in seeds]
    )
    if len(seeds) < 2 or not np.isfinite(differences).all():
        return UNKNOWN
    error = float(differences.std(ddof=1)) / math.sqrt(len(seeds))
    return _interval(float(differences.mean()), error, len(seeds))


def noise_ratio(
    ours: Mapping[int, Stored], theirs: Mapping[int, Stored], reference: Mapping[int, Stored]
) -> Interval:
    """Noise in our final loss over constant's, with a jackknife interval over seeds.

    Regressions measure their noise. For a model it is the loss above a floor without noise,
    extrapolated from constant at one and four times the batch, since noise falls as 1/B.
    """
    seeds = sorted(set(ours) & set(theirs) & (set(reference) if reference else set(ours)))
    if len(seeds) < 3:
        return UNKNOWN
    # The theory is about the loss under the law that the samples come from.
    key = "training" if reference else "noise"
    our_loss, constant_loss = (
        np.array([losses(rows, key)[seed] for seed in seeds]) for rows in (ours, theirs)
    )
    floor = np.zeros(len(seeds))
    if reference:
        reference_loss = np.array([losses(reference, key)[seed] for seed in seeds])
        floor = (REFERENCE_FACTOR * reference_loss - constant_loss) / (REFERENCE_FACTOR - 1.0)
    our_noise, constant_noise = our_loss - floor, constant_loss - floor
    if not (np.isfinite(our_noise).all() and np.isfinite(constant_noise).all()):
        return UNKNOWN
    n = len(seeds)
    without = (our_noise.sum() - our_noise) / (constant_noise.sum() - constant_noise)
    error = math.sqrt((n - 1) / n * float(((without - without.mean()) ** 2).sum()))
    return _interval(float(our_noise.sum() / constant_noise.sum()), error, n)


def _interval(mean: float, error: float, count: int) -> Interval:
    from scipy.stats import t

    half_width = float(t.ppf(0.5 + LEVEL / 2.0, count - 1)) * error
    return Interval(mean, mean - half_width, mean + half_width)


def _kappa(group: Group, peak: float, store: Store) -> FloatArray | None:
    pilot = usable_pilot(group, peak, store)
    if pilot is None:
        return None
    rates = RATES[group.rates](group.steps, peak)
    return noise_influence(spectrum_of(pilot), group.optimizer, rates)


def _predicted(
    ours: Mapping[int, Stored], theirs: Mapping[int, Stored], kappa: FloatArray | None
) -> float:
    """sum kappa/B over constant's."""
    if kappa is None or not ours:
        return math.nan
    sums = [float((kappa / np.array(_any(rows).cell["batches"])).sum()) for rows in (ours, theirs)]
    return sums[0] / sums[1]


def _exact(ours: Mapping[int, Stored], theirs: Mapping[int, Stored]) -> float:
    noise = [rows[0].result.get("exact") if 0 in rows else None for rows in (ours, theirs)]
    return math.nan if None in noise else float(noise[0] / noise[1])  # type: ignore[operator]


def _any(rows: Mapping[int, Stored]) -> Any:
    return next(iter(rows.values()))
