"""Plans by a law fitted to the user's own training runs, judged in the loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import InputError, arg
from batchlaw.batches.rules import RULES, ChangesRates, FollowsNoise, rules_of
from batchlaw.design.law_optimum import LawSearch
from batchlaw.design.law_settings import Setting, law_settings, several_batches
from batchlaw.design.rule_scores import CONSTANT
from batchlaw.from_data.laws.training_law import TrainingLaw
from batchlaw.plans.advice import Advice, PlanTask, constant_words, equal_samples
from batchlaw.plans.evidence import UNTRAINED
from batchlaw.plans.verdict import SETTING, Verdict
from batchlaw.risk.procedures import OnePass
from batchlaw.schedule.optimizers import optimizer_of, options_of
from batchlaw.schedule.update_rule import UpdateRule

# Of the bands of losses, of their differences, and of the exponent of the batch.
LEVEL = 0.9

# What training showed of such plans; the table is in the page.
TRAINED = (
    "trained in eight settings of one small transformer, plans of such laws changed the loss by "
    "what the laws promised, within 0.013 (docs/training_laws.md)"
)

Range = tuple[float, float, float]


def check_law(law: object) -> TrainingLaw:
    """A fitted law; anything else is refused."""
    if not isinstance(law, TrainingLaw):
        needed = "must be a law from bl.fit_law or TrainingLaw.from_json"
        raise InputError("law", needed, type(law).__name__)
    return law


def same_rule(law: TrainingLaw, rule: UpdateRule | None) -> UpdateRule:
    """The optimizer of the law's runs; another one is refused."""
    if rule is None or _words(rule) == _words(law.rule):
        return law.rule
    needed = f"must be that of the runs of {arg('law')}: {_described(law.rule)}"
    raise InputError("rule", needed, _described(rule))


