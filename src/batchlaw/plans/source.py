"""Where a plan's influence comes from: given, or of a spectrum and a form of SGD."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError, arg
from batchlaw.design.noise_level import model_noise
from batchlaw.influences.weights import influence as influence_of
from batchlaw.influences.worst_case import power_law_candidates, robust_influence
from batchlaw.model.problem import Problem
from batchlaw.model.spectrum import USUAL_STEP, PowerLaw, Spectrum
from batchlaw.schedule.update_rule import UpdateRule


@dataclass(frozen=True, eq=False)
class Source:
    """Influence, the candidates that it represents, and its assumptions."""

    influence: FloatArray
    candidates: FloatArray
    assumptions: tuple[str, ...]


def given_source(
    influence: ArrayLike,
    spectrum: Spectrum | None,
    rule: UpdateRule | None,
    gamma: FloatArray,
) -> Source:
    """The caller's influence."""
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
        return Source(kappa, kappa[None, :], (noise,))
    safe = f"{candidates.shape[0]} influences are possible, and the worst case is made best"
    return Source(robust_influence(candidates).influence, candidates, (noise, safe))


def source_of(spectrum: Spectrum, gamma: FloatArray, rule: UpdateRule) -> Source:
    weights = rule.readout(gamma.size)
    if weights is not None and not weights.any():
        raise InputError("average", "must have weight on some iterate after the start")
    if isinstance(spectrum, PowerLaw):
        return _from_power_law(spectrum, gamma, rule)
    candidates = np.atleast_2d(influence_of(spectrum, gamma, rule=rule))
    kappa = candidates[0] if len(candidates) == 1 else robust_influence(candidates).influence
    problem = isinstance(spectrum, Problem)
    source = "the given problem's" if problem else f"as given, {type(spectrum).__name__}"
    return Source(kappa, candidates, (rule.assumption(), f"the spectrum is {source}"))


def _from_power_law(law: PowerLaw, gamma: FloatArray, rule: UpdateRule) -> Source:
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
        return Source(candidates[0], candidates, (rule.assumption(), assumed))
    assumed += f" and an exponent between {low:g} and {high:g}"
    kappa = robust_influence(candidates).influence
    return Source(kappa, candidates, (rule.assumption(), assumed))


def noise_level(
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
