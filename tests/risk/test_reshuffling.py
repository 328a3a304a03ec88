import numpy as np
import pytest

import batchlaw as bl
import reference
from batchlaw.risk import gradient_descent
from batchlaw.risk import runs as procedures
from batchlaw.risk.given_dataset import first_order_weights
from batchlaw.risk.reshuffling import reshuffling_first_order
from refused import refused


@pytest.fixture(scope="module")
def tiny():
    return bl.Problem.from_spectrum([0.9, 0.4], [1.0, 0.6], 1.1)


def _both(problem, data, rates, batches):
    """(fluctuation, mean's cross term): ours, and over all orders."""
    risk = reshuffling_first_order(problem, rates, batches, data)
    descent = gradient_descent.given_dataset(problem, rates, data)
    sequences = list(reference.epoch_sequences(data[1].size, batches))
    expected = reference.enumerated(problem.eigenvalues, problem.optimum, *data, rates, sequences)
    return (risk.fluctuation, risk.cross - descent.cross), expected


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param([1, 3, 2, 2], id="two epochs"),
        pytest.param([1, 1, 2, 3], id="the second is not finished"),
        pytest.param([1, 2, 3, 2], id="a batch runs across the end of the first"),
    ],
)
def test_the_error_is_of_first_order_against_all_orders_of_four_samples(tiny, batches):
    data = tiny.sample(4, seed=4)
    shape = np.array([1.0, 0.6, 0.9, 0.7])
    errors = []
    for scale in (0.2, 0.1, 0.05):
        ours, expected = _both(tiny, data, scale * shape, batches)
        errors.append(np.abs(np.array(ours) / expected - 1.0))
    errors = np.array(errors)
    assert errors[0].max() < 0.15
    assert (errors[1:] < 0.6 * errors[:-1]).all()


def test_batches_in_proportion_to_the_rates_cancel_the_first_order(tiny):
    """The known limit: then the fluctuation is of fourth order and off by a fixed share."""
    data = tiny.sample(4, seed=4)
    sizes = []
    for scale in (0.1, 0.05):
        ours, expected = _both(tiny, data, np.full(4, scale), [2, 2, 2, 2])
        assert 0.7 < ours[0] / expected[0] < 0.9
        assert ours[1] == pytest.approx(expected[1], rel=1e-3)
        sizes.append(ours[0])
    assert sizes[0] / sizes[1] == pytest.approx(16.0, rel=0.1)


def test_one_step_from_an_epoch_is_an_independent_batch(small):
    """With one batch an epoch's share of the data is a uniform subset: rho_t w_t, exactly."""
    data = small.sample(10, seed=3)
    risk = reshuffling_first_order(small, [0.4], [3], data)
    weight = first_order_weights(small, [0.4], data)[0]
    assert risk.fluctuation == pytest.approx(weight * (10 - 3) / (3 * 9), rel=1e-12)


def test_full_batches_do_not_fluctuate(small):
    data = small.sample(10, seed=3)
    rates = bl.wsd(15, 0.4)
    risk = reshuffling_first_order(small, rates, np.full(15, 10), data)
    descent = gradient_descent.given_dataset(small, rates, data)
    assert risk.fluctuation == pytest.approx(0.0, abs=1e-16)
    assert risk.excess == pytest.approx(descent.excess, rel=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("n", [5, 24])
def test_first_order_matches_monte_carlo(small, n):
    """Also with N < M, at rates where the first order is good to a few per cent."""
    data = small.sample(n, seed=8)
    rates, batches = bl.wsd(24, 0.02), np.tile([1, 2, 5], 8)
    finals = procedures.multi_pass_sgd(
        data, rates, np.tile(batches, (20_000, 1)), 3, reshuffle=True
    )
    theta = procedures.gradient_descent(data, rates)
    away = (finals - theta) ** 2 @ small.eigenvalues
    shift = 2.0 * (finals - theta) @ (small.eigenvalues * (theta - small.optimum))
    risk = reshuffling_first_order(small, rates, batches, data)
    descent = gradient_descent.given_dataset(small, rates, data)
    error = np.sqrt(np.array([away.var(), shift.var()]) / away.size)
    assert abs(away.mean() - risk.fluctuation) < 4 * error[0] + 0.05 * risk.fluctuation
    cross = risk.cross - descent.cross
    assert abs(shift.mean() - cross) < 4 * error[1] + 0.05 * abs(cross)


def test_many_schedules_at_once_are_each_alone(small):
    data = small.sample(12, seed=2)
    rates = bl.wsd(20, 0.3)
    batches = np.random.default_rng(4).integers(1, 13, (3, 20))
    together = reshuffling_first_order(small, rates, batches, data)
    assert together.method == "first order in the step size, given the dataset"
    for row, one in enumerate(batches):
        alone = reshuffling_first_order(small, rates, one, data)
        for term in ("bias", "variance", "cross", "fluctuation"):
            assert getattr(together, term)[row] == pytest.approx(getattr(alone, term), rel=1e-12)


@pytest.mark.parametrize(
    ("n", "batches", "field"),
    [
        (8, np.full(5, 9), "batches"),
        (8, np.full(5, 1.5), "batches"),
        (1, np.ones(5), "dataset"),
    ],
)
def test_bad_input_is_named(small, n, batches, field):
    with refused(field):
        reshuffling_first_order(small, np.full(5, 0.1), batches, small.sample(n, seed=1))
