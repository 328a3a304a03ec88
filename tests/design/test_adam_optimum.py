"""Adam's optimal batches: exhaustive search, named rules, limits, stationarity."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import batchlaw as bl
from batchlaw.batches.rules import FollowsNoise, KeepsRates, rules_of
from batchlaw.design.optimum import optimal_batches
from batchlaw.design.plan_cases import pilot_noise_scales
from batchlaw.design.sensitivity import adam_slopes
from batchlaw.schedule.adam import BASES
from refused import refused


def excess(problem, rates, batches, rule):
    return adam_slopes(problem, rates, np.asarray(batches, dtype=float), rule)[0]


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("seed", range(4))
def test_tiny_optima_are_those_of_exhaustive_search(basis, seed):
    rng = np.random.default_rng(seed)
    problem = bl.Problem.power_law(1.5, 1.4, 3, dim=30, seed=seed)
    rates = rng.uniform(0.02, 0.4, 4)
    rule = bl.adam(rng.uniform(0.0, 0.9), rng.uniform(0.8, 0.99), basis=basis)
    budget = 14
    best = min(
        excess(problem, rates, (*sizes, budget - sum(sizes)), rule)
        for sizes in itertools.product(range(1, budget), repeat=3)
        if sum(sizes) < budget
    )
    found = optimal_batches(problem, rates, budget, rule=rule)
    assert found.batches.sum() == budget
    assert found.variance == pytest.approx(best, rel=1e-9)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(BASES),
    st.integers(0, 10_000),
    st.floats(1.2, 2.5),
    st.floats(0.0, 0.95),
    st.floats(0.8, 0.999),
    st.floats(0.003, 0.3),
    st.sampled_from([bl.wsd, bl.cosine, bl.linear]),
)
def test_no_named_rule_beats_the_optimum(basis, seed, a, beta1, beta2, peak, shape):
    problem = bl.Problem.power_law(a, 1.5, 4, dim=40, seed=seed)
    rates = shape(20, peak)
    rule = bl.adam(beta1, beta2, weight_decay=0.01, basis=basis)
    found = optimal_batches(problem, rates, 160, rule=rule)
    assert found.batches.sum() == 160
    noise = pilot_noise_scales(problem, rates, 8.0, rule)
    for named in (*rules_of(KeepsRates).values(), *rules_of(FollowsNoise).values()):
        sizes = named.schedule(rates, 160, noise).batches
        assert found.variance <= excess(problem, rates, sizes, rule) * (1.0 + 1e-10)


@pytest.mark.slow
def test_the_real_optimum_is_stationary_and_bounds_its_whole_one():
    problem = bl.Problem.power_law_nodes(1.5, 1.5, 4096, nodes=48)
    rates = bl.wsd(60, 0.03)
    rule = bl.adam(0.9, 0.98, basis="generic")
    real = optimal_batches(problem, rates, 480, rule=rule, integer=False)
    whole = optimal_batches(problem, rates, 480, rule=rule)
    assert real.batches.sum() == pytest.approx(480.0)
    assert real.kkt_residual < 1e-3
    assert len(real.optima) >= 5
    assert real.variance <= whole.variance
    assert real.gap == np.inf
    assert "without a proven bound" in real.certificate


def test_limits_and_stages_are_kept():
    problem = bl.Problem.power_law_nodes(1.5, 1.5, 4096, nodes=48)
    rates = bl.wsd(80, 0.03)
    rule = bl.adam(0.9, 0.98, basis="generic")
    options = {"min_batch": 4, "max_batch": 24, "multiple_of": 4}
    found = optimal_batches(problem, rates, 80 * 12, rule=rule, **options)
    staged = optimal_batches(problem, rates, 80 * 12, rule=rule, stages=3, **options)
    for batches in (found.batches, staged.batches):
        assert (batches % 4 == 0).all()
        assert batches.min() >= 4
        assert batches.max() <= 24
    assert np.count_nonzero(np.diff(staged.batches)) <= 2
    constant = excess(problem, rates, np.full(80, 12.0), rule)
    assert found.variance <= staged.variance * (1.0 + 1e-3)
    assert staged.variance <= constant


def test_what_is_for_adam_alone_is_refused_with_sgd():
    problem = bl.Problem.from_spectrum([1.0, 0.5], [1.0, 1.0], 1.0)
    for name in ("multiple_of", "stages"):
        with refused(name):
            optimal_batches(problem, np.full(4, 0.1), 16, **{name: 2})
    with refused("samples"):
        optimal_batches(problem, np.full(4, 0.1), 16, samples=50, rule=bl.adam(basis="eigen"))
