import itertools

import numpy as np
import pytest

import batchlaw as bl
import reference
from batchlaw.risk import runs as procedures
from refused import refused

N, STEPS = 12, 8
RATES = bl.wsd(STEPS, 0.3, 2, 5)
BATCHES = np.array([1, 2, 5, 8, 12, 3, 4, 7])


@pytest.fixture
def dataset(small):
    return small.sample(N, seed=11)


def test_gradient_descent_matches_its_definition(dataset):
    expected = reference.gradient_descent(*dataset, RATES)
    np.testing.assert_allclose(procedures.gradient_descent(dataset, RATES), expected, rtol=1e-12)


@pytest.mark.parametrize("batches", [[1, 1, 1, 5, 1, 1, 1, 1], [2, 1, 2, 1, 2, 1, 2, 1]])
def test_one_pass_matches_its_definition(dataset, batches):
    expected = reference.sgd(*dataset, RATES, reference.partition(batches))
    np.testing.assert_allclose(
        procedures.one_pass_sgd(dataset, RATES, batches), expected, rtol=1e-12
    )


@pytest.mark.parametrize(
    ("options", "index_sets"),
    [
        ({}, reference.subsets),
        ({"replacement": True}, reference.with_replacement),
        ({"reshuffle": True}, reference.epochs),
    ],
)
def test_multi_pass_matches_its_definition(dataset, options, index_sets):
    rows = index_sets(N, BATCHES, np.random.default_rng(5))
    expected = reference.sgd(*dataset, RATES, rows)
    ours = procedures.multi_pass_sgd(dataset, RATES, BATCHES, 5, **options)
    np.testing.assert_allclose(ours, expected, rtol=1e-12)


def test_odd_sizes_are_handled_by_the_unrolled_loops():
    """Dimensions and batches around the fours that the compiled loops take at a time."""
    for M, n in itertools.product((1, 3, 4, 5, 9), (1, 2, 3, 4, 5, 7)):
        rng = np.random.default_rng(M * 10 + n)
        data = (rng.standard_normal((n, M)), rng.standard_normal(n))
        rates = np.full(3, 0.1)
        expected = reference.gradient_descent(*data, rates)
        np.testing.assert_allclose(procedures.gradient_descent(data, rates), expected, rtol=1e-11)
        full = procedures.multi_pass_sgd(data, rates, np.full(3, n), 0)
        np.testing.assert_allclose(full, expected, rtol=1e-11)


def test_full_batches_are_gradient_descent_to_rounding(paper):
    data = paper.sample(512, seed=1)
    rates = bl.wsd(512, 0.05)
    sgd = procedures.multi_pass_sgd(data, rates, np.full(512, 512), 3)
    theta = procedures.gradient_descent(data, rates)
    assert np.abs(sgd - theta).max() < 1e-13 * np.abs(theta).max()


def test_full_batches_with_replacement_are_not_gradient_descent(dataset):
    ours = procedures.multi_pass_sgd(dataset, RATES, np.full(STEPS, N), 3, replacement=True)
    assert np.abs(ours - procedures.gradient_descent(dataset, RATES)).max() > 1e-3


def _picked(batches, n, **options):
    """Which rows each of many one-step runs used: with z_i = e_i and y = 1, u shows them."""
    data = (np.eye(n), np.ones(n))
    u = procedures.multi_pass_sgd(data, np.ones(1), batches, 17, **options)
    return np.rint(u * batches).astype(int)


# 0.999 quantiles of chi-squared: the seed is fixed, so a uniform sampler passes for good.
CHI2 = {4: 18.5, 9: 27.9, 24: 51.2, 99: 148.2}


def _chi_squared(counts):
    expected = counts.sum() / counts.size
    return ((counts - expected) ** 2 / expected).sum()


def test_subsets_without_replacement_are_uniform_and_independent():
    runs = 20_000
    picked = _picked(np.full((runs, 1), 2), 5)
    assert (picked.sum(axis=1) == 2).all()
    assert picked.max() == 1
    codes = {pair: k for k, pair in enumerate(itertools.combinations(range(5), 2))}
    seen = np.array([codes[tuple(np.flatnonzero(row))] for row in picked])
    assert _chi_squared(np.bincount(seen, minlength=10)) < CHI2[9]
    following = seen[:-1:2] * 10 + seen[1::2]
    assert _chi_squared(np.bincount(following, minlength=100)) < CHI2[99]


def test_draws_with_replacement_are_uniform():
    picked = _picked(np.full((20_000, 1), 3), 5, replacement=True)
    assert _chi_squared(picked.sum(axis=0)) < CHI2[4]
    assert picked.max() == 3  # repeats happen


def test_every_epoch_uses_every_row_once():
    data = (np.eye(6), np.ones(6))
    # Rate and batch 1 set one coordinate to 1 for good: after six steps all are set.
    u = procedures.multi_pass_sgd(data, np.ones(6), np.ones((500, 6), dtype=int), 2, reshuffle=True)
    np.testing.assert_array_equal(u, np.ones((500, 6)))
    first = procedures.multi_pass_sgd(
        data, np.ones(1), np.ones((20_000, 1), dtype=int), 2, reshuffle=True
    )
    assert _chi_squared(first[:, :5].sum(axis=0)) < CHI2[4]


def test_bad_runs_are_named(dataset):
    with refused("batches"):
        procedures.one_pass_sgd(dataset, RATES, np.ones(STEPS))
    with refused("batches"):
        procedures.multi_pass_sgd(dataset, RATES, [1] * 7 + [13], 0)
    with refused("batches"):
        procedures.multi_pass_sgd(dataset, RATES, [1.5] * 8, 0)
    with refused("replacement"):
        procedures.multi_pass_sgd(dataset, RATES, BATCHES, 0, replacement=True, reshuffle=True)
    with refused("dataset"):
        procedures.gradient_descent((np.ones((3, 2)), np.ones(2)), RATES)
    with refused("dataset"):
        procedures.gradient_descent((np.full((3, 2), np.nan), np.ones(3)), RATES)
