import numpy as np
import pytest

import batchlaw as bl
import reference
from batchlaw._base.kernels.adam_spread import AT_MEAN
from batchlaw.risk.adam_matrix import matrix_moments
from refused import refused

T = 9


@pytest.fixture(scope="module")
def problem():
    return bl.Problem.power_law(1.7, 1.5, 5, 60, sigma=0.6, seed=4)


@pytest.fixture(scope="module")
def setting():
    rng = np.random.default_rng(8)
    return rng.uniform(0.0, 0.2, T), rng.integers(1, 9, (3, T)).astype(float)


RULES = [
    {},
    {"beta1": 0.0, "beta2": 0.9},
    {"beta1": 0.0, "beta2": 0.0},
    {"beta2": 0.9, "eps": 0.1},
    {"beta1": 0.8, "weight_decay": 0.7},
    {"beta1": 0.0, "weight_decay": 0.7, "average": "ema:0.7"},
    {"beta1": 0.5, "average": "tail:0.5"},
    {"weight_decay": 0.3, "average": np.full(T, 0.05)},
]


@pytest.mark.parametrize("options", RULES)
def test_adam_with_v_at_its_mean_matches_full_matrices(options, problem, setting):
    rates, batches = setting
    rule = bl.adam(**options)
    ours = matrix_moments(problem, rates, batches, rule, order=AT_MEAN)
    weights = rule.readout(T)
    average = np.eye(T)[-1] if weights is None else weights
    for row, sizes in zip(ours, batches, strict=True):
        expected = reference.dense_adam(
            problem.covariance, problem.target, problem.noise_variance, rates, sizes, rule, average
        )
        np.testing.assert_allclose(row, expected, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("average", [None, "tail:0.5", "ema:0.7"])
@pytest.mark.parametrize("beta1", [0.0, 0.9])
def test_a_huge_eps_makes_adam_heavy_ball_sgd(beta1, average, problem):
    """Adam then moves by rate/eps times m_hat: SGD in PyTorch's form, its rates corrected."""
    eps, steps = 1e12, 40
    rates, batches = bl.wsd(steps, 0.1), np.arange(1.0, steps + 1)
    rule = bl.adam(beta1, 0.999, eps=eps, average=average)
    risk = bl.one_pass_risk(problem, rates * eps, batches, rule=rule, trajectory=True)
    corrected = rates * (1 - beta1) / (1 - beta1 ** np.arange(1.0, steps + 1))
    plain = bl.sgd(beta1, pytorch=beta1 > 0, average=average)
    expected = bl.one_pass_risk(problem, corrected, batches, rule=plain, trajectory=True)
    np.testing.assert_allclose(risk.bias, expected.bias, rtol=1e-10)
    np.testing.assert_allclose(risk.variance, expected.variance, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("average", [None, "ema:0.6"])
def test_schedules_together_give_what_each_gives_and_trajectories_end_at_the_final_risk(
    average, problem, setting
):
    rates, batches = setting
    rule = bl.adam(0.9, 0.95, average=average)
    together = bl.one_pass_risk(problem, rates, batches, rule=rule)
    paths = bl.one_pass_risk(problem, rates, batches, rule=rule, trajectory=True)
    for part in ("bias", "variance", "uncertainty"):
        alone = [
            getattr(bl.one_pass_risk(problem, rates, sizes, rule=rule), part) for sizes in batches
        ]
        np.testing.assert_allclose(getattr(together, part), alone, rtol=1e-12, atol=1e-15)
        assert getattr(paths, part).shape == (3, T + 1)
        np.testing.assert_allclose(getattr(paths, part)[:, -1], alone, rtol=1e-12, atol=1e-15)
    start = problem.eigenvalues @ problem.target_energy
    np.testing.assert_allclose(paths.excess[:, 0], start)


def test_the_result_says_that_it_is_an_approximation(problem, setting):
    rates, batches = setting
    named = {"first": batches[0], "second": batches[1]}
    risk = bl.one_pass_risk(problem, rates, named, rule=bl.adam())
    assert risk.procedure == "one-pass Adam with betas 0.9 and 0.999"
    assert risk.method == "mean field of the second moments"
    assert [note.kind for note in risk.notes] == ["approximation"]
    assert risk.schedules == ("first", "second")
    assert (np.asarray(risk.uncertainty) > 0.0).all()


def test_a_mean_over_targets_is_refused_in_the_sketch_s_coordinates(problem, setting):
    rates, batches = setting
    with refused("problem"):
        bl.one_pass_risk(problem.prior_mean(), rates, batches, rule=bl.adam())
    with refused("rates"):
        bl.one_pass_risk(problem, np.zeros(T), batches, rule=bl.adam())
