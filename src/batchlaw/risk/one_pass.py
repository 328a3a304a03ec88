"""Exact risk of one-pass SGD, with momentum and averaging; that of Adam by its mean field."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import Batches, FloatArray
from batchlaw._base.kernels import moments
from batchlaw.batches.effective import effective_batch
from batchlaw.influences.weights import influence
from batchlaw.model.problem import Problem
from batchlaw.risk.adam import adam_risk
from batchlaw.risk.on_nodes import approximation_notes
from batchlaw.risk.result import SCHEDULE, Note, Risk
from batchlaw.risk.stability import check_overflow, excess_note, growth_note
from batchlaw.schedule.adam import Adam
from batchlaw.schedule.averages import running_readout
from batchlaw.schedule.update_rule import SGD, UpdateRule, check_stable, linear, rule_of

# Noise over a constant batch's above which a note says so; whole batches alone can cost 1 %.
WORSE_THAN_CONSTANT = 1.02


def one_pass_risk(
    problem: Problem,
    rates: ArrayLike,
    batches: Batches,
    *,
    rule: UpdateRule | None = None,
    momentum: float | ArrayLike = 0.0,
    nesterov: bool = False,
    pytorch: bool = False,
    average: ArrayLike | str | None = None,
    trajectory: bool = False,
) -> Risk:
    r"""Exact expected risk of one-pass batch SGD, in O(T M) per schedule.

    For Gaussian features only the diagonals of the second moments matter. With
    h = (1 - gamma mu)^2, e = gamma^2/B and D x = mu^2 x + mu (mu . x), per step::

        C_noise <- h C_noise + e (D C_noise + s2 mu)
        C_cov   <- h C_cov   + e D (C_cov + m^2)
        m^2     <- h m^2

    and Var = mu . (C_noise + C_cov), Bias = mu . m^2: the split of the paper's appendix F.
    Momentum and averaging carry the moments of (error, velocity, readout) in the same way.
    Batches need not be whole numbers here. One schedule gives numbers, several give arrays.
    For ``bl.adam(...)`` the risk is a mean field instead (docs/adam_mean_field.md), its stated
    relative error in ``uncertainty``.
    Where nodes stand for many directions, ``uncertainty`` is their error (``Problem.node_error``).

    Parameters
    ----------
    rates : (T,) array
        Step sizes gamma_t.
    batches : (T,) or (S, T) array, or several by name
        Batch sizes B_t.
    rule
        The update rule, ``bl.sgd(...)`` or ``bl.adam(...)``; plain SGD by default.
    momentum
        Shorthand for ``rule``, as in ``bl.sgd``.
    nesterov
        Likewise.
    pytorch
        Likewise.
    average
        Likewise.
    trajectory
        Give every part with a last axis of T + 1: the risk of u_0, u_1, ..., u_T, or of the
        running average (``schedule.averages.running_readout``).
    """
    rule = rule_of(rule, momentum=momentum, nesterov=nesterov, pytorch=pytorch, average=average)
    if isinstance(rule, Adam):
        return adam_risk(problem, rates, batches, rule, trajectory)
    update = linear(rule, "the exact one-pass risk")
    gamma = check_stable(rates, float(problem.eigenvalues[0]), update)
    sizes = checks.batches(batches, gamma.size, whole=False)
    readout = running_readout(update.readout(gamma.size), gamma.size)

    def moments_of(nodes: Problem, batches: FloatArray, every: bool) -> FloatArray:
        out = np.empty((batches.shape[0], gamma.size + 1 if every else 1, 3))
        state = (nodes.eigenvalues, nodes.multiplicity, nodes.target_energy, nodes.noise_variance)
        if update.plain:
            moments.one_pass_moments(*state, gamma, batches, out)
        else:
            moments.general_moments(*state, update.coefficients(gamma), batches, readout, out)
        return out

    def parts_of(nodes: Problem) -> FloatArray:
        parts = moments_of(nodes, sizes, trajectory)
        return parts if trajectory else parts[:, 0]

    def final_parts(batches: FloatArray) -> FloatArray:
        return moments_of(problem, batches, every=False)[:, 0]

    parts = parts_of(problem)
    check_overflow(parts, gamma, sizes)
    if np.ndim(update.momentum) == 0:
        note = growth_note(problem, gamma, sizes, update)
    else:
        note = excess_note(problem, parts.sum(axis=-1))
    notes = [note, _allocation_note(problem, gamma, sizes, update, final_parts)]
    single = checks.is_single(batches)
    uncertainty = np.zeros(())
    if problem.coarser is not None:
        uncertainty = problem.node_error(parts_of, parts)
        uncertainty = uncertainty[0] if single else uncertainty
    bias, noise, covariance = np.moveaxis(parts[0] if single else parts, -1, 0)
    return Risk(
        procedure=update.title("one-pass SGD"),
        method=problem.described("exact"),
        irreducible=problem.irreducible,
        approximation=problem.approximation,
        bias=bias,
        variance=noise + covariance,
        variance_noise=noise,
        variance_covariance=covariance,
        uncertainty=uncertainty,
        notes=(*(note for note in notes if note is not None), *approximation_notes(problem)),
    ).named(batches)


def _allocation_note(
    problem: Problem,
    gamma: FloatArray,
    sizes: FloatArray,
    rule: SGD,
    final_parts: Callable[[FloatArray], FloatArray],
) -> Note | None:
    """A sentence where batches are worse for an average than a constant batch of their sum.

    Batches from plain SGD's influence can be: it favours late updates, whose noise an average
    has already divided by their number.
    """
    if not rule.averages:
        return None
    kappa = influence(problem, gamma, rule=rule)
    if not kappa.any():
        return None
    against_constant = sizes.mean(axis=1) / np.asarray(effective_batch(kappa, sizes))
    worst = int(against_constant.argmax())
    if against_constant[worst] <= WORSE_THAN_CONSTANT:
        return None
    constant = np.full(gamma.size, sizes[worst].mean())
    parts = final_parts(np.stack([sizes[worst], constant]))
    excess, noise = parts.sum(axis=-1), parts[:, 1:].sum(axis=-1)
    return Note(
        f"the batches{SCHEDULE} change the excess of this average by "
        f"{100.0 * (excess[0] / excess[1] - 1.0):+.2g} % against a constant batch of the same sum, "
        f"with {noise[0] / noise[1]:.3g} times its noise: the influence of an average is not plain "
        "SGD's, allocate by influence(..., rule=rule)",
        "allocation",
        worst if sizes.shape[0] > 1 else None,
    )
