import numpy as np
import pytest

import batchlaw as bl
from batchlaw.risk.stability import growth, largest_stable_rate
from refused import refused


def _spectral_radius(problem, rate, batch):
    """Of the second-moment map, as an M x M matrix."""
    mu = np.repeat(problem.eigenvalues, problem.multiplicity.astype(int))
    e = rate**2 / batch
    step = np.diag((1 - rate * mu) ** 2 + e * mu**2) + e * np.outer(mu, mu)
    return np.abs(np.linalg.eigvals(step)).max()


def _spectral_radius_with_momentum(problem, rate, batch, **form):
    form = form if form["momentum"] else {}
    """The same for (e, v) of every direction, from the coefficients of the update itself."""
    look, keep, gain, drag, push = bl.sgd(**form).coefficients(np.array([rate]))[0]
    mu = np.repeat(problem.eigenvalues, problem.multiplicity.astype(int))
    at_gradient = np.array([1.0, 2 * look, look**2])
    noise = np.array([push**2, push * gain, gain**2])
    step = np.einsum("a,jk,b->jakb", noise, np.outer(mu, mu) / batch, at_gradient)
    for j, m in enumerate(mu):
        (a, b), (c, d) = (1 + push * m, drag + push * m * look), (gain * m, keep + gain * m * look)
        step[j, :, j] += [
            [a * a, 2 * a * b, b * b],
            [a * c, a * d + b * c, b * d],
            [c * c, 2 * c * d, d * d],
        ]
        step[j, :, j] += np.outer(noise, at_gradient) * m**2 / batch
    size = 3 * mu.size
    return np.abs(np.linalg.eigvals(step.reshape(size, size))).max()


@pytest.mark.parametrize("batch", [1, 8, 100])
@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.95])
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("pytorch", [False, True])
def test_the_largest_stable_rate_with_momentum_is_where_the_spectral_radius_is_one(
    batch, momentum, nesterov, pytorch
):
    problem = bl.Problem.from_spectrum([0.9, 0.5, 0.1], [1.0, 1.0, 1.0], 1.0, [1, 1, 4])
    limit = largest_stable_rate(
        problem, batch, rule=bl.sgd(momentum, nesterov=nesterov and momentum > 0.0)
    )
    form = {"momentum": momentum, "nesterov": nesterov, "pytorch": pytorch}
    below, above = (
        _spectral_radius_with_momentum(problem, share * limit, batch, **form)
        for share in (0.999, 1.001)
    )
    assert below < 1 < above


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


def test_a_huge_batch_is_stable_up_to_the_limit_of_the_mean(small):
    limit = 2.0 / small.eigenvalues[0]
    assert largest_stable_rate(small, 1e18) == pytest.approx(limit, rel=1e-12)


def test_a_run_whose_second_moment_grows_says_so(small):
    limit = largest_stable_rate(small, 1)
    calm = bl.one_pass_risk(small, bl.constant(50, 0.95 * limit), np.ones(50))
    assert calm.notes == ()
    grows = bl.one_pass_risk(small, bl.constant(50, 1.3 * limit), np.ones(50))
    assert "the second moment grows at about 100 % of the steps" in grows.notes[0]
    assert f"above {limit:.6g}, the largest stable one for batch 1" in grows.notes[0]


def test_larger_batches_calm_the_same_rate(small):
    rate = 1.3 * largest_stable_rate(small, 1)
    batches = np.append(np.full(25, 1), np.full(25, 64))
    note = bl.one_pass_risk(small, bl.constant(50, rate), batches).notes[0]
    assert "at about 50 % of the steps" in note
    assert bl.one_pass_risk(small, bl.constant(50, rate), np.full(50, 64)).notes == ()


def test_momentum_that_diverges_is_named_not_returned(small):
    with refused("rates", bl.Unstable):
        bl.one_pass_risk(small, bl.constant(20_000, 2.0), np.ones(20_000), momentum=0.9)


def test_momentum_whose_second_moment_grows_says_so(small):
    calm = bl.one_pass_risk(small, bl.constant(60, 0.1), 4, momentum=0.8)
    assert calm.notes == ()
    grows = bl.one_pass_risk(small, bl.constant(60, 1.2), 1, momentum=0.8)
    assert "the second moment grows at about 100 % of the steps" in grows.notes[0]
    assert "stable one for batch 1 and momentum 0.8" in grows.notes[0]
    changing = bl.one_pass_risk(small, bl.constant(60, 1.2), 1, momentum=np.full(60, 0.8))
    assert "the second moment grows: excess risk" in changing.notes[0]


def test_a_growth_that_has_gone_by_the_end_is_named_too(paper):
    rates = bl.wsd(64, 1.0)
    rule = {"momentum": 0.9, "nesterov": True, "pytorch": True}
    batches = bl.allocate(bl.influence(paper, rates, **rule), 512)
    risk = bl.one_pass_risk(paper, rates, batches, **rule)
    assert risk.excess < paper.eigenvalues @ paper.target_energy
    assert "the second moment grows at about" in risk.notes[0]


def test_a_rate_just_below_its_limit_is_not_accused(paper):
    """Between the points at which limits are tabulated the worst step is judged by its own."""
    limit = largest_stable_rate(paper, 12.0)
    rates, batches = [0.01, 0.01, 0.998 * limit], [1, 4096, 12]
    assert bl.one_pass_risk(paper, rates, batches).notes == ()
    assert bl.one_pass_risk(paper, [0.01, 0.01, 1.002 * limit], batches).notes != ()


def test_every_procedure_names_a_second_moment_that_grows():
    problem = bl.Problem.from_spectrum([1.0, 0.5, 0.25], [1.0, 1.0, 1.0], 1.0)
    rates = np.full(60, 1.2)
    small_data = problem.sample(2, seed=3)
    runs = [
        bl.one_pass_risk(problem, rates, 1),
        bl.one_pass_risk(problem, rates, 1, momentum=0.9),
        bl.one_pass_risk(problem, rates, 1, average=np.full(60, 1 / 60)),
        bl.multi_pass_risk(problem, rates, 1, dataset=problem.sample(6, seed=0)),
        bl.gradient_descent_risk(problem, rates, small_data),
        bl.gradient_descent_risk(problem, rates, (small_data[0], None)),
        bl.multi_pass_risk(problem, np.full(60, 0.9), 1, samples=64, method="simple"),
        bl.multi_pass_risk(problem, np.full(60, 0.9), 1, samples=64),
    ]
    for risk in runs:
        assert any("the second moment grows" in note for note in risk.notes), risk
    assert runs[-1].uncertainty == np.inf
