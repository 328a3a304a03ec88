"""Which batches are best for Adam, and why SGD's square-root rule is not among them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.batches.allocation import allocate
from batchlaw.design.sensitivity import sensitivity
from batchlaw.evidence.claims.adam.setting import Setting, claim, part
from batchlaw.evidence.claims.claim import (
    Check,
    Collapse,
    Estimate,
    Proportional,
    Task,
    Value,
)
from batchlaw.influences.weights import influence
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.schedule.rates import cosine, step, wsd
from batchlaw.theory.adam_limit import (
    effective_rates,
    limit_batches,
    limit_slopes,
    preconditioned,
    squared_rate_gain,
)

BATCH = 8.0
PEAK = 0.05
SLOPES = claim(
    "slopes",
    "what a sample is worth: SGD's influence, and half the gain of the rates that it raises",
)
STATIONARY = claim("stationary-batches", "at the limit's batches every sample is worth the same")
SQUARE_ROOT = claim("square-root-rule", "B_t ~ sqrt(influence) is not stationary, and loses")
SGD_LOSES = claim(
    "sgd-rule-loses", "with a long memory SGD's square-root rule leaves more than a constant batch"
)
SQUARED_RATE = claim(
    "squared-rate",
    "without memory B_t ~ g_t^2 multiplies the batch that the bias sees by T sum g^2/(sum g)^2",
)
HURT = claim("samples-hurt", "with a long memory some updates' samples raise the final excess")
SHAPES = {
    "exponential": lambda steps: wsd(steps, 1.0),
    "linear": lambda steps: wsd(steps, 1.0, decay="linear"),
    "cosine": lambda steps: cosine(steps, 1.0, final=0.01),
    "drops": lambda steps: step(steps, 1.0, drops=(0.5, 0.75), factor=0.2),
}


def peak_rates(setting: Setting, decay: str, steps: int, peak: float = PEAK) -> FloatArray:
    """Rates with this effective peak, at the constant batch, in units of 1/lambda_1."""
    return np.asarray(peak * setting.unit(BATCH) * SHAPES[decay](steps))


def square_root_batches(setting: Setting, rates: FloatArray) -> FloatArray:
    """SGD's rule by its influence at the effective rates of the constant batch."""
    eta = effective_rates(setting.problem, rates, np.full(rates.size, BATCH), setting.rule)
    kappa = influence(preconditioned(setting.problem, setting.rule), eta)
    budget = int(BATCH * rates.size)
    return np.asarray(allocate(kappa, budget, method="continuous"), dtype=np.float64)


def worth(setting: Setting, rates: FloatArray, batches: FloatArray) -> FloatArray:
    """-dE/dB_t by the mean field's adjoint."""
    return -sensitivity(setting.problem, rates, batches, rule=setting.rule).total


def slope_check(setting: Setting, decay: str) -> Check[Any]:
    """The adjoint at a constant batch against the limit's two terms, and against either alone."""
    rates = peak_rates(setting, decay, 300)
    batches = np.full(rates.size, BATCH)
    limit = limit_slopes(setting.problem, rates, batches, setting.rule)
    summaries = {
        "both terms": limit.total,
        "the influence alone (SGD)": limit.direct,
    }
    law, other = summaries
    return Check(
        SLOPES,
        f"{setting.name}, {decay}, T = 300",
        Collapse(worth(setting, rates, batches), summaries, "-dE/dB_t"),
        Proportional(law, 0.15),
        {other: Proportional(other, 0.15)},
        setting.hypotheses(BATCH),
    )


def optimum_checks(setting: Setting, decay: str) -> list[Check[Any]]:
    """Stationarity of the limit's batches by the adjoint, and what SGD's rule loses to them."""
    rates = peak_rates(setting, decay, 300)
    best = limit_batches(setting.problem, rates, BATCH * rates.size, setting.rule)
    root = square_root_batches(setting, rates)
    free = best > 1.01
    values = {
        "best": worth(setting, rates, best)[free],
        "root": worth(setting, rates, root)[root > 1.01],
    }
    off = {name: float(v.std() / v.mean()) for name, v in values.items()}
    excess = part(setting.risk(rates, np.stack([best, root])), "excess")
    case = f"{setting.name}, {decay}, T = 300"
    hypotheses = setting.hypotheses(float(best.max()))
    return [
        Check(
            STATIONARY, case, Estimate(off["best"], "relative spread of -dE/dB_t"),
            Value(0.1, side="at_most"),
            {"SGD's rule, which spreads more": Value(off["root"], side="at_least")},
            hypotheses,
        ),
        Check(
            SQUARE_ROOT, case, Estimate(float(excess[1] / excess[0]), "excess over the best's"),
            Value(1.005, side="at_least"),
            {"stationary: no loss": Value(1.0, 0.0005)}, hypotheses,
        ),
    ]  # fmt: skip


