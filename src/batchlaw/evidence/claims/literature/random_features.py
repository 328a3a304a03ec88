r"""Paquette, Paquette, Xiao and Pennington (2024), "4+3 Phases of Compute-Optimal Neural Scaling
Laws", arXiv 2405.15074.

Power-law random features: inputs j^-alpha, target j^-beta, d features, SGD with one sample per
step at a constant rate, no label noise. Here that is a = 2 alpha, b = 2 alpha + 2 beta, M = d,
sigma = 0, and infinitely many inputs where they have v. Their loss after r steps is a sum of
terms with gamma r in the powers of ``term_exponents``:

    F_pp + F_ac + F_0  (the forcing function: gradient descent's loss)  +  K_pp  (SGD's noise).

Which two of them meet at the best d for f = r d flops is the phase. The table of exponents was
not found as text; ``compute_optimal`` derives it from the terms, and at alpha = beta = 0.7 gives
the 0.643 that a description of their figure 3 states as their theory, with 0.648 measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.evidence.claims.claim import (
    Check,
    Claim,
    Curve,
    Exponent,
    Task,
    task_name,
    wrong_exponents,
)
from batchlaw.evidence.claims.literature.power_laws import exponent_check, limit_check, sketch
from batchlaw.from_data.slopes import fit_slope
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.schedule.rates import constant

WORK = "Paquette et al. 2024 (arXiv 2405.15074)"
MEASURED = 0.648
# d at which the finite-d part of the loss is measured: far above r^(1/(2 alpha)) for every r here.
LARGE_D = 10**5
# Slopes are fitted over the last decades of flops, and of steps.
FLOP_DECADES = 3.0
STEP_DECADES = 2.0
# Steps and nodes of the forcing function, which needs no recursion over the steps. 800 nodes give
# the same slopes.
FORCING_STEPS, FORCING_NODES = 1e13, 400

TERMS_WHERE, OPTIMUM_WHERE = f"{WORK}, terms of the loss", f"{WORK}, compute-optimal exponents"
# The loss of an infinite model, keyed by its slowest term.
INFINITE = {
    term: Claim(
        f"literature/paquette-{term.replace('_', '-').lower()}",
        f"loss of an infinite model falls like {term}",
        TERMS_WHERE,
    )
    for term in ("F_pp", "K_pp")
}
FINITE = Claim(
    "literature/paquette-f-ac",
    f"what d = {LARGE_D:g} features add to the loss falls like F_ac",
    TERMS_WHERE,
)
LIMIT = Claim("literature/paquette-limit", "limit of the risk for many steps, in M", TERMS_WHERE)
SIZE = Claim("literature/paquette-size", "compute-optimal d in flops", OPTIMUM_WHERE)
LOSS = Claim("literature/paquette-loss", "compute-optimal loss in flops", OPTIMUM_WHERE)
MEASURED_LOSS = Claim(
    "literature/paquette-measured-loss",
    "compute-optimal loss in flops, as they measured",
    f"{WORK}, figure 3",
)
SAME_FLOPS = Claim(
    "literature/paquette-forcing-same-flops",
    "compute-optimal d of SGD moves as the forcing function's, same flops",
    f"{WORK}, forcing function",
)
FORCING_SIZE = Claim(
    "literature/paquette-forcing-size",
    "compute-optimal d in flops, of the forcing function",
    OPTIMUM_WHERE,
)


@dataclass(frozen=True)
class Features:
    """Power-law random features, and the constant rate of SGD on them."""

    alpha: float
    beta: float
    rate: float

    @property
    def phase(self) -> str:
        """The phase, among those with 2 alpha > 1."""
        if 2.0 * self.beta < 1.0:
            return "Ia"
        return "II" if self.beta < self.alpha else "III"

    @property
    def ours(self) -> tuple[float, float]:
        """(a, b): lambda_j = j^-2alpha, lambda_j w_j^2 = j^(-2alpha - 2beta)."""
        return 2.0 * self.alpha, 2.0 * (self.alpha + self.beta)

    @property
    def case(self) -> str:
        """Description for the claims table."""
        return (
            f"phase {self.phase}, alpha = {self.alpha:g}, beta = {self.beta:g}, "
            f"gamma = {self.rate:g}"
        )


PHASES = (Features(1.0, 0.25, 0.5), Features(1.0, 0.75, 0.1), Features(1.0, 2.0, 0.5))
BOUNDARY = Features(0.7, 0.7, 0.1)
# Cases in phase II, where d* settles so late that SGD's slopes alone would mislead.
LATE_SETTLING = (
    Features(1.0, 0.75, 0.1),
    Features(1.0, 0.6, 0.1),
    Features(1.25, 0.9, 0.2),
    Features(1.5, 1.0, 0.2),
    Features(2.0, 1.0, 0.2),
)


def term_exponents(alpha: float, beta: float) -> dict[str, float]:
    """Exponents of the four terms: F_pp, F_ac and K_pp in the steps r, F_0 in d.

    F_ac has another factor 1/d, and exists only for 2 beta > 1.
    """
    return {
        "F_pp": -(2.0 * alpha + 2.0 * beta - 1.0) / (2.0 * alpha),
        "F_ac": -1.0 + 1.0 / (2.0 * alpha),
        "K_pp": -2.0 + 1.0 / (2.0 * alpha),
        "F_0": -2.0 * alpha + max(0.0, 1.0 - 2.0 * beta),
    }


def compute_optimal(alpha: float, beta: float, phase: str) -> tuple[float, float]:
    """(xi, -eta) of d* ~ f^xi and loss ~ f^-eta, f = r d, from the two terms that meet.

    Ia: F_pp = F_0 at r = d^2alpha. II: F_pp = F_ac at r = d^(alpha/beta).
    III: K_pp = F_ac at r = d.
    """
    terms = term_exponents(alpha, beta)
    steps_in_d = {"Ia": 2.0 * alpha, "II": alpha / beta, "III": 1.0}[phase]
    size = 1.0 / (1.0 + steps_in_d)
    return size, terms["K_pp" if phase == "III" else "F_pp"] * (1.0 - size)


def phase_tasks(longest: int, nodes: int) -> list[Task]:
    """One task per phase."""
    return [
        Task(
            _name("paquette", case),
            _phase_claims(case),
            partial(phase_checks, case, longest, nodes),
        )
        for case in PHASES
    ]


def frontier_tasks(longest: int, nodes: int) -> list[Task]:
    """The boundary of phases II and III, and how late phase II settles."""
    return [
        Task(
            _name("paquette boundary", BOUNDARY),
            (SIZE, LOSS, MEASURED_LOSS),
            partial(boundary_checks, longest, nodes),
        ),
        *(
            Task(
                _name("paquette forcing function", case),
                (SAME_FLOPS, FORCING_SIZE),
                partial(finite_size_checks, case, longest, nodes),
            )
            for case in LATE_SETTLING
        ),
    ]


def _name(what: str, case: Features) -> str:
    return task_name(what, alpha=case.alpha, beta=case.beta)


def _phase_claims(case: Features) -> tuple[Claim, ...]:
    """In phase Ia there is no F_ac."""
    finite = () if case.phase == "Ia" else (FINITE,)
    return (INFINITE[_slowest(case)], LIMIT, *finite, SIZE, LOSS)


def _slowest(case: Features) -> str:
    """The term that falls slowest in an infinite model."""
    return "K_pp" if case.phase == "III" else "F_pp"


def phase_checks(case: Features, longest: int, nodes: int) -> list[Check[Any]]:
    """Each term where it can be separated from the others, and the compute-optimal frontier."""
    steps = _log_steps(longest)
    loss = partial(sgd_loss, nodes=nodes)
    return [*_term_checks(case, steps), *_frontier_checks(case, _grid(case, steps, loss))]


def _term_checks(case: Features, steps: FloatArray) -> list[Check[Any]]:
    law = term_exponents(case.alpha, case.beta)
    infinite, finite = (sgd_loss(case, size, steps, nodes=120) for size in (math.inf, LARGE_D))
    late = steps >= steps[-1] / 10.0**STEP_DECADES
    slowest = _slowest(case)
    setting = f"{case.case}, r to {steps[-1]:g}"
    # The exponent that F_0 would have on the other side of 2 beta = 1.
    other = -2.0 * case.alpha + (0.0 if case.phase == "Ia" else 1.0 - 2.0 * case.beta)
    checks = [
        exponent_check(
            INFINITE[slowest],
            setting,
            Curve({"r": steps[late]}, infinite[late], "loss"),
            Exponent(law[slowest], "r"),
            others={term: law[term] for term in ("F_pp", "K_pp", "F_ac") if term != slowest},
        ),
        limit_check(LIMIT, case.case, *case.ours, law["F_0"], {"other side": other}),
    ]
    if case.phase == "Ia":
        return checks
    # A finite d also adds r^(1/(2 alpha)) F_pp / d, which falls relative to F_ac only as
    # r^((1/2 - beta)/alpha): hence the wider tolerance.
    bulk = exponent_check(
        FINITE,
        setting,
        Curve({"r": steps[late]}, (finite - infinite)[late], "loss - loss at infinite d"),
        Exponent(law["F_ac"], "r", tolerance=0.03),
        others={"F_pp": law["F_pp"]},
    )
    return [*checks, bulk]


def boundary_checks(longest: int, nodes: int) -> list[Check[Any]]:
    """The exponents at alpha = beta, and the one that they measured there."""
    grid = _grid(BOUNDARY, _log_steps(longest), partial(sgd_loss, nodes=nodes))
    checks = _frontier_checks(BOUNDARY, grid)
    law = Exponent(-MEASURED, "f")
    measured = replace(
        checks[1],
        claim=MEASURED_LOSS,
        law=law,
        wrong=wrong_exponents(law),
    )
    return [*checks, measured]


def finite_size_checks(case: Features, longest: int, nodes: int) -> list[Check[Any]]:
    """SGD's frontier matches the forcing function's, which is then followed to where the law holds.

    In phase II F_0 is below the loss only by f^-((2 alpha - 1)(2 beta - 1)/(2 (alpha + beta))), and
    d* approaches its law so slowly that its drift does not show how far it still has to go.
    """
    steps = _log_steps(longest)
    flops, best, _ = _late_frontier(_grid(case, steps, partial(sgd_loss, nodes=nodes)))
    expected, expected_best, _ = _late_frontier(
        _grid(case, steps, partial(forcing_loss, nodes=nodes))
    )
    law = Exponent(fit_slope(expected, expected_best).value, "f", tolerance=0.01)
    same = exponent_check(
        SAME_FLOPS,
        f"{case.case}, f to {flops[-1]:.1e}",
        Curve({"f": flops}, best, "compute-optimal d"),
        law,
    )
    far = _grid(
        case, np.geomspace(1.0, FORCING_STEPS, 400), partial(forcing_loss, nodes=FORCING_NODES)
    )
    limit, _ = _frontier_checks(case, far)
    return [same, replace(limit, claim=FORCING_SIZE)]


Grid = tuple[FloatArray, FloatArray, FloatArray]


def _frontier_checks(case: Features, grid: Grid) -> list[Check[Any]]:
    size, loss = compute_optimal(case.alpha, case.beta, case.phase)
    flops, best_size, best_loss = _late_frontier(grid)
    others = {phase: compute_optimal(case.alpha, case.beta, phase) for phase in ("Ia", "II", "III")}
    # Phases agree on their boundary.
    others = {phase: pair for phase, pair in others.items() if not np.isclose(pair[0], size)}
    return [
        exponent_check(
            claim,
            f"{case.case}, f to {flops[-1]:.1e}",
            Curve({"f": flops}, values, name),
            Exponent(exponent, "f"),
            others={f"phase {phase}": pair[column] for phase, pair in others.items()},
        )
        for column, (claim, name, exponent, values) in enumerate(
            (
                (SIZE, "compute-optimal d", size, best_size),
                (LOSS, "compute-optimal loss", loss, best_loss),
            )
        )
    ]


def frontier(sizes: FloatArray, steps: FloatArray, losses: FloatArray) -> Grid:
    """Flops f = r d, and for each the best d and its loss.

    The minimum is that of a cubic in log d fitted to five sizes: a parabola would be off where
    the loss rises faster on one side. Flops at which not all five lie within the recorded steps
    are left out.

    Parameters
    ----------
    sizes : (D,) array
    steps : (K,) array
        Where the losses were recorded.
    losses : (D, K) array
    """
    log_d, log_r, log_loss = np.log(sizes), np.log(steps), np.log(losses)
    optima = []
    for log_f in np.arange(log_d[0] + log_r[0], log_d[-1] + log_r[-1], math.log(10.0) / 16):
        log_steps = log_f - log_d
        inside = (log_steps >= log_r[0]) & (log_steps <= log_r[-1])
        log_losses = np.array(
            [np.interp(r, log_r, row) for r, row in zip(log_steps, log_loss, strict=True)]
        )
        near = np.argmin(np.where(inside, log_losses, np.inf)) + np.arange(-2, 3)
        if near[0] < 0 or near[-1] >= sizes.size or not inside[near].all():
            continue
        centre = log_d[near[2]]
        cubic = np.polyfit(log_d[near] - centre, log_losses[near], 3)
        skew, bend, tilt, _ = cubic
        # The root of the derivative next to 0, in the form that also holds without skew.
        least = -tilt / (bend + math.sqrt(bend**2 - 3.0 * skew * tilt))
        optima.append((log_f, centre + least, np.polyval(cubic, least)))
    flops, best_size, best_loss = np.exp(np.array(optima).T)
    return flops, best_size, best_loss


def _late_frontier(grid: Grid) -> Grid:
    flops, sizes, losses = frontier(*grid)
    late = flops >= flops[-1] / 10.0**FLOP_DECADES
    return flops[late], sizes[late], losses[late]


def _grid(
    case: Features,
    steps: FloatArray,
    loss: Callable[[Features, float, FloatArray], FloatArray],
) -> Grid:
    """Loss curves of the sizes that are best in the last decades of flops, and around them."""
    size, _ = compute_optimal(case.alpha, case.beta, case.phase)
    largest = min(5.0 * steps[-1] ** (size / (1.0 - size)), 1e12)
    smallest = max(largest / 10.0 ** (FLOP_DECADES * size + 1.5), 20.0)
    count = round(5.0 * math.log10(largest / smallest)) + 1
    sizes = np.geomspace(smallest, largest, count).round()
    return sizes, steps, np.array([loss(case, d, steps) for d in sizes])


def sgd_loss(case: Features, size: float, steps: FloatArray, *, nodes: int) -> FloatArray:
    """Exact expected loss of SGD after each of the steps."""
    problem = sketch(*case.ours, size, 0.0, nodes)
    longest = int(steps[-1])
    risk = one_pass_risk(problem, constant(longest, case.rate), np.ones(longest), trajectory=True)
    return np.asarray(risk.total)[steps.astype(np.int64)]


def forcing_loss(case: Features, size: float, steps: FloatArray, *, nodes: int) -> FloatArray:
    """Their forcing function, without SGD's noise: Approx + Bias, at any number of steps."""
    problem = sketch(*case.ours, size, 0.0, nodes)
    mu = problem.eigenvalues
    left = np.exp(2.0 * np.outer(steps, np.log1p(-case.rate * mu)))
    bias = left @ (problem.multiplicity * mu * problem.target_energy)
    return np.asarray(problem.approximation + bias)


def _log_steps(longest: int) -> FloatArray:
    return np.unique(np.logspace(0.0, math.log10(longest), 400).round())
