import math
import random
import tracemalloc

import numpy as np
import pytest

import batchlaw as bl
import reference
from batchlaw.model.drawn_sketch import BLOCK, numpy_draws, paper_draws
from refused import refused


def test_paper_instance_has_the_published_figures(paper):
    assert paper.eigenvalues[0] == pytest.approx(0.702808, abs=5e-7)
    assert paper.eigenvalues[-1] == pytest.approx(1.59715e-4, abs=5e-10)
    assert paper.trace == pytest.approx(1.312398, abs=5e-7)
    assert paper.approximation == pytest.approx(0.314213, abs=5e-7)
    assert paper.noise_variance == pytest.approx(1.314213, abs=5e-7)
    signal = paper.eigenvalues @ paper.target_energy + paper.approximation
    assert signal == pytest.approx(1.901657, abs=5e-7)


def test_paper_draws_match_the_whole_matrices():
    d, M, a, b, sigma = 50, 4, 2.0, 1.5, 0.7
    rng = random.Random(9)
    w, S = np.empty(d), np.empty((M, d))
    for i in range(1, d + 1):
        w[i - 1] = rng.gauss(0, math.sqrt(i**-b / i**-a))
        S[:, i - 1] = [rng.gauss(0, 1 / math.sqrt(M)) for _ in range(M)]
    problem = bl.Problem.paper(seed=9, dim=d, sketch=M, a=a, b=b, sigma=sigma)
    eigenvalues = np.arange(1, d + 1) ** -a
    _assert_matches(problem, reference.sketched_problem(w, S, eigenvalues, sigma))


@pytest.mark.parametrize("sketch", [3, 4])
def test_paper_draws_are_those_of_python_to_the_bit(sketch):
    rng = random.Random(123)
    a, b, dim = 2.0, 1.5, BLOCK + 17
    for first, target, columns in paper_draws(123, dim, sketch, a, b):
        for i, (w, column) in enumerate(zip(target, columns, strict=True), start=first):
            assert w == rng.gauss(0.0, math.sqrt(i**-b / i**-a))
            assert column.tolist() == [rng.gauss(0.0, 1 / math.sqrt(sketch)) for _ in column]


def test_power_law_matches_the_whole_matrices_over_several_blocks(monkeypatch):
    d, M, a, b = 300, 5, 1.8, 1.4
    whole = bl.Problem.power_law(a, b, M, d, seed=4)
    monkeypatch.setattr("batchlaw.model.drawn_sketch.BLOCK", 16)
    blocks = bl.Problem.power_law(a, b, M, d, seed=4)
    np.testing.assert_allclose(blocks.eigenvalues, whole.eigenvalues, rtol=1e-12)
    w_rng, S_rng = map(np.random.default_rng, np.random.SeedSequence(4).spawn(2))
    i = np.arange(1, d + 1)
    w = w_rng.standard_normal(d) * i ** ((a - b) / 2)
    S = S_rng.standard_normal((d, M)).T / math.sqrt(M)
    _assert_matches(blocks, reference.sketched_problem(w, S, i**-a, 1.0))


def _assert_matches(problem, expected):
    mu, energy, approximation, s2 = expected
    np.testing.assert_allclose(problem.eigenvalues, mu, rtol=1e-10)
    np.testing.assert_allclose(problem.target_energy, energy, rtol=1e-8)
    assert problem.approximation == pytest.approx(approximation, rel=1e-9)
    assert problem.noise_variance == pytest.approx(s2, rel=1e-9)


