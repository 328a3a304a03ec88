"""From a learning-rate schedule, a budget and constraints to a Plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from batchlaw import _check
from batchlaw._check import FloatArray
from batchlaw.allocation import allocate, effective_batch
from batchlaw.exact.one_pass import one_pass_risk
from batchlaw.influence_weights import influence, influence_proxy
from batchlaw.plan_file import Constraints, Plan, stages_of
from batchlaw.problem import Problem
from batchlaw.robust import robust_proxy
from batchlaw.stages import best_stages

SAMPLINGS = ("one pass", "independent batches", "reshuffled epochs")
# A rate near the edge of what is stable, where none is known: gamma tr(Sigma) = 1/2.
USUAL = 0.5


@dataclass(frozen=True)
class PowerLaw:
    """A spectrum known by its exponent (or a range of them) and its trace.

    ``scale`` is tr(Sigma) in the units of the rates; None takes 1/2 over the peak rate.
    """

    exponent: float | tuple[float, float] = (1.2, 3.0)
    scale: float | None = None


Spectrum = Problem | PowerLaw


def plan(
    rates: ArrayLike,
    budget: int,
    *,
    spectrum: Spectrum | None = None,
    noise: ArrayLike | None = None,
    stages: int | None = 8,
    min_batch: int = 1,
    max_batch: int | None = None,
    multiple_of: int = 1,
    unit: str = "samples",
    sequence_length: int | None = None,
    sampling: str = "one pass",
    dataset_size: int | None = None,
    inputs: Mapping[str, Any] | None = None,
    seed: int | None = None,
) -> Plan:
    """The batch schedule for a budget that leaves the least noise in the final risk.

    Parameters
    ----------
    rates : (T,) array
        Step sizes of the run.
    budget
        What may be spent, in ``unit``: samples, or tokens with ``sequence_length`` of them a
        sample.
    spectrum
        A ``Problem``, or a ``PowerLaw``; by default a power law with an exponent between 1.2
        and 3, for which the worst case is made as good as it can be.
    noise : (T,) array, optional
        Variance of the gradient noise at every step, up to a factor (from a pilot run, or
        ``optimize.model_noise``): the plan then follows sqrt(kappa_t noise_t).
    stages
        At most so many constant stages; None leaves every step free.
    min_batch, max_batch, multiple_of
        Every batch lies in [min_batch, max_batch] and is a multiple of ``multiple_of``.
    sampling, dataset_size
        "one pass", or how a dataset of that size is reused: "independent batches", or
        "reshuffled epochs", for which no gain is quoted, because none is known.
    inputs, seed
        Kept in the plan: how rates and spectrum were given, and the seed of any draws.
    """
    gamma = _check.vector("rates", rates)
    _check.choice("sampling", sampling, SAMPLINGS)
    length = 1 if unit == "samples" else _check.count("sequence_length", sequence_length)
    samples = _check.count("budget", budget) // length
    reused = sampling != "one pass"
    if reused:
        size = _check.count("dataset_size", dataset_size)
        max_batch = size if max_batch is None else min(max_batch, size)
    spectrum = PowerLaw() if spectrum is None else spectrum
    kappa, known, assumptions = _influence(spectrum, gamma)
    if noise is not None:
        level = _check.vector("noise", noise)
        if level.size != gamma.size:
            raise ValueError(
                f"noise must have one entry for each of the {gamma.size} rates, got {level.size}"
            )
        kappa = kappa * level
        assumptions.append("the gradient noise changes along the run as given")
    limits: dict[str, Any] = {
        "min_batch": min_batch,
        "max_batch": max_batch,
        "multiple_of": multiple_of,
    }
    batches, bounds = _batches(kappa, samples, stages, limits)
    if reused:
        assumptions.append(f"{sampling} from a dataset of {dataset_size} samples")
    if sampling == "reshuffled epochs":
        assumptions.append(
            "no gain is quoted: noise of reshuffled epochs is smaller and follows another law"
        )
    else:
        known |= bounds | _buys(spectrum, gamma, kappa, batches, reused)
    return Plan(
        rates=gamma,
        stages=stages_of(batches),
        budget=budget,
        unit=unit,
        sequence_length=sequence_length,
        constraints=Constraints(max_stages=stages, **limits),
        prediction=known,
        assumptions=tuple(assumptions),
        inputs=dict(inputs or {}),
        seed=seed,
    )


def _influence(
    spectrum: Spectrum, gamma: FloatArray
) -> tuple[FloatArray, dict[str, float], list[str]]:
    """Influence, what is known about its error, and what was assumed for it."""
    if isinstance(spectrum, Problem):
        return influence(spectrum, gamma), {}, ["the spectrum is the given problem's"]
    scale = USUAL / float(gamma.max()) if spectrum.scale is None else spectrum.scale
    said = f"eigenvalues fall as a power law with trace {scale:.6g}"
    if spectrum.scale is None:
        said += f" (not given: taken as {USUAL} over the peak rate)"
    if isinstance(spectrum.exponent, tuple):
        robust = robust_proxy(gamma, spectrum.exponent, scale)
        low, high = spectrum.exponent
        said += f" and an exponent between {low:g} and {high:g}"
        return robust.influence, {"worst_ratio_over_exponents": robust.worst_ratio}, [said]
    said += f" and exponent {spectrum.exponent:g}"
    return influence_proxy(gamma, spectrum.exponent, scale), {}, [said]


def _batches(
    kappa: FloatArray, samples: int, stages: int | None, limits: dict[str, Any]
) -> tuple[FloatArray, dict[str, float]]:
    """The schedule, and its objective against the oracle's and the bound's."""
    if stages is not None:
        staged = best_stages(kappa, samples, stages, **limits)
        batches = np.asarray(staged.batches, dtype=np.float64)
        bound, loss = staged.lower_bound, staged.boundary_loss
    else:
        spend = samples - samples % int(limits["multiple_of"])
        batches = np.asarray(allocate(kappa, spend, **limits), dtype=np.float64)
        bound, loss = float((kappa / batches).sum()), 0.0
    objective = float((kappa / batches).sum())
    oracle = float(np.sqrt(kappa).sum() ** 2 / samples)
    return batches, {
        "noise_against_oracle": objective / oracle,
        "no_such_schedule_is_below": bound / oracle,
        "boundary_loss": loss,
    }


def _buys(
    spectrum: Spectrum, gamma: FloatArray, kappa: FloatArray, batches: FloatArray, reused: bool
) -> dict[str, float]:
    """What the schedule buys against a constant one of the same sum."""
    constant = float(batches.sum()) / gamma.size
    effective = float(effective_batch(kappa, batches))
    bought = {
        "constant_batch": constant,
        "effective_batch": effective,
        "noise_against_constant": constant / effective,
    }
    if isinstance(spectrum, Problem) and not reused:
        schedules = [batches, np.full(gamma.size, constant)]
        risk = one_pass_risk(spectrum, gamma, schedules)
        bought["exact_variance_against_constant"] = risk.ratio("variance", 0, 1)[0]
    return bought
