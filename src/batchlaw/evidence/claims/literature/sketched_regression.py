r"""Lin, Wu, Kakade, Bartlett and Lee (2024), "Scaling Laws in Linear Regression: Compute,
Parameters, and Data", arXiv 2406.08466.

One-pass SGD with one sample per step on a sketched power law, the rate halved after every
N / log N steps. With N_eff = N / log N and source exponent b,

    Approx ~ M^(1-b),   Bias ~ (N_eff gamma)^((1-b)/a),
    Var ~ min(M, (N_eff gamma)^(1/a)) / N_eff.

Their figures fit slopes for a = b = 1.5 and a = b = 2. The slopes that are printed there, and
the sizes and rate behind them, were not found in text, so the theorem's exponents are the
reference.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.evidence.claims.claim import Check, Claim, Curve, Exponent, Task, task_name
from batchlaw.evidence.claims.literature.power_laws import exponent_check, limit_check, sketch
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.schedule.rates import step

WHERE = "Lin et al. 2024 (arXiv 2406.08466), scaling law under the source condition"
# (a, b): the present paper's, and the two of their figures.
CASES = ((2.0, 1.5), (1.5, 1.5), (2.0, 2.0))
RATE = 0.25
LARGE = 10**12
# Few enough directions for (N_eff gamma)^(1/a) to exceed them.
FEW = 4
# M of a panel at fixed N: between the limits M >> 1 and M << (N_eff gamma)^(1/a).
PANEL = (16, 64)

BIAS = Claim("literature/lin-bias", "Bias ~ N_eff^((1-b)/a)", WHERE)
RISK = Claim("literature/lin-risk", "R - sigma^2 ~ N_eff^((1-b)/a), M large", WHERE)
VARIANCE = Claim("literature/lin-variance", "Var ~ N_eff^(1/a - 1), M large", WHERE)
VARIANCE_FEW = Claim("literature/lin-variance-few", f"Var ~ 1/N_eff, M = {FEW}", WHERE)
LIMIT = Claim("literature/lin-limit", "limit of the risk for many steps, in M", WHERE)
PANEL_RISK = Claim(
    "literature/lin-risk-in-m", "R - sigma^2 ~ M^(1-b) at fixed N", f"{WHERE}; figures"
)


def data_tasks(longest: int) -> list[Task]:
    """One task per case."""
    claims = (BIAS, RISK, VARIANCE, VARIANCE_FEW, LIMIT)
    return [
        Task(task_name("lin", a=a, b=b), claims, partial(data_checks, a, b, longest))
        for a, b in CASES
    ]


def panel_tasks(longest: int) -> list[Task]:
    """One task per case."""
    return [
        Task(task_name("lin in M", a=a, b=b), (PANEL_RISK,), partial(panel_checks, a, b, longest))
        for a, b in CASES
    ]


def exponents(a: float, b: float) -> dict[str, float]:
    """Exponents of the theorem: approximation in M, the others in N_eff at a fixed rate."""
    return {
        "approximation": 1.0 - b,
        "bias": (1.0 - b) / a,
        "variance, large M": 1.0 / a - 1.0,
        "variance, few directions": -1.0,
    }


def halving(samples: int, peak: float) -> FloatArray:
    """Their rates: log2 N stages of equal length, each at half the rate of the one before."""
    stages = max(round(math.log2(samples)), 1)
    return step(samples, peak, [k * samples // stages for k in range(1, stages)], factor=0.5)


def data_checks(a: float, b: float, longest: int) -> list[Check[Any]]:
    """Bias, risk and variance against N_eff, and the limit against M."""
    largest_power = round(math.log2(longest))
    samples = 2 ** np.arange(largest_power - 6, largest_power + 1)
    horizon = {"N_eff": samples / np.log(samples), "N": samples.astype(np.float64)}
    large, few = (
        [one_pass_risk(problem, halving(n, RATE), np.ones(n)) for n in samples.tolist()]
        for problem in (sketch(a, b, LARGE, 1.0, 100), sketch(a, b, FEW, 1.0, 100))
    )
    law = exponents(a, b)
    slow, flat, steep = law["bias"], law["variance, large M"], law["variance, few directions"]
    excess = [risk.total - 1.0 for risk in large]
    measured = (
        (BIAS, [risk.bias for risk in large], slow, 0.01),
        (RISK, excess, slow, 0.01),
        (VARIANCE, [r.variance_noise for r in large], flat, 0.01),
        (VARIANCE_FEW, [r.variance_noise for r in few], steep, 0.02),
    )
    case = f"a = {a:g}, b = {b:g}, N to {samples[-1]}, gamma = {RATE:g} halved log2 N times"
    checks = [
        exponent_check(
            claim,
            case,
            Curve(horizon, np.array(values), claim.sentence),
            Exponent(exponent, "N_eff", tolerance, rival="N"),
        )
        for claim, values, exponent, tolerance in measured
    ]
    return [*checks, limit_check(LIMIT, f"a = {a:g}, b = {b:g}", a, b, law["approximation"], {})]


def panel_checks(a: float, b: float, longest: int) -> list[Check[Any]]:
    """The risk against M at one N, as in their figures.

    Between its two limits the law is only approached, so the tolerance is wider.
    """
    samples = 2 ** round(math.log2(longest))
    sizes = np.geomspace(*PANEL, 8).round()
    rates, batches = halving(samples, RATE), np.ones(samples)
    risks = [one_pass_risk(sketch(a, b, size, 1.0, 48), rates, batches) for size in sizes]
    exponent = exponents(a, b)["approximation"]
    return [
        exponent_check(
            PANEL_RISK,
            f"a = {a:g}, b = {b:g}, N = {samples}, M = {PANEL[0]} to {PANEL[1]}",
            Curve({"M": sizes}, np.array([risk.total - 1.0 for risk in risks]), "R - sigma^2"),
            Exponent(exponent, "M", tolerance=0.04),
        )
    ]
