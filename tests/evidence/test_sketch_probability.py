import numpy as np
import pytest

from batchlaw.evidence.claims.check_settings import FULL, QUICK
from batchlaw.evidence.claims.claim import OPEN
from batchlaw.evidence.claims.sketch_probability import (
    DIM,
    ROWS,
    SIDES,
    SKETCHES,
    constants,
    exponent_of_decay,
    tasks,
)
from batchlaw.model.nodes import power_sum_after

TOTAL = 960_000 // SKETCHES


@pytest.mark.parametrize(
    ("log_frequency", "power"),
    [
        (lambda M: -1.0 - 0.25 * M, 1.0),
        (lambda M: 0.5 - 1.3 * np.sqrt(M), 0.5),
        (lambda M: 1.0 - 2.0 * np.log(M), 0.0),
    ],
)
def test_the_power_in_the_exponent_is_found_within_its_error(log_frequency, power):
    f = np.exp(log_frequency(SKETCHES.astype(float)))
    found = [
        exponent_of_decay(SKETCHES, np.random.default_rng([3, k]).binomial(TOTAL, f), TOTAL)
        for k in range(8)
    ]
    q, error = np.array(found).T
    assert error.max() < 0.2
    # The grid ends at 0, where q cannot fall below.
    assert abs(q.mean() - power) < 3.0 * error.mean() / np.sqrt(8) + 0.03
    assert (np.abs(q - power) < 3.5 * error + 0.01).all()


def test_counts_that_rise_with_m_have_no_power():
    rising = np.array([100, 120, 140, 150, 140, 100, 20])
    assert exponent_of_decay(SKETCHES, rising, np.full(7, 3000))[1] == np.inf


def test_the_constants_are_those_of_the_whole_matrix():
    a, m = 2.0, 4
    found = constants(a, 1, [m], [9])
    x = np.random.default_rng([9, 0]).standard_normal((ROWS, DIM))
    lam = np.arange(1.0, DIM + 1.0) ** -a
    for k in range(ROWS // m):
        rows = x[k * m : (k + 1) * m]
        sigma = (rows * lam @ rows.T + power_sum_after(a, DIM) * np.eye(m)) / m
        scaled = np.sort(np.linalg.eigvalsh(sigma))[::-1] * np.arange(1.0, m + 1.0) ** a
        assert found["largest"][m][k] == pytest.approx(scaled.max(), rel=1e-12)
        assert found["smallest"][m][k] == pytest.approx(scaled.min(), rel=1e-10)


def test_the_quick_rows_settle_nothing_and_contradict_nothing():
    """From M = 12 on, few sketches are bad: exp(-c sqrt M) is not rejected."""
    (task,) = tasks(QUICK)
    checks = task.run()
    assert [check.claim for check in checks] == list(SIDES.values())
    for check in checks:
        assert check.judge().verdict == OPEN
    assert {claim for task in tasks(FULL) for claim in task.claims} == set(SIDES.values())
