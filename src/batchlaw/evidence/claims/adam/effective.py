"""What a batch does to Adam's rates: which average of batches counts, and what does not scale.

A batch held longer than beta2's memory sets the effective rate g sqrt(B); batches that change
within the memory enter by the mean of 1/B.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.batches.allocation import allocate
from batchlaw.batches.rules import KeepsRates, rules_of
from batchlaw.evidence.claims.adam.setting import Setting, claim
from batchlaw.evidence.claims.check_settings import DECADE
from batchlaw.evidence.claims.claim import (
    Check,
    Collapse,
    Curve,
    Estimate,
    Exponent,
    Proportional,
    Task,
    Value,
    wrong_exponents,
)
from batchlaw.model.problem import Problem
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.schedule.adam import EIGEN, GENERIC, Adam
from batchlaw.schedule.rates import constant, wsd
from batchlaw.theory.adam_limit import effective_rates, preconditioned

MEAN_BATCH = 8.0
NAMES = ("constant", "linear ramp", "late-large", "early-large", "like the rate")
# Peak effective rate times the largest eigenvalue.
PEAK = 0.05
RATES_CLAIM = claim("effective-rates", "the excess is SGD's at the effective rates")
FAST = claim("fast-batches", "batches that change within the memory act as their harmonic mean")
SLOW = claim("slow-batches", "batches held beyond the memory act as a power mean of exponent 1/2")
SCALING = claim("square-root-scaling", "T/4 updates of 4 B samples at 2 g leave the same excess")
FLOOR_RATE = claim("floor-rate", "without label noise the excess falls to a floor ~ g^2")
FLOOR_BATCH = claim("floor-batch", "without label noise the excess falls to a floor ~ 1/B")


def rule_batches(rates: FloatArray) -> dict[str, FloatArray]:
    """Five rules that people use, at the mean batch, no batch below 1."""
    budget = int(MEAN_BATCH * rates.size)
    shapes = {name: rules_of(KeepsRates)[name].shape(rates) for name in NAMES}
    return {
        name: np.asarray(allocate(shape**2, budget, method="continuous"), np.float64)
        for name, shape in shapes.items()
    }


def rates_check(setting: Setting, decay: str) -> Check[Any]:
    """Excess of five schedules against SGD's exact one at four candidates for the rates."""
    rates = PEAK * setting.unit(MEAN_BATCH) * wsd(1000, 1.0, decay=decay)
    batches = rule_batches(rates)
    problem, sgd = setting.problem, preconditioned(setting.problem, setting.rule)

    def at_rates(rule: Adam, *, own: bool) -> FloatArray:
        """SGD's excess at the effective rates of each schedule, or of a constant batch."""
        held = {name: b if own else np.full_like(b, MEAN_BATCH) for name, b in batches.items()}
        risks = [
            one_pass_risk(sgd, effective_rates(problem, rates, held[name], rule), b)
            for name, b in batches.items()
        ]
        return np.array([float(risk.excess) for risk in risks])

    no_memory = Adam(setting.beta1, 0.0, eps=0.0, basis=setting.basis)
    summaries = {
        "SGD at the effective rates": at_rates(setting.rule, own=True),
        "SGD at g sqrt(B_t), no memory": at_rates(no_memory, own=True),
        "SGD at the constant batch's rates": at_rates(setting.rule, own=False),
    }
    law, *others = summaries
    tolerance = 0.03
    return Check(
        RATES_CLAIM,
        f"{setting.name}, {decay}, T = 1000",
        Collapse(np.asarray(setting.risk(rates, batches).excess), summaries, "excess"),
        Proportional(law, tolerance),
        {name: Proportional(name, tolerance) for name in others},
        setting.hypotheses(max(float(b.max()) for b in batches.values())),
    )


