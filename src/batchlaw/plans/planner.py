"""From a learning-rate schedule, a budget and limits to a Plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError, arg
from batchlaw.batches.allocation import allocate
from batchlaw.batches.effective import effective_batch
from batchlaw.batches.factors import stages_by_factors
from batchlaw.batches.limits import Limits
from batchlaw.batches.stages import best_stages
from batchlaw.design.noise_level import model_noise
from batchlaw.influences.weights import influence as influence_of
from batchlaw.influences.worst_case import power_law_candidates, robust_influence
from batchlaw.model.problem import Problem
from batchlaw.model.spectrum import USUAL_STEP, PowerLaw, Spectrum, check_spectrum
from batchlaw.plans.adam_plan import AdamPlan, adam_plan
from batchlaw.plans.plan import UNITS, Plan, samples_of_budget, stages_of
from batchlaw.risk.procedure import PROCEDURES, Procedure, Setup, procedure_by_words
from batchlaw.risk.procedures import OnePass
from batchlaw.schedule.adam import Adam
from batchlaw.schedule.update_rule import PLAIN, UpdateRule, rule_of

# Stages that a plan may have where nothing is said.
STAGES = 8
# Begins the assumption that says why the risk of a known problem is not predicted.
UNPREDICTED = "the whole risk is not predicted"
# Updates of a reused dataset up to which the mean field predicts the whole risk of a plan.
LONGEST_REUSE = 2048


def plannable() -> dict[str, type[Procedure]]:
    """The procedures that a plan can be for: those that have batches."""
    return {name: kind for name, kind in PROCEDURES.items() if kind.summary}


def plan(
    rates: ArrayLike,
    budget: int,
    *,
    spectrum: Spectrum | None = None,
    influence: ArrayLike | None = None,
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
    bold: bool = False,
    inputs: Mapping[str, Any] | None = None,
    seed: int | None = None,
) -> Plan:
    """The batch schedule for a budget that leaves the least noise in the final risk.

    Parameters
    ----------
    rates : (T,) array
        Step sizes of the run.
    budget
        Total to spend, in ``unit``: samples, or tokens with ``sequence_length`` per sample.
    spectrum
        A ``Problem``, ``PowerLaw``, ``EstimatedSpectrum`` or ``ModelSpectrum``; by default a power
        law with an exponent between 1.2 and 3, for which the plan minimises the worst case. For
        plain SGD a power law's influence has a closed form, ``influence_proxy``. For Adam the
        default is the range of ``design.plan_range``, over which the plan must not lose.
    influence : (T,) or (K, T) array, optional
        In place of a spectrum: the influence of every update, from ``adam_influence`` or measured;
        or K candidates, for which the plan minimises the worst case.
    rule
        The update rule, ``bl.sgd(...)`` or ``bl.adam(...)``. It must be given, but not with
        ``influence``, which already includes it.
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
    bold
        With Adam: the best schedule found, even where a constant batch is recommended.
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
    limits = Limits(min_batch, max_batch, multiple_of, stages, batch_factor).capped(run.max_batch)
    source = _given(influence, spectrum, rule, gamma)
    if source is None and isinstance(_named(rule), Adam):
        adam = _adam_plan(spectrum, gamma, samples, rule, limits, run, noise, bold)
        return Plan(
            rates=gamma,
            stages=stages_of(adam.batches),
            budget=budget,
            unit=unit,
            sequence_length=sequence_length,
            limits=limits,
            prediction=adam.prediction,
            assumptions=adam.assumptions,
            verdict=adam.verdict,
            inputs=dict(inputs or {}),
            seed=seed,
        )
    if bold:
        raise InputError("bold", "has a use with Adam only")
    if source is None:
        spectrum = PowerLaw() if spectrum is None else check_spectrum(spectrum)
        update = _named(rule)
        run.check_rule(update)
        source = _from_spectrum(spectrum, gamma, update)
    level, noise_assumptions = _noise(noise, spectrum, gamma, rule)
    kappa, candidates = source.influence * level, source.candidates * level
    batches, to_first_order = _batches(kappa, samples, limits)
    assumptions = [*source.assumptions, *noise_assumptions]
    prediction: dict[str, float] = {}
    if whole_risk and isinstance(spectrum, Problem):
        obstacle = _obstacle(gamma, noise, run, PLAIN if rule is None else rule)
        if obstacle:
            assumptions.append(f"{UNPREDICTED}: {obstacle}")
        else:
            prediction |= _whole_risk(spectrum, gamma, batches, run, rule)
    if not run.reuses:
        prediction |= to_first_order | _gain(kappa, batches) | _over(candidates, batches)
    else:
        reused, reuse = _reuse(kappa, batches, run)
        prediction |= reused
        assumptions.append(reuse)
    return Plan(
        rates=gamma,
        stages=stages_of(batches),
        budget=budget,
        unit=unit,
        sequence_length=sequence_length,
        limits=limits,
        prediction=prediction,
        assumptions=tuple(assumptions),
        inputs=dict(inputs or {}),
        seed=seed,
    )


