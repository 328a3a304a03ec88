import numpy as np
import pytest

import batchlaw as bl
from batchlaw.exact.stability import growth, largest_stable_rate


def _spectral_radius(problem, rate, batch):
    """Of the second-moment map, as an M x M matrix."""
    mu = np.repeat(problem.eigenvalues, problem.multiplicity.astype(int))
    e = rate**2 / batch
    step = np.diag((1 - rate * mu) ** 2 + e * mu**2) + e * np.outer(mu, mu)
    return np.abs(np.linalg.eigvals(step)).max()


@pytest.mark.parametrize("batch", [1, 2, 8, 100])
def test_the_largest_stable_rate_is_where_the_spectral_radius_is_one(batch):
    problem = bl.Problem.from_spectrum([0.9, 0.5, 0.1], [1.0, 1.0, 1.0], 1.0, [1, 1, 4])
    limit = largest_stable_rate(problem, batch)
    assert (
        _spectral_radius(problem, 0.999 * limit, batch)
        < 1
        < _spectral_radius(problem, 1.001 * limit, batch)
    )
    assert growth(problem, 0.999 * limit, batch) < 1 <= growth(problem, 1.001 * limit, batch)


def test_a_run_whose_second_moment_grows_says_so(small):
    limit = largest_stable_rate(small, 1)
    calm = bl.one_pass_risk(small, bl.constant(50, 0.95 * limit), np.ones(50))
    assert calm.notes == ()
    grows = bl.one_pass_risk(small, bl.constant(50, 1.3 * limit), np.ones(50))
    assert "the second moment grows at 100 % of the steps" in grows.notes[0]
    assert f"above {limit:.4g}, the largest stable one for batch 1" in grows.notes[0]


def test_larger_batches_calm_the_same_rate(small):
    rate = 1.3 * largest_stable_rate(small, 1)
    batches = np.append(np.full(25, 1), np.full(25, 64))
    note = bl.one_pass_risk(small, bl.constant(50, rate), batches).notes[0]
    assert "at 50 % of the steps" in note
    assert bl.one_pass_risk(small, bl.constant(50, rate), np.full(50, 64)).notes == ()


def test_momentum_that_diverges_is_named_not_returned(small):
    with pytest.raises(ValueError, match="unstable for batches as small as 1"):
        bl.one_pass_risk(small, bl.constant(20_000, 2.0), np.ones(20_000), momentum=0.9)


def test_momentum_whose_second_moment_grows_says_so(small):
    calm = bl.one_pass_risk(small, bl.constant(60, 0.1), 4, momentum=0.8)
    assert calm.notes == ()
    grows = bl.one_pass_risk(small, bl.constant(60, 1.2), 1, momentum=0.8)
    assert "the second moment grows: excess risk" in grows.notes[0]
