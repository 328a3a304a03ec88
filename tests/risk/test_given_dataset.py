import numpy as np
import pytest

import batchlaw as bl
import reference
from batchlaw.batches.effective import fluctuation_factors
from batchlaw.risk import given_dataset, gradient_descent
from batchlaw.risk import runs as procedures
from batchlaw.risk.given_dataset import first_order_weights, fluctuation_given_dataset
from refused import refused

RATES = bl.wsd(20, 0.4)


@pytest.fixture(scope="module")
def tiny():
    return bl.Problem.from_spectrum([0.9, 0.4], [1.0, 0.6], 1.1)


def _enumerate(problem, data, rates, batches, replacement=False):
    sequences = reference.index_sequences(data[1].size, batches, replacement)
    return reference.enumerated(problem.eigenvalues, problem.optimum, *data, rates, list(sequences))


@pytest.mark.parametrize(
    ("n", "batches", "replacement"),
    [
        (3, [1, 2, 1], False),
        (4, [2, 3], False),
        (4, [1, 4, 2], False),
        (3, [2, 1], True),
        (3, [1, 3], True),
        (4, [1, 2, 1], True),
    ],
)
def test_fluctuation_is_the_average_over_all_sequences_of_batches(tiny, n, batches, replacement):
    data = tiny.sample(n, seed=n)
    rates = [0.5, 0.8, 0.3][: len(batches)]
    expected, cross = _enumerate(tiny, data, rates, batches, replacement)
    risk = fluctuation_given_dataset(tiny, rates, batches, data, replacement=replacement)
    assert risk.fluctuation == pytest.approx(expected, rel=1e-12)
    assert cross == pytest.approx(0.0, abs=1e-14)


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("n", [4, 30])
def test_fluctuation_matches_dense_matrices(small, n, replacement):
    """The finite-population covariance identity of appendix J; also with N < M."""
    data = small.sample(n, seed=5)
    batches = np.random.default_rng(1).integers(1, 5, RATES.size)
    expected = reference.dense_fluctuation(
        np.diag(small.eigenvalues), *data, RATES, batches, replacement
    )
    risk = fluctuation_given_dataset(small, RATES, batches, data, replacement=replacement)
    assert risk.fluctuation == pytest.approx(expected, rel=1e-12)


def test_samples_are_processed_in_blocks_where_their_table_is_too_large(small, monkeypatch):
    data = small.sample(30, seed=5)
    batches = np.full((2, RATES.size), 3)
    whole = fluctuation_given_dataset(small, RATES, batches, data)
    short = fluctuation_given_dataset(small, RATES, batches, data, truncate=3)
    monkeypatch.setattr(given_dataset, "MAX_TABLE_ENTRIES", 21 * 7)
    again = fluctuation_given_dataset(small, RATES, batches, data)
    np.testing.assert_allclose(again.fluctuation, whole.fluctuation, rtol=1e-13)
    again = fluctuation_given_dataset(small, RATES, batches, data, truncate=3)
    np.testing.assert_allclose(again.fluctuation, short.fluctuation, rtol=1e-13)


@pytest.mark.parametrize("replacement", [False, True])
def test_fluctuation_matches_monte_carlo(small, replacement):
    data = small.sample(12, seed=8)
    rates, batches = bl.wsd(30, 0.5), np.tile([1, 2, 5], 10)
    finals = procedures.multi_pass_sgd(
        data, rates, np.tile(batches, (20_000, 1)), 3, replacement=replacement
    )
    away = (finals - procedures.gradient_descent(data, rates)) ** 2 @ small.eigenvalues
    risk = fluctuation_given_dataset(small, rates, batches, data, replacement=replacement)
    error = away.std() / np.sqrt(away.size)
    assert error < 0.02 * risk.fluctuation
    assert abs(away.mean() - risk.fluctuation) < 4 * error
    excess = (finals - small.optimum) ** 2 @ small.eigenvalues
    assert abs(excess.mean() - risk.excess) < 4 * excess.std() / np.sqrt(excess.size)


