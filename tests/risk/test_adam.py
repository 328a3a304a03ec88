from dataclasses import replace

import numpy as np
import pytest

import batchlaw as bl
import reference
from batchlaw._base.kernels.adam_spread import (
    coupling,
    inverse_roots,
    squared_gradient,
    third_cumulant,
)
from batchlaw.risk.adam_diagonal import diagonal_moments
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
    ours = matrix_moments(problem, rates, batches, rule, spread=False)
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


@pytest.mark.parametrize("basis", ["sketch", "eigen", "generic"])
@pytest.mark.parametrize("batch", [1, 4])
def test_the_spread_of_v_explains_what_its_mean_leaves_open(basis, batch):
    """RMSProp with a short memory: v at its mean is several per cent off, in most bases."""
    problem = bl.Problem.power_law(1.5, 1.5, 8, 100, sigma=0.7, seed=5)
    rates, batches = bl.wsd(80, 0.02), np.full(80, batch)
    rule = bl.adam(0.0, 0.9, basis=basis)
    risk = bl.one_pass_risk(problem, rates, batches, rule=rule)
    simulated = bl.simulate_one_pass(problem, rates, batches, repetitions=3000, seed=2, rule=rule)
    error, allowed = simulated.standard_error("excess"), risk.uncertainty * risk.excess
    assert abs(risk.excess - simulated.excess) < 2.0 * error + allowed
    assert allowed < 0.04 * risk.excess
    if basis != "generic":
        moments = matrix_moments if basis == "sketch" else diagonal_moments
        at_mean = moments(problem, rates, batches[None] * 1.0, rule, spread=False).sum()
        assert abs(at_mean - simulated.excess) > 5.0 * error
        assert abs(at_mean - simulated.excess) > 2.0 * abs(risk.excess - simulated.excess)


@pytest.mark.parametrize("options", [{}, {"weight_decay": 2.0}, {"average": "tail:0.5"}])
def test_the_mean_field_agrees_with_simulation(options):
    problem = bl.Problem.power_law(2.0, 1.5, 12, 200, seed=6)
    rates = bl.wsd(120, 0.02)
    batches = np.stack([np.full(120, 6), np.repeat([10, 2], 60)])
    rule = bl.adam(0.9, 0.95, **options)
    risk = bl.one_pass_risk(problem, rates, batches, rule=rule)
    simulated = bl.simulate_one_pass(problem, rates, batches, repetitions=2000, seed=3, rule=rule)
    errors = simulated.standard_error("excess") + risk.uncertainty * risk.excess
    assert (np.abs(risk.excess - simulated.excess) < 2.0 * errors).all()


@pytest.mark.parametrize("doubt", [0.0, 0.7])
@pytest.mark.parametrize("options", RULES)
def test_the_diagonal_recursion_with_spread_is_that_of_full_matrices(options, doubt, setting):
    rates, batches = setting
    spectrum = bl.Problem.from_spectrum([0.9, 0.5, 0.2, 0.1], [1.0, 0.4, 2.0, 0.3], 0.8)
    drawn = replace(spectrum, _axes=np.eye(4))
    full = matrix_moments(drawn, rates, batches, bl.adam(**options), doubt=doubt)
    rule = bl.adam(**options, basis="eigen")
    np.testing.assert_allclose(
        diagonal_moments(drawn, rates, batches, rule, spread=True, doubt=doubt),
        full,
        rtol=1e-11,
        atol=1e-14,
    )


@pytest.mark.parametrize("options", RULES)
def test_one_direction_has_the_same_risk_with_a_common_v(options, setting):
    # As long as v is not more skewed than a lognormal, which a common v is taken for.
    rates, batches = setting[0], np.full((2, T), [[4.0], [8.0]])
    problem = bl.Problem.from_spectrum([0.7], [1.3], 0.5)
    own, common = (
        diagonal_moments(
            problem, rates, batches, bl.adam(**options, basis=basis), spread=True, doubt=0.3
        )
        for basis in ("eigen", "generic")
    )
    np.testing.assert_allclose(common, own, rtol=1e-12)


