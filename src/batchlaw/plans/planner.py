"""From a learning-rate schedule, a budget and limits to a Plan."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.errors import InputError, arg
from batchlaw.batches.limits import Limits
from batchlaw.design.run_length import CostModel
from batchlaw.from_data.laws.training_law import TrainingLaw
from batchlaw.model.spectrum import Spectrum, check_spectrum
from batchlaw.plans.adam_plan import adam_plan
from batchlaw.plans.advice import Advice, PlanTask
from batchlaw.plans.influence_plan import influence_plan
from batchlaw.plans.law_plan import check_law, law_plan, same_rule
from batchlaw.plans.plan import UNITS, Plan, samples_of_budget, stages_of
from batchlaw.plans.worth import LossLevel
from batchlaw.risk.procedure import PROCEDURES, Procedure, procedure_by_words
from batchlaw.risk.procedures import OnePass
from batchlaw.schedule.adam import Adam
from batchlaw.schedule.update_rule import UpdateRule, rule_of

# Stages that a plan may have where nothing is said.
STAGES = 8


def plannable() -> dict[str, type[Procedure]]:
    """The procedures that a plan can be for: those that have batches."""
    return {name: kind for name, kind in PROCEDURES.items() if kind.summary}


def plan(
    rates: ArrayLike,
    budget: int,
    *,
    spectrum: Spectrum | None = None,
    influence: ArrayLike | None = None,
    law: TrainingLaw | None = None,
    rule: UpdateRule | None = None,
    noise: ArrayLike | str | None = None,
    stages: int | None = STAGES,
    min_batch: int = 1,
    max_batch: int | None = None,
    multiple_of: int = 1,
    batch_factor: int | None = None,
    unit: str = "samples",
    sequence_length: int | None = None,
    procedure: str = OnePass.name,
    dataset_size: int | None = None,
    replacement: bool = False,
    whole_risk: bool = True,
    score_rules: bool = True,
    bold: bool = False,
    loss: float | None = None,
    lowest_loss: float | None = None,
    choose_steps: bool = False,
    choose_peak: bool = False,
    cost: CostModel | None = None,
    inputs: Mapping[str, Any] | None = None,
    seed: int | None = None,
) -> Plan:
    """The batch schedule for a budget, or a constant batch where no schedule is better.

    Its ``verdict`` says what is recommended, what that is worth and how good the evidence is.

    Parameters
    ----------
    rates : (T,) array
        Step sizes of the run.
    budget
        Total to spend, in ``unit``: samples, or tokens with ``sequence_length`` per sample.
    spectrum
        A ``Problem``, ``PowerLaw``, ``EstimatedSpectrum`` or ``ModelSpectrum``. Without one the
        plan must be better than a constant batch over the whole range of ``design.plan_range``.
        For SGD it then follows a power law with an exponent between 1.2 and 3, by the worst case;
        for plain SGD a power law's influence has a closed form, ``influence_proxy``.
    influence : (T,) or (K, T) array, optional
        In place of a spectrum: the influence of every update, from ``adam_influence`` or measured;
        or K candidates, for which the plan minimises the worst case.
    law
        In place of both: a law fitted to runs of the same model, from ``bl.fit_law``. The plan has
        the least final loss that it predicts, over batches within those of its runs, and is
        recommended where the band of its difference to a constant batch's excludes zero.
    rule
        The update rule, ``bl.sgd(...)`` or ``bl.adam(...)``. It must be given, but not with
        ``influence``, which already includes it; with ``law`` it must be that of the runs.
    noise : (T,) array or "model", optional
        Variance of the gradient noise at every step, up to a factor, from a pilot run; or the
        problem's own, s2 + bias_t. The plan then follows sqrt(kappa_t noise_t).
    stages
        Largest number of constant stages; None leaves every step free.
    min_batch
        Smallest batch allowed.
    max_batch
        Largest batch allowed.
    multiple_of
        Every batch is a multiple of it.
    batch_factor
        Stages differ by powers of this, and the batch grows only after whole batches of the new
        size, as OLMo-core requires; a heuristic on top of the best stages.
    unit
        Unit of the budget: "samples" or "tokens".
    sequence_length
        Tokens of one sample; needed where the budget is in tokens.
    procedure
        "one-pass"; or how a dataset is reused: "multi-pass", with independent batches, or
        "reshuffled", in epochs, for which the gain is not known and none is quoted.
    dataset_size
        Samples of the dataset.
    replacement
        Whether multi-pass draws batches with replacement.
    whole_risk
        Whether to predict the whole risk and the excess of a known problem; with data reuse that
        takes the time of the mean field.
    score_rules
        Whether to score the rules that people use beside the plan of a known problem, for SGD in
        one pass.
    bold
        The best schedule found, even where a constant batch is recommended; with ``law`` also over
        batches that its runs have not shown.
    loss, lowest_loss
        Final loss with a constant batch, and the lowest that the model can reach: what the plan is
        worth is then also stated in the loss.
    choose_steps, choose_peak
        With ``law``: choose the number of updates, for the same budget, or the peak rate, within
        those of the runs, where that lowers the predicted loss beyond its band. The shape of the
        rates is kept.
    cost
        What an update takes, for the time of the run.
    inputs
        Recorded in the plan: how rates and spectrum were given.
    seed
        Recorded in the plan: the seed of any draws.
    """
    gamma = checks.vector("rates", rates)
    if not gamma.any():
        raise InputError("rates", "must not all be zero")
    samples = _samples(budget, unit, sequence_length)
    run = _procedure(procedure, dataset_size, replacement, samples)
    task = PlanTask(
        gamma=gamma,
        samples=samples,
        limits=Limits(min_batch, max_batch, multiple_of, stages, batch_factor).capped(
            run.max_batch
        ),
        run=run,
        rule=rule if rule is None or influence is not None else rule_of(rule),
        spectrum=None if spectrum is None else check_spectrum(spectrum),
        noise=noise,
        whole_risk=whole_risk,
        score_rules=score_rules,
        bold=bold,
        loss=LossLevel.of(loss, lowest_loss),
        law=None if law is None else check_law(law),
        choose_steps=choose_steps,
        choose_peak=choose_peak,
    )
    advice = _advice(task, influence)
    recorded = dict(inputs or {})
    if task.law is not None:
        recorded.setdefault("law", {"sha256": digest(task.law.to_json())})
    return Plan(
        rates=gamma if advice.rates is None else advice.rates,
        stages=stages_of(advice.batches),
        budget=budget,
        unit=unit,
        sequence_length=sequence_length,
        limits=task.limits,
        prediction=advice.prediction | _seconds(advice, cost),
        assumptions=advice.assumptions,
        verdict=advice.verdict,
        inputs=recorded,
        seed=seed,
    )


def digest(text: str) -> str:
    """What identifies a file's text in a plan."""
    return hashlib.sha256(text.encode()).hexdigest()


