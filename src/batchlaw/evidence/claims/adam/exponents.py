r"""Exponents of Adam's bias and variance in steps, batch and rate.

SGD's laws at the effective rate eta ~ g sqrt(B), on the eigenvalues' exponent alpha, which is a
in a generic basis and a/2 in the eigenbasis:

    bias ~ (g sqrt(B) T)^((1 - b)/alpha)
    variance ~ eta/B x SGD's horizons:
      exponential decay   B^(1/(2 alpha) - 1) g^(1/alpha) (T/log T)^(1/alpha - 1)
      linear, alpha > 2   B^(-3/4) g^(1/2) T^(-1/2)
      constant, alpha > 1 B^(-1/2) g
      constant, alpha < 1 B^(1/(2 alpha) - 1) g^(1/alpha) T^(1/alpha - 1), which grows
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from batchlaw._base.checks import IntArray
from batchlaw.evidence.claims.adam.setting import Setting, claim
from batchlaw.evidence.claims.check_settings import DECADE
from batchlaw.evidence.claims.claim import (
    Check,
    Claim,
    Curve,
    Exponent,
    Task,
    wrong_exponents,
)
from batchlaw.evidence.claims.outside.rates import Schedule, horizon_curve, horizons
from batchlaw.schedule.adam import EIGEN, GENERIC
from batchlaw.schedule.rates import constant, wsd

# Effective rate times the largest eigenvalue at the peak, and the batch that it is for.
PEAK, BATCH = 0.25, 64.0
# On a flat spectrum the variance grows with T, so the rate must be lower.
FLAT_PEAK = 0.025
SIGMA = 100.0
BIAS, VARIANCE = "bias", "variance"
STEPS, SIZES, RATES = "steps", "batch", "rate"
# Batches and multiples of the peak rate: from a tenth of the largest to the largest.
MULTIPLES = 10.0 ** np.arange(-2.0, 0.01, 0.25)
BATCHES = 256.0 * MULTIPLES
# Steps of the longest run: along the steps, and where batch or rate vary.
LONGEST, LONGEST_EXPONENTIAL, WHERE_VARIED, QUICK_STEPS = 30_000, 10**5, 10**4, 3000

DECAYS: Mapping[str, Schedule] = {
    "exponential": lambda steps: wsd(steps, 1.0),
    "linear": lambda steps: wsd(steps, 1.0, decay="linear"),
    "constant": lambda steps: constant(steps, 1.0),
}


@dataclass(frozen=True)
class Law:
    """One exponent: of a part of the risk, in one variable.

    Attributes
    ----------
    part, variable
        What is measured and what is varied.
    value, sgd
        The exponent, and SGD's, which is planted where it is another.
    against, rival
        Abscissae of the law.
    """

    part: str
    variable: str
    value: float
    sgd: float
    against: str
    rival: str | None = None

    @property
    def exponent(self) -> Exponent:
        """The law that the evidence judges; a variance may be 0.03 off where SGD's may."""
        wide = self.part == VARIANCE and self.variable != SIZES
        return Exponent(self.value, self.against, 0.03 if wide else 0.02, self.rival)


@dataclass(frozen=True)
class Sweep:
    """A setting under one decay, along the steps, the batch or the rate."""

    setting: Setting
    decay: str
    variable: str
    quick: bool = False

    @property
    def alpha(self) -> float:
        """Exponent of the eigenvalues that SGD at the effective rates sees."""
        return self.setting.a if self.setting.basis == GENERIC else 0.5 * self.setting.a

    @property
    def laws(self) -> list[Law]:
        """The bias's law, which is the same under every decay and listed for one, and Var's."""
        q, sgd_q = (1.0 - self.setting.b) / self.alpha, (1.0 - self.setting.b) / self.setting.a
        in_steps, in_eta, horizon = _variance(self.alpha, self.decay)
        sgd_steps, sgd_eta, _ = _variance(self.setting.a, self.decay)
        rival = "T" if horizon != "T" else None
        bias, variance = {
            STEPS: (
                Law(BIAS, STEPS, q, sgd_q, "T"),
                Law(VARIANCE, STEPS, in_steps, sgd_steps, horizon, rival),
            ),
            SIZES: (
                Law(BIAS, SIZES, 0.5 * q, 0.0, "B"),
                Law(VARIANCE, SIZES, 0.5 * in_eta - 1.0, -1.0, "B"),
            ),
            RATES: (
                Law(BIAS, RATES, q, sgd_q, "g"),
                Law(VARIANCE, RATES, in_eta, sgd_eta, "g"),
            ),
        }[self.variable]
        return [bias, variance] if self.decay == "exponential" else [variance]

    def claim(self, law: Law) -> Claim:
        """One claim per basis, part, variable, and for Var per decay."""
        basis = self.setting.basis
        if law.part == BIAS:
            return claim(
                f"{basis}-bias-{law.variable}",
                f"{basis} basis: the exponent of bias in the {law.variable}",
            )
        flat = "-flat" if self.alpha < 1.0 else ""
        spectrum = " on a flat spectrum" if flat else ""
        rate = "at a constant rate" if self.decay == "constant" else f"under {self.decay} decay"
        return claim(
            f"{basis}-{self.decay}-variance{flat}-{law.variable}",
            f"{basis} basis, {rate}{spectrum}: the exponent of Var in the {law.variable}",
        )

    def longest(self, quick: bool) -> int:
        """Steps of the longest run."""
        if quick:
            return QUICK_STEPS
        if self.variable != STEPS:
            return WHERE_VARIED
        return LONGEST_EXPONENTIAL if self.decay == "exponential" else LONGEST


