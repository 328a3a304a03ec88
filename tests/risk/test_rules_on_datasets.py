"""Momentum and averaging on datasets: single runs, GD and the exact fluctuation."""

import numpy as np
import pytest

import batchlaw as bl
import reference
from batchlaw.risk import given_dataset, runs
from batchlaw.schedule.averages import ema, tail_average
from refused import refused

T = 7
LAST = np.append(np.zeros(T - 1), 1.0)
RATES = np.random.default_rng(3).uniform(0.1, 0.6, T)
BETAS = np.random.default_rng(4).uniform(0.1, 0.8, T)
BATCHES = np.array([1, 3, 2, 5, 1, 4, 2])
FORMS = [
    (reference.heavy_ball, {"nesterov": False, "pytorch": False}),
    (reference.nesterov, {"nesterov": True, "pytorch": False}),
    (reference.torch_heavy_ball, {"nesterov": False, "pytorch": True}),
    (reference.torch_nesterov, {"nesterov": True, "pytorch": True}),
]
READOUTS = [None, tail_average(T, 0.5), ema(T, 0.6)]
each_rule = pytest.mark.parametrize(
    ("step", "rule", "average"),
    [
        (step, bl.sgd(BETAS, average=average, **form), LAST if average is None else average)
        for step, form in FORMS
        for average in READOUTS
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)


@pytest.fixture
def dataset(small):
    return small.sample(18, seed=11)


@each_rule
def test_runs_match_their_definition_on_the_batches_of_plain_sgd(dataset, step, rule, average):
    """The index sets that ``reference`` draws are those that plain SGD is tested on."""

    def expected(index_sets):
        return reference.momentum_run(*dataset, RATES, index_sets, BETAS, step, average)

    def close(ours, index_sets):
        np.testing.assert_allclose(ours, expected(index_sets), rtol=1e-11, atol=1e-14)

    close(runs.one_pass_sgd(dataset, RATES, BATCHES, rule=rule), reference.partition(BATCHES))
    close(runs.gradient_descent(dataset, RATES, rule=rule), [range(18)] * T)
    for options, index_sets in (
        ({}, reference.subsets),
        ({"replacement": True}, reference.with_replacement),
        ({"reshuffle": True}, reference.epochs),
    ):
        ours = runs.multi_pass_sgd(dataset, RATES, BATCHES, 5, rule=rule, **options)
        close(ours, index_sets(18, BATCHES, np.random.default_rng(5)))


@pytest.mark.parametrize("options", [{}, {"replacement": True}, {"reshuffle": True}])
def test_rows_drawn_piece_by_piece_are_those_of_plain_sgd(dataset, options, monkeypatch):
    """An average with all weight on the last iterate runs through the loop of the other rules."""
    schedules = np.stack([BATCHES, BATCHES[::-1]])
    plain = runs.multi_pass_sgd(dataset, RATES, schedules, 5, **options)
    for most in (1, 4, 2**16):
        monkeypatch.setattr("batchlaw.risk.stepping.MOST_ROWS", most)
        last = runs.multi_pass_sgd(
            dataset, RATES, schedules, 5, rule=bl.sgd(average=LAST), **options
        )
        np.testing.assert_allclose(last, plain, rtol=1e-12)


@pytest.mark.parametrize("replacement", [False, True])
@each_rule
def test_fluctuation_with_a_rule_matches_dense_matrices(small, step, rule, average, replacement):
    """Also with fewer samples than directions."""
    for n in (5, 18):
        data = small.sample(n, seed=n)
        expected = reference.dense_momentum_fluctuation(
            np.diag(small.eigenvalues),
            *data,
            RATES,
            BATCHES,
            BETAS,
            step,
            average,
            replacement,
        )
        risk = bl.multi_pass_risk(
            small, RATES, BATCHES, dataset=data, rule=rule, replacement=replacement
        )
        assert risk.fluctuation == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize(("step", "form"), FORMS)
def test_fluctuation_with_a_rule_is_the_average_over_all_batches(step, form, replacement):
    tiny = bl.Problem.from_spectrum([0.9, 0.4], [1.0, 0.6], 1.1)
    data, rates, batches = tiny.sample(3, seed=3), [0.5, 0.8, 0.3], [1, 2, 1]
    betas, average = np.array([0.3, 0.7, 0.5]), np.array([0.2, 0.3, 0.4])
    rule = bl.sgd(betas, average=average, **form)
    risk = bl.multi_pass_risk(
        tiny, rates, batches, dataset=data, rule=rule, replacement=replacement
    )
    finals = np.array(
        [
            reference.momentum_run(*data, rates, rows, betas, step, average)
            for rows in reference.index_sequences(3, batches, replacement)
        ]
    )
    descent = reference.momentum_run(*data, rates, [range(3)] * 3, betas, step, average)
    np.testing.assert_allclose(finals.mean(axis=0), descent, rtol=1e-12)
    expected = ((finals - descent) ** 2 @ tiny.eigenvalues).mean()
    assert risk.fluctuation == pytest.approx(expected, rel=1e-12)
    excess = ((finals - tiny.optimum) ** 2 @ tiny.eigenvalues).mean()
    assert risk.excess == pytest.approx(excess, rel=1e-12)


@each_rule
def test_gradient_descent_with_a_rule_has_the_risk_of_its_run(small, dataset, step, rule, average):
    risk = bl.gradient_descent_risk(small, RATES, dataset, rule=rule)
    final = reference.momentum_run(*dataset, RATES, [range(18)] * T, BETAS, step, average)
    assert risk.excess == pytest.approx(small.eigenvalues @ (final - small.optimum) ** 2, rel=1e-11)
    clean = (dataset[0], dataset[0] @ small.optimum)
    bias = reference.momentum_run(*clean, RATES, [range(18)] * T, BETAS, step, average)
    bias = small.eigenvalues @ (bias - small.optimum) ** 2
    assert risk.bias == pytest.approx(bias, rel=1e-11)
    over_labels = bl.gradient_descent_risk(small, RATES, (dataset[0], None), rule=rule)
    assert over_labels.bias == pytest.approx(bias, rel=1e-11)
    # The variance is linear in the squares of the labels' residuals: one sample at a time.
    unit = sum(
        small.eigenvalues
        @ reference.momentum_run(dataset[0], label, RATES, [range(18)] * T, BETAS, step, average)
        ** 2
        for label in np.eye(18)
    )
    assert over_labels.variance == pytest.approx(small.noise_variance * unit, rel=1e-11)


def test_a_trivial_rule_is_plain_sgd(small, dataset):
    plain = bl.multi_pass_risk(small, RATES, BATCHES, dataset=dataset)
    trivial = bl.multi_pass_risk(small, RATES, BATCHES, dataset=dataset, rule=bl.sgd(average=LAST))
    for part in ("bias", "variance", "cross", "fluctuation"):
        assert getattr(trivial, part) == pytest.approx(getattr(plain, part), rel=1e-12)
    assert plain.procedure == "multi-pass SGD, without replacement"
    assert trivial.procedure == "multi-pass SGD, averaged, without replacement"


def test_a_truncated_basis_errs_less_than_it_says_with_a_rule():
    problem = bl.Problem.power_law(2.0, 1.5, 24, 500, seed=3)
    data, rates = problem.sample(100, seed=1), bl.wsd(60, 0.05)
    batches = np.stack([np.ones(60), np.full(60, 4), np.arange(60) // 6 + 1])
    for rule in (bl.sgd(0.7, nesterov=True), bl.sgd(average="tail:0.5")):
        options = {"dataset": data, "rule": rule}
        exact = bl.multi_pass_risk(problem, rates, batches, **options)
        for k in (1, 8):
            short = bl.multi_pass_risk(problem, rates, batches, truncate=k, **options)
            error = np.abs(short.fluctuation - exact.fluctuation)
            assert (error < short.uncertainty * short.excess).all()
            assert (error < 2e-3 * exact.fluctuation).all()


def test_samples_are_processed_in_blocks_with_a_rule(small, dataset, monkeypatch):
    rule = bl.sgd(0.6, average="ema:0.5")
    for truncate in (None, 3):
        options = {"dataset": dataset, "rule": rule, "truncate": truncate}
        whole = bl.multi_pass_risk(small, RATES, BATCHES, **options)
        monkeypatch.setattr(given_dataset, "MAX_TABLE_ENTRIES", 21 * 4)
        again = bl.multi_pass_risk(small, RATES, BATCHES, **options)
        monkeypatch.undo()
        assert again.fluctuation == pytest.approx(whole.fluctuation, rel=1e-12)


def test_the_expectation_over_datasets_names_what_has_a_rule(small):
    with refused("rule") as caught:
        bl.multi_pass_risk(small, RATES, BATCHES, samples=20, rule=bl.sgd(0.5))
    assert "dataset" in str(caught.value)
    assert "simulate_multi_pass" in str(caught.value)
    with refused("rule") as caught:
        bl.gradient_descent_risk(small, RATES, samples=20, rule=bl.sgd(average="tail:0.5"))
    assert "simulate_gradient_descent" in str(caught.value)
    plain = bl.multi_pass_risk(small, RATES, BATCHES, samples=20, rule=bl.sgd())
    assert plain.total == bl.multi_pass_risk(small, RATES, BATCHES, samples=20).total
