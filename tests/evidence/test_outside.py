import numpy as np
import pytest

import batchlaw as bl
from batchlaw.evidence.claims import ensembles
from batchlaw.evidence.claims.outside import data_laws
from batchlaw.evidence.claims.outside import sketch as outside_sketch
from batchlaw.model.nodes import power_sum_after


def dense_hadamard(dim):
    matrix = np.ones((1, 1))
    while matrix.shape[0] < dim:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


def test_the_hadamard_transform_is_the_matrix_product():
    values = np.random.default_rng(0).standard_normal((2, 3, 64))
    expected = values @ dense_hadamard(64)
    np.testing.assert_allclose(ensembles.walsh_hadamard(values), expected, atol=1e-12)


def test_the_hadamard_transform_refuses_other_dimensions():
    with pytest.raises(ValueError, match="power of two, got 12"):
        ensembles.walsh_hadamard(np.ones(12))


def test_hadamard_grams_are_those_of_the_sketch_whatever_its_signs():
    dim, rows = 32, 5
    weights = np.random.default_rng(1).random((2, dim))
    grams = ensembles.hadamard(rows, weights, np.random.default_rng(2))
    chosen = np.random.default_rng(2).choice(dim, rows, replace=False)
    signs = np.random.default_rng(3).choice([-1.0, 1.0], dim)
    sketch = dense_hadamard(dim)[chosen] * signs / np.sqrt(rows)
    for gram, w in zip(grams, weights, strict=True):
        np.testing.assert_allclose(gram, sketch * w @ sketch.T, atol=1e-12)


@pytest.mark.parametrize(
    "ensemble",
    [
        ensembles.gaussian,
        ensembles.rademacher,
        ensembles.thinned(0.2),
        ensembles.column_sparse(1),
        ensembles.column_sparse(3),
        ensembles.shuffled_hadamard,
    ],
)
def test_entries_have_mean_zero_and_variance_one_over_m(ensemble):
    rows, dim, draws = 4, 16, 4000
    weights = np.arange(1.0, dim + 1.0)[None] / 16.0
    rng = np.random.default_rng(4)
    grams = np.array([ensemble(rows, weights, rng)[0] for _ in range(draws)])
    error = grams.std(axis=0) / np.sqrt(draws) + 1e-12
    distance = np.abs(grams.mean(axis=0) - weights.sum() / rows * np.eye(rows))
    assert (distance < 4.5 * error).all()


def test_dense_grams_do_not_depend_on_the_block(monkeypatch):
    weights = np.random.default_rng(5).random((2, 40))
    whole = ensembles.gaussian(3, weights, np.random.default_rng(6))
    monkeypatch.setattr(ensembles, "BLOCK", 30)
    blocks = ensembles.gaussian(3, weights, np.random.default_rng(6))
    np.testing.assert_allclose(blocks, whole, rtol=1e-12)


def test_the_rows_of_a_sparse_column_are_distinct():
    rows = np.sort(ensembles.distinct_rows(4, 500, 3, np.random.default_rng(7)), axis=1)
    assert (np.diff(rows, axis=1) > 0).all()
    counts = np.bincount(rows.ravel(), minlength=4) / 1500
    np.testing.assert_allclose(counts, 0.25, atol=0.04)


def test_a_sketch_that_loses_no_coordinate_has_the_rest_as_approximation():
    dim = 64
    approx, _ = outside_sketch.approximations(
        ensembles.hadamard, dim, dim, np.random.default_rng(8)
    )
    i = np.arange(1.0, dim + 1.0)
    for value, b in zip(approx, (1.5, 2.5), strict=True):
        tails = [power_sum_after(s, dim) / dim for s in (2.0, 2.0 + b)]
        explained = ((i ** (-2.0 - b) + tails[1]) / (i**-2.0 + tails[0])).sum()
        assert value == pytest.approx(power_sum_after(b, 0) - explained, rel=1e-9)


