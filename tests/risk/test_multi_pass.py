"""The public face of GD and multi-pass risk: which solver answers, and that it is right."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import batchlaw as bl
from batchlaw.risk import runs as procedures
from batchlaw.risk.gradient_descent import given_features
from batchlaw.risk.simple_recursion import expected_fluctuation_simple
from refused import refused

RATES = bl.wsd(16, 0.2)


def test_with_a_dataset_it_is_exact_given_the_dataset(small):
    dataset = small.sample(10, seed=1)
    risk = bl.multi_pass_risk(small, RATES, [3] * 16, dataset=dataset)
    assert risk.method == "exact given the dataset"
    gd = bl.gradient_descent_risk(small, RATES, dataset)
    assert (risk.bias, risk.variance, risk.cross) == (gd.bias, gd.variance, gd.cross)
    theta = procedures.gradient_descent(dataset, RATES)
    error = small.eigenvalues @ (theta - small.optimum) ** 2
    assert gd.excess == pytest.approx(error, rel=1e-10)


def test_a_truncated_basis_is_an_approximation_that_says_so(small):
    dataset = small.sample(30, seed=1)
    schedules = [[3] * 16, [5] * 16]
    exact = bl.multi_pass_risk(small, RATES, schedules, dataset=dataset)
    cut = bl.multi_pass_risk(small, RATES, schedules, dataset=dataset, truncate=2)
    np.testing.assert_allclose(cut.fluctuation, exact.fluctuation, rtol=1e-2)
    assert (cut.uncertainty > 0.0).all()
    # The error of the excess: that of the fluctuation, weighed by its share of it.
    said = float(cut.notes[0].split("about ")[1].split()[0])
    np.testing.assert_allclose(cut.uncertainty, said * cut.fluctuation / cut.excess, rtol=0.1)


def test_labels_of_none_are_averaged_over(small):
    features, _ = small.sample(10, seed=1)
    ours = bl.gradient_descent_risk(small, RATES, (features, None))
    assert ours.total == given_features(small, RATES, features).total
    assert ours.cross == 0.0


@pytest.mark.slow
def test_with_samples_it_is_the_expectation_over_datasets(small):
    schedules = np.array([np.full(16, 4), np.repeat([1, 7], 8)])
    for replacement in (False, True):
        risk = bl.multi_pass_risk(small, RATES, schedules, samples=40, replacement=replacement)
        seen = bl.simulate_multi_pass(
            small,
            RATES,
            schedules,
            samples=40,
            repetitions=4000,
            seed=2,
            replacement=replacement,
        )
        for term in ("bias", "variance", "fluctuation"):
            apart = np.abs(getattr(risk, term) - getattr(seen, term))
            # The model's own error, and the simulation's.
            allowed = 0.006 * getattr(risk, term) + 4 * seen.standard_error(term)
            assert (apart < allowed).all(), term
    gd = bl.gradient_descent_risk(small, RATES, samples=40)
    assert gd.bias == pytest.approx(risk.bias[0], rel=1e-12)
    assert gd.fluctuation == 0.0


def test_the_simple_method_is_the_simple_solver(small):
    risk = bl.multi_pass_risk(small, RATES, 4, samples=60, method="simple")
    expected = expected_fluctuation_simple(small, RATES, 4, 60)
    assert risk.fluctuation == expected.fluctuation


@settings(max_examples=12)
@given(st.data())
def test_the_exact_fluctuation_of_random_problems_is_what_is_measured(data):
    """Given a dataset, over batches: 5 standard errors at fixed seeds."""
    M, N, T = (data.draw(st.integers(1, 4)), data.draw(st.integers(3, 8)), 6)
    mu = data.draw(st.lists(st.floats(0.05, 1.0), min_size=M, max_size=M))
    rates = data.draw(st.lists(st.floats(0.01, 0.3), min_size=T, max_size=T))
    batches = data.draw(st.lists(st.integers(1, N), min_size=T, max_size=T))
    replacement = data.draw(st.booleans())
    problem = bl.Problem.from_spectrum(mu, np.ones(M), 0.5)
    dataset = problem.sample(N, seed=data.draw(st.integers(0, 1000)))
    exact = bl.multi_pass_risk(problem, rates, batches, dataset=dataset, replacement=replacement)
    _measure(problem, rates, batches, dataset, replacement, exact, runs=4000, limit=5)


def test_the_exact_fluctuation_is_measured_at_the_papers_size(paper):
    """N = L = 512, D = 4096: 2000 runs on one dataset, within 3 standard errors."""
    rates = bl.wsd(512, 0.05)
    families = bl.schedule_families(bl.influence(paper, rates), 4096, max_batch=512)
    dataset = paper.sample(512, seed=7)
    exact = bl.multi_pass_risk(paper, rates, families["oracle"], dataset=dataset)
    _measure(paper, rates, families["oracle"], dataset, False, exact, runs=2000, limit=3)


def _measure(problem, rates, batches, dataset, replacement, exact, runs, limit):
    many = np.tile(batches, (runs, 1))
    u = procedures.multi_pass_sgd(dataset, rates, many, 11, replacement=replacement)
    around = (u - procedures.gradient_descent(dataset, rates)) ** 2 @ problem.eigenvalues
    error = around.std(ddof=1) / np.sqrt(runs)
    assert abs(around.mean() - exact.fluctuation) <= limit * error + 1e-15


def test_dataset_and_samples_exclude_each_other(small):
    dataset = small.sample(10, seed=1)
    for call in (
        lambda: bl.multi_pass_risk(small, RATES, 3),
        lambda: bl.multi_pass_risk(small, RATES, 3, dataset=dataset, samples=10),
        lambda: bl.gradient_descent_risk(small, RATES),
        lambda: bl.gradient_descent_risk(small, RATES, dataset, samples=10),
    ):
        with refused("samples"):
            call()
    with refused("trajectory"):
        bl.multi_pass_risk(small, RATES, 3, dataset=dataset, trajectory=True)
    with refused("trajectory"):
        bl.multi_pass_risk(small, RATES, 3, samples=10, method="simple", trajectory=True)
    with refused("truncate"):
        bl.multi_pass_risk(small, RATES, 3, samples=10, truncate=2)
    with refused("method"):
        bl.multi_pass_risk(small, RATES, 3, samples=10, method="exact")
