from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import batchlaw as bl
import reference
from refused import refused


@given(
    st.lists(st.floats(1e-4, 1.0), min_size=1, max_size=5),
    st.lists(st.floats(0.0, 1.9), min_size=1, max_size=12).filter(any),
)
def test_influence_matches_its_definition(mu, rates):
    ours = bl.influence(mu, rates)
    np.testing.assert_allclose(ours, reference.influence(mu, rates), rtol=1e-12, atol=1e-290)


@pytest.mark.slow
@pytest.mark.parametrize("peak", [0.05, 1.0, 1.9999])
def test_influence_over_a_million_steps_is_within_1e_10_of_the_logarithmic_form(peak):
    mu = np.array([1.0, 0.37, 1e-2, 3e-4, 1e-5])
    rates = bl.wsd(10**6, peak)
    ours = bl.influence(mu, rates)
    expected = reference.log_influence(mu, rates)
    large = expected > np.log(1e-290)
    assert large.any()
    error = np.abs(np.log(ours[large]) - expected[large])
    assert error.max() < 1e-10
    assert (ours[~large] == 0.0).all()


def test_the_same_rounding_error_a_million_times_does_not_add_up():
    """1 - x with x halfway between two doubles rounds the same way at every step."""
    mu, rates = [(round(1e-5 * 2**53) + 0.5) / 2**53], np.ones(10**6)
    expected = reference.log_influence(mu, rates)
    plain = 2 * np.log(mu[0]) + 2 * np.log(np.cumprod(np.full(10**6 - 1, 1 - mu[0]))[-1])
    assert abs(plain - expected[0]) > 1e-10
    assert np.abs(np.log(bl.influence(mu, rates)) - expected).max() < 1e-12


def test_noise_that_is_forgotten_has_zero_influence_and_gets_the_minimum_batch():
    kappa = bl.influence([1.0, 0.5], bl.wsd(5000, 0.9))
    assert kappa[0] == 0.0
    for method in ("paper", "greedy", "continuous"):
        batches = bl.allocate(kappa, 10_000, method=method)
        assert batches.sum() == pytest.approx(10_000)
        assert batches[0] == 1


def test_the_proxy_is_the_paper_form_at_scale_one_half():
    rates = bl.wsd(64, 0.05)
    after = np.array([rates[t + 1 :].sum() for t in range(64)])
    expected = rates**2 * (1 + after) ** (1 / 2.0 - 2)
    np.testing.assert_allclose(bl.influence_proxy(rates, 2.0, 0.5), expected, rtol=1e-12)


def test_the_proxy_does_not_change_when_features_and_rates_are_rescaled_together():
    rates = bl.wsd(64, 0.05)
    original = bl.influence_proxy(rates, 2.0, 1.3)
    rescaled = bl.influence_proxy(rates / 7, 2.0, 1.3 * 7)
    np.testing.assert_allclose(original / original.sum(), rescaled / rescaled.sum(), rtol=1e-12)


def test_the_proxy_is_nearly_as_good_as_the_spectrum(paper):
    """Efficiency against the oracle at the paper's WSD: 0.992 scale-aware, 0.955 as written."""
    rates = bl.wsd(512, 0.05)
    kappa = bl.influence(paper.eigenvalues, rates)

    def efficiency(scale):
        batches = bl.allocate(bl.influence_proxy(rates, 2.0, scale), 10**7, method="continuous")
        best = bl.allocate(kappa, 10**7, method="continuous")
        return (kappa / best).sum() / (kappa / batches).sum()

    assert efficiency(paper.trace) == pytest.approx(0.992, abs=0.001)
    assert efficiency(0.5) == pytest.approx(0.955, abs=0.001)


def test_bad_rates_are_named():
    with refused("rates", bl.Unstable):
        bl.influence([1.0], [0.1, 3.1])
    with refused("rates"):
        bl.influence([1.0], [0.1, float("nan")])
    with refused("rates"):
        bl.influence([1.0], [-0.1])
    with refused("rates"):
        bl.influence([1.0], [0.0])
    with refused("multiplicity"):
        bl.influence([1.0], [0.1], multiplicity=[1, 2])


def test_influence_uses_the_multiplicities_of_a_problem():
    problem = bl.Problem.from_spectrum([1.0, 0.01], [1.0, 1.0], 1.0, [1, 500])
    rates = bl.wsd(64, 0.1)
    expected = bl.influence(problem.eigenvalues, rates, multiplicity=[1, 500])
    np.testing.assert_array_equal(bl.influence(problem, rates), expected)
    with refused("multiplicity"):
        bl.influence(problem, rates, multiplicity=[1, 500])


def test_influence_is_exact_where_a_step_nearly_removes_a_direction():
    """gamma mu within rounding of 1: the remainder is the rounding error itself."""
    for mu, rates in ((0.1, [1.0, 10.0]), (0.7666606823802343, [1.30435800737] * 3)):
        exact = [Fraction(r) ** 2 * Fraction(mu) ** 2 for r in rates]
        for t in range(len(rates)):
            for s in range(t + 1, len(rates)):
                exact[t] *= (1 - Fraction(rates[s]) * Fraction(mu)) ** 2
        expected = [float(x) for x in exact]
        np.testing.assert_allclose(bl.influence([mu], rates), expected, rtol=1e-12)


def test_influence_does_not_depend_on_the_units_of_the_features():
    mu, rates = np.array([1.0, 0.5]), np.array([0.5, 0.25, 0.1])
    expected = bl.influence(mu, rates)
    for unit in (1e155, 1e-155, 1e300):
        np.testing.assert_allclose(bl.influence(mu * unit, rates / unit), expected, rtol=1e-13)
