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
    ],
)
def test_a_log_that_does_not_fit_its_run_is_refused(steps, losses, field):
    with refused(field):
        bl.Run([0.1, 0.1, 0.05], [4, 4, 4], steps, losses)


def test_columns_have_one_entry_per_loss():
    with refused("noise"):
        bl.Run([0.1, 0.1], [4, 4], [1, 2], [2.0, 1.0], columns={"noise": [1.0]})


def test_batches_are_those_of_one_run():
    with refused("batches"):
        bl.Run([0.1, 0.1], [[4, 4], [2, 6]], [2], [1.0])