def test_cumulants_of_the_squared_gradient_are_those_of_gaussian_products():
    """G = mean of B products z r of Gaussians with covariance g, by many draws."""
    h, g, batch = 1.4, 0.6, 3
    rng = np.random.default_rng(1)
    z = rng.standard_normal((400_000, batch))
    r = g * z + np.sqrt(h - g * g) * rng.standard_normal(z.shape)
    G = (z * r).mean(axis=1)
    tilt, common, own = squared_gradient(h, g * g, batch)
    square = G * G - (G * G).mean()
    n = rng.standard_normal((400_000, batch)) * rng.standard_normal(z.shape)
    n = np.sqrt(h) * n.mean(axis=1)
    cube = (n * n - (n * n).mean()) ** 3
    third = third_cumulant(h, 0.0, batch)
    assert abs(cube.mean() - third) < 4.0 * cube.std() / np.sqrt(cube.size) < 0.5 * third
    normal = (0.8 + rng.standard_normal(400_000)) ** 2 * 1e-4
    cube = (normal - normal.mean()) ** 3
    third = third_cumulant(1e4 * 1e-4, 0.64e-4, 1e4)
    assert abs(cube.mean() - third) < 4.0 * cube.std() / np.sqrt(cube.size) + 1e-2 * third
    for product, expected in ((G * square, g * tilt), (square**2, common + own)):
        assert abs(product.mean() - expected) < 4.0 * product.std() / np.sqrt(product.size)


def test_inverse_roots_are_those_of_lognormals_and_of_v_with_a_few_heavy_squares():
    first, second = inverse_roots(0.5, 0.0)
    assert (first, second) == pytest.approx((1.5**0.375, 1.5))
    # A mean of squares whose batches grow, v of Adam in a ramp: a few weights dominate.
    rng, size, sizes = np.random.default_rng(7), 40_000, np.maximum(1, np.arange(80))
    v, variance, third = np.zeros(size), 0.0, 0.0
    for batch in sizes:
        v += rng.chisquare(batch, size) / batch**2 * rng.standard_normal(size) ** 2
        _, common, own = squared_gradient(1.0, 0.0, batch)
        variance, third = variance + common + own, third + third_cumulant(1.0, 0.0, batch)
    v /= v.mean()
    mean = (1.0 / sizes).sum()
    first, second = inverse_roots(variance / mean**2, third / mean**3)
    assert (v**-0.5).mean() == pytest.approx(first, rel=0.01)
    assert (1.0 / v).mean() == pytest.approx(second, rel=0.03)
    assert first < 0.97 * (1.0 + variance / mean**2) ** 0.375


def test_doubt_raises_the_noise_by_the_coupling_of_v_and_the_error():
    """With a huge eps the step is rate/eps, and one direction can be written down."""
    mu, s2, eps, doubt, beta2 = 0.8, 0.5, 1e9, 0.6, 0.9
    problem = bl.Problem.from_spectrum([mu], [2.0], s2)
    rates, sizes = np.linspace(0.6, 0.2, 12), np.array([1.0, 3.0] * 6)
    rule = bl.adam(0.0, beta2, eps=eps, basis="eigen")
    square, v, spread = 2.0, 0.0, 0.0
    for rate, batch in zip(rates, sizes, strict=True):
        excess = mu * square
        noise = mu * (excess + excess + s2) / batch
        g2 = mu * excess
        _, common, own = squared_gradient(mu * (excess + s2), g2, batch)
        v = beta2 * v + (1 - beta2) * (g2 + noise)
        spread = beta2**2 * spread + (1 - beta2) ** 2 * (common + own)
        V, removed = spread / v**2, 2 * rate * g2 / excess
        share = V / (1 + V) * removed / (removed + 1 - beta2)
        assert coupling(V, 2 * rate * g2, excess, beta2) == pytest.approx(share)
        square = (1 - rate * mu) ** 2 * square + rate**2 * noise * (1 + doubt * share)
    moments = diagonal_moments(problem, eps * rates, sizes[None], rule, spread=True, doubt=doubt)
    assert moments.sum() == pytest.approx(mu * square, rel=1e-7)


def test_the_stated_error_grows_with_the_rate_where_v_forgets_fast():
    problem = bl.Problem.power_law(2.0, 1.8, 16, 100, sigma=0.3, seed=10)
    stated = [
        bl.one_pass_risk(
            problem, bl.constant(60, peak), np.full(60, 1), rule=bl.adam(0.0, 0.9)
        ).uncertainty
        for peak in (0.003, 0.05, 0.3)
    ]
    assert 0.015 < stated[0] < stated[1] < stated[2]


def test_targets_averaged_over_a_prior_are_an_approximation_that_is_named():
    nodes = bl.Problem.power_law_nodes(2.0, 1.5, 1e6)
    drawn = bl.Problem.power_law(2.0, 1.5, 4, 50, seed=1)
    rule = bl.adam(basis="eigen")
    for problem, kinds in ((nodes, 2), (drawn.prior_mean(), 2), (drawn, 1)):
        risk = bl.one_pass_risk(problem, bl.wsd(20, 0.01), np.full(20, 4), rule=rule)
        assert [note.kind for note in risk.notes] == ["approximation"] * kinds
    assert bl.one_pass_risk(nodes, bl.wsd(20, 0.01), np.full(20, 4), rule=rule).uncertainty > 0.01
