"""What the runs say: differences paired by seed, rates tuned for each schedule, noise ratios."""

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
    FACTOR,
    RATES,
    REFERENCE,
    noise_influence,
    spectrum_of,
)
from batchlaw.jobs.store import FAILED, REFUSED, Store, Stored

LEVEL = 0.95
# A prediction fails where it is outside the interval, and by more than this.
MATTERS = 0.05


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
        """-1 where all of it is below zero, 1 where all is above, 0 where it can't tell."""
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
        far = abs(self.measured.mean - self.predicted) > MATTERS
        return far and not self.measured.contains(self.predicted)


# schedule -> peak -> seed -> row
Runs = dict[str, dict[float, dict[int, Stored]]]


def runs_of(group: Group, rows: Sequence[Stored]) -> Runs:
    """The rows of a group, but for runs that failed: a bug says nothing about a schedule."""
    names = ("task", "optimizer", "rates", "steps", "mean_batch", "repetitions")
    found: Runs = {}
    for row in rows:
        cell = row.cell
        mine = all(cell.get(name) == getattr(group, name) for name in names)
        usable = mine and row.status != FAILED
        if usable and cell["schedule"] != PILOT and cell["peak"] in group.peaks:
            found.setdefault(cell["schedule"], {}).setdefault(cell["peak"], {})[cell["seed"]] = row
    return found


def compare(group: Group, rows: Sequence[Stored], store: Store) -> list[Compared]:
    """Every schedule of the group against constant; nothing before constant has runs."""
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
    here = runs[name].get(common, {})
    peaks = sorted(runs[name])
    return Compared(
        schedule=name,
        peak=common,
        tuned_peak=tuned,
        at_edge=len(peaks) > 1 and tuned in (peaks[0], peaks[-1]),
        loss=mean(losses(here)),
        tuned_loss=mean(tuned_losses(runs[name])),
        difference=paired(losses(here), losses(constant)),
        tuned_difference=paired(tuned_losses(runs[name]), tuned_losses(runs[CONSTANT])),
        measured=noise_ratio(here, constant, runs.get(REFERENCE, {}).get(common, {})),
        predicted=_predicted(here, constant, kappa),
        exact=_exact(here, constant),
        diverged=sum(row.status == REFUSED for at in runs[name].values() for row in at.values()),
    )


def ratios_by_rate(
    group: Group, rows: Sequence[Stored], store: Store, schedule: str
) -> list[tuple[float, Interval, float, float]]:
    """A schedule's noise ratio at every peak: the peak, measured, predicted and exact."""
    runs = runs_of(group, rows)
    out = []
    for peak in group.peaks:
        ours, theirs, reference = (
            runs.get(name, {}).get(peak, {}) for name in (schedule, CONSTANT, REFERENCE)
        )
        if ours and theirs:
            predicted = _predicted(ours, theirs, _kappa(group, peak, store))
            measured = noise_ratio(ours, theirs, reference)
            out.append((peak, measured, predicted, _exact(ours, theirs)))
    return out


def versus(group: Group, rows: Sequence[Stored], ours: str, theirs: str) -> Interval:
    """One schedule less another, each tuned, paired by seed."""
    runs = runs_of(group, rows)
    if ours not in runs or theirs not in runs:
        return UNKNOWN
    return paired(tuned_losses(runs[ours]), tuned_losses(runs[theirs]))


def losses(rows: Mapping[int, Stored], key: str = "validation") -> dict[int, float]:
    """By seed; infinite where the run diverged."""
    return {seed: float(row.result.get(key, math.inf)) for seed, row in rows.items()}


def mean(values: Mapping[int, float]) -> float:
    return float(np.mean(list(values.values()))) if values else math.nan


def best_peak(peaks: Mapping[float, Mapping[int, Stored]]) -> float:
    """By mean validation loss; the smallest where all diverge."""
    return min(sorted(peaks), key=lambda peak: mean(losses(peaks[peak])))


def tuned_losses(peaks: Mapping[float, Mapping[int, Stored]]) -> dict[int, float]:
    """By seed, at the rate that the other seeds find best: choosing does not flatter the loss.

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
    apart = np.array([ours[seed] for seed in seeds]) - np.array([theirs[seed] for seed in seeds])
    if len(seeds) < 2 or not np.isfinite(apart).all():
        return UNKNOWN
    error = float(apart.std(ddof=1)) / math.sqrt(len(seeds))
    return _interval(float(apart.mean()), error, len(seeds))


def noise_ratio(
    ours: Mapping[int, Stored], theirs: Mapping[int, Stored], reference: Mapping[int, Stored]
) -> Interval:
    """Noise in our final loss over constant's, with a jackknife interval over seeds.

    Regressions measure their noise. For a model it is the loss above a floor without noise,
    extrapolated from constant at once and four times the batch: noise goes as 1/B.
    """
    seeds = sorted(set(ours) & set(theirs) & (set(reference) if reference else set(ours)))
    if len(seeds) < 3:
        return UNKNOWN
    # Theory speaks of the loss over the law that samples come from.
    key = "training" if reference else "noise"
    a, b = (np.array([losses(rows, key)[seed] for seed in seeds]) for rows in (ours, theirs))
    floor = np.zeros(len(seeds))
    if reference:
        low = np.array([losses(reference, key)[seed] for seed in seeds])
        floor = (FACTOR * low - b) / (FACTOR - 1.0)
    above, whole = a - floor, b - floor
    if not (np.isfinite(above).all() and np.isfinite(whole).all()):
        return UNKNOWN
    n = len(seeds)
    without = (above.sum() - above) / (whole.sum() - whole)
    error = math.sqrt((n - 1) / n * float(((without - without.mean()) ** 2).sum()))
    return _interval(float(above.sum() / whole.sum()), error, n)


def _interval(mean: float, error: float, count: int) -> Interval:
    from scipy.stats import t

    reach = float(t.ppf(0.5 + LEVEL / 2.0, count - 1)) * error
    return Interval(mean, mean - reach, mean + reach)


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
    found = [rows[0].result.get("exact") if 0 in rows else None for rows in (ours, theirs)]
    return math.nan if None in found else float(found[0] / found[1])  # type: ignore[operator]


def _any(rows: Mapping[int, Stored]) -> Any:
    return next(iter(rows.values()))
