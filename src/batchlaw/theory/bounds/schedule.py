"""Bounds on a learning-rate schedule and its influence: appendices A.1, A.8, H.5 and I.3.

Notation: A = sum_t gamma_t, tau = (J - J_s)/log J is the decay time of the WSD schedule over J
steps, and A_d = gamma tau.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw.influences.weights import influence
from batchlaw.schedule.rates import wsd, wsd_phases
from batchlaw.schedule.update_rule import check_stable
from batchlaw.theory.bounds.bound import Bound, Condition
from batchlaw.theory.bounds.power_law import power_law_conditions

# c_s and c_d, the shares of the stable and of the decay phase. The paper fixes them without
# giving them; both can reach this one.
SMALLEST_PHASE = 1.0 / 3.0


def wsd_mass(
    steps: int, peak: float, warmup: float | int = 0.1, stable: float | int = 0.5
) -> Bound:
    """gamma (J_s - J_w) <= A <= gamma J (lemma "mass and product calculus", A.1).

    The paper writes A ~ gamma J; these are the constants of its proof.
    """
    rates = wsd(steps, peak, warmup, stable)
    warmup_end, stable_end = wsd_phases(steps, warmup, stable)
    return Bound(
        "mass of the WSD schedule",
        "A.1, lemma onepass-wsd-calculus",
        peak * (stable_end - warmup_end),
        float(rates.sum()),
        peak * steps,
    )


def wsd_decay_mass(
    steps: int, peak: float, warmup: float | int = 0.1, stable: float | int = 0.5
) -> Bound:
    r"""(1 - 1/J)(A_d - gamma/2) <= mass of the decay <= (1 - 1/J) A_d (A.1).

    The sum is geometric, gamma (1 - 1/J)/(e^{1/tau} - 1), and 1/x - 1/2 <= 1/(e^x - 1) <= 1/x.
    The paper writes ~ A_d.
    """
    rates = wsd(steps, peak, warmup, stable)
    stable_end = wsd_phases(steps, warmup, stable)[1]
    tau = decay_time(steps, stable_end)
    factor = 1.0 - 1.0 / steps
    return Bound(
        "mass of the WSD decay",
        "A.1, proof of lemma onepass-wsd-calculus",
        factor * peak * (tau - 0.5),
        float(rates[stable_end:].sum()),
        factor * peak * tau,
    )


def product_calculus(eigenvalues: ArrayLike, rates: ArrayLike) -> Bound:
    r"""exp(-C mu A) <= prod_t (1 - gamma_t mu)^2 <= exp(-c mu A) (A.1), any schedule.

    From -u/(1 - c0) <= log(1 - u) <= -u: c = 2 and C = 2/(1 - c0) with c0 = gamma mu_1.
    One entry per eigenvalue.
    """
    mu = checks.vector("eigenvalues", eigenvalues, positive=True)
    gamma = check_stable(rates, float(mu.max()))
    c0 = float(gamma.max() * mu.max())
    mass = float(gamma.sum())
    value = np.ones_like(mu)
    for rate in gamma:
        value *= (1.0 - rate * mu) ** 2
    steepest = 2.0 / (1.0 - c0) if c0 < 1.0 else math.inf
    return Bound(
        "contraction over the whole schedule",
        "A.1, lemma onepass-wsd-calculus",
        np.exp(-steepest * mu * mass),
        value,
        np.exp(-2.0 * mu * mass),
        conditions=(contraction(c0),),
    )


def influence_shape(eigenvalues: ArrayLike, rates: ArrayLike, a: float) -> Bound:
    """kappa_t ~ gamma_t^2 (1 + R_t)^{1/a - 2}, R_t the mass after step t (A.8). No constants.

    One entry per step. The paper does not give its cutoff constant c*; the condition is
    reported with c* = 1.
    """
    mu = checks.vector("eigenvalues", eigenvalues, positive=True)
    gamma = check_stable(rates, float(mu.max()))
    remaining = remaining_mass(gamma)
    shape = gamma**2 * (1.0 + remaining) ** (1.0 / a - 2.0)
    return Bound(
        "influence of each step",
        "A.8, lemma app-final-risk-influence",
        shape,
        influence(mu, gamma),
        shape,
        constant_explicit=False,
        conditions=(
            contraction(float(gamma.max() * mu.max())),
            *power_law_conditions(np.sort(mu)[::-1], a)[1],
            Condition(
                "learned-directions",
                "(1 + R_1)^(1/a) <= M",
                float((1.0 + remaining[0]) ** (1.0 / a)),
                mu.size,
            ),
        ),
    )


def decay_phase_influence(
    eigenvalues: ArrayLike,
    a: float,
    steps: int,
    peak: float,
    warmup: float | int = 0.1,
    stable: float | int = 0.5,
) -> Bound:
    """kappa_t ~ tau^{1/a - 2} gamma_t^{1/a} in the decay while R_t >= 1 (A.8). No constants.

    One entry per step of the decay with R_t >= 1.
    """
    mu = checks.vector("eigenvalues", eigenvalues, positive=True)
    a = checks.real("a", a, above=1.0)
    rates = wsd(steps, peak, warmup, stable)
    ends = wsd_phases(steps, warmup, stable)
    tau = decay_time(steps, ends[1])
    remaining = remaining_mass(rates)
    counted = (np.arange(1, steps + 1) > ends[1]) & (remaining >= 1.0)
    shape = tau ** (1.0 / a - 2.0) * rates[counted] ** (1.0 / a)
    reach = float((1.0 + remaining[ends[1]]) ** (1.0 / a))
    return Bound(
        "influence in the decay phase",
        "A.8, interpretation of lemma app-final-risk-influence",
        shape,
        influence(mu, rates)[counted],
        shape,
        constant_explicit=False,
        conditions=(
            *_kernel_conditions(mu, steps, peak, warmup, stable),
            *power_law_conditions(np.sort(mu)[::-1], a)[1],
            Condition("learned-directions", "(1 + R_t)^(1/a) <= M", reach, mu.size),
        ),
    )


def phase_means(
    eigenvalues: ArrayLike,
    steps: int,
    peak: float,
    batches: ArrayLike,
    warmup: float | int = 0.1,
    stable: float | int = 0.5,
) -> Bound:
    """sum_t kappa_t / B_t against the same with kappa_t replaced by its mean over each phase.

    Not a bound of the paper: its remark "exact weights are essential" (I.3) says that this proxy
    has no uniform constant. Equal for a batch size that is constant within each phase.

    Parameters
    ----------
    batches : (J,) array
        B_t.
    """
    mu = checks.vector("eigenvalues", eigenvalues, positive=True)
    rates = wsd(steps, peak, warmup, stable)
    kappa = influence(mu, rates)
    inverse = 1.0 / checks.batches(batches, rates.size, whole=False)[0]
    ends = (0, *wsd_phases(steps, warmup, stable), rates.size)
    phases = [slice(*pair) for pair in itertools.pairwise(ends)]
    proxy = sum(float(kappa[p].mean() * inverse[p].sum()) for p in phases if kappa[p].size)
    return Bound(
        "influence by the means of the phases",
        "I.3, remark below lemma multipass-kernel-shape",
        proxy,
        float(kappa @ inverse),
        proxy,
        constant_explicit=False,
        conditions=_kernel_conditions(mu, steps, peak, warmup, stable),
    )


def wsd_kernel_mass(
    eigenvalues: ArrayLike,
    steps: int,
    peak: float,
    warmup: float | int = 0.1,
    stable: float | int = 0.5,
    *,
    multiplicity: ArrayLike | None = None,
) -> Bound:
    r"""sum_t kappa_t ~ (1/tau) sum_j min{1, (A_d mu_j)^2} (H.5 and I.3). No constants.

    Needs a power law: many directions with mu ~ 1/(gamma J) collect log J times as much in the
    stable phase (the remark below lemma E1).

    Parameters
    ----------
    multiplicity : (M,) array, optional
        How many directions share each eigenvalue.
    """
    mu = checks.vector("eigenvalues", eigenvalues, positive=True)
    rates = wsd(steps, peak, warmup, stable)
    tau = decay_time(steps, wsd_phases(steps, warmup, stable)[1])
    n = np.ones_like(mu) if multiplicity is None else checks.vector("multiplicity", multiplicity)
    order = float(n @ np.minimum(1.0, (peak * tau * mu) ** 2)) / tau
    return Bound(
        "total influence by the spectrum",
        "H.5, lemma batch-var-E1; I.3, lemma multipass-kernel-shape",
        order,
        float(influence(mu, rates, multiplicity=n).sum()),
        order,
        constant_explicit=False,
        conditions=(
            *_kernel_conditions(mu, steps, peak, warmup, stable),
            *power_law_conditions(mu[order_of(mu)], None, n[order_of(mu)])[1],
        ),
    )


def power_law_kernel_mass(
    eigenvalues: ArrayLike,
    a: float,
    steps: int,
    peak: float,
    warmup: float | int = 0.1,
    stable: float | int = 0.5,
) -> Bound:
    """sum_t kappa_t ~ min{M, A_d^{1/a}} / tau for mu_j ~ j^-a (H.5, lemma E2). No constants."""
    mu = checks.vector("eigenvalues", eigenvalues, positive=True)
    a = checks.real("a", a, above=1.0)
    tau = decay_time(steps, wsd_phases(steps, warmup, stable)[1])
    order = min(mu.size, (peak * tau) ** (1.0 / a)) / tau
    return Bound(
        "total influence by the power law",
        "H.5, lemma batch-var-E2; I.3, lemma multipass-kernel-shape",
        order,
        float(influence(mu, wsd(steps, peak, warmup, stable)).sum()),
        order,
        constant_explicit=False,
        conditions=(
            *_kernel_conditions(mu, steps, peak, warmup, stable),
            *power_law_conditions(np.sort(mu)[::-1], a)[1],
        ),
    )


def contraction(measured: float) -> Condition:
    """gamma mu_1 < 1: no direction changes sign (the paper's c0)."""
    return Condition("contraction", "gamma mu_1 <= c0 < 1", measured, math.nextafter(1.0, 0.0))


def remaining_mass(rates: FloatArray) -> FloatArray:
    """R_t, the sum of the rates after step t."""
    return np.append(np.cumsum(rates[:0:-1])[::-1], 0.0)


def decay_time(steps: int, stable_end: int) -> float:
    """tau = (J - J_s)/log J."""
    return (steps - stable_end) / math.log(steps)


def phase_conditions(
    steps: int, warmup_end: int, stable_end: int, J: str = "J"
) -> tuple[Condition, ...]:
    """Shares of the stable and of the decay phase, each at least c = 1/3."""
    shares = {"stable": (stable_end - warmup_end) / steps, "decay": (steps - stable_end) / steps}
    return tuple(
        Condition(
            f"{phase}-phase",
            f"{phase} phase/{J} >= c_{phase[0]}",
            share,
            SMALLEST_PHASE,
            at_least=True,
        )
        for phase, share in shares.items()
    )


def order_of(eigenvalues: FloatArray) -> NDArray[np.int64]:
    """Indices that sort eigenvalues, largest first."""
    return np.argsort(-eigenvalues, kind="stable")


def _kernel_conditions(
    mu: FloatArray, steps: int, peak: float, warmup: float | int, stable: float | int
) -> tuple[Condition, ...]:
    ends = wsd_phases(steps, warmup, stable)
    decay_mass = peak * decay_time(steps, ends[1])
    return (
        Condition("decay-mass", "A_d >= 1", decay_mass, 1.0, at_least=True),
        contraction(float(peak * mu.max())),
        *phase_conditions(steps, *ends),
    )