def test_prior_mean_is_the_average_over_targets():
    d, M, a, b, draws = 200, 4, 2.0, 1.5, 4000
    problem = bl.Problem.power_law(a, b, M, d, seed=1)
    prior = problem.prior_mean()
    _, S_seed = np.random.SeedSequence(1).spawn(2)
    S = np.random.default_rng(S_seed).standard_normal((d, M)).T / math.sqrt(M)
    i = np.arange(1, d + 1)
    Sigma = (S * i**-a) @ S.T
    targets = np.random.default_rng(7).standard_normal((draws, d)) * i ** ((a - b) / 2)
    u = np.linalg.solve(Sigma, (S * i**-a) @ targets.T)
    Q = np.linalg.eigh(Sigma)[1][:, ::-1]
    energies = (Q.T @ u) ** 2
    approximations = (targets**2) @ (i**-a) - np.einsum("jk,ji,ik->k", u, Sigma, u)
    for ours, samples in ((prior.target_energy, energies), (prior.approximation, approximations)):
        error = samples.std(axis=-1) / math.sqrt(draws)
        assert (np.abs(ours - samples.mean(axis=-1)) < 4 * error).all()
    assert prior.irreducible == problem.irreducible
    np.testing.assert_array_equal(prior.eigenvalues, problem.eigenvalues)


def test_sample_has_the_joint_law(small):
    n = 200_000
    features, labels = small.sample(n, seed=3)
    mu, s2 = small.eigenvalues, small.noise_variance
    covariance = features.T @ features / n
    # var(z_i z_j) = mu_i mu_j (1 + [i = j]) gives the standard error of each entry.
    errors = np.sqrt(np.outer(mu, mu) * (1 + np.eye(mu.size)) / n)
    assert (np.abs(covariance - np.diag(mu)) < 4 * errors).all()
    residual = labels - features @ small.optimum
    assert abs(residual.var() - s2) < 4 * s2 * math.sqrt(2 / n)
    assert (np.abs(features.T @ residual / n) < 4 * np.sqrt(mu * s2 / n)).all()


def test_sample_depends_on_its_seed_but_not_on_how_it_is_split(small):
    features, labels = small.sample(7, seed=5)
    rng = np.random.default_rng(5)
    first, second = small.sample(3, rng), small.sample(4, rng)
    np.testing.assert_array_equal(features, np.concatenate([first[0], second[0]]))
    np.testing.assert_array_equal(labels, np.concatenate([first[1], second[1]]))


def test_a_multiplicity_stands_for_equal_directions():
    nodes = bl.Problem.from_spectrum([0.5, 0.1], [2.0, 1.0], 1.0, [1, 3])
    plain = bl.Problem.from_spectrum([0.5, 0.1, 0.1, 0.1], [2.0, 1.0, 1.0, 1.0], 1.0)
    rates, batches = bl.wsd(20, 0.3), np.full(20, 2)
    ours, expected = (bl.one_pass_risk(p, rates, batches) for p in (nodes, plain))
    assert ours.total == pytest.approx(expected.total, rel=1e-14)
    np.testing.assert_array_equal(nodes.sample(5, 1)[0], plain.sample(5, 1)[0])
    kappa = bl.influence(nodes.eigenvalues, rates, multiplicity=nodes.multiplicity)
    np.testing.assert_allclose(kappa, bl.influence(plain.eigenvalues, rates), rtol=1e-14)


def test_from_spectrum_sorts_by_eigenvalue():
    problem = bl.Problem.from_spectrum([0.1, 0.5], [1.0, 2.0], 1.0)
    assert problem.eigenvalues.tolist() == [0.5, 0.1]
    assert problem.target_energy.tolist() == [2.0, 1.0]


def test_a_huge_ambient_dimension_needs_little_memory():
    tracemalloc.start()
    bl.Problem.power_law(2.0, 1.5, sketch=32, dim=400_000, seed=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The whole sketch would be 100 MB; a block of it is 0.5 MB.
    assert peak < 10e6


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"dim": 3, "sketch": 4}, "dim"),
        ({"a": 1.0}, "a"),
        ({"b": math.nan}, "b"),
        ({"a": 400.0}, "a"),
        ({"sigma": -1.0}, "sigma"),
        ({"sketch": 2.5}, "sketch"),
    ],
)
def test_a_bad_model_is_named(arguments, field):
    with refused(field):
        bl.Problem.paper(**{"dim": 10, "sketch": 2} | arguments)


