"""bl.Run: one training run's log."""

import numpy as np
import pytest

import batchlaw as bl
from refused import refused


def test_a_run_keeps_what_it_was_given():
    run = bl.Run([0.1, 0.1, 0.05], 4, [1, 3], [2.0, 1.5], rule=bl.sgd(), columns={"noise": [3, 4]})
    assert run.batches.tolist() == [4.0, 4.0, 4.0]
    assert (run.updates, run.samples, run.final_loss) == (3, 12.0, 1.5)
    assert run.columns["noise"].tolist() == [3.0, 4.0]


@pytest.mark.parametrize(
    ("steps", "losses", "field"),
    [
        ([1, 1], [2.0, 1.0], "steps"),
        ([1, 4], [2.0, 1.0], "steps"),
        ([1.5, 2], [2.0, 1.0], "steps"),
        ([1, 2], [2.0], "losses"),
        ([1, 2], [2.0, np.nan], "losses"),
        ([1, 2], [2.0, np.inf], "losses"),
        ([1, 2], ["2.0", "high"], "losses"),
        ([1, 2], [[2.0, 1.0]], "losses"),
        ([1, 2], [[2.0], [2.0, 1.0]], "losses"),
        (2, [1.0], "steps"),
        (["first"], [1.0], "steps"),
        ([], [], "steps"),
    ],
)
def test_a_log_that_does_not_fit_its_run_is_refused(steps, losses, field):
    with refused(field):
        bl.Run([0.1, 0.1, 0.05], [4, 4, 4], steps, losses)


def test_columns_have_one_entry_per_loss():
    with refused("noise"):
        bl.Run([0.1, 0.1], [4, 4], [1, 2], [2.0, 1.0], columns={"noise": [1.0]})


@pytest.mark.parametrize("values", [["low", "high"], [[1.0, 2.0]], 3.0, None])
def test_columns_are_vectors_of_numbers(values):
    with refused("noise"):
        bl.Run([0.1, 0.1], 4, [1, 2], [2.0, 1.0], columns={"noise": values})
    with refused("columns"):
        bl.Run([0.1, 0.1], 4, [1, 2], [2.0, 1.0], columns=[[1.0, 2.0]])


def test_a_column_has_nan_where_it_was_not_measured():
    run = bl.Run([0.1, 0.1], 4, [1, 2], [2.0, 1.0], columns={"noise": [np.nan, 3.0]})
    assert np.isnan(run.columns["noise"][0])


@pytest.mark.parametrize("rates", [0.1, np.float64(0.1), [[0.1, 0.1]], ["fast"], []])
def test_rates_are_one_per_update(rates):
    with refused("rates"):
        bl.Run(rates, 4, [1], [2.0])


@pytest.mark.parametrize("rule", ["adamw", bl.sgd, 0.9])
def test_the_rule_is_an_update_rule(rule):
    with refused("rule"):
        bl.Run([0.1, 0.1], 4, [1], [2.0], rule=rule)


def test_a_run_does_not_change_with_the_arrays_it_was_made_from():
    rates, batches = np.full(3, 0.1), np.full(3, 4.0)
    steps, losses, noise = np.array([1.0, 3.0]), np.array([2.0, 1.5]), np.array([3.0, 4.0])
    given = rates, batches, steps, losses, noise
    run = bl.Run(rates, batches, steps, losses, columns={"noise": noise})
    kept = run.rates, run.batches, run.steps, run.losses, run.columns["noise"]
    before = [values.tolist() for values in kept]
    for values in given:
        values[:] = 0.5
        assert values.flags.writeable
    assert [values.tolist() for values in kept] == before
    for values in kept:
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1.0


def test_the_final_loss_is_the_last_that_was_measured():
    run = bl.Run([0.1, 0.1, 0.1], 4, [1, 2], [2.0, 1.5])
    assert (run.final_loss, run.steps[-1], run.updates) == (1.5, 2, 3)


def test_the_arrays_of_a_run_go_into_every_solver():
    """Compiled loops take read-only arrays."""
    problem = bl.Problem.from_spectrum([1.0, 0.5], [1.0, 1.0], 1.0)
    rule = bl.adam(weight_decay=0.01, basis="generic")
    run = bl.Run(bl.wsd(20, 0.1), np.full(20, 4), [20], [1.0], rule=rule)
    copied = run.rates.copy(), run.batches.copy()
    for rule in (run.rule, bl.sgd(), bl.sgd(0.9, pytorch=True)):
        risk = bl.one_pass_risk(problem, run.rates, run.batches, rule=rule)
        assert risk.total == bl.one_pass_risk(problem, *copied, rule=rule).total
    assert np.array_equal(bl.influence(problem, run.rates), bl.influence(problem, copied[0]))
    assert bl.plan(run.rates, 80, rule=bl.sgd()).batches.sum() <= 80


def test_batches_are_those_of_one_run():
    with refused("batches"):
        bl.Run([0.1, 0.1], [[4, 4], [2, 6]], [2], [1.0])
