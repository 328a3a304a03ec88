"""From a learning-rate schedule, a budget and constraints to a Plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw.batches.allocation import allocate, effective_batch, effective_fluctuation
from batchlaw.batches.factors import on_ladder
from batchlaw.batches.stages import best_stages
from batchlaw.design.optimum import model_noise
from batchlaw.influences.weights import influence, influence_proxy
from batchlaw.influences.worst_case import proxy_candidates, robust_influence
from batchlaw.model.problem import Problem
from batchlaw.plans.plan import UNITS, Constraints, Plan, samples_of_budget, stages_of
from batchlaw.risk.one_pass import one_pass_risk

SAMPLINGS = ("one pass", "independent batches", "reshuffled epochs")
# Where no scale is known, gamma tr(Sigma): about half of what is stable with single samples.
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
    noise: ArrayLike | str | None = None,
    stages: int | None = 8,
    min_batch: int = 1,
    max_batch: int | None = None,
    multiple_of: int = 1,
    factor: int | None = None,
    unit: str = "samples",
    sequence_length: int | None = None,
    sampling: str = "one pass",
    dataset_size: int | None = None,
    replacement: bool = False,
    momentum: float = 0.0,
    nesterov: bool = False,
    pytorch: bool = False,
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
    noise : (T,) array or "model", optional
        Variance of the gradient noise at every step, up to a factor, from a pilot run; or the
        problem's own, s2 + bias_t. The plan then follows sqrt(kappa_t noise_t).
    stages
        At most so many constant stages; None leaves every step free.
    min_batch
        No batch below it.
    max_batch
        No batch above it.
    multiple_of
        Every batch is a multiple of it.
    factor
        Stages differ by powers of this, and a rise comes after whole batches of the new size,
        as OLMo-core needs it; a heuristic on top of the best stages.
    unit
        Of the budget: "samples" or "tokens".
    sequence_length
        Tokens of one sample; needed where the budget is in tokens.
    sampling
        "one pass", or how a dataset is reused: "independent batches", or "reshuffled epochs",
        for which no gain is quoted, because none is known.
    dataset_size
        Samples of the dataset that is reused.
    replacement
        Independent batches are drawn with replacement.
    momentum
        One number, as in ``influence``; for one pass and a ``Problem``.
    nesterov
        As in ``influence``.
    pytorch
        As in ``influence``.
    inputs
        Kept in the plan: how rates and spectrum were given.
    seed
        Kept in the plan: the seed of any draws.
    """
    gamma = checks.vector("rates", rates)
    if not gamma.any():
        raise ValueError("rates must not all be zero")
    samples = _samples(budget, unit, sequence_length)
    size = _dataset(sampling, dataset_size, samples)
    if replacement and sampling != "independent batches":
        raise ValueError(f"replacement must come with independent batches, got {sampling}")
    if size is not None and not replacement:
        max_batch = size if max_batch is None else min(max_batch, size)
    spectrum = PowerLaw() if spectrum is None else spectrum
    rule = {"momentum": momentum, "nesterov": nesterov, "pytorch": pytorch}
    _check_momentum(rule, spectrum, sampling)
    kappa, candidates, assumptions = _influence(spectrum, gamma, rule)
    level, said = _noise(noise, spectrum, gamma, rule)
    kappa, candidates = kappa * level, candidates * level
    limits = {"min_batch": min_batch, "max_batch": max_batch, "multiple_of": multiple_of}
    batches, bounds = _batches(kappa, samples, stages, limits, factor)
    if sampling == "one pass":
        known = bounds | _buys(kappa, batches) | _over(candidates, batches)
        if isinstance(spectrum, Problem) and (noise is None or isinstance(noise, str)):
            known |= _exactly(spectrum, gamma, batches, rule)
    else:
        known, reuse = _reuse(kappa, batches, sampling, size or 0, replacement)
        said += [reuse]
    return Plan(
        rates=gamma,
        stages=stages_of(batches),
        budget=budget,
        unit=unit,
        sequence_length=sequence_length,
        constraints=Constraints(min_batch, max_batch, multiple_of, stages),
        prediction=known,
        assumptions=(*assumptions, *said),
        inputs=dict(inputs or {}),
        seed=seed,
    )