def test_one_bucket_explains_the_weighted_mean():
    approx = outside_sketch.count_approximations(1, 512, 3, np.random.default_rng(9))
    for value, b in zip(approx, (1.5, 2.5), strict=True):
        explained = power_sum_after(2.0 + b, 0) / power_sum_after(2.0, 0)
        np.testing.assert_allclose(value, power_sum_after(b, 0) - explained, rtol=1e-9)


def test_the_recursion_of_gaussian_data_is_one_pass_risk(small):
    rates, batches = bl.wsd(20, 0.5), np.tile([[1.0], [3.0]], 20)
    ours = data_laws.one_pass_risk_under(data_laws.GAUSSIAN, small, rates, batches)
    exact = bl.one_pass_risk(small, rates, batches)
    for part in ("bias", "variance_noise", "variance_covariance"):
        np.testing.assert_allclose(getattr(ours, part), getattr(exact, part), rtol=1e-12)


def test_the_recursion_of_sign_features_is_the_enumeration_of_all_signs():
    problem = bl.Problem.from_spectrum([0.9, 0.4, 0.1], [1.0, 0.5, 2.0], 1.3)
    rates, batches = np.array([0.7, 0.5, 0.3, 0.2]), np.array([1.0, 2.0, 1.0, 3.0])
    grid = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T
    z = grid * np.sqrt(problem.eigenvalues)
    sigma = np.diag(problem.eigenvalues)
    mean, centred = -problem.optimum, np.zeros((3, 3))
    for g, batch in zip(rates, batches, strict=True):
        second = centred + np.outer(mean, mean)
        fourth = np.einsum("ni,nj,njk,nk,nl->il", z, z, [second] * 8, z, z) / 8
        noise = fourth - sigma @ second @ sigma + 1.3 * sigma
        step = np.eye(3) - g * sigma
        centred = step @ centred @ step + g**2 / batch * noise
        mean = step @ mean
    risk = data_laws.one_pass_risk_under(data_laws.SIGNS, problem, rates, batches)
    assert risk.variance == pytest.approx(np.trace(sigma @ centred), rel=1e-12)
    assert risk.bias == pytest.approx(mean @ sigma @ mean, rel=1e-12)


LAWS = [
    data_laws.HEAVY_NOISE,
    data_laws.UNEVEN_NOISE,
    data_laws.NO_NOISE,
    data_laws.SIGNS,
    data_laws.STUDENT,
    data_laws.MIXED,
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.departure.id)
def test_a_data_law_keeps_the_problem_and_has_the_moments_it_names(law):
    n = 400_000
    problem = bl.Problem.from_spectrum([0.9, 0.4], [1.0, 0.5], 1.3)
    features, labels = law.draw(problem)(n, np.random.default_rng(10))
    x = features / np.sqrt(problem.eigenvalues)
    residual = (labels - features @ problem.optimum) / np.sqrt(1.3)

    def close(values, expected):
        error = values.std() / np.sqrt(n)
        assert abs(values.mean() - expected) < 4.5 * error + 1e-12

    for j in range(2):
        close(x[:, j], 0.0)
        close(x[:, j] ** 2, 1.0)
        close(residual * x[:, j], 0.0)
    close(x[:, 0] * x[:, 1], 0.0)
    close(x[:, 0] ** 2 * x[:, 1] ** 2, law.cross_weight)
    close(residual**2 * x[:, 0] ** 2, law.top_noise)
    close(residual**2 * x[:, 1] ** 2, 1.0)
    # The two weights sum to E x^4 - 1; a loose bound, since the eighth moment may not exist.
    assert (x[:, 0] ** 4).mean() == pytest.approx(law.self_weight + law.cross_weight + 1.0, rel=0.1)


def test_the_variance_of_uneven_noise_is_the_squared_first_coordinate():
    x = np.array([[0.5, 1.0], [2.0, 1.0]]).repeat(200_000, axis=0)
    residual = data_laws.uneven_residuals(x, np.random.default_rng(11)).reshape(2, -1)
    np.testing.assert_allclose(residual.var(axis=1), [0.25, 4.0], rtol=0.015)
