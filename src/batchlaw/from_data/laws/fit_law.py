"""bl.fit_law: a law of whole loss curves from a few training runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from batchlaw._base.errors import InputError
from batchlaw._base.machine import cores
from batchlaw.from_data.laws.bands import Misfit, covariance
from batchlaw.from_data.laws.curves import Group, Scale, groups
from batchlaw.from_data.laws.mechanistic import MechanisticLaw
from batchlaw.from_data.laws.member import members
from batchlaw.from_data.laws.published import PUBLISHED, PublishedLaw
from batchlaw.from_data.laws.selection import best, cross_validated, published_scores, schedules
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
    given, own, scale, found = _prepared(runs, rule)
    family = members(own, scale, _several_batches(given))
    # Searches spend their time in compiled loops, which leave other threads free.
    with ThreadPoolExecutor(cores()) as pool:
        candidates = list(pool.map(lambda member: cross_validated(member, found), family))
    chosen = best(candidates)
    return TrainingLaw(
        chosen.fit,
        covariance(chosen.fit, found),
        Misfit.of(chosen, found, given),
        _seen(given, len(set(schedules(found)))),
        {c.fit.member.name: c.score for c in candidates},
        tuple(_unidentified(given)),
    )


def baseline_scores(
    runs: Sequence[Run], *, rule: UpdateRule | None = None
) -> dict[str, float | str]:
    """Errors of published laws, and of the project's own theory, on schedules left out.

    In the folds of `fit_law`, from the same losses; about 5 s for each schedule.

    Parameters
    ----------
    runs, rule
        As for `fit_law`.
    """
    _, own, _, found = _prepared(runs, rule)
    laws: list[PublishedLaw] = [*PUBLISHED]
    refused: dict[str, float | str] = {}
    try:
        laws.append(MechanisticLaw(own))
    except InputError as error:
        refused[MechanisticLaw.name] = str(error)
    return published_scores(laws, found) | refused


def _prepared(
    runs: Sequence[Run], rule: UpdateRule | None
) -> tuple[list[Run], UpdateRule, Scale, list[Group]]:
    """Runs, optimizer, units and schedules; or why no law can be fitted to them."""
    given = _checked(runs)
    if len(given) < FEWEST:
        raise InputError(
            "runs", f"must be at least {FEWEST}, with different schedules", f"{len(given)}"
        )
    own, scale = _rule(given, rule), Scale.of(given)
    found = groups(given, scale)
    different = len(set(schedules(found)))
    if different < FEWEST:
        raise InputError("runs", f"must have at least {FEWEST} different schedules", f"{different}")
    return given, own, scale, found


def _checked(runs: Sequence[Run]) -> list[Run]:
    """The runs, each with something that moves and losses above 0."""
    if isinstance(runs, Run) or not isinstance(runs, Iterable):
        raise InputError("runs", "must be a list of bl.Run", type(runs).__name__)
    given = list(runs)
    for i, run in enumerate(given):
        if not isinstance(run, Run):
            raise InputError("runs", "must be bl.Run", f"{type(run).__name__} at position {i + 1}")
        if not run.rates.any():
            need = "must each have a rate above 0"
            raise InputError("runs", need, f"only zeros in run {i + 1}")
        if run.losses.min() <= 0.0:
            need = "must have losses above 0"
            raise InputError("runs", need, f"{run.losses.min():g} in run {i + 1}")
    return given


def _rule(runs: Sequence[Run], rule: UpdateRule | None) -> UpdateRule:
    """The optimizer of the runs; one for all."""
    if rule is not None and not isinstance(rule, UpdateRule):
        raise InputError("rule", "must be an update rule, such as bl.sgd()", repr(rule)[:60])
    known = [*(run.rule for run in runs), rule]
    rules = {repr((r.name, options_of(r))): r for r in known if r is not None}
    if len(rules) > 1:
        names = ", ".join(sorted({optimizer_of(r) for r in rules.values()}))
        raise InputError("runs", "must have one optimizer with the same options", names)
    if not rules:
        raise InputError(
            "rule", "must be given where the runs do not have one", hint="bl.adam(...)"
        )
    return next(iter(rules.values()))


def _several_batches(runs: Sequence[Run]) -> bool:
    low, high = np.transpose([_batches_of(run) for run in runs])
    return bool(high.max() > 1.2 * low.min())


def _batches_of(run: Run) -> tuple[float, float]:
    """Smallest and largest batch of a run, but for 2 % of the updates: the last may be partial."""
    low, high = np.quantile(run.batches, [0.02, 0.98], method="nearest")
    return float(low), float(high)


def _seen(runs: Sequence[Run], different: int) -> Seen:
    low, high = np.transpose([_batches_of(run) for run in runs])
    return Seen(
        len(runs),
        different,
        max(int(run.steps[-1]) for run in runs),
        float(low.min()),
        float(high.max()),
        float((high / low).max()),
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
