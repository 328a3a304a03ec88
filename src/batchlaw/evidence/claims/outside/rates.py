r"""Outside the paper's WSD: decays that are not exponential.

The noise that survives when the rate falls as gamma (n/D)^p over the last n = D..0 steps follows
from kappa ~ gamma_t^2 (1 + R_t)^(1/a - 2) with R_t ~ n^(p+1) as the variable:

    Var_noise ~ gamma (gamma D)^(-p/(p+1)) int_0^{gamma D} r^(p/(p+1)) (1 + r)^(1/a - 2) dr,

which is T^(1/a - 1), without a logarithm, for a < p + 1; T^-p/(p+1) for a > p + 1, where the
only the last few steps matter and the spectrum no longer does; T^-p/(p+1) log T in between.
Linear and 1-sqrt decay have p = 1, a cosine p = 2, and a rate that stays up p = 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.batches.allocation import schedule_families
from batchlaw.batches.effective import effective_batch
from batchlaw.evidence.claims.claim import (
    Check,
    Claim,
    Collapse,
    Curve,
    Estimate,
    Exponent,
    Proportional,
    Task,
    Value,
    task_name,
    wrong_exponents,
)
from batchlaw.evidence.claims.outside.departure import Departure
from batchlaw.influences.weights import influence
from batchlaw.model.problem import Problem
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.schedule.rates import constant, cosine, step, wsd

PEAK = 0.25
BATCH = 8
Schedule = Callable[[int], FloatArray]


def _decay(id_: str, name: str) -> Departure:
    return Departure(id_, name, "outside section 2, WSD")


EXPONENTIAL = _decay("exponential-decay", "exponential decay")
LINEAR = _decay("linear-decay", "linear decay")
ONE_MINUS_SQRT = _decay("1-sqrt-decay", "1-sqrt decay")
COSINE = _decay("cosine-decay", "cosine decay")
DROP = _decay("one-drop", "one drop by 10")
CONSTANT = _decay("constant-rate", "constant rate")
ANY = _decay("any-decay", "any decay")
SINGLE_SAMPLES = _decay("single-samples", "constant rate, single samples at its end")

SHAPES: Mapping[Departure, Schedule] = {
    EXPONENTIAL: lambda steps: wsd(steps, PEAK),
    LINEAR: lambda steps: wsd(steps, PEAK, decay="linear"),
    ONE_MINUS_SQRT: lambda steps: wsd(steps, PEAK, decay="1-sqrt"),
    COSINE: lambda steps: cosine(steps, PEAK, warmup=0.1),
    DROP: lambda steps: step(steps, PEAK, drops=(0.5,)),
    CONSTANT: lambda steps: constant(steps, PEAK),
}
DROP_NOISE = DROP.claim("noise", "Var_noise is that of the last rate, whatever T")
BIAS = ANY.claim("bias", "the bias is a function of the sum of the rates")
FEEDBACK = SINGLE_SAMPLES.claim("feedback", "noise feeds on noise, B_eff fails")


class Horizon(NamedTuple):
    """The exponent of Var_noise for a decay, its horizon, and a rival that must fit worse."""

    name: str
    shape: Departure
    a: float
    exponent: float
    against: str
    rival: str | None
    settling_steps: int

    @property
    def claim(self) -> Claim:
        """What Var_noise does with the number of steps."""
        falls = f"the horizon of Var_noise is {self.against}"
        return self.shape.claim(self.name, falls if self.exponent else "Var_noise does not fall")


HORIZONS = (
    Horizon("horizon", EXPONENTIAL, 2.0, -0.5, "T/log T", "T", 10**6),
    Horizon("horizon", LINEAR, 2.0, -0.5, "T/log^2 T", "T/log T", 10**5),
    Horizon("horizon-steep", LINEAR, 4.0, -0.5, "T", "T/log T", 10**6),
    Horizon("horizon-steep", ONE_MINUS_SQRT, 4.0, -0.5, "T", "T/log T", 10**5),
    Horizon("horizon", COSINE, 1.4, 1.0 / 1.4 - 1.0, "T", "T/log T", 10**6),
    Horizon("noise", CONSTANT, 2.0, 0.0, "T", None, 10**5),
)


def horizons(longest: int) -> IntArray:
    """Four horizons per decade, over the last three decades."""
    return np.round(longest * 10.0 ** np.arange(-3.0, 0.1, 0.25)).astype(np.int64)


def horizon_curve(steps: IntArray, values: Sequence[float], quantity: str) -> Curve:
    """A curve over the horizons that a law could use, fitted over the last decade."""
    T = steps.astype(np.float64)
    abscissae = {"T": T, "T/log T": T / np.log(T), "T/log^2 T": T / np.log(T) ** 2}
    return Curve(abscissae, np.array(values), quantity, width=math.log(10.0))


def noise_left(problem: Problem, rates: FloatArray) -> float:
    """Var_noise of constant batches."""
    risk = one_pass_risk(problem, rates, np.full(rates.size, BATCH))
    return float(np.asarray(risk.variance_noise))


def horizon_checks(row: Horizon, longest: int) -> list[Check[Any]]:
    """The exponent of Var_noise in the horizon for one decay."""
    problem = Problem.power_law_nodes(row.a, 1.5, math.inf, nodes=200)
    steps = horizons(longest)
    noise = [noise_left(problem, SHAPES[row.shape](int(T))) for T in steps]
    law = Exponent(row.exponent, row.against, 0.02, row.rival)
    wrong = wrong_exponents(law)
    if row.exponent != 1.0 / row.a - 1.0:
        wrong["the exponent of WSD"] = Exponent(1.0 / row.a - 1.0, "T/log T", 0.02)
    return [
        Check(
            row.claim,
            f"a = {row.a:g}, T to {longest:g}",
            horizon_curve(steps, noise, "Var_noise"),
            law,
            wrong,
        )
    ]


def drop_check(longest: int) -> Check[Any]:
    """A drop to a lower rate: the noise of that rate, which does not fall with T."""
    problem = Problem.power_law_nodes(4.0, 1.5, math.inf, nodes=200)
    peak, last = (noise_left(problem, constant(longest, rate)) for rate in (PEAK, 0.1 * PEAK))
    dropped, decayed = (noise_left(problem, SHAPES[s](longest)) for s in (DROP, EXPONENTIAL))
    return Check(
        DROP_NOISE,
        f"a = 4, T = {longest:g}",
        Estimate(dropped / last, "Var_noise over that of the last rate throughout"),
        Value(1.0, 0.03),
        {"the peak rate's": Value(peak / last, 0.03), "WSD's": Value(decayed / last, 0.03)},
    )


def bias_check(longest: int) -> Check[Any]:
    """The bias of all decays at all horizons, by the sum of the rates alone."""
    a, b = 2.0, 1.5
    problem = Problem.power_law_nodes(a, b, math.inf, nodes=200)
    schedules = [SHAPES[s](int(T)) for s in SHAPES for T in (longest // 100, longest // 10)]
    bias = [one_pass_risk(problem, g, np.full(g.size, BATCH)).bias for g in schedules]
    power = (1.0 - b) / a
    summaries = {
        "A_T^((1-b)/a)": np.array([g.sum() ** power for g in schedules]),
        "(gamma T)^((1-b)/a)": np.array([(PEAK * g.size) ** power for g in schedules]),
    }
    return Check(
        BIAS,
        f"a = 2, b = 1.5, {len(SHAPES)} decays, T = {longest // 100:g} and {longest // 10:g}",
        Collapse(np.array(bias, dtype=np.float64), summaries, "bias"),
        Proportional("A_T^((1-b)/a)", 0.01),
        {"peak rate times steps": Proportional("(gamma T)^((1-b)/a)", 0.01)},
    )


def family_collapse(
    problem: Problem, rates: FloatArray, influences: Mapping[str, FloatArray], **update: Any
) -> Collapse:
    """Variance of the four families of the first influence, at 16 samples per update."""
    first = next(iter(influences.values()))
    families = np.array(list(schedule_families(first, 16 * rates.size).values()))
    summaries = {
        name: 1.0 / np.asarray(effective_batch(kappa, families))
        for name, kappa in influences.items()
    }
    summaries["1/mean batch"] = rates.size / families.sum(axis=1)
    variance = np.asarray(one_pass_risk(problem, rates, families, **update).variance)
    return Collapse(variance, summaries, "Var")


def batch_claim(shape: Departure) -> Claim:
    """The claim on the four families of schedules."""
    return shape.claim("effective-batch", "Var follows B_eff")


def batch_check(shape: Departure, scale: float) -> Check[Any]:
    """B_eff across the four families under one decay."""
    return Check(
        batch_claim(shape),
        f"a = 2, b = 1.5, T = 4096, peak {scale * PEAK:g}",
        _families_of(shape, scale),
        Proportional("1/B_eff", 0.06),
        {"mean batch": Proportional("1/mean batch", 0.06)},
    )


def feedback_check() -> Check[Any]:
    """Where the families end on single samples at the peak rate, B_eff is not enough."""
    deviations = _families_of(CONSTANT, 1.0).deviations("1/B_eff")
    return Check(
        FEEDBACK,
        f"a = 2, b = 1.5, T = 4096, peak {PEAK:g}",
        Estimate(float(np.abs(deviations).max()), "largest deviation from Var ~ 1/B_eff"),
        Value(0.2, side="at_least"),
        {"collapse within 6 %": Value(0.06, side="at_most")},
    )


def _families_of(shape: Departure, scale: float) -> Collapse:
    problem = Problem.power_law_nodes(2.0, 1.5, math.inf, nodes=200)
    rates = scale * SHAPES[shape](4096)
    return family_collapse(problem, rates, {"1/B_eff": influence(problem, rates)})


def tasks(longest: int) -> list[Task]:
    """One task per decay and exponent, one for drop and bias, and one for B_eff of all decays."""
    settled = [row for row in HORIZONS if row.settling_steps <= longest]
    scales = {shape: 0.1 if shape == CONSTANT else 1.0 for shape in SHAPES}
    return [
        *(
            Task(
                task_name(f"horizon {row.shape.id}", a=row.a),
                (row.claim,),
                partial(horizon_checks, row, longest),
            )
            for row in settled
        ),
        Task(
            "drop and bias", (DROP_NOISE, BIAS), lambda: [drop_check(longest), bias_check(longest)]
        ),
        Task(
            "effective batch of decays",
            (*map(batch_claim, SHAPES), FEEDBACK),
            lambda: [*(batch_check(*pair) for pair in scales.items()), feedback_check()],
        ),
    ]