def _samples(budget: int, unit: str, sequence_length: int | None) -> int:
    """The budget in whole samples."""
    if checks.choice("unit", unit, UNITS) == "samples":
        return checks.count("budget", budget)
    return samples_of_budget(None, budget, sequence_length)


def _dataset(sampling: str, dataset_size: int | None, samples: int) -> int | None:
    """Size of the dataset that is reused; None for one pass, which must not need more."""
    if checks.choice("sampling", sampling, SAMPLINGS) != "one pass":
        if dataset_size is None:
            raise ValueError(f"dataset_size must be given for {sampling}")
        return checks.count("dataset_size", dataset_size, minimum=2)
    if dataset_size is not None and samples > checks.count("dataset_size", dataset_size):
        raise ValueError(
            f"one pass must not take more than the {dataset_size} samples of the dataset, "
            f"got {samples}: name the sampling"
        )
    return None


def _check_momentum(rule: dict[str, Any], spectrum: Spectrum, sampling: str) -> None:
    if not rule["momentum"]:
        if rule["nesterov"] or rule["pytorch"]:
            raise ValueError("nesterov and pytorch are forms of momentum, which is zero")
        return
    if not isinstance(spectrum, Problem):
        raise ValueError("a plan with momentum must have a problem's spectrum, got a power law")
    if sampling != "one pass":
        raise ValueError(f"a plan with momentum must be for one pass, got {sampling}")


def _noise(
    noise: ArrayLike | str | None, spectrum: Spectrum, gamma: FloatArray, rule: dict[str, Any]
) -> tuple[FloatArray, list[str]]:
    """Noise level of every step, and the sentence that says where it came from."""
    if noise is None:
        return np.ones_like(gamma), []
    if isinstance(noise, str):
        if noise != "model" or not isinstance(spectrum, Problem):
            raise ValueError(f'noise must be an array, or "model" with a problem, got {noise!r}')
        said = "the gradient noise falls with the bias, as in the problem"
        return model_noise(spectrum, gamma, **rule), [said]
    level = checks.vector("noise", noise)
    if level.size != gamma.size or not level.any():
        raise ValueError(
            f"noise must have one entry for each of the {gamma.size} rates, not all zero, "
            f"got {level.size}"
        )
    return level, ["the gradient noise changes along the run as given"]


def _exactly(
    problem: Problem, gamma: FloatArray, batches: FloatArray, rule: dict[str, Any]
) -> dict[str, float]:
    schedules = [batches, np.full(gamma.size, float(batches.mean()))]
    ratio, _ = one_pass_risk(problem, gamma, schedules, **rule).ratio("variance", 0, 1)
    return {"exact_variance_against_constant": ratio}