def _advice(task: PlanTask, influence: ArrayLike | None) -> Advice:
    if task.law is not None:
        if influence is not None:
            reason = "which replaces it: give one or the other"
            raise InputError("influence", f"has no use with {arg('law')}, {reason}")
        return law_plan(replace(task, rule=same_rule(task.law, task.rule)))
    for name, given in (("choose_steps", task.choose_steps), ("choose_peak", task.choose_peak)):
        if given:
            raise InputError(name, f"needs a {arg('law')} of training runs")
    if influence is None and task.rule is None:
        # There is no default: what a plan is worth depends on the optimizer.
        raise InputError(
            "rule",
            f"must be given, such as bl.sgd(), bl.sgd(0.9, pytorch=True) or bl.adam(); or "
            f"{arg('influence')}",
        )
    if influence is None and isinstance(task.rule, Adam):
        return adam_plan(task)
    return influence_plan(task, influence)


def _seconds(advice: Advice, cost: CostModel | None) -> dict[str, float]:
    if cost is None:
        return {}
    runs = {"seconds": advice.batches, "seconds_of_constant": advice.constant}
    return {name: cost.seconds(sizes.astype(float)) for name, sizes in runs.items()}


def _samples(budget: int, unit: str, sequence_length: int | None) -> int:
    """The budget in whole samples."""
    if checks.choice("unit", unit, UNITS) == "samples":
        return checks.count("budget", budget)
    return samples_of_budget(None, budget, sequence_length)


def _procedure(name: str, dataset_size: int | None, replacement: bool, samples: int) -> Procedure:
    """The procedure; one that uses a sample once must not need more samples than there are."""
    kind = plannable()[checks.choice("procedure", name, plannable())]
    size = None if dataset_size is None else checks.count("dataset_size", dataset_size, minimum=2)
    if kind.reuses and size is None:
        raise InputError("dataset_size", f"must be given for procedure {name}")
    if not kind.reuses and size is not None and samples > size:
        raise InputError(
            "budget",
            f"must not be more than the {size} samples of the dataset for procedure {name}",
            f"{samples}",
            f"name another {arg('procedure')}",
        )
    words = {"procedure": name, "replacement": replacement}
    return procedure_by_words(words | ({"samples": size} if kind.reuses else {}))
