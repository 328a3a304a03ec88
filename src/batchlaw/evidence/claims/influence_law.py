"""Influence under a power law: its pointwise form, its total, and the two horizons separated."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.evidence.claims.check_settings import (
    DECADE,
    LEARNING,
    MEMORY,
    SPECTRA,
    WIDE,
    CheckSize,
    fewest_samples,
    horizons,
    hypotheses,
    named,
    parts,
    peak_rate,
    step_grid,
    wide_problem,
)
from batchlaw.evidence.claims.claim import (
    Check,
    Claim,
    Curve,
    Exponent,
    Task,
    task_name,
    wrong_exponents,
)
from batchlaw.influences.weights import influence
from batchlaw.risk.multi_pass import multi_pass_risk
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.schedule.rates import wsd, wsd_phases
from batchlaw.theory.bounds.schedule import remaining_mass
from batchlaw.theory.laws import Law, one_pass_law

POINTWISE = Claim(
    "influence/pointwise",
    "influence ~ gamma_t^2 (1 + R_t)^(1/a - 2)",
    "lemma app-final-risk-influence (A.8)",
)
TOTAL = Claim(
    "influence/total",
    "total influence ~ (log T/T)(gamma T/log T)^(1/a)",
    "lemmas batch-var-E1, E2 (H.5); multipass-kernel-shape (I.3)",
)
RATE = Claim(
    "influence/rate",
    "total influence ~ gamma^(1/a) at a fixed horizon",
    "lemma batch-var-E2 (H.5)",
)


def _longer_decay(name: str, quantity: str, effect: str) -> Claim:
    return Claim(
        f"influence/longer-decay-{name}",
        f"longer decay, same total rate: {quantity} {effect}",
        "section 3, two horizons; theorems 1 and 2",
    )


STAYS, FALLS = "stays", "falls like the decay time^(1/a - 1)"
DECAY_BIAS = _longer_decay("bias", "one-pass bias", STAYS)
DECAY_NOISE = _longer_decay("noise", "one-pass variance from label noise", FALLS)
DECAY_FLUCTUATION = _longer_decay("fluctuation", "fluctuation (simple recursion)", FALLS)
DECAY_GD_BIAS = _longer_decay("gd-bias", "GD bias", STAYS)
DECAY_GD_VARIANCE = _longer_decay("gd-variance", "GD variance", STAYS)
LONGER_DECAY = (DECAY_BIAS, DECAY_NOISE, DECAY_FLUCTUATION, DECAY_GD_BIAS, DECAY_GD_VARIANCE)

# (a, b) for which the two horizons are separated.
SEPARATED = ((1.5, 1.5), (2.0, 2.0), (3.0, 2.5))
# The decay ends at this share of the peak, whatever its length.
FINAL = 1e-6
REMAINING = "1 + R_t"
TAU = "decay time"
# b of the spectra whose influence is measured; the influence does not depend on it.
SOURCE = 2.0


def tasks(size: CheckSize) -> list[Task]:
    """One task per spectrum, and one per pair whose horizons are separated."""
    return [
        *(
            Task(
                task_name("influence", a=a), (POINTWISE, TOTAL, RATE), partial(_influence, size, a)
            )
            for a in SPECTRA
        ),
        *(
            Task(
                task_name("longer decay", a=a, b=b), LONGER_DECAY, partial(_separation, size, a, b)
            )
            for a, b in SEPARATED
        ),
    ]


def _influence(size: CheckSize, a: float) -> list[Check[Any]]:
    problem = wide_problem(a, SOURCE)
    gamma = peak_rate(problem)
    T = step_grid(size.longest)
    totals = np.array([influence(problem, wsd(int(t), gamma)).sum() for t in T])
    shape = Exponent(1.0 / a - 2.0, REMAINING)
    mass = Exponent(1.0 / a - 1.0, MEMORY, 0.03, LEARNING)
    rate = Exponent(1.0 / a, "gamma", 0.03)
    peaks = gamma * np.geomspace(1e-2, 1.0, 9)
    by_rate = np.array([influence(problem, wsd(size.longest, g)).sum() for g in peaks])
    case = named(a, T=f"{size.longest:.0e}")
    conditions = hypotheses(*(_law(a, int(t), gamma) for t in T[[0, -1]]))
    return [
        Check(
            POINTWISE,
            case,
            _pointwise(a, size.longest),
            shape,
            wrong_exponents(shape),
            hypotheses(_law(a, size.longest, gamma)),
        ),
        Check(
            TOTAL,
            case,
            Curve(horizons(T, gamma), totals, "total influence", DECADE),
            mass,
            wrong_exponents(mass),
            conditions,
        ),
        Check(
            RATE,
            case,
            Curve({"gamma": peaks}, by_rate, "total influence", DECADE),
            rate,
            wrong_exponents(rate),
            hypotheses(*(_law(a, size.longest, float(g)) for g in peaks[[0, -1]])),
        ),
    ]


def _law(a: float, steps: int, gamma: float) -> Law:
    problem = wide_problem(a, SOURCE)
    return one_pass_law(a, SOURCE, WIDE, steps=steps, peak=gamma, batches=1, problem=problem)


def _pointwise(a: float, steps: int) -> Curve:
    """kappa_t/gamma_t^2 against 1 + R_t over the stable phase and the decay of one schedule."""
    problem = wide_problem(a, SOURCE)
    rates = wsd(steps, peak_rate(problem))
    after = 1.0 + remaining_mass(rates)
    first = wsd_phases(steps)[0]
    targets = np.geomspace(after[first], 10.0, 25)[::-1]
    # Reversed for the search: remaining mass falls along the schedule.
    indices = np.unique(steps - 1 - np.searchsorted(after[::-1], targets))[::-1]
    scaled = influence(problem, rates)[indices] / rates[indices] ** 2
    return Curve({REMAINING: after[indices]}, scaled, "influence / rate^2", DECADE)


def _separation(size: CheckSize, a: float, b: float) -> list[Check[Any]]:
    """Longer decays with shorter stable phases, at the same sum of the rates."""
    problem = wide_problem(a, b)
    gamma = peak_rate(problem)
    times = size.longest * np.geomspace(3e-4, 1e-2, 10)
    schedules = [_same_mass(size.longest, gamma, tau) for tau in times]
    ones = [np.ones(rates.size) for rates in schedules]
    N = fewest_samples(gamma * size.longest)
    single = [one_pass_risk(problem, r, B) for r, B in zip(schedules, ones, strict=True)]
    reused = [
        multi_pass_risk(problem, r, B, samples=N, method="simple")
        for r, B in zip(schedules, ones, strict=True)
    ]
    stays, moves = Exponent(0.0, TAU, 0.01), Exponent(1.0 / a - 1.0, TAU, 0.03)
    curves: list[tuple[Claim, list[Any], str, Exponent]] = [
        (DECAY_BIAS, single, "bias", stays),
        (DECAY_NOISE, single, "variance_noise", moves),
        (DECAY_FLUCTUATION, reused, "fluctuation", moves),
        (DECAY_GD_BIAS, reused, "bias", stays),
        (DECAY_GD_VARIANCE, reused, "variance", stays),
    ]
    return [
        Check(
            claim,
            named(a, b, A=f"{gamma * 0.6 * size.longest:.3g}"),
            Curve({TAU: times}, parts(risks, part), part, DECADE),
            law,
            wrong_exponents(law) | ({} if law is stays else {"the other horizon": stays}),
        )
        for claim, risks, part, law in curves
    ]


def _same_mass(steps: int, peak: float, decay_time: float) -> FloatArray:
    """WSD whose rates sum to 0.6 peak steps, with a decay of the given time constant."""
    warmup = steps // 10
    decay = round(-math.log(FINAL) * decay_time)
    stable = round(0.6 * steps - 0.5 * (warmup + 1) - decay_time * (1.0 - FINAL) + 0.5)
    return wsd(warmup + stable + decay, peak, warmup, warmup + stable, final=FINAL)
