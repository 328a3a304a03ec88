"""The batch schedules and learning rates that the study compares, and the influence behind them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.batches.allocation import allocate
from batchlaw.batches.rules import RULES, Schedule, in_proportion
from batchlaw.influences.adaptive import adam_influence
from batchlaw.influences.weights import influence, influence_proxy
from batchlaw.model.model_spectrum import ModelSpectrum
from batchlaw.plans.planner import STAGES as PLAN_STAGES
from batchlaw.plans.planner import plan
from batchlaw.schedule import rates as shapes
from batchlaw.schedule.adam import GENERIC, Adam, adam
from batchlaw.schedule.update_rule import UpdateRule, sgd

MOMENTUM, WEIGHT_DECAY = 0.9, 0.01
# The update rules that the study trains with, by name.
OPTIMIZERS: dict[str, UpdateRule] = {
    "sgd": sgd(),
    "momentum": sgd(MOMENTUM, pytorch=True),
    "adamw": adam(MOMENTUM, 0.999, weight_decay=WEIGHT_DECAY, basis=GENERIC),
    "adamw-0.95": adam(MOMENTUM, 0.95, weight_decay=WEIGHT_DECAY, basis=GENERIC),
}
CONSTANT, PLAN, BOLD, ORACLE, FLOOR, PROXY, STAGES, RAMP, LATE, EARLY, RATE = SCHEDULES = (
    "constant",
    "default plan",
    "bold plan",
    "oracle",
    "oracle, floor",
    "proxy",
    "4 stages",
    "linear ramp",
    "late-large",
    "early-large",
    "like the rate",
)
# The planner's bold schedule in a few stages.
BOLD_STAGES, BOLD_STAGE_COUNT = "mean-field stages", 5
LI_BU_XU, SEESAW = "Li-Bu-Xu", "Seesaw"
# Constant batches of other sizes: not at equal samples. The largest is the basis for estimating the
# loss without noise.
REFERENCE, REFERENCE_FACTOR = "constant x4", 4.0
SIZES = {
    "constant x1/4": 0.25,
    "constant x1/2": 0.5,
    "constant x2": 2.0,
    REFERENCE: REFERENCE_FACTOR,
}
# Schedules for testing laws, not rivals: the number starts their random stream.
RANDOM = {f"random {k}": k for k in range(1, 5)}
RANDOM_SEED, FEWEST_SEGMENTS, MOST_SEGMENTS, RANDOM_FACTOR = 17, 3, 6, 4.0
# Those that only Adam has: the planner's bold schedule.
ADAM_ONLY = (BOLD,)
# Those that need the spectrum of a pilot.
FROM_PILOT = (ORACLE, FLOOR, PROXY, STAGES)
# The reference takes longer than the others, so it runs for fewer seeds.
REFERENCE_SEEDS = 5
STAGE_COUNT = 4
# The proxy's spectrum exponent, which is not known for real data.
PROXY_EXPONENT = 2.0
# Eigenvalues are capped at this share of the stability limit.
STABLE_SHARE = 0.95

RATES: Mapping[str, Callable[[int, float], FloatArray]] = {
    "wsd": lambda steps, peak: shapes.wsd(steps, peak),
    "wsd-linear": lambda steps, peak: shapes.wsd(steps, peak, stable=0.8, decay="linear"),
    "cosine": lambda steps, peak: shapes.cosine(steps, peak, warmup=0.1),
    "wsd-short": lambda steps, peak: shapes.wsd(steps, peak, stable=0.7),
    "drop": lambda steps, peak: shapes.step(steps, peak, drops=(0.8,), warmup=0.1),
    "constant": lambda steps, peak: shapes.constant(steps, peak, warmup=0.1),
}
# Those of the default study.
USUAL_RATES = ("wsd", "wsd-linear", "cosine")


def adaptive(optimizer: str) -> bool:
    """Whether an optimizer is Adam."""
    return isinstance(OPTIMIZERS[optimizer], Adam)


def schedules_for(optimizer: str) -> tuple[str, ...]:
    """The schedules that are compared with an optimizer."""
    return tuple(name for name in SCHEDULES if adaptive(optimizer) or name not in ADAM_ONLY)


def spectrum_of(pilot: Mapping[str, Any]) -> ModelSpectrum:
    """The spectrum that a pilot stored."""
    arrays: dict[str, Any] = {name: np.array(pilot[name]) for name in ("eigenvalues", "noise")}
    others = ("kind", "trace", "trace_error", "dimension", "samples", "noise_trace", "residual")
    return ModelSpectrum(**arrays, **{name: pilot[name] for name in others})


def stable_limit(optimizer: str, peak: float) -> float:
    """The largest eigenvalue that is stable at a rate: 2/gamma, 2 (1 + beta)/gamma for heavy ball,
    and that over 1 - beta for Adam, whose velocity is a mean."""
    if optimizer == "sgd":
        return 2.0 / peak
    limit = 2.0 * (1.0 + MOMENTUM) / peak
    return limit / (1.0 - MOMENTUM) if adaptive(optimizer) else limit


def noise_influence(spectrum: ModelSpectrum, optimizer: str, rates: FloatArray) -> FloatArray:
    """kappa_t such that sum_t kappa_t / (2 B_t) is the predicted rise of the final loss.

    A pilot's last iterate may be sharper than its peak rate allows (the sharpness follows the
    falling rate): such eigenvalues are capped to be just stable.
    """
    limit = STABLE_SHARE * stable_limit(optimizer, float(rates.max()))
    spectrum = replace(spectrum, eigenvalues=np.minimum(spectrum.eigenvalues, limit))
    if adaptive(optimizer):
        return adam_influence(spectrum, rates, beta1=MOMENTUM, weight_decay=WEIGHT_DECAY)
    return influence(spectrum, rates, rule=OPTIMIZERS[optimizer])


def schedule_of(
    schedule: str,
    optimizer: str,
    rates: FloatArray,
    mean_batch: int,
    spectrum: ModelSpectrum | None = None,
) -> Schedule:
    """Rates and whole batches of a schedule, with equal samples for all but those of ``SIZES``.

    Only rules that change the rates have rates and a number of steps of their own. ``spectrum``,
    in the optimizer's units, is needed by those of ``FROM_PILOT``.
    """
    if schedule in RULES:
        return RULES[schedule].schedule(rates, rates.size * mean_batch)
    return Schedule(rates, _batches_of(schedule, optimizer, rates, mean_batch, spectrum))


def _batches_of(
    schedule: str,
    optimizer: str,
    rates: FloatArray,
    mean_batch: int,
    spectrum: ModelSpectrum | None,
) -> IntArray:
    budget = rates.size * mean_batch
    if schedule in SIZES:
        return np.full(rates.size, round(SIZES[schedule] * mean_batch), dtype=np.int64)
    if schedule in RANDOM:
        return random_batches(rates.size, budget, RANDOM[schedule])
    if schedule == BOLD_STAGES:
        return _planned(optimizer, rates, budget, bold=True, stages=BOLD_STAGE_COUNT)
    if schedule in (PLAN, BOLD):
        return _planned(optimizer, rates, budget, bold=schedule == BOLD)
    assert spectrum is not None
    if schedule == PROXY:
        proxy = influence_proxy(rates, PROXY_EXPONENT, spectrum.trace)
        return np.asarray(allocate(proxy, budget), np.int64)
    kappa = noise_influence(spectrum, optimizer, rates)
    if schedule == STAGES:
        return _fill(np.asarray(allocate(kappa, budget, stages=STAGE_COUNT), np.int64), budget)
    smallest = max(1, mean_batch // 2) if schedule == FLOOR else 1
    return np.asarray(allocate(kappa, budget, min_batch=smallest), np.int64)


def random_batches(steps: int, budget: int, number: int) -> IntArray:
    """Three to six segments with random ends and log-uniform batches within a factor of 16."""
    rng = np.random.default_rng((RANDOM_SEED, number))
    segments = int(rng.integers(FEWEST_SEGMENTS, MOST_SEGMENTS, endpoint=True))
    ends = np.sort(rng.uniform(0.0, 1.0, segments - 1))
    sizes = np.exp(rng.uniform(-1.0, 1.0, segments) * math.log(RANDOM_FACTOR))
    segment = np.searchsorted(ends, (np.arange(steps) + 0.5) / steps)
    return in_proportion(sizes[segment], budget)


def _planned(
    optimizer: str, rates: FloatArray, budget: int, *, bold: bool, stages: int = PLAN_STAGES
) -> IntArray:
    """What ``batchlaw plan`` says to someone who knows the optimizer and the rates alone."""
    return _fill(_plan_batches(optimizer, tuple(rates.tolist()), budget, bold, stages), budget)


@lru_cache(maxsize=64)
def _plan_batches(
    optimizer: str, rates: tuple[float, ...], budget: int, bold: bool, stages: int
) -> IntArray:
    """Kept, since a plan takes seconds and a block asks for it several times."""
    planned = plan(rates, budget, rule=OPTIMIZERS[optimizer], bold=bold, stages=stages)
    return planned.batches


def _fill(batches: IntArray, budget: int) -> IntArray:
    """Spend what stages leave of the budget, so that all schedules spend the same.

    They may underspend by less than the length of the shortest stage; the first steps of the
    longest stage get one more sample each.
    """
    left = budget - int(batches.sum())
    cuts = np.flatnonzero(np.diff(batches)) + 1
    edges = np.concatenate([[0], cuts, [batches.size]])
    longest = int(np.argmax(np.diff(edges)))
    out = batches.copy()
    out[edges[longest] : edges[longest] + left] += 1
    return out