def _variance(alpha: float, decay: str) -> tuple[float, float, str]:
    """Exponents of B Var in the steps and in the effective rate, and the horizon."""
    if decay == "exponential":
        return 1.0 / alpha - 1.0, 1.0 / alpha, "T/log T"
    power = {"linear": 1.0, "constant": 0.0}[decay]
    if alpha > power + 1.0:
        return -power / (power + 1.0), 1.0 / (power + 1.0), "T"
    return 1.0 / alpha - 1.0, 1.0 / alpha, "T"


def _curves(sweep: Sweep, longest: int) -> dict[str, Curve]:
    """Bias and variance along the sweep."""
    setting, shape = sweep.setting, DECAYS[sweep.decay]
    peak = (PEAK if sweep.alpha > 1.0 else FLAT_PEAK) * setting.unit(BATCH)
    if sweep.variable == STEPS:
        steps: IntArray = horizons(longest)
        risks = [setting.risk(peak * shape(int(T)), BATCH) for T in steps]
    elif sweep.variable == SIZES:
        risks = [setting.risk(peak * shape(longest), batch) for batch in BATCHES]
    else:
        risks = [setting.risk(peak * multiple * shape(longest), BATCH) for multiple in MULTIPLES]
    curves = {}
    for name in (BIAS, VARIANCE):
        values = np.array([float(getattr(risk, name)) for risk in risks])
        if sweep.variable == STEPS:
            curves[name] = horizon_curve(steps, list(values), name)
        else:
            varied = {"B": BATCHES} if sweep.variable == SIZES else {"g": MULTIPLES}
            curves[name] = Curve(varied, values, name, width=DECADE)
    return curves


def checks(sweep: Sweep, longest: int) -> list[Check[Any]]:
    """Every law of a sweep, with exponents 0.1 off, the other horizon, and SGD's exponent."""
    curves = _curves(sweep, longest)
    relation = "to" if sweep.variable == STEPS else "="
    case = f"{sweep.setting.name}, {sweep.decay}, T {relation} {longest:g}"
    largest = float(BATCHES[-1]) if sweep.variable == SIZES else BATCH
    excess = float((curves[BIAS].y + curves[VARIANCE].y).max())
    rows = []
    for law in sweep.laws:
        wrong = wrong_exponents(law.exponent)
        if abs(law.sgd - law.value) > 0.05:
            wrong["SGD's exponent"] = Exponent(law.sgd, law.against, law.exponent.tolerance)
        rows.append(
            Check(
                sweep.claim(law), case, curves[law.part], law.exponent, wrong,
                sweep.setting.hypotheses(largest, excess),
            )
        )  # fmt: skip
    return rows


def _sweeps(setting: Setting, decay: str, quick: bool = False) -> list[Sweep]:
    return [Sweep(setting, decay, v, quick and v == SIZES) for v in (STEPS, SIZES, RATES)]


SWEEPS = [
    *_sweeps(Setting(2.0, 1.5, SIGMA), "exponential", quick=True),
    *_sweeps(Setting(1.5, 1.5, SIGMA), "exponential"),
    *_sweeps(Setting(4.0, 1.5, SIGMA), "linear"),
    *_sweeps(Setting(5.0, 2.0, SIGMA), "linear"),
    *_sweeps(Setting(2.0, 1.5, SIGMA), "constant", quick=True),
    *_sweeps(Setting(3.0, 1.8, SIGMA), "constant"),
    *_sweeps(Setting(3.0, 1.5, SIGMA, basis=EIGEN), "exponential", quick=True),
    *_sweeps(Setting(4.0, 2.0, SIGMA, basis=EIGEN), "exponential"),
    *_sweeps(Setting(1.5, 1.5, SIGMA, basis=EIGEN), "constant"),
    *_sweeps(Setting(1.6, 1.5, SIGMA, basis=EIGEN), "constant"),
]


def tasks(quick: bool) -> list[Task]:
    """One task per sweep; the quick size has three."""
    return [
        Task(
            f"{sweep.setting.basis} {sweep.decay} a={sweep.setting.a:g} {sweep.variable}",
            tuple(map(sweep.claim, sweep.laws)),
            partial(checks, sweep, sweep.longest(quick)),
        )
        for sweep in SWEEPS
        if sweep.quick or not quick
    ]
