"""Adam's diagonal mean field against full matrices, and its slopes against differences."""

import numpy as np
import pytest

import batchlaw as bl
import reference
from batchlaw._base.kernels import adam_diagonal as kernels
from batchlaw.risk.adam_diagonal import diagonal_moments, diagonal_slopes, step_table
from batchlaw.schedule.averages import running_readout

RULES = {
    "adam": bl.adam(0.9, 0.99),
    "adamw": bl.adam(0.9, 0.95, weight_decay=0.3),
    "rmsprop": bl.adam(0.0, 0.9, eps=1e-2),
    "sign momentum": bl.adam(0.5, 0.0, eps=0.1),
    "averaged": bl.adam(0.8, 0.98, weight_decay=0.1, average="tail:0.4"),
    "ema": bl.adam(0.9, 0.98, average="ema:0.9"),
}


def setting(seed, directions=5, steps=13):
    rng = np.random.default_rng(seed)
    mu = np.sort(rng.uniform(0.05, 1.0, directions))[::-1].copy()
    problem = bl.Problem.from_spectrum(mu, rng.uniform(0.1, 1.0, directions), 0.7)
    rates = rng.uniform(0.01, 0.1, steps)
    return problem, rates, rng.uniform(1.0, 9.0, (2, steps))


def with_basis(rule, basis):
    return bl.adam(rule.beta1, rule.beta2, rule.eps, rule.weight_decay, rule.average, basis)


@pytest.mark.parametrize("basis", ["eigen", "generic"])
@pytest.mark.parametrize("name", RULES)
def test_diagonal_moments_are_those_of_full_matrices(name, basis):
    rule = with_basis(RULES[name], basis)
    problem, rates, batches = setting(1)
    moments = diagonal_moments(problem, rates, batches, rule)
    weights = rule.readout(rates.size)
    average = np.eye(rates.size)[-1] if weights is None else weights
    for row, sizes in zip(moments, batches, strict=True):
        dense = reference.dense_adam(
            np.diag(problem.eigenvalues), problem.optimum, problem.noise_variance,
            rates, sizes, rule, average, generic=basis == "generic",
        )  # fmt: skip
        np.testing.assert_allclose(row, dense, rtol=1e-11)


@pytest.mark.parametrize("basis", ["eigen", "generic"])
def test_nodes_are_their_directions(basis):
    problem, rates, batches = setting(2)
    counts = np.array([1.0, 2.0, 1.0, 3.0, 2.0])
    nodes = bl.Problem.from_spectrum(problem.eigenvalues, problem.target_energy, 0.7, counts)
    rule = with_basis(RULES["adamw"], basis)
    np.testing.assert_allclose(
        diagonal_moments(nodes, rates, batches, rule),
        diagonal_moments(nodes.expanded(), rates, batches, rule),
        rtol=1e-12,
    )


def test_a_trajectory_ends_at_the_final_moments():
    problem, rates, batches = setting(3)
    rule = with_basis(RULES["adam"], "eigen")
    path = diagonal_moments(problem, rates, batches, rule, trajectory=True)
    np.testing.assert_array_equal(path[:, -1], diagonal_moments(problem, rates, batches, rule))
    start = problem.eigenvalues @ problem.target_energy
    np.testing.assert_allclose(path[:, 0], [[start, 0.0]] * 2)


@pytest.mark.parametrize("basis", ["eigen", "generic"])
@pytest.mark.parametrize("name", RULES)
def test_slopes_are_those_of_finite_differences(name, basis):
    rule = with_basis(RULES[name], basis)
    problem, rates, batches = setting(4)
    excess, slopes = diagonal_slopes(problem, rates, batches[0], rule)
    total = diagonal_moments(problem, rates, batches[:1], rule).sum()
    assert excess == pytest.approx(total, rel=1e-13)
    shares, h = 1.0 / batches[0], 1e-5
    moved = np.stack([shares + s * h * unit for unit in np.eye(rates.size) for s in (1, -1)])
    values = diagonal_moments(problem, rates, 1.0 / moved, rule).sum(axis=1).reshape(-1, 2)
    differences = (values[:, 0] - values[:, 1]) / (2 * h)
    np.testing.assert_allclose(slopes.sum(axis=0), differences, rtol=1e-6, atol=1e-9 * excess)


def test_without_a_second_moment_that_moves_only_the_noise_has_slopes():
    # eps far above sqrt(v) fixes D: Adam is then SGD with momentum, whose mean has no noise.
    problem, rates, batches = setting(5)
    rule = bl.adam(0.9, 0.99, eps=1e6, basis="eigen")
    _, slopes = diagonal_slopes(problem, 1e6 * rates, batches[0], rule)
    assert np.abs(slopes[0]).max() < 1e-5 * np.abs(slopes[1]).max()


def test_slopes_of_merged_updates_are_those_of_finite_differences():
    problem, rates, batches = setting(6)
    rule = RULES["adamw"]
    table = step_table(rates, rule, np.full(rates.size, 3.0))
    state = problem.eigenvalues, problem.multiplicity, problem.target_energy, 0.7
    options = table, running_readout(None, rates.size), rule.eps, True

    def excess(shares):
        out = np.empty((1, 1, 2))
        kernels.diagonal_moments(*state, *options, shares[None], out)
        return out.sum()

    shares, h = 1.0 / batches[0] / 3.0, 1e-5
    slopes = np.empty((rates.size, 2))
    kernels.diagonal_slopes(*state, *options, shares, slopes)
    differences = [(excess(shares + h * e) - excess(shares - h * e)) / (2 * h)
                   for e in np.eye(rates.size)]  # fmt: skip
    np.testing.assert_allclose(slopes.sum(axis=1), differences, rtol=1e-6)
