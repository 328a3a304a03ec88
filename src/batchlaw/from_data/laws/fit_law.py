"""bl.fit_law: a law of whole loss curves from a few training runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from batchlaw._base.errors import InputError
from batchlaw._base.machine import cores
from batchlaw.from_data.laws.bands import Misfit, covariance
from batchlaw.from_data.laws.curves import Scale, groups, schedule_key
from batchlaw.from_data.laws.member import members
from batchlaw.from_data.laws.selection import best, cross_validated
from batchlaw.from_data.laws.training_law import Seen, TrainingLaw
from batchlaw.from_data.run import Run
from batchlaw.schedule.optimizers import optimizer_of, options_of
from batchlaw.schedule.update_rule import UpdateRule

FEWEST = 2


def fit_law(runs: Sequence[Run], *, rule: UpdateRule | None = None) -> TrainingLaw:
    """Fit a law of the loss to training runs, and choose its form by schedules left out.

    Members of the family (docs/training_laws.md) are fitted to all schedules but some, and predict
    those; the one with the least error is fitted to all. Losses within the first tenth of the
    longest run are not looked at. Runs with the same schedule count as seeds.

    Parameters
    ----------
    runs
        Training runs of one model and optimizer: at least two schedules, better three. Only runs
        whose rate falls say what a decay gains, and only several batch sizes say what a batch does.
    rule
        The optimizer, where the runs do not have it.
    """
    runs = _checked(runs)
    if len(runs) < FEWEST:
        raise InputError(
            "runs", f"must be at least {FEWEST}, with different schedules", f"{len(runs)}"
        )
    schedules = len({schedule_key(run) for run in runs})
    if schedules < FEWEST:
        raise InputError("runs", f"must have at least {FEWEST} different schedules", f"{schedules}")
    own = _rule(runs, rule)
    scale = Scale.of(runs)
    found = groups(runs, scale)
    family = members(own, scale, _several_batches(runs))
    # Searches spend their time in compiled loops, which leave other threads free.
    with ThreadPoolExecutor(cores()) as pool:
        candidates = list(pool.map(lambda member: cross_validated(member, found), family))
    chosen = best(candidates)
    return TrainingLaw(
        chosen.fit,
        covariance(chosen.fit, found),
        Misfit.of(chosen, found, runs),
        _seen(runs, schedules),
        {c.fit.member.name: c.score for c in candidates},
        tuple(_unidentified(runs)),
    )


def _checked(runs: Sequence[Run]) -> list[Run]:
    """The runs, each with something that moves and losses that a floor of at least 0 can have."""
    if isinstance(runs, Run) or not isinstance(runs, Iterable):
        raise InputError("runs", "must be a list of bl.Run", type(runs).__name__)
    given = list(runs)
    for i, run in enumerate(given):
        if not isinstance(run, Run):
            raise InputError("runs", "must be bl.Run", f"{type(run).__name__} at position {i + 1}")
        if not run.rates.any():
            need = "must each have a rate above 0"
            raise InputError("runs", need, f"only zeros in run {i + 1}")
        if run.losses.min() < 0.0:
            need = "must have losses of at least 0"
            raise InputError("runs", need, f"{run.losses.min():g} in run {i + 1}")
    return given


def _rule(runs: Sequence[Run], rule: UpdateRule | None) -> UpdateRule:
    """The optimizer of the runs; one for all."""
    if rule is not None and not isinstance(rule, UpdateRule):
        raise InputError("rule", "must be an update rule, such as bl.sgd()", repr(rule)[:60])
    rules = {repr((r.name, options_of(r))): r for r in (run.rule for run in runs) if r is not None}
    if len(rules) > 1:
        names = ", ".join(sorted({optimizer_of(r) for r in rules.values()}))
        raise InputError("runs", "must have one optimizer with the same options", names)
    if rule is None and not rules:
        raise InputError(
            "rule", "must be given where the runs do not have one", hint="bl.adam(...)"
        )
    return rule if rule is not None else next(iter(rules.values()))


def _several_batches(runs: Sequence[Run]) -> bool:
    low = min(float(run.batches.min()) for run in runs)
    return max(float(run.batches.max()) for run in runs) > 1.2 * low


def _seen(runs: Sequence[Run], schedules: int) -> Seen:
    return Seen(
        len(runs),
        schedules,
        max(int(run.steps[-1]) for run in runs),
        min(float(run.batches.min()) for run in runs),
        max(float(run.batches.max()) for run in runs),
        max(float(run.batches.max() / run.batches.min()) for run in runs),
        min(float(run.rates.max()) for run in runs),
        max(float(run.rates.max()) for run in runs),
    )


def _unidentified(runs: Sequence[Run]) -> list[str]:
    """What these runs cannot say, with the reason."""
    notes = []
    if not _several_batches(runs):
        notes.append("what a batch does: all runs have one batch size")
    elif all(np.ptp(run.batches) == 0.0 for run in runs):
        notes.append(
            "how soon a change of the batch acts, 500 updates are assumed: no run changes its batch"
        )
    shares = [float(run.rates[run.steps[-1] - 1] / run.rates.max()) for run in runs]
    if min(shares) > 0.5:
        notes.append("what a decay gains, and the memory of noise: no run's rate falls below half")
    elif not any(_sharp(run) for run in runs):
        notes.append("the memory of noise, in part: every rate that falls does so smoothly")
    peaks = [float(run.rates.max()) for run in runs]
    if max(peaks) < 1.2 * min(peaks):
        notes.append("how the peak rate acts: all runs have one")
    return notes


def _sharp(run: Run) -> bool:
    """Whether the rate falls by half within 5 % of the run, before its end."""
    width = max(run.updates // 20, 1)
    after = run.rates[width:]
    falls = (after < 0.5 * run.rates[:-width]) & (after > 0.0)
    return bool(falls[: -width or None].any())
