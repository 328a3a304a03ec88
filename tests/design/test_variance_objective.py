"""Slopes of the objective in the batch sizes, against finite differences of the exact risk."""

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.design.variance_objective import general_objective, plain_objective
from batchlaw.risk.simple_recursion import expected_fluctuation_simple
from sgd_rules import RULES, T


def _variance(problem, rates, batches, **options):
    return bl.one_pass_risk(problem, rates, batches, **options).variance


def _differences(value, shares):
    """Central differences; the objective is linear in each share, so a large step is exact."""
    slopes = np.empty(shares.size)
    for t in range(shares.size):
        up, down = shares.copy(), shares.copy()
        up[t] *= 1.1
        down[t] *= 0.9
        slopes[t] = (value(up) - value(down)) / (0.2 * shares[t])
    return slopes


def test_slopes_of_plain_sgd_match_finite_differences(small):
    rng = np.random.default_rng(0)
    for steps in (1, 2, 5, 11):  # blocks of the recomputed state, full and not
        rates = rng.uniform(0.1, 0.9, steps)
        batches = rng.uniform(1.0, 6.0, steps)
        value, slopes = plain_objective(small, rates)(batches)
        expected = _differences(lambda x, g=rates: _variance(small, g, 1.0 / x), 1.0 / batches)
        assert value == pytest.approx(_variance(small, rates, batches), rel=1e-13)
        np.testing.assert_allclose(slopes, expected, rtol=1e-9)


@pytest.mark.parametrize("options", RULES)
def test_slopes_with_momentum_and_averaging_match_finite_differences(small, options):
    rng = np.random.default_rng(1)
    rates, batches = rng.uniform(0.05, 0.6, T), rng.uniform(1.0, 6.0, T)
    rule_options = {k: v for k, v in options.items() if k != "average"}
    last = np.append(np.zeros(T - 1), 1.0)
    weights = options.get("average", last)
    objective = general_objective(small, bl.sgd(**rule_options).coefficients(rates), weights)
    value, slopes = objective(batches)
    expected = _differences(lambda x: _variance(small, rates, 1.0 / x, **options), 1.0 / batches)
    assert value == pytest.approx(_variance(small, rates, batches, **options), rel=1e-12)
    np.testing.assert_allclose(slopes, expected, rtol=1e-9)


def test_slopes_know_multiplicities_and_both_recursions_agree():
    """Nodes against the directions written out; the general recursion at momentum zero."""
    nodes = bl.Problem.from_spectrum([0.9, 0.2], [1.0, 0.5], 0.7, multiplicity=[2, 5])
    rates, batches = bl.wsd(12, 0.4), np.linspace(1.0, 5.0, 12)
    value, slopes = plain_objective(nodes, rates)(batches)
    last = np.append(np.zeros(11), 1.0)
    for other in (
        plain_objective(nodes.expanded(), rates),
        general_objective(nodes, bl.sgd().coefficients(rates), last),
    ):
        assert other(batches)[0] == pytest.approx(value, rel=1e-13)
        np.testing.assert_allclose(other(batches)[1], slopes, rtol=1e-12)


@pytest.mark.parametrize("replacement", [False, True])
def test_multi_pass_slopes_match_finite_differences_in_the_batches(small, replacement):
    rates, batches, N = bl.wsd(10, 0.3), np.linspace(2.0, 9.0, 10), 40
    objective = plain_objective(small, rates, N, replacement)

    def fluctuation(b):
        return expected_fluctuation_simple(small, rates, b, N, replacement=replacement).fluctuation

    value, slopes = objective(batches)
    assert value == pytest.approx(fluctuation(batches), rel=1e-13)
    for t in range(10):
        step = np.zeros(10)
        step[t] = 1e-4 * batches[t]
        central = (fluctuation(batches + step) - fluctuation(batches - step)) / (2 * step[t])
        assert -objective.scale * slopes[t] / batches[t] ** 2 == pytest.approx(central, rel=1e-6)