def test_bad_spectra_are_named():
    make = bl.Problem.from_spectrum
    with refused("eigenvalues"):
        make([1.0, 0.0], [1.0, 1.0], 1.0)
    with refused("target_energy"):
        make([1.0, 0.5], [1.0], 1.0)
    with refused("noise_variance"):
        make([1.0], [1.0], 0.1, approximation=0.5)
    with refused("prior"):
        make([1.0], [1.0], 1.0).prior_mean()
    with refused("problem"):
        make([1.0], [1.0], 1.0, [1.5]).sample(1, 0)


def test_a_problem_shows_what_it_is():
    nodes = bl.Problem.from_spectrum([0.5, 0.1], [2.0, 1.0], 1.5, [1, 3], approximation=0.5)
    assert repr(nodes) == (
        "Problem(2 directions for 4, eigenvalues 0.5 to 0.1, trace 0.8, signal 1.3, "
        "approximation 0.5, irreducible 1)"
    )


def test_steep_spectra_keep_their_digits():
    """a = 8, M = 64: eigenvalues over fourteen decades, against the singular values."""
    d, M, a = 2000, 64, 8.0
    problem = bl.Problem.power_law(a, 1.5, M, d, seed=0)
    w_rng, S_rng = map(np.random.default_rng, np.random.SeedSequence(0).spawn(2))
    i = np.arange(1, d + 1)
    w = w_rng.standard_normal(d) * i ** ((a - 1.5) / 2)
    X = S_rng.standard_normal((d, M)) / math.sqrt(M) * i[:, None] ** (-a / 2)
    U, s, _ = np.linalg.svd(X, full_matrices=False)
    target = i ** (-a / 2) * w
    np.testing.assert_allclose(problem.eigenvalues, s**2, rtol=1e-7)
    np.testing.assert_allclose(problem.target_energy, (U.T @ target / s) ** 2, rtol=1e-4)
    rest = target - U @ (U.T @ target)
    assert problem.approximation == pytest.approx(rest @ rest, rel=1e-9)


def test_a_spectrum_too_steep_for_its_sketch_is_refused():
    with refused("a"):
        bl.Problem.power_law(30.0, 1.5, 16, 500, seed=0)


@pytest.mark.parametrize("dim", [16, 31, 32, 33, 47, 48, 49, 63, 64, 65, 80])
def test_any_split_into_head_and_rest_gives_the_same_problem(dim, monkeypatch):
    """Blocks of 16 around 8 M = 32 and 4 M more: no remainder may be short of rank."""
    whole = bl.Problem.power_law(2.0, 1.5, 4, dim, seed=3)
    monkeypatch.setattr("batchlaw.model.drawn_sketch.BLOCK", 16)
    split = bl.Problem.power_law(2.0, 1.5, 4, dim, seed=3)
    np.testing.assert_allclose(split.eigenvalues, whole.eigenvalues, rtol=1e-12)
    np.testing.assert_allclose(split.target_energy, whole.target_energy, rtol=1e-10)
    assert split.approximation == pytest.approx(whole.approximation, rel=1e-10)


def test_a_drawn_problem_has_the_sketch_s_own_coordinates():
    dim, sketch, a, b = 30, 4, 2.0, 1.5
    problem = bl.Problem.power_law(a, b, sketch, dim=dim, seed=3)
    (_, target, columns), *_ = numpy_draws(3, dim, sketch, a, b)
    H = np.diag(np.arange(1.0, dim + 1.0) ** -a)
    sigma = columns.T @ H @ columns
    np.testing.assert_allclose(problem.covariance, sigma, rtol=1e-12, atol=1e-15)
    optimum = np.linalg.solve(sigma, columns.T @ H @ target)
    np.testing.assert_allclose(problem.target, optimum, rtol=1e-9)


def test_a_mean_over_targets_has_no_coordinates_of_its_own():
    with refused("problem"):
        _ = bl.Problem.paper(dim=100, sketch=4).prior_mean().target
