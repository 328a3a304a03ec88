"""Derivatives of the final excess in every batch, against finite differences, for every rule."""

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.risk.adam_diagonal import diagonal_moments
from batchlaw.risk.adam_matrix import matrix_moments
from batchlaw.risk.adam_matrix_slopes import matrix_slopes
from refused import refused

STEPS = 12
ADAMS = {
    "adam": bl.adam(0.9, 0.98),
    "adamw": bl.adam(0.8, 0.95, weight_decay=0.2),
    "rmsprop": bl.adam(0.0, 0.9, eps=1e-3),
}


def setting():
    problem = bl.Problem.power_law(1.6, 1.4, 5, dim=60, seed=3)
    rng = np.random.default_rng(7)
    return problem, rng.uniform(0.01, 0.1, STEPS), rng.uniform(1.0, 9.0, STEPS)


def differences(excess_of, batches, h=1e-5):
    moved = np.stack([batches + s * h * unit for unit in np.eye(STEPS) for s in (1, -1)])
    values = excess_of(moved).reshape(-1, 2)
    return (values[:, 0] - values[:, 1]) / (2.0 * h)


@pytest.mark.parametrize("name", ADAMS)
def test_adams_sensitivity_in_the_sketchs_coordinates_is_that_of_differences(name):
    problem, rates, batches = setting()
    rule = ADAMS[name]
    result = bl.design.sensitivity(problem, rates, batches, rule=rule)

    def excess_of(sizes):
        return matrix_moments(problem, rates, sizes, rule, spread=False).sum(axis=1)

    assert result.excess == pytest.approx(excess_of(batches[None])[0], rel=1e-11)
    expected = differences(excess_of, batches)
    np.testing.assert_allclose(result.total, expected, rtol=1e-5, atol=1e-9)


def test_a_diagonal_matrix_has_the_slopes_of_its_directions():
    problem, rates, batches = setting()

    class Diagonal:
        covariance = np.diag(problem.eigenvalues)
        target = problem.optimum
        noise_variance = problem.noise_variance

    rule = ADAMS["adamw"]
    eigen = bl.adam(0.8, 0.95, weight_decay=0.2, basis="eigen")
    dense = matrix_slopes(Diagonal, rates, batches, rule)
    own = bl.design.sensitivity(problem, rates, batches, rule=eigen)
    assert dense[0] == pytest.approx(own.excess, rel=1e-12)
    np.testing.assert_allclose(-dense[1][0] / batches**2, own.deterministic, rtol=1e-9)
    np.testing.assert_allclose(-dense[1][1] / batches**2, own.noise, rtol=1e-9)


@pytest.mark.parametrize("rule", [bl.sgd(), bl.sgd(0.8, nesterov=True, average="tail:0.5")])
def test_sgds_sensitivity_is_that_of_the_exact_risk(rule):
    problem, rates, batches = setting()
    result = bl.design.sensitivity(problem, rates, batches, rule=rule)
    risk = bl.one_pass_risk(problem, rates, batches, rule=rule)
    assert result.excess == pytest.approx(float(risk.excess), rel=1e-12)
    assert not result.deterministic.any()

    def excess_of(sizes):
        return bl.one_pass_risk(problem, rates, sizes, rule=rule).excess

    np.testing.assert_allclose(result.total, differences(excess_of, batches), rtol=1e-5, atol=1e-10)


def test_noise_hurts_and_a_large_second_moment_slows():
    """Far from the optimum a larger batch helps Adam by both causes."""
    problem, rates, batches = setting()
    rule = bl.adam(0.9, 0.95, basis="generic")
    result = bl.design.sensitivity(problem, rates * 0.2, batches, rule=rule)
    assert (result.deterministic < 0.0).all()
    assert (result.noise < 0.0).all()
    path = diagonal_moments(problem, rates * 0.2, batches[None], rule).sum()
    assert result.excess == pytest.approx(path)


def test_averages_need_a_diagonal_basis():
    problem, rates, batches = setting()
    with refused("average"):
        bl.design.sensitivity(problem, rates, batches, rule=bl.adam(average="tail:0.5"))


@pytest.mark.parametrize("rule", [bl.sgd(), bl.adam(basis="generic")])
def test_the_sensitivity_to_a_logarithm_is_that_of_one_factor_on_a_batch(rule):
    problem, rates, batches = setting()
    found = bl.design.sensitivity(problem, rates, batches, rule=rule).in_log(batches)

    def excess(t, factor):
        moved = batches.copy()
        moved[t] *= factor
        return bl.design.sensitivity(problem, rates, moved, rule=rule).excess

    for t in (0, STEPS - 1):
        slope = (excess(t, np.exp(1e-4)) - excess(t, np.exp(-1e-4))) / 2e-4
        assert found.total[t] == pytest.approx(slope, rel=1e-5, abs=1e-10)