def law_plan(task: PlanTask) -> Advice:
    """The batches of least predicted loss, where that is below a constant batch's with its band."""
    law = check_law(task.law)
    _refuse_others(task)
    settings = _settings(law, task)
    chosen = _chosen(settings, task.bold)
    gamma = task.gamma if chosen is None else chosen.rates
    found = _Found.of(law, gamma, task)
    departs = found.departs and (found.obstacle == "" or (task.bold and several_batches(law)))
    batches = found.batches if departs else found.constant
    differences, beyond = _rules(law, gamma, batches) if task.score_rules else ({}, ())
    changing = rules_of(ChangesRates)
    advice = found.advice(task, departs)
    if settings:
        advice = f"{_choice_words(task, chosen)}; {advice}"
    verdict = Verdict(
        optimizer_of(law.rule),
        advice,
        found.worth(departs),
        _evidence(law),
        steps={n: size for n, (size, _) in differences.items() if n in changing},
        differences={name: row for name, (_, row) in differences.items()},
        settings=tuple(_row(setting) for setting in settings),
    )
    prediction = found.prediction(departs) | _exponent(law)
    return Advice(
        batches, found.constant, prediction, _assumptions(law, task, found, departs, beyond),
        verdict, gamma,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Found:
    """The best schedule found, a constant batch, and what the law says of both.

    ``obstacle`` is why the batch should stay constant, or empty.
    """

    law: TrainingLaw
    gamma: FloatArray
    batches: IntArray
    constant: IntArray
    change: Range
    obstacle: str

    @classmethod
    def of(cls, law: TrainingLaw, gamma: FloatArray, task: PlanTask) -> _Found:
        search = LawSearch(law, gamma, task.samples, task.limits, beyond=task.bold)
        constant = search.constant
        if not several_batches(law):
            size = f"{law.seen.largest_batch:g}"
            obstacle = (
                f"the runs have one batch size, {size}, and cannot say what a batch does: add two "
                "or three runs with other constant batches, such as half and twice of it"
            )
            return cls(law, gamma, constant, constant, (0.0, 0.0, 0.0), obstacle)
        batches = search.best()
        even = equal_samples(constant, batches)
        change, low, high = law.difference((gamma, batches), (gamma, even), LEVEL)
        _, least, most = law.batch_exponent(LEVEL)
        mean, seen = task.samples / gamma.size, law.seen
        if search.limits is None:
            obstacle = (
                f"with a mean of {mean:.3g} no schedule stays within the batches of the runs, "
                f"{seen.smallest_batch:g} to {seen.largest_batch:g}"
            )
        elif least <= 0.0:
            obstacle = (
                "no gain, because the runs do not show that noise falls with the batch (exponent "
                f"{least:.2f} to {most:.2f})"
            )
        elif np.array_equal(batches, constant):
            obstacle = "no gain, because the law predicts no schedule to be better"
        elif high >= 0.0:
            obstacle = f"no gain, because the {LEVEL:.0%} band of the difference holds zero"
        else:
            obstacle = ""
        return cls(law, gamma, batches, constant, (low, change, high), obstacle)

    @property
    def departs(self) -> bool:
        return not np.array_equal(self.batches, self.constant)

    def advice(self, task: PlanTask, departs: bool) -> str:
        against = constant_words(self.constant, task.samples)
        if self.obstacle:
            bold = "; the bold schedule follows" if departs else ""
            return f"keep the batch constant: {self.obstacle}, {against}{bold}"
        name = optimizer_of(self.law.rule)
        return (
            f"use this schedule for {name}: the law predicts a lower final loss beyond the "
            f"{LEVEL:.0%} band of the difference, {against}"
        )

    def losses(self, departs: bool) -> tuple[Range, float]:
        """Low end, prediction and high end of the plan's final loss; the constant batch's."""
        even = equal_samples(self.constant, self.batches)
        end = [self.gamma.size]
        sizes = self.batches if departs else even
        loss, low, high = self.law.predict(self.gamma, sizes, steps=end, level=LEVEL).final
        return (low, loss, high), float(self.law.curve(self.gamma, even, end)[0])

    def worth(self, departs: bool) -> str:
        (low, loss, high), constant = self.losses(departs)
        band = f"({low:.4f} to {high:.4f}, {LEVEL:.0%})"
        if departs:
            gain = _signed(self.change)
            return f"predicted final loss {loss:.4f} {band} instead of {constant:.4f}: {gain}"
        best = ""
        if self.departs:
            best = f"; the best schedule found would change it by {_signed(self.change)}"
        return f"predicted final loss {constant:.4f} {band} with the constant batch{best}"

    def prediction(self, departs: bool) -> dict[str, float]:
        (low, loss, high), constant = self.losses(departs)
        change = self.change if departs else (0.0, 0.0, 0.0)
        numbers = {
            "final_loss": loss,
            "final_loss_low": low,
            "final_loss_high": high,
            "final_loss_of_constant": constant,
            "loss_against_constant": change[1],
            "loss_against_constant_low": change[0],
            "loss_against_constant_high": change[2],
            "constant_batch": float(self.constant.mean()),
        }
        if self.departs and not departs:
            numbers["best_found_against_constant"] = self.change[1]
            numbers["best_found_against_constant_low"] = self.change[0]
            numbers["best_found_against_constant_high"] = self.change[2]
        return numbers


def _refuse_others(task: PlanTask) -> None:
    """What a law leaves no room for."""
    others = (
        ("spectrum", task.spectrum, "which replaces it: give one or the other"),
        ("noise", task.noise, "which has the noise along the run"),
        ("loss", task.loss, "which predicts it"),
    )
    for name, given, reason in others:
        if given is not None:
            raise InputError(name, f"has no use with {arg('law')}, {reason}")
    if task.run.reuses:
        raise InputError("procedure", f"must be {OnePass.name} with a law", task.run.name)


def _settings(law: TrainingLaw, task: PlanTask) -> list[Setting]:
    if not (task.choose_steps or task.choose_peak):
        return []
    return law_settings(
        law, task.gamma, task.samples, task.limits, steps=task.choose_steps, peak=task.choose_peak
    )


def _chosen(settings: list[Setting], bold: bool) -> Setting | None:
    """The best setting where it is better than the given one beyond the band; None to keep that."""
    best = min(settings, key=lambda s: s.loss, default=None)
    if best is None or not (best.change[2] < 0.0 or (bold and best.change[1] < 0.0)):
        return None
    return best


def _choice_words(task: PlanTask, chosen: Setting | None) -> str:
    names = [
        name
        for name, free in (("updates", task.choose_steps), ("peak rate", task.choose_peak))
        if free
    ]
    steps, peak = task.gamma.size, float(task.gamma.max())
    if chosen is None:
        return (
            f"keep the {' and '.join(names)}: none that was tried is better beyond the {LEVEL:.0%} "
            "band"
        )
    parts = [f"{chosen.steps} updates in place of {steps}"] if task.choose_steps else []
    parts += (
        [f"a peak rate of {chosen.peak:.3g} in place of {peak:.3g}"] if task.choose_peak else []
    )
    change = _signed(chosen.change)
    return f"use {' and '.join(parts)}: with a constant batch the final loss changes by {change}"


def _row(setting: Setting) -> dict[str, float]:
    low, change, high = setting.change
    values = setting.steps, setting.peak, setting.batch, setting.loss, low, change, high
    return dict(zip(SETTING, values, strict=True))


def _rules(
    law: TrainingLaw, gamma: FloatArray, batches: IntArray
) -> tuple[dict[str, tuple[int, Range]], tuple[str, ...]]:
    """Updates and final loss of every rule, less a constant batch's; and which leave the runs.

    Rules that follow the noise scale need more than a law of the loss.
    """
    samples = int(batches.sum())
    even = np.full(gamma.size, samples / gamma.size)
    found, beyond = {}, []
    for name, rule in RULES.items():
        if name == CONSTANT or isinstance(rule, FollowsNoise):
            continue
        own = rule.schedule(gamma, samples)
        change, low, high = law.difference((own.rates, own.batches), (gamma, even), LEVEL)
        if np.isfinite([change, low, high]).all():
            found[name] = own.rates.size, (low, change, high)
        outside = law.seen.beyond(own.rates, own.batches.astype(np.float64))
        if "batch" in outside:
            beyond.append(name)
    return found, tuple(beyond)


def _exponent(law: TrainingLaw) -> dict[str, float]:
    if not several_batches(law):
        return {}
    value, low, high = law.batch_exponent(LEVEL)
    return {"batch_exponent": value, "batch_exponent_low": low, "batch_exponent_high": high}


def _evidence(law: TrainingLaw) -> str:
    seen = law.seen
    changed = "the batch changes within none of them"
    if seen.largest_change > 1.0:
        changed = f"the batch changes within a run by a factor of up to {seen.largest_change:.3g}"
    return (
        f"a law fitted to {seen.runs} runs with {seen.schedules} schedules; error on schedules "
        f"left out {law.held_out[law.member.name]:.2g}, as {law.member.name}; {changed}; "
        f"{TRAINED}; {UNTRAINED}"
    )


def _assumptions(
    law: TrainingLaw, task: PlanTask, found: _Found, departs: bool, beyond: tuple[str, ...]
) -> tuple[str, ...]:
    seen = law.seen
    within = (
        f"batches are sought within those of the runs, {seen.smallest_batch:g} to "
        f"{seen.largest_batch:g}; beyond them the law is not trusted"
    )
    if task.bold:
        within = (
            f"batches may leave those of the runs, {seen.smallest_batch:g} to "
            f"{seen.largest_batch:g}, as asked for boldly"
        )
    notes = [
        f"the same model, data and {_described(law.rule)} as in the runs of the law, and rates in "
        "their units",
        within,
    ]
    sizes = found.batches if departs else found.constant
    notes += law.predict(found.gamma, sizes, steps=[found.gamma.size]).notes
    notes += [f"not known from these runs: {note}" for note in law.unidentified]
    if beyond:
        notes.append(f"these rules leave the batches of the runs: {'; '.join(beyond)}")
    if task.choose_steps or task.choose_peak:
        notes.append("the shape of the rates is kept; updates and peak are judged at equal samples")
    return tuple(notes)


def _signed(change: Range) -> str:
    low, middle, high = change
    return f"{middle:+.4f} ({low:+.4f} to {high:+.4f}, {LEVEL:.0%})"


def _words(rule: UpdateRule) -> dict[str, object]:
    """What matters in training: the basis is that of a theory."""
    return {n: v for n, v in ({"name": rule.name} | options_of(rule)).items() if n != "basis"}


def _described(rule: UpdateRule) -> str:
    """The optimizer with those options that are not the usual ones."""
    usual = _words(type(rule)())
    options = {n: v for n, v in _words(rule).items() if v != usual[n]}
    listed = ", ".join(f"{name} {value}" for name, value in options.items())
    return f"{optimizer_of(rule)}{f' ({listed})' if listed else ''}"