def _adam_plan(
    spectrum: Spectrum | None,
    gamma: FloatArray,
    samples: int,
    rule: UpdateRule | None,
    limits: Limits,
    run: Procedure,
    noise: ArrayLike | str | None,
    bold: bool,
) -> AdamPlan:
    """Refuses what a plan for Adam can't take into account."""
    if run.reuses:
        raise InputError("procedure", f"must be {OnePass.name} for Adam", run.name)
    if noise is not None:
        raise InputError("noise", "has no use with Adam, whose plan follows the whole excess")
    assert isinstance(rule, Adam)
    return adam_plan(spectrum, gamma, samples, rule, limits, bold)


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


@dataclass(frozen=True, eq=False)
class _Source:
    """Influence, the candidates that it represents, and its assumptions."""

    influence: FloatArray
    candidates: FloatArray
    assumptions: tuple[str, ...]


def _given(
    influence: ArrayLike | None,
    spectrum: Spectrum | None,
    rule: UpdateRule | None,
    gamma: FloatArray,
) -> _Source | None:
    """The caller's influence; None where it must be computed."""
    if influence is None:
        return None
    reasons = (
        ("spectrum", spectrum, "which replaces it: give one or the other"),
        ("rule", rule, "which already includes the update rule"),
    )
    for name, other, reason in reasons:
        if other is not None:
            raise InputError(name, f"has no use with {arg('influence')}, {reason}")
    candidates = np.atleast_2d(np.asarray(influence, dtype=np.float64))
    if candidates.ndim != 2 or candidates.shape[1] != gamma.size:
        raise InputError(
            "influence",
            f"must have one entry for each of the {gamma.size} rates, or K rows of them",
            f"shape {np.shape(influence)}",
        )
    noise = "the noise of update t adds to the final risk by its given influence over its batch"
    if candidates.shape[0] == 1:
        kappa = checks.vector("influence", candidates[0])
        if not kappa.any():
            raise InputError("influence", "must not be zero at every step")
        return _Source(kappa, kappa[None, :], (noise,))
    safe = f"{candidates.shape[0]} influences are possible, and the worst case is made best"
    return _Source(robust_influence(candidates).influence, candidates, (noise, safe))


def _named(rule: UpdateRule | None) -> UpdateRule:
    """The update rule, which has no default: what a plan is worth depends on it."""
    if rule is None:
        raise InputError(
            "rule",
            f"must be given, such as bl.sgd(), bl.sgd(0.9, pytorch=True) or bl.adam(); or "
            f"{arg('influence')}",
        )
    return rule_of(rule)


def _from_spectrum(spectrum: Spectrum, gamma: FloatArray, rule: UpdateRule) -> _Source:
    weights = rule.readout(gamma.size)
    if weights is not None and not weights.any():
        raise InputError("average", "must have weight on some iterate after the start")
    if isinstance(spectrum, PowerLaw):
        return _from_power_law(spectrum, gamma, rule)
    candidates = np.atleast_2d(influence_of(spectrum, gamma, rule=rule))
    kappa = candidates[0] if len(candidates) == 1 else robust_influence(candidates).influence
    problem = isinstance(spectrum, Problem)
    source = "the given problem's" if problem else f"as given, {type(spectrum).__name__}"
    return _Source(kappa, candidates, (rule.assumption(), f"the spectrum is {source}"))


def _from_power_law(law: PowerLaw, gamma: FloatArray, rule: UpdateRule) -> _Source:
    # The closed form is for plain SGD; any other rule needs the eigenvalues themselves.
    candidates = (
        power_law_candidates(gamma, law)
        if rule.plain
        else np.atleast_2d(influence_of(law, gamma, rule=rule))
    )
    assumed = f"eigenvalues fall as a power law with trace {law.trace(float(gamma.max())):.6g}"
    if law.scale is None:
        assumed += f" (not given: taken as {USUAL_STEP} over the peak rate)"
    low, high = law.range
    if candidates.shape[0] == 1:
        assumed += f" and exponent {low:g}"
        return _Source(candidates[0], candidates, (rule.assumption(), assumed))
    assumed += f" and an exponent between {low:g} and {high:g}"
    kappa = robust_influence(candidates).influence
    return _Source(kappa, candidates, (rule.assumption(), assumed))