def alternation_checks(a: float, b: float) -> list[Check[Any]]:
    """Batches 4 and 64 in turn, held for one update or for 2000, with a memory of 20."""
    setting = Setting(a, b, 100.0, beta1=0.0, beta2=0.95)
    steps, small, large = 16_000, 4.0, 64.0
    rates = constant(steps, PEAK * setting.unit(large))
    means = {
        "harmonic mean": 2.0 / (1.0 / small + 1.0 / large),
        "power mean 1/2": (0.5 * (math.sqrt(small) + math.sqrt(large))) ** 2,
        "mean": 0.5 * (small + large),
    }
    periods = {FAST: (1, "harmonic mean"), SLOW: (2000, "power mean 1/2")}
    even = [
        np.where((np.arange(steps) // period) % 2, large, small) for period, _ in periods.values()
    ]
    # The constant batch with the same bias, from the local power of the bias in B.
    sizes = np.geomspace(small, large, 9)
    bias = np.asarray(setting.risk(rates, np.tile(sizes[:, None], steps)).bias)
    found = np.asarray(setting.risk(rates, np.stack(even)).bias)
    same = np.exp(np.interp(-np.log(found), -np.log(bias), np.log(sizes)))
    return [
        Check(
            statement,
            f"{setting.name}, T = {steps}, 4 and 64, each for {period}",
            Estimate(float(value), "constant batch with the same bias"),
            Value(means[name], 0.04 * means[name]),
            {other: Value(v, 0.04 * v) for other, v in means.items() if other != name},
            setting.hypotheses(large),
        )
        for (statement, (period, name)), value in zip(periods.items(), same, strict=True)
    ]


def scaling_check(setting: Setting) -> Check[Any]:
    """The same samples in fewer updates, with the rate scaled in three ways."""
    steps, batch, times = 4000, 4.0, 4
    peak = PEAK * setting.unit(batch)
    base = float(setting.risk(wsd(steps, peak, decay="linear"), batch).excess)

    def ratio(factor: float) -> float:
        rates = wsd(steps // times, factor * peak, decay="linear")
        return float(setting.risk(rates, times * batch).excess) / base

    return Check(
        SCALING,
        f"{setting.name}, linear, T = {steps}, B = {batch:g}",
        Estimate(ratio(math.sqrt(times)), "excess over that of 4 times the updates"),
        Value(1.0, 0.02),
        {
            "SGD's, linear in the batch": Value(ratio(float(times)), 0.02),
            "the rate not scaled": Value(ratio(1.0), 0.02),
        },
        setting.hypotheses(times * batch),
    )


def floor_checks() -> list[Check[Any]]:
    """No label noise, a constant rate, where SGD's excess would tend to zero.

    The noise of the features is s2 = R, which Adam divides out: the rate grows as R falls, until
    R = n tr(Sigma) g^2/(4 B) in the generic basis of n directions.
    """
    count = 1000.0
    problem = Problem.from_spectrum([1.0], [1.0 / count], 0.0, [count])
    decade = 10.0 ** np.arange(-1.0, 0.01, 0.125)
    peaks, sizes = 3e-4 * decade, 10.0 * decade
    rule = Adam(0.0, 0.999, eps=0.0, basis="generic")

    def excess(peak: float, batch: float) -> float:
        return float(one_pass_risk(problem, constant(10**5, peak), batch, rule=rule).excess)

    by_rate = np.array([excess(float(peak), 2.0) for peak in peaks])
    by_batch = np.array([excess(float(peaks[0]), float(batch)) for batch in sizes])
    rows: list[Check[Any]] = []
    for statement, name, x, y, value in (
        (FLOOR_RATE, "g", peaks, by_rate, 2.0),
        (FLOOR_BATCH, "B", sizes, by_batch, -1.0),
    ):
        law = Exponent(value, name, 0.05)
        wrong = wrong_exponents(law) | {"no floor, as for SGD": Exponent(0.0, name, 0.05)}
        curve = Curve({name: x}, y, "excess", width=DECADE)
        rows.append(Check(statement, "1000 equal directions, T = 1e+05", curve, law, wrong))
    return rows


def tasks(quick: bool) -> list[Task]:
    """Effective rates for three settings, alternating batches and scaling; in full the floor."""
    settings = [
        (Setting(2.0, 1.5, 10.0, beta2=0.999), "exponential"),
        (Setting(2.0, 1.5, 10.0, beta2=0.999), "linear"),
        (Setting(3.0, 1.5, 10.0, beta2=0.99, basis=EIGEN), "linear"),
    ]
    return [
        *(
            Task(
                f"effective rates {setting.basis} {setting.beta2:g} {decay}",
                (RATES_CLAIM,),
                partial(_rates_checks, setting, decay),
            )
            for setting, decay in settings
        ),
        *(
            Task(f"alternating batches a={a:g}", (FAST, SLOW), partial(alternation_checks, a, b))
            for a, b in ((1.5, 2.2), (2.0, 2.6))[: 1 if quick else 2]
        ),
        *(
            Task(
                f"square-root scaling {basis}",
                (SCALING,),
                partial(_scaling_checks, Setting(a, 1.5, 10.0, beta1=0.0, basis=basis)),
            )
            for a, basis in ((2.0, GENERIC), (3.0, EIGEN))
        ),
        *(
            []
            if quick
            else [Task("floor without label noise", (FLOOR_RATE, FLOOR_BATCH), floor_checks)]
        ),
    ]


def _rates_checks(setting: Setting, decay: str) -> list[Check[Any]]:
    return [rates_check(setting, decay)]


def _scaling_checks(setting: Setting) -> list[Check[Any]]:
    return [scaling_check(setting)]