def _influence(
    spectrum: Spectrum, gamma: FloatArray, rule: dict[str, Any]
) -> tuple[FloatArray, FloatArray, list[str]]:
    """Influence, the candidates that it stands for, and what was assumed for it."""
    model = (
        "plain SGD on a quadratic loss and its last iterate, without momentum, averaging or "
        "adaptive steps"
    )
    if isinstance(spectrum, Problem):
        kappa = influence(spectrum, gamma, **rule)
        if rule["momentum"]:
            form = "Nesterov's" if rule["nesterov"] else "heavy-ball"
            scaled = ", the velocity times the current rate" if rule["pytorch"] else ""
            model = (
                f"SGD with {form} momentum {rule['momentum']:g}{scaled}, on a quadratic loss and "
                "its last iterate, without averaging or adaptive steps"
            )
        return kappa, kappa[None, :], [model, "the spectrum is the given problem's"]
    exponents = np.atleast_1d(np.asarray(spectrum.exponent, dtype=np.float64))
    scale = USUAL / float(gamma.max()) if spectrum.scale is None else spectrum.scale
    scale = checks.real("scale", scale, above=0.0)
    # The largest of eigenvalues i^-a with this trace, the zeta function bounded from above.
    top = scale / (1.0 + 1.0 / (float(exponents.min()) - 1.0))
    if float(gamma.max()) * top >= 2.0:
        raise ValueError(
            f"scale {scale:.6g} makes the peak rate {gamma.max():.6g} unstable: the largest "
            f"eigenvalue is at least {top:.6g}"
        )
    said = f"eigenvalues fall as a power law with trace {scale:.6g}"
    if spectrum.scale is None:
        said += f" (not given: taken as {USUAL} over the peak rate)"
    if exponents.size == 1:
        kappa = influence_proxy(gamma, float(exponents[0]), scale)
        said += f" and exponent {exponents[0]:g}"
        return kappa, kappa[None, :], [model, said]
    low, high = map(float, exponents)
    said += f" and an exponent between {low:g} and {high:g}"
    candidates = proxy_candidates(gamma, (low, high), scale)
    return robust_influence(candidates).influence, candidates, [model, said]


def _batches(
    kappa: FloatArray,
    samples: int,
    stages: int | None,
    limits: dict[str, Any],
    factor: int | None,
) -> tuple[FloatArray, dict[str, float]]:
    """The schedule, and its objective against the oracle's and the bound's."""
    if stages is not None:
        staged = best_stages(kappa, samples, stages, **limits)
        batches = np.asarray(staged.batches, dtype=np.float64)
        bound, loss = staged.lower_bound, staged.boundary_loss
        if factor is not None:
            step = checks.count("factor", factor, minimum=2)
            sizes = np.asarray(staged.sizes, dtype=np.float64)
            laid = on_ladder(kappa, staged.ends, sizes, samples, step, **limits)
            if laid is None:
                raise ValueError(f"no schedule by factors of {step} fits; try other stages")
            batches = laid
    elif factor is not None:
        raise ValueError("factor needs stages, got none")
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


def _buys(kappa: FloatArray, batches: FloatArray) -> dict[str, float]:
    """What the schedule buys against a constant one of the same sum."""
    constant = float(batches.mean())
    effective = float(effective_batch(kappa, batches))
    return {
        "constant_batch": constant,
        "effective_batch": effective,
        "noise_against_constant": constant / effective,
    }


def _reuse(
    kappa: FloatArray, batches: FloatArray, sampling: str, size: int, replacement: bool
) -> tuple[dict[str, float], str]:
    """What is known where a dataset is reused, through rho_t, and what was assumed."""
    if sampling != "independent batches":
        return {}, (
            f"{sampling} of a dataset of {size} samples; no gain is quoted: their noise is "
            "smaller and follows another law, while the stages follow the influence for "
            "independent batches"
        )
    constant = float(batches.mean())
    both = [batches, np.full(batches.size, constant)]
    ours, theirs = np.asarray(effective_fluctuation(kappa, both, size, replacement=replacement))
    known = {
        "constant_batch": constant,
        "effective_fluctuation": float(ours),
        "noise_against_constant": float(ours / theirs) if theirs > 0.0 else 1.0,
    }
    how = "with" if replacement else "without"
    return known, f"{sampling} {how} replacement from a dataset of {size} samples"


def _over(candidates: FloatArray, batches: FloatArray) -> dict[str, float]:
    """The schedule under every candidate: against its own oracle, and against a constant batch."""
    if candidates.shape[0] == 1:
        return {}
    noise = (candidates / batches).sum(axis=1)
    oracles = np.sqrt(candidates).sum(axis=1) ** 2 / batches.sum()
    constants = candidates.sum(axis=1) / batches.mean()
    return {
        "worst_ratio_over_exponents": float((noise / oracles).max()),
        "worst_noise_against_constant": float((noise / constants).max()),
    }