def test_many_schedules_at_once_are_each_alone(small):
    data = small.sample(15, seed=2)
    batches = np.random.default_rng(4).integers(1, 16, (5, RATES.size))
    together = fluctuation_given_dataset(small, RATES, batches, data)
    for row, one in enumerate(batches):
        alone = fluctuation_given_dataset(small, RATES, one, data)
        assert isinstance(alone.fluctuation, float)
        for term in ("bias", "variance", "cross", "fluctuation", "excess"):
            assert getattr(together, term)[row] == pytest.approx(getattr(alone, term), rel=1e-12)


def test_full_batches_do_not_fluctuate_unless_drawn_with_replacement(small):
    data = small.sample(9, seed=2)
    full = np.full(RATES.size, 9)
    risk = fluctuation_given_dataset(small, RATES, full, data)
    descent = gradient_descent.given_dataset(small, RATES, data)
    assert risk.fluctuation == 0.0
    assert (risk.bias, risk.variance, risk.cross) == (
        descent.bias,
        descent.variance,
        descent.cross,
    )
    assert fluctuation_given_dataset(small, RATES, full, data, replacement=True).fluctuation > 0


def test_a_truncated_basis_errs_less_than_it_says():
    problem = bl.Problem.power_law(2.0, 1.5, 24, 500, seed=3)
    data = problem.sample(100, seed=1)
    rates = bl.wsd(60, 0.1)
    batches = np.stack([np.ones(60), np.full(60, 4), np.arange(60) // 6 + 1])
    exact = fluctuation_given_dataset(problem, rates, batches, data)
    assert (exact.method, exact.uncertainty) == ("exact given the dataset", 0.0)
    errors = []
    for k in (1, 4, 8, 16):
        short = fluctuation_given_dataset(problem, rates, batches, data, truncate=k)
        error = np.abs(short.fluctuation - exact.fluctuation)
        assert (error < short.uncertainty * short.excess).all()
        assert short.method == f"truncated to {k} of 24 directions, given the dataset"
        errors.append(np.max(error / exact.fluctuation))
    assert (np.array(errors) < [2e-3, 1e-3, 1e-4, 1e-5]).all()
    whole = fluctuation_given_dataset(problem, rates, batches, data, truncate=99)
    np.testing.assert_array_equal(whole.fluctuation, exact.fluctuation)


def test_first_order_weights_are_the_slopes_at_full_batches(small):
    """w_t = dFluc/drho_t where no other step has noise: one small batch among full ones."""
    data = small.sample(12, seed=6)
    weights = first_order_weights(small, RATES, data)
    one_small = np.full((RATES.size, RATES.size), 12)
    np.fill_diagonal(one_small, 3)
    exact = fluctuation_given_dataset(small, RATES, one_small, data)
    rho = fluctuation_factors([3], 1, 12)[0, 0]
    np.testing.assert_allclose(rho * weights, exact.fluctuation, rtol=1e-12)


def test_first_order_weights_miss_less_as_noise_shrinks(small):
    data = small.sample(40, seed=6)
    weights = first_order_weights(small, RATES, data)
    batches = np.outer([4, 8, 16], np.ones(RATES.size))
    exact = fluctuation_given_dataset(small, RATES, batches, data).fluctuation
    missed = 1.0 - fluctuation_factors(batches, RATES.size, 40) @ weights / exact
    rho = fluctuation_factors(batches, RATES.size, 40)[:, 0]
    np.testing.assert_allclose(missed / rho, missed[-1] / rho[-1], rtol=0.3)
    assert (missed > 0).all()


@pytest.mark.parametrize(
    ("batches", "options", "field"),
    [
        (np.ones(19), {}, "batches"),
        (np.full(20, 11), {}, "batches"),
        (np.zeros(20), {"replacement": True}, "batches"),
        (np.ones(20), {"truncate": 0}, "truncate"),
    ],
)
def test_bad_input_is_named(small, batches, options, field):
    with refused(field):
        fluctuation_given_dataset(small, RATES, batches, small.sample(10, seed=1), **options)


def test_a_covariance_that_overflows_is_named(small):
    with refused("rates", bl.Unstable):
        fluctuation_given_dataset(
            small, bl.constant(5000, 2.0), np.ones(5000), small.sample(40, seed=1)
        )
