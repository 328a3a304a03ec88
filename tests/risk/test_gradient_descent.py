import numpy as np
import pytest

import batchlaw as bl
import reference
from batchlaw.risk import gradient_descent
from batchlaw.risk import runs as procedures
from refused import refused

RATES = bl.wsd(25, 0.4)


def _excess(problem, theta):
    return problem.eigenvalues @ (theta - problem.optimum) ** 2


@pytest.mark.parametrize("n", [1, 4, 6, 40])
def test_the_parts_of_a_dataset_add_up_to_the_error_of_its_iterate(small, n):
    """Also with fewer samples than the six directions."""
    data = small.sample(n, seed=n)
    risk = gradient_descent.given_dataset(small, RATES, data)
    theta = procedures.gradient_descent(data, RATES)
    assert risk.excess == pytest.approx(_excess(small, theta), rel=1e-12)
    assert risk.fluctuation == 0.0
    assert risk.method == "exact given the dataset"


@pytest.mark.parametrize("n", [3, 12])
def test_bias_is_the_error_on_labels_without_residuals(small, n):
    """Bias_GD of the paper: |Sigma^1/2 prod (I - gamma Sigma_hat) u*|^2."""
    features, labels = small.sample(n, seed=2)
    clean = reference.gradient_descent(features, features @ small.optimum, RATES)
    noise = reference.gradient_descent(features, labels - features @ small.optimum, RATES)
    risk = gradient_descent.given_dataset(small, RATES, (features, labels))
    assert risk.bias == pytest.approx(_excess(small, clean), rel=1e-12)
    assert risk.variance == pytest.approx(small.eigenvalues @ noise**2, rel=1e-12)
    averaged = gradient_descent.given_features(small, RATES, features)
    assert averaged.bias == pytest.approx(risk.bias, rel=1e-12)
    assert averaged.cross == 0.0


@pytest.mark.parametrize("n", [3, 12])
def test_variance_is_the_sum_of_the_responses_to_each_label(small, n):
    """s2 Var_GD: independent residuals of variance s2, one sample at a time."""
    features, _ = small.sample(n, seed=3)
    responses = [reference.gradient_descent(features, row, RATES) for row in np.eye(n)]
    expected = small.noise_variance * sum(small.eigenvalues @ x**2 for x in responses)
    risk = gradient_descent.given_features(small, RATES, features)
    assert risk.variance == pytest.approx(expected, rel=1e-12)


def test_a_direction_without_data_keeps_its_error():
    problem = bl.Problem.from_spectrum([1.0, 0.5], [2.0, 3.0], 1.0)
    features = np.array([[1.0, 0.0], [1.0, 0.0]])
    risk = gradient_descent.given_features(problem, [0.5, 0.5], features)
    assert risk.bias == pytest.approx(2.0 * 0.5**4 + 0.5 * 3.0, rel=1e-14)
    assert risk.variance == pytest.approx(0.75**2 / 2, rel=1e-14)


def test_averaging_over_datasets_gives_the_simulated_risk(small):
    simulated = bl.simulate_gradient_descent(
        small, RATES, samples=30, repetitions=2000, seed=1, threads=1
    )
    draws = [small.sample(30, seed=[7, i])[0] for i in range(400)]
    exact = [gradient_descent.given_features(small, RATES, z) for z in draws]
    for term in ("bias", "variance"):
        values = np.array([getattr(risk, term) for risk in exact])
        error = np.hypot(simulated.standard_error(term), values.std() / np.sqrt(values.size))
        assert abs(values.mean() - getattr(simulated, term)) < 4 * error


def test_features_of_another_problem_are_named(small):
    with refused("features"):
        gradient_descent.given_features(small, RATES, np.ones((4, 5)))
    with refused("features"):
        gradient_descent.given_dataset(small, RATES, (np.ones((4, 5)), np.ones(4)))


def test_a_dataset_on_which_the_rates_explode_is_named(small):
    features = 1e3 * np.ones((2, 6))
    with refused("rates", bl.Unstable):
        gradient_descent.given_features(small, np.full(400, 1.0), features)
