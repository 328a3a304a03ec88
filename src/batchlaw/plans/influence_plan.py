"""Plans that follow an influence: that of a form of SGD, or a given one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import InputError
from batchlaw.batches.allocation import allocate
from batchlaw.batches.effective import effective_batch
from batchlaw.batches.factors import stages_by_factors
from batchlaw.batches.limits import Limits
from batchlaw.batches.stages import best_stages
from batchlaw.design.robust_plan import tried_limits
from batchlaw.design.within_limits import within_limits
from batchlaw.model.spectrum import PowerLaw
from batchlaw.plans.advice import Advice, PlanTask, equal_samples
from batchlaw.plans.influence_verdict import judged
from batchlaw.plans.source import Source, given_source, noise_level, source_of
from batchlaw.risk.procedure import Procedure


def influence_plan(task: PlanTask, influence: ArrayLike | None) -> Advice:
    """Batches by the square-root rule under the limits, judged against a constant batch."""
    source = _source(task, influence)
    level, noise_assumptions = noise_level(task.noise, task.spectrum, task.gamma, task.rule)
    kappa, candidates = source.influence * level, source.candidates * level
    best = _best(kappa, task.samples, task.limits)
    constant = within_limits(np.ones_like(task.gamma), task.samples, task.limits)
    noise = _noise_ratio(task.run, kappa, best.batches, constant)
    tried = (
        ((best if limits == task.limits else _best(kappa, task.samples, limits)).batches, limits)
        for limits in tried_limits(task.limits)
    )
    batches, verdict, prediction, notes = judged(task, best.batches, tried, constant, noise)
    assumptions = [*source.assumptions, *noise_assumptions, *notes]
    if not task.run.reuses:
        prediction |= _to_first_order(kappa, task.samples, batches, best)
        prediction |= _gain(kappa, batches, constant) | _over(candidates, batches, constant)
    else:
        reused, reuse = _reuse(kappa, batches, constant, task.run)
        prediction |= reused
        assumptions.append(reuse)
    return Advice(batches, constant, prediction, tuple(assumptions), verdict)


def _source(task: PlanTask, influence: ArrayLike | None) -> Source:
    if influence is not None:
        return given_source(influence, task.spectrum, task.rule, task.gamma)
    assert task.rule is not None
    task.run.check_rule(task.rule)
    spectrum = PowerLaw() if task.spectrum is None else task.spectrum
    return source_of(spectrum, task.gamma, task.rule)


@dataclass(frozen=True, eq=False)
class _Best:
    """A schedule, a bound that no other is below, and what fewer boundaries can have lost."""

    batches: FloatArray
    bound: float
    boundary_loss: float


def _best(kappa: FloatArray, samples: int, limits: Limits) -> _Best:
    if limits.stages is None:
        free = allocate(
            kappa,
            samples - samples % limits.multiple_of,
            min_batch=limits.min_batch,
            max_batch=limits.max_batch,
            multiple_of=limits.multiple_of,
        )
        batches = np.asarray(free, dtype=np.float64)
        return _Best(batches, float((kappa / batches).sum()), 0.0)
    staged = best_stages(kappa, samples, limits)
    batches = np.asarray(staged.batches, dtype=np.float64)
    if limits.batch_factor is not None:
        sizes = np.asarray(staged.sizes, dtype=np.float64)
        stepped = stages_by_factors(kappa, staged.ends, sizes, samples, limits)
        if stepped is None:
            needed = "must let some schedule fit"
            raise InputError("batch_factor", needed, f"{limits.batch_factor}")
        batches = stepped
    return _Best(batches, staged.lower_bound, staged.boundary_loss)


def _to_first_order(
    kappa: FloatArray, samples: int, batches: FloatArray, best: _Best
) -> dict[str, float]:
    """The noise and its lower bound, over the square-root rule's."""
    square_root = float(np.sqrt(kappa).sum() ** 2 / samples)
    return {
        "noise_against_square_root": float((kappa / batches).sum()) / square_root,
        "no_such_schedule_is_below": best.bound / square_root,
        "boundary_loss": best.boundary_loss,
    }


def _noise_ratio(
    run: Procedure, kappa: FloatArray, batches: FloatArray, constant: IntArray
) -> float | None:
    """Noise to first order over that of a constant batch; None where its law is not known."""
    if run.reuses:
        found, _ = _reuse(kappa, batches, constant, run)
        return found.get("noise_against_constant")
    return _gain(kappa, batches, constant)["noise_against_constant"]


def _gain(kappa: FloatArray, batches: FloatArray, constant: IntArray) -> dict[str, float]:
    """Effective batches of the schedule and of a constant batch."""
    effective = float(effective_batch(kappa, batches))
    at_equal_samples = equal_samples(constant, batches)
    return {
        "constant_batch": float(constant.mean()),
        "effective_batch": effective,
        "noise_against_constant": float(effective_batch(kappa, at_equal_samples)) / effective,
    }


def _over(candidates: FloatArray, batches: FloatArray, constant: IntArray) -> dict[str, float]:
    """Worst case over the candidates, against each one's square-root rule and a constant batch."""
    if candidates.shape[0] == 1:
        return {}
    noise = (candidates / batches).sum(axis=1)
    square_roots = np.sqrt(candidates).sum(axis=1) ** 2 / batches.sum()
    constants = (candidates / equal_samples(constant, batches)).sum(axis=1)
    return {
        "worst_ratio_over_exponents": float((noise / square_roots).max()),
        "worst_noise_against_constant": float((noise / constants).max()),
    }


def _reuse(
    kappa: FloatArray, batches: FloatArray, constant: IntArray, run: Procedure
) -> tuple[dict[str, float], str]:
    """Prediction for a reused dataset, through rho_t, and its assumption."""
    if not run.solvable:
        return {}, (
            f"{run.data}; no gain is quoted: their "
            "noise is smaller and follows another law, while the stages follow the influence for "
            "independent batches"
        )
    schedules = [batches, equal_samples(constant, batches)]
    planned, reference = run.summaries(kappa, schedules)[run.summary]
    prediction = {
        "constant_batch": float(constant.mean()),
        "effective_fluctuation": float(planned),
        "noise_against_constant": float(planned / reference) if reference > 0.0 else 1.0,
    }
    return prediction, run.data