def _noise(
    noise: ArrayLike | str | None,
    spectrum: Spectrum | None,
    gamma: FloatArray,
    rule: UpdateRule | None,
) -> tuple[FloatArray, list[str]]:
    """Noise level of every step, and the assumption behind it."""
    if noise is None:
        return np.ones_like(gamma), []
    if isinstance(noise, str):
        if noise != "model" or not isinstance(spectrum, Problem):
            raise InputError("noise", 'must be an array, or "model" with a problem', repr(noise))
        assumed = "the gradient noise falls with the bias, as in the problem"
        return model_noise(spectrum, gamma, rule=rule), [assumed]
    level = checks.vector("noise", noise)
    if level.size != gamma.size or not level.any():
        raise InputError(
            "noise",
            f"must have one entry for each of the {gamma.size} rates, not all zero",
            f"{level.size}",
        )
    return level, ["the gradient noise changes along the run as given"]


def _batches(
    kappa: FloatArray, samples: int, limits: Limits
) -> tuple[FloatArray, dict[str, float]]:
    """The schedule, and its objective and lower bound relative to the square-root rule's."""
    if limits.stages is not None:
        staged = best_stages(kappa, samples, limits)
        batches = np.asarray(staged.batches, dtype=np.float64)
        bound, loss = staged.lower_bound, staged.boundary_loss
        if limits.batch_factor is not None:
            sizes = np.asarray(staged.sizes, dtype=np.float64)
            stepped = stages_by_factors(kappa, staged.ends, sizes, samples, limits)
            if stepped is None:
                raise InputError(
                    "batch_factor", "must let some schedule fit", f"{limits.batch_factor}"
                )
            batches = stepped
    else:
        spend = samples - samples % limits.multiple_of
        free = allocate(
            kappa,
            spend,
            min_batch=limits.min_batch,
            max_batch=limits.max_batch,
            multiple_of=limits.multiple_of,
        )
        batches = np.asarray(free, dtype=np.float64)
        bound, loss = float((kappa / batches).sum()), 0.0
    objective = float((kappa / batches).sum())
    square_root = float(np.sqrt(kappa).sum() ** 2 / samples)
    return batches, {
        "noise_against_square_root": objective / square_root,
        "no_such_schedule_is_below": bound / square_root,
        "boundary_loss": loss,
    }


def _gain(kappa: FloatArray, batches: FloatArray) -> dict[str, float]:
    """Noise of the schedule relative to a constant one of the same sum."""
    constant = float(batches.mean())
    effective = float(effective_batch(kappa, batches))
    return {
        "constant_batch": constant,
        "effective_batch": effective,
        "noise_against_constant": constant / effective,
    }


def _obstacle(
    gamma: FloatArray, noise: ArrayLike | str | None, run: Procedure, rule: UpdateRule
) -> str:
    """Why the whole risk of a known problem can't be computed; empty if it can."""
    if noise is not None and not isinstance(noise, str):
        return "the given noise is not the problem's"
    if not run.solves(rule):
        return f"no solver without Monte Carlo has it over datasets for {rule.title(run.title)}"
    if run.reuses and gamma.size > LONGEST_REUSE:
        return f"the mean field over datasets is solved up to {LONGEST_REUSE} updates here"
    return ""


def _whole_risk(
    problem: Problem,
    gamma: FloatArray,
    batches: FloatArray,
    run: Procedure,
    rule: UpdateRule | None,
) -> dict[str, float]:
    """The plan's risk over that of a constant batch: the whole, the excess, then the noise."""
    update = PLAIN if rule is None else rule
    schedules = {"planned": batches, "constant": np.full(gamma.size, float(batches.mean()))}
    risk = run.expected(Setup(problem, gamma, schedules, update))
    terms = ["total", "excess"]
    if np.asarray(getattr(risk, run.noise))[1] > 0.0:
        terms.append(run.noise)
    return {
        f"{term}_against_constant": risk.ratio(term, "planned", "constant")[0] for term in terms
    }


def _over(candidates: FloatArray, batches: FloatArray) -> dict[str, float]:
    """Worst case over the candidates, against each one's square-root rule and a constant batch."""
    if candidates.shape[0] == 1:
        return {}
    noise = (candidates / batches).sum(axis=1)
    square_roots = np.sqrt(candidates).sum(axis=1) ** 2 / batches.sum()
    constants = candidates.sum(axis=1) / batches.mean()
    return {
        "worst_ratio_over_exponents": float((noise / square_roots).max()),
        "worst_noise_against_constant": float((noise / constants).max()),
    }


def _reuse(kappa: FloatArray, batches: FloatArray, run: Procedure) -> tuple[dict[str, float], str]:
    """Prediction for a reused dataset, through rho_t, and its assumption."""
    if not run.solvable:
        return {}, (
            f"{run.data}; no gain is quoted: their "
            "noise is smaller and follows another law, while the stages follow the influence for "
            "independent batches"
        )
    constant = float(batches.mean())
    schedules = [batches, np.full(batches.size, constant)]
    planned, reference = run.summaries(kappa, schedules)[run.summary]
    prediction = {
        "constant_batch": constant,
        "effective_fluctuation": float(planned),
        "noise_against_constant": float(planned / reference) if reference > 0.0 else 1.0,
    }
    return prediction, run.data