def loss_check(setting: Setting, decay: str) -> Check[Any]:
    """The square-root rule against a constant batch, by Adam and as SGD's theory has it."""
    rates = peak_rates(setting, decay, 1000)
    batches = np.stack([square_root_batches(setting, rates), np.full(rates.size, BATCH)])
    excess = part(setting.risk(rates, batches), "excess")
    eta = effective_rates(setting.problem, rates, batches[1], setting.rule)
    promised = one_pass_risk(preconditioned(setting.problem, setting.rule), eta, batches)
    sgd = part(promised, "excess")
    return Check(
        SGD_LOSES,
        f"{setting.name}, {decay}, T = 1000",
        Estimate(float(excess[0] / excess[1]), "excess over a constant batch's"),
        Value(1.01, side="at_least"),
        {"as for SGD": Value(float(sgd[0] / sgd[1]), 0.005)},
    )


def losses() -> list[Check[Any]]:
    """With much and with little label noise: no regime is needed to see the loss."""
    noisy, plain = (Setting(2.0, 1.5, sigma, beta2=0.999) for sigma in (10.0, 1.0))
    return [loss_check(noisy, "linear"), loss_check(plain, "linear"), loss_check(plain, "cosine")]


def squared_rate_check(decay: str) -> Check[Any]:
    """The constant batch with the same bias as B_t ~ g_t^2, over the mean batch."""
    setting = Setting(1.5, 2.2, 100.0, beta1=0.0, beta2=0.9)
    steps, mean = 4000, 64.0
    shape = SHAPES[decay](steps)
    rates = PEAK * setting.unit(mean) * shape
    squared = np.asarray(allocate(shape**4, int(mean * steps), method="continuous"), np.float64)
    sizes = mean * np.geomspace(0.5, 4.0, 7)
    bias = np.asarray(setting.risk(rates, np.tile(sizes[:, None], steps)).bias)
    own = float(setting.risk(rates, squared).bias)
    same = float(np.exp(np.interp(-np.log(own), -np.log(bias), np.log(sizes))))
    law = squared_rate_gain(shape)
    return Check(
        SQUARED_RATE,
        f"{setting.name}, {decay}, T = {steps}",
        Estimate(same / mean, "constant batch with the same bias over the mean batch"),
        Value(law, 0.03 * law),
        {"SGD's: the bias does not change": Value(1.0, 0.03)},
        setting.hypotheses(float(squared.max())),
    )


def hurt_check() -> Check[Any]:
    """The share of updates whose samples raise the final excess."""
    setting = Setting(3.0, 2.2, 10.0, basis="eigen", beta2=0.999)
    rates = peak_rates(setting, "linear", 1000)
    negative = worth(setting, rates, np.full(rates.size, BATCH)) < 0.0
    return Check(
        HURT,
        f"{setting.name}, linear, T = 1000",
        Estimate(float(negative.mean()), "share of updates with dE/dB_t > 0"),
        Value(0.05, side="at_least"),
        {"none, as for SGD": Value(0.0, 0.01)},
    )


def tasks(quick: bool) -> list[Task]:
    """Slopes and optimum for two memories, the rules' losses and gains."""
    short, long_ = (Setting(2.0, 1.5, 10.0, beta1=0.0, beta2=beta2) for beta2 in (0.99, 0.999))
    decays = ("exponential", "cosine") if quick else tuple(SHAPES)
    return [
        *(
            Task(
                f"optimum {setting.beta2:g}",
                (SLOPES, STATIONARY, SQUARE_ROOT),
                partial(_optimum, setting, "exponential"),
            )
            for setting in ((long_,) if quick else (short, long_))
        ),
        Task("square-root rule", (SGD_LOSES,), losses),
        Task("squared rate", (SQUARED_RATE,), lambda: [squared_rate_check(d) for d in decays]),
        Task("samples that hurt", (HURT,), lambda: [hurt_check()]),
    ]


def _optimum(setting: Setting, decay: str) -> list[Check[Any]]:
    return [slope_check(setting, decay), *optimum_checks(setting, decay)]
