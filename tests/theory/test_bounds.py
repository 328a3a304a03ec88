"""The appendix's bounds: each contains the exact number wherever its hypotheses hold."""

import importlib.util
import inspect
import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import batchlaw as bl
import reference
from batchlaw import bounds
from batchlaw.theory.bounds import one_pass as one_pass_module
from batchlaw.theory.bounds.power_law import power_law_conditions
from paths import BENCHMARKS, DOCS, file_of
from refused import refused

# --- Examples and oracles ---------------------------------------------------------------------


@st.composite
def one_pass_settings(draw):
    """A problem, rates and batches; the rates straddle the stability condition."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    M, T = draw(st.integers(1, 6)), draw(st.integers(1, 12))
    mu = rng.exponential(size=M) ** draw(st.sampled_from([1, 3])) + 1e-3
    approximation = rng.exponential() * draw(st.sampled_from([0.0, 1.0]))
    s2 = approximation + rng.exponential()
    problem = bl.Problem.from_spectrum(
        mu, rng.exponential(size=M) * 3.0, s2, approximation=approximation
    )
    peak = draw(st.floats(0.01, 1.2)) / (12.0 * problem.trace)
    rates = peak * rng.uniform(0.05, 1.0, size=T)
    return problem, rates, rng.integers(1, 9, size=T)


@st.composite
def datasets(draw):
    """A problem, a dataset, rates (straddling 1/8) and batches."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    M, N, L = draw(st.integers(1, 4)), draw(st.integers(2, 8)), draw(st.integers(1, 10))
    mu = rng.exponential(size=M) + 1e-2
    problem = bl.Problem.from_spectrum(mu, rng.exponential(size=M), 0.2 + rng.exponential())
    features, labels = problem.sample(N, rng)
    largest = (features**2).sum(axis=1).max()
    rates = draw(st.floats(0.01, 1.2)) / (8.0 * largest) * rng.uniform(0.2, 1.0, size=L)
    return problem, (features, labels), rates, rng.integers(1, N + 1, size=L)


@st.composite
def sketches(draw):
    """lambda, S, w* and rates of a small ambient problem."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    M = draw(st.integers(1, 5))
    d = 2 * M + draw(st.integers(0, 6))
    lam = np.sort(rng.exponential(size=d) ** draw(st.sampled_from([1, 3])) + 1e-3)[::-1]
    sketch = rng.standard_normal((M, d)) / math.sqrt(M)
    top = np.linalg.eigvalsh((sketch * lam) @ sketch.T)[-1]
    rates = draw(st.floats(0.05, 0.9)) / top * rng.uniform(0.1, 1.0, size=draw(st.integers(1, 30)))
    return lam, sketch, rng.standard_normal(d), rates, rng


def dense_fluctuation(problem, dataset, rates, rho):
    """tr(Sigma C_L) by the M x M recursion given features and labels."""
    Z, y = dataset
    N, M = Z.shape
    Sigma_hat = Z.T @ Z / N
    C, theta = np.zeros((M, M)), np.zeros(M)
    for rate, factor in zip(rates, rho, strict=True):
        residual = y - Z @ theta
        q = Z.T @ residual / N
        square = residual**2 + np.einsum("ij,jk,ik->i", Z, C, Z)
        source = Z.T @ np.diag(square) @ Z / N - np.outer(q, q) - Sigma_hat @ C @ Sigma_hat
        A = np.eye(M) - rate * Sigma_hat
        C = A @ C @ A + rate**2 * factor * source
        theta = theta + rate * q
    return np.trace(np.diag(problem.eigenvalues) @ C)


def label_mean(problem, features, rates, rho):
    """The same, averaged over the labels: a quadratic, so 2N cubature points give its mean."""
    N = features.shape[0]
    clean = features @ problem.optimum
    shift = math.sqrt(N * problem.noise_variance)
    total = 0.0
    for i, sign in itertools.product(range(N), (1.0, -1.0)):
        labels = clean + sign * shift * np.eye(N)[i]
        total += dense_fluctuation(problem, (features, labels), rates, rho)
    return total / (2 * N)


def without_replacement(batches, N):
    return (N - batches) / (batches * (N - 1.0))


def test_the_fluctuation_oracle_equals_enumeration():
    problem = bl.Problem.from_spectrum([0.8, 0.3], [1.0, 0.5], 0.7)
    dataset = problem.sample(4, 5)
    rates, batches = [0.3, 0.2, 0.4], np.array([1, 2, 3])
    theta = reference.gradient_descent(*dataset, rates)
    choices = [list(itertools.combinations(range(4), b)) for b in batches]
    errors = [reference.sgd(*dataset, rates, sets) - theta for sets in itertools.product(*choices)]
    expected = np.mean([problem.eigenvalues @ error**2 for error in errors])
    recursion = dense_fluctuation(problem, dataset, rates, without_replacement(batches, 4))
    assert recursion == pytest.approx(expected, rel=1e-12)


# --- Bound itself -----------------------------------------------------------------------------


def test_a_bound_whose_hypothesis_fails_says_so():
    problem = bl.Problem.from_spectrum([1.0], [1.0], 1.0)
    bound = bounds.raw_variance(problem, [0.2], [1])
    assert not bound.holds
    (failed,) = bound.failed
    assert failed.name == "gamma alpha tr(Sigma) <= 1/4"
    assert failed.measured == pytest.approx(0.6)


def test_tightness_is_the_worst_ratio_on_each_side():
    bound = bounds.Bound("b", "here", np.array([1.0, 0.0]), np.array([2.0, 3.0]), math.inf)
    assert bound.tightness == (2.0, 0.0)
    assert bound.inside
    assert not replace(bound, upper=np.array([2.5, 2.9])).inside
    assert np.isnan(replace(bound, value=math.nan).tightness).all()


def test_rounding_is_relative_to_the_terms_and_not_to_their_difference():
    """A square sketch loses nothing: Approx is the difference of two equal numbers."""
    lam, rng = np.array([1.0, 0.5, 0.2]), np.random.default_rng(0)
    values = []
    for _ in range(20):
        bound = bounds.approximation_upper(lam, rng.standard_normal((3, 3)), np.ones(3), 0)
        assert bound.holds
        assert bound.inside
        values.append(bound.value)
    assert min(values) < 0.0 < max(values)
    assert not bounds.Bound("b", "here", 0.0, -1e-9, 1.0, terms=1.0).inside
    assert not bounds.Bound("b", "here", 0.0, -1e-13, 1.0).inside


def test_a_value_that_was_not_computed_is_not_inside():
    assert not bounds.Bound("b", "here", 0.0, math.nan, 1.0).inside


# --- Appendix A.1, A.4, A.8, A.9 --------------------------------------------------------------


@given(st.integers(10, 400), st.floats(0.01, 2.0), st.floats(0.05, 0.3), st.floats(0.4, 0.9))
def test_lemma_onepass_wsd_calculus_bounds_the_masses(steps, peak, warmup, stable):
    assume(math.floor(warmup * steps) >= 1)
    for bound in (
        bounds.wsd_mass(steps, peak, warmup, stable),
        bounds.wsd_decay_mass(steps, peak, warmup, stable),
    ):
        assert bound.holds
        assert bound.inside, bound


@given(one_pass_settings(), st.floats(0.01, 1.5))
def test_lemma_onepass_wsd_calculus_bounds_the_products(setting, c0):
    problem, rates, _ = setting
    rates = rates * c0 / (rates.max() * problem.eigenvalues[0])
    bound = bounds.product_calculus(problem.eigenvalues, rates)
    assert bound.holds == (c0 < 1.0)
    if bound.holds:
        assert bound.inside
    expected = [math.prod((1 - r * m) ** 2 for r in rates) for m in problem.eigenvalues]
    np.testing.assert_allclose(bound.value, expected, rtol=1e-12)


@given(one_pass_settings())
def test_the_effective_batch_lies_between_the_batches(setting):
    assert bounds.effective_batch_range(*setting).inside


def test_lemma_app_final_risk_influence_has_bounded_constants():
    mu = np.arange(1, 4001) ** -2.0
    for steps in (64, 512, 2048):
        bound = bounds.influence_shape(mu, bl.wsd(steps, 0.5), 2.0)
        low, high = bound.tightness
        assert bound.holds
        # sum_j mu_j^2 exp(-2 R mu_j) tends to Gamma(3/2)/2 (2R)^(-3/2).
        assert math.gamma(1.5) / 2.0 * 2.0**-1.5 < low
        assert high < 1.2
    assert not bounds.influence_shape(mu[:3], bl.wsd(512, 0.5), 2.0).holds


def test_lemma_app_derived_multipass_regularity_bounds_the_largest_norm(paper):
    data = np.array([paper.sample(512, seed)[0] for seed in range(4)])
    bound = bounds.largest_norm(paper.eigenvalues, data)
    assert bound.inside
    assert bound.tightness[1] > 0.3


def test_lemma_app_derived_multipass_regularity_has_a_tail(paper):
    """P(8 gamma max ||z||^2 > r) for r = 1, 1.5, 2: the exact tail at M = 1, draws elsewhere."""
    one = bl.Problem.from_spectrum([0.7], [1.0], 1.0)
    bound = bounds.largest_norm_tail(one, 100, 0.01, [1.0, 1.5, 2.0])
    exact = [1.0 - math.erf(math.sqrt(r / 0.08 / 1.4)) ** 100 for r in (1.0, 1.5, 2.0)]
    np.testing.assert_allclose(bound.value, exact, rtol=0.08)
    assert bound.inside
    bound = bounds.largest_norm_tail(paper, 64, 0.015, [1.0, 1.25])
    norms = np.array([(paper.sample(64, seed)[0] ** 2).sum(axis=1).max() for seed in range(2000)])
    measured = np.array([(8.0 * 0.015 * norms > r).mean() for r in (1.0, 1.25)])
    error = np.sqrt(measured * (1.0 - measured) / norms.size)
    assert (np.abs(bound.value - measured) < 3.0 * error + 0.02 * measured).all()


def test_regularity_names_what_the_papers_experiments_violate(paper):
    conditions = bounds.regularity(paper.eigenvalues, paper.sample(512, 0)[0], bl.wsd(512, 0.05))
    failed = [condition.name for condition in conditions if not condition.holds]
    assert failed == ["gamma max ||z_i||^2 <= 1/8"]


# --- Appendix C: approximation ----------------------------------------------------------------


@given(sketches())
def test_lemma_approx_upper_holds_at_every_head(example):
    lam, sketch, w, _, _ = example
    approximation = reference.sketched_problem(w, sketch, lam, 1.0)[2]
    for k in range(sketch.shape[0] + 1):
        bound = bounds.approximation_upper(lam, sketch, w, k)
        assert bound.holds
        assert bound.inside
        assert bound.value == pytest.approx(approximation, rel=1e-8, abs=1e-12)


@given(sketches())
def test_lemma_approx_lower_and_upper_hold_over_the_prior(example):
    lam, sketch, w, _, _ = example
    for k in range(sketch.shape[0] + 1):
        bound = bounds.expected_approximation(lam, sketch, w**2, k)
        assert bound.holds
        assert bound.inside
    # The mean over signs of the coordinates is the mean over the prior.
    d = lam.size
    signs = 1.0 - 2.0 * ((np.arange(2**d)[:, None] >> np.arange(d)) & 1) if d <= 6 else None
    if signs is not None:
        each = [reference.sketched_problem(s * w, sketch, lam, 1.0)[2] for s in signs]
        assert bound.value == pytest.approx(np.mean(each), rel=1e-8, abs=1e-12)


def test_lemma_approx_lower_is_reached_by_the_leading_truncation():
    lam = np.arange(1, 9) ** -2.0
    bound = bounds.expected_approximation(lam, np.eye(3, 8), np.ones(8), head=0)
    assert bound.value == pytest.approx(bound.lower, rel=1e-12)


def test_lemma_approx_final_has_bounded_constants():
    rng = np.random.default_rng(0)
    lam = np.arange(1, 3001) ** -2.0
    for M in (16, 32, 64):
        sketch = rng.standard_normal((M, lam.size)) / math.sqrt(M)
        order = bounds.approximation_order(lam, sketch, 1.5)
        assert 2.0 < order.tightness[0] < 3.0
        w = rng.standard_normal(lam.size) * np.arange(1, lam.size + 1) ** 0.25
        assert bounds.approximation_spectral(lam, sketch, w).tightness[1] < 1.0


def test_the_approximation_is_of_another_order_beyond_b_equal_to_a_plus_1():
    """C.3 needs b < a + 1, which lemma aux-C5-E7 omits: beyond, Approx falls like M^-a."""
    rng = np.random.default_rng(0)
    lam = np.arange(1, 2001) ** -1.5
    constants = {}
    for b in (2.2, 3.5):
        for M in (16, 64):
            sketch = rng.standard_normal((M, lam.size)) / math.sqrt(M)
            bound = bounds.approximation_order(lam, sketch, b)
            assert [c.id for c in bound.failed] == ([] if b < 2.5 else ["source-below-spectrum"])
            constants[b, M] = bound.tightness[0]
    assert constants[2.2, 64] < 1.5 * constants[2.2, 16]
    # M^-1.5 over M^-2.5.
    assert constants[3.5, 64] > 3.0 * constants[3.5, 16]


def test_a_head_that_leaves_no_tail_fails_its_rank_condition():
    lam, sketch = np.array([1.0, 0.5, 0.2]), np.random.default_rng(0).standard_normal((2, 3))
    upper = bounds.approximation_upper(lam, sketch, np.ones(3), 2)
    assert [c.name for c in upper.failed] == ["rank(H) >= k + M"]
    assert bounds.tail_spectral_ratio(lam, sketch, 2).value == math.inf


def test_tightest_takes_the_best_head():
    rng = np.random.default_rng(1)
    lam, sketch = np.arange(1, 31) ** -2.0, rng.standard_normal((6, 30))
    w = rng.standard_normal(30)
    every = [bounds.approximation_upper(lam, sketch, w, k).upper for k in range(4)]
    best = bounds.tightest(lambda k: bounds.approximation_upper(lam, sketch, w, k), range(4))
    assert best.upper == min(every)


# --- Appendices D and G: bias -----------------------------------------------------------------


@given(one_pass_settings())
def test_lemma_batch_bias_upper_holds_in_its_simple_form(setting):
    problem, rates, batches = setting
    bound = bounds.one_pass_bias_simple(problem, rates)
    assert bound.holds
    assert bound.inside
    assert bound.value == pytest.approx(bl.one_pass_risk(problem, rates, batches).bias, rel=1e-12)


@given(sketches())
def test_lemma_batch_bias_upper_holds_at_every_head(example):
    lam, sketch, w, rates, _ = example
    Sigma = (sketch * lam) @ sketch.T
    u = np.linalg.solve(Sigma, sketch @ (lam * w))
    bias = reference.dense_one_pass(Sigma, u, 1.0, rates, np.ones(rates.size))[0]
    for k in range(sketch.shape[0] + 1):
        bound = bounds.one_pass_bias_upper(lam, sketch, w, rates, k)
        assert bound.inside
        assert bound.value == pytest.approx(bias, rel=1e-7)


@given(sketches(), st.booleans())
def test_lemma_batch_bias_lower_holds(example, cutoff):
    lam, sketch, w, rates, _ = example
    bound = bounds.one_pass_bias_lower(lam, sketch, w**2, rates, cutoff=cutoff)
    assert bound.holds
    assert bound.inside


def test_the_bias_over_the_prior_is_the_mean_over_targets():
    rng = np.random.default_rng(3)
    lam, sketch = np.arange(1, 7) ** -1.5, rng.standard_normal((2, 6))
    w, rates = rng.standard_normal(6), np.full(7, 0.1)
    data = rng.standard_normal((2, 5, 6)) * np.sqrt(lam) @ sketch.T
    one = gd = 0.0
    for signs in itertools.product((1.0, -1.0), repeat=6):
        one += bounds.one_pass_bias_upper(lam, sketch, w * signs, rates, 0).value / 64
        gd += bounds.gd_bias_upper(lam, sketch, w * signs, rates, data, 0).value / 64
    expected = bounds.one_pass_bias_lower(lam, sketch, w**2, rates)
    assert expected.value == pytest.approx(one, rel=1e-10)
    assert bounds.gd_bias_lower(lam, sketch, w**2, rates, data).value == pytest.approx(gd)


@given(sketches(), st.integers(1, 8), st.integers(1, 3))
def test_lemma_gd_bias_upper_holds_given_the_data(example, N, R):
    lam, sketch, w, rates, rng = example
    data = rng.standard_normal((R, N, lam.size)) * np.sqrt(lam) @ sketch.T
    for k in range(sketch.shape[0] + 1):
        bound = bounds.gd_bias_upper(lam, sketch, w, rates, data, k)
        if bound.holds:
            assert bound.inside
    u = np.linalg.solve((sketch * lam) @ sketch.T, sketch @ (lam * w))
    errors = [reference.gradient_descent(Z, Z @ u, rates) - u for Z in data]
    expected = np.mean([np.sum((np.sqrt(lam) * (e @ sketch)) ** 2) for e in errors])
    assert bound.value == pytest.approx(expected, rel=1e-6)


def test_lemma_gd_bias_upper_has_bounded_constants():
    rng = np.random.default_rng(4)
    lam = np.arange(1, 601) ** -2.0
    w = rng.standard_normal(600) * np.arange(1, 601) ** 0.25
    for M, steps in ((12, 32), (24, 128), (48, 512)):
        sketch = rng.standard_normal((M, 600)) / math.sqrt(M)
        data = rng.standard_normal((2, 200, 600)) * np.sqrt(lam) @ sketch.T
        bound = bounds.gd_bias_order(lam, sketch, w, bl.wsd(steps, 0.05), data)
        assert {condition.id for condition in bound.failed} == {"largest-norm"}
        assert 0.01 < bound.tightness[1] < 1.0


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_lemma_gd_bias_lower_holds(steps):
    rng = np.random.default_rng(steps)
    lam = np.arange(1, 61) ** -1.5
    sketch = rng.standard_normal((18, 60)) / math.sqrt(18)
    data = rng.standard_normal((30, 40, 60)) * np.sqrt(lam) @ sketch.T
    bound = bounds.gd_bias_lower(lam, sketch, np.ones(60), np.full(steps, 0.1), data)
    assert bound.holds
    assert bound.lower > 0.0
    assert bound.inside


# --- Appendix E: GD variance ------------------------------------------------------------------


@given(datasets(), st.floats(0.05, 1.3), st.sampled_from(["repaired", "printed"]))
def test_lemma_gd_var_upper_lower_holds_given_the_data(example, c0, form):
    problem, (Z, _), rates, _ = example
    N = len(Z)
    rates = rates * c0 / (rates.max() * np.linalg.eigvalsh(Z.T @ Z / N)[-1])
    bound = bounds.gd_variance(problem.eigenvalues, rates, Z, form=form)
    if bound.holds:
        assert bound.inside
    # Unit noise on each label in turn: GD is linear in the labels.
    runs = [reference.gradient_descent(Z, np.eye(N)[i], rates) for i in range(N)]
    expected = sum(problem.eigenvalues @ theta**2 for theta in runs)
    assert bound.value == pytest.approx(expected, rel=1e-8)


def test_the_printed_step_of_lemma_gd_var_upper_lower_does_not_follow(paper):
    """Its trace inequality gives a thousandth of D_L/N; the order is right all the same."""
    data = np.array([paper.sample(512, seed)[0] for seed in range(2)])
    rates = bl.wsd(512, 0.05)
    proof = bounds.gd_variance(paper.eigenvalues, rates, data, form="printed")
    repaired = bounds.gd_variance(paper.eigenvalues, rates, data)
    order = bounds.gd_variance_order(paper.eigenvalues, rates, data)
    assert proof.lower < 1e-3 * order.lower
    assert repaired.tightness[0] < 2.0
    assert 1.5 < order.tightness[0] < 3.0
    assert 0.2 < order.tightness[1] < 0.6
    spectral = bounds.gd_variance_spectral(paper.eigenvalues, rates, data)
    assert 0.5 < spectral.tightness[0] < 1.0


# --- Appendix H: one-pass variance ------------------------------------------------------------


@given(one_pass_settings(), st.booleans())
def test_theorem_batch_wu_c1_bounds_the_additive_noise(setting, sharp):
    bound = bounds.additive_noise(*setting, sharp=sharp)
    assume(bound.holds)
    assert bound.inside
    problem, rates, batches = setting
    covariance = np.diag(problem.eigenvalues)
    s2 = problem.noise_variance
    dense = reference.dense_one_pass(covariance, problem.optimum, s2, rates, batches)
    assert bound.value == pytest.approx(dense[1], rel=1e-10)


@given(one_pass_settings(), st.booleans())
def test_theorem_batch_centered_c1_bounds_the_covariance_fluctuation(setting, sharp):
    bound = bounds.covariance_fluctuation(*setting, sharp=sharp)
    assume(bound.holds)
    assert bound.inside


@given(one_pass_settings(), st.floats(0.05, 1.95))
def test_the_sharp_one_pass_bounds_hold_up_to_their_own_limit(setting, limit):
    problem, rates, batches = setting
    rates = rates / rates.max() * limit / (problem.trace + 2.0 * problem.eigenvalues[0])
    for function in (bounds.additive_noise, bounds.covariance_fluctuation):
        bound = function(problem, rates, batches, sharp=True)
        assert bound.holds
        assert bound.inside


def test_batches_below_one_sample_fail_a_hypothesis(small):
    bound = bounds.additive_noise(small, [0.01], [0.5])
    assert [c.name for c in bound.failed] == ["B_t >= 1"]


@given(one_pass_settings())
def test_proposition_raw_var_controls_variance(setting):
    bound = bounds.raw_variance(*setting)
    assume(bound.holds)
    assert bound.inside
    problem, rates, batches = setting
    kappa = reference.influence(problem.eigenvalues, rates)
    kernel = bounds.raw_kernel(problem, rates, batches)
    assert kernel == pytest.approx((kappa / batches).sum(), rel=1e-10)


def test_many_schedules_at_once_give_the_bounds_of_each(small):
    rates = bl.wsd(12, 0.03)
    batches = np.array([np.full(12, 3), np.arange(1, 13)])
    for function in (bounds.additive_noise, bounds.covariance_fluctuation, bounds.raw_variance):
        together = function(small, rates, batches)
        assert together.inside
        for s in range(2):
            alone = function(small, rates, batches[s])
            assert together.upper[s] == pytest.approx(alone.upper)
            assert together.value[s] == pytest.approx(alone.value)


@given(one_pass_settings())
def test_lemmas_batch_wu_c1_and_batch_centered_c1_bound_every_covariance(setting):
    noise, covariance = bounds.uniform_covariance(*setting)
    assume(noise.holds)
    assert noise.inside
    assert covariance.inside


@given(one_pass_settings())
def test_lemma_aux_sketch_moment_bounds_the_residual(setting):
    assert bounds.residual_covariance(setting[0]).inside


@given(st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_lemma_aux_sketch_moment_bounds_fourth_moments(M, seed):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((M, rng.integers(1, M + 1)))
    bound = bounds.fourth_moment(rng.exponential(size=M) + 1e-3, root @ root.T)
    assert bound.inside
    if root.shape[1] == 1:
        assert bound.value == pytest.approx(3.0)


def test_lemmas_batch_var_e1_and_e2_have_bounded_constants():
    mu = np.arange(1, 2001) ** -2.0
    for steps in (512, 2048, 8192):
        spectral = bounds.wsd_kernel_mass(mu, steps, 0.3)
        power = bounds.power_law_kernel_mass(mu, 2.0, steps, 0.3)
        assert spectral.holds
        assert power.holds
        assert spectral.value == pytest.approx(power.value, rel=1e-12)
        assert 0.3 < spectral.tightness[0] < 1.0
        assert 0.3 < power.tightness[0] < 1.0


def test_lemma_batch_var_e1_needs_a_power_law():
    """H.5's remark: at two levels the stable phase adds log J times the lemma's order."""
    constants = []
    for steps in (2**9, 2**13, 2**17):
        levels, counts = _benchmark().two_levels(steps, 0.3)
        bound = bounds.wsd_kernel_mass(levels, steps, 0.3, multiplicity=counts)
        assert "spectrum" in {condition.id for condition in bound.failed}
        constants.append(bound.tightness[0])
    growth = np.diff(constants) / np.diff(np.log([2**9, 2**13, 2**17]))
    # 8 / (2 log 2) of the stable phase's share, less what is forgotten: a constant slope.
    assert (growth > 0.2).all()
    assert growth[1] == pytest.approx(growth[0], rel=0.2)


def test_lemma_app_final_risk_influence_has_a_decay_phase_form():
    mu = np.arange(1, 4001) ** -2.0
    for steps in (512, 4096, 32768):
        bound = bounds.decay_phase_influence(mu, 2.0, steps, 0.5)
        assert bound.holds
        low, high = bound.tightness
        assert 0.05 < low < high < 1.0
        # The steps of the decay after which at least 1 of mass remains.
        rates = bl.wsd(steps, 0.5)
        remaining = rates.sum() - np.cumsum(rates)
        counted = (remaining >= 1.0) & (np.arange(1, steps + 1) > steps // 2)
        assert bound.value.size == counted.sum()
        np.testing.assert_array_equal(bound.value, bl.influence(mu, rates)[counted])
    assert {c.id for c in bounds.decay_phase_influence(mu, 2.0, 64, 0.01).failed} == {"decay-mass"}


def test_exact_weights_are_essential_in_lemma_multipass_kernel_shape():
    """I.3's remark: phase means determine the total, not a schedule that changes within a phase."""
    mu = np.arange(1, 2001) ** -2.0
    shares = []
    for steps in (2**9, 2**12, 2**15):
        even = bounds.phase_means(mu, steps, 0.3, np.full(steps, 4.0))
        assert even.value == pytest.approx(even.upper, rel=1e-12)
        late = np.full(steps, 1e9)
        late[-16:] = 1.0
        shares.append(bounds.phase_means(mu, steps, 0.3, late).tightness[1])
    assert shares[0] > 3.0 * shares[1] > 9.0 * shares[2]


def test_a_spectrum_is_a_power_law_if_its_constants_are():
    j = np.arange(1.0, 201.0)
    a, (spectrum, exponent) = power_law_conditions(3.0 * j**-1.7)
    assert a == pytest.approx(1.7, rel=1e-12)
    assert spectrum.measured == pytest.approx(1.0, rel=1e-12)
    assert spectrum.holds
    assert exponent.holds
    wavy = j**-1.7 * np.where(j % 2, 2.0, 0.5)
    assert power_law_conditions(wavy, 1.7)[1][0].measured == pytest.approx(2.0, rel=1e-12)
    assert not power_law_conditions(np.exp(-j / 10.0))[1][0].holds
    assert not power_law_conditions(j**-0.8)[1][1].holds
    # A node of many directions has to fit at both of its ends.
    shared = power_law_conditions(np.array([1.0, 1e-4]), 2.0, np.array([1.0, 1e4]))
    assert not shared[1][0].holds


@pytest.mark.parametrize("name", ["kernel_comparison", "cross_kernel_comparison"])
def test_the_kernels_take_a_from_the_spectrum(name):
    rng = np.random.default_rng(0)
    flat = np.linspace(1.0, 0.9, 20)
    bound = getattr(bounds, name)(flat, rng.standard_normal((60, 20)), bl.wsd(64, 0.1))
    assert "exponent" in {condition.id for condition in bound.failed}


def test_the_orders_of_gd_and_of_the_fluctuation_measure_their_hypotheses(paper):
    features, labels = paper.sample(64, 0)
    rates = bl.wsd(4096, 0.05)
    expected = {"spectrum", "exponent", "rate-log-samples", "mass-below-spectrum", "largest-norm"}
    expected |= {"mass-below-samples"}
    variance = bounds.gd_variance_spectral(paper.eigenvalues, rates, features)
    assert expected <= {condition.id for condition in variance.conditions}
    short = bl.wsd(64, 0.05)
    fluctuation = bounds.fluctuation_order(paper, (features, labels), short, np.full(64, 8), 2.0)
    assert expected <= {condition.id for condition in fluctuation.conditions}
    failed = {condition.id for condition in variance.failed}
    assert {"largest-norm", "mass-below-samples"} <= failed


# --- Appendices I and J: fluctuation ----------------------------------------------------------


@given(datasets())
def test_lemma_wr_dynamic_covariance_bounds_the_gradient_noise(example):
    problem, (Z, y), rates, _ = example
    bound = bounds.batch_covariance(problem, (Z, y), rates)
    assert bound.inside
    # The last step by its definition.
    theta = reference.gradient_descent(Z, y, rates[:-1])
    d, e = theta - problem.optimum, y - Z @ problem.optimum
    zeta = np.array([-z * (z @ d) + z * n for z, n in zip(Z, e, strict=True)])
    zeta = zeta - zeta.mean(axis=0)
    if Z.shape[0] >= Z.shape[1]:
        half = np.linalg.inv(np.linalg.cholesky(Z.T @ Z / len(y)))
        top = np.linalg.eigvalsh(half @ (zeta.T @ zeta / len(y)) @ half.T)[-1]
        assert bound.value[-1] == pytest.approx(top, rel=1e-5)


@given(datasets())
def test_the_transition_covariance_is_bounded_by_the_largest_sample(example):
    bound = bounds.transition_covariance(example[1][0])
    assert bound.inside


@given(datasets())
def test_lemma_wr_dynamic_covariance_lower_holds(example):
    _, (Z, _), rates, _ = example
    bound = bounds.lower_covariance_factor(Z, rates)
    assert bound.holds
    assert bound.inside


def test_the_lower_covariance_factor_is_the_mean_over_labels():
    """E[G_t] from the 2N cubature points of the labels, at every step."""
    rng = np.random.default_rng(7)
    Z, rates = rng.standard_normal((7, 3)), np.array([0.1, 0.2, 0.15, 0.2])
    N = len(Z)
    Sigma_hat = Z.T @ Z / N
    factors = []
    for t in range(rates.size):
        G = np.zeros((3, 3))
        for i in range(N):
            labels = math.sqrt(N) * np.eye(N)[i]
            residual = labels - Z @ reference.gradient_descent(Z, labels, rates[:t])
            zeta = Z * residual[:, None] - Z.T @ residual / N
            G += zeta.T @ zeta / N / N
        half = np.linalg.inv(np.linalg.cholesky(Sigma_hat))
        factors.append(np.linalg.eigvalsh(half @ G @ half.T)[0])
    assert bounds.lower_covariance_factor(Z, rates).value == pytest.approx(min(factors), rel=1e-10)


@given(datasets())
def test_the_empirical_kernels_match_their_definitions(example):
    problem, (Z, _), rates, _ = example
    kernels = bounds.empirical_kernels(problem.eigenvalues, Z, rates)
    Sigma, Sigma_hat = np.diag(problem.eigenvalues), Z.T @ Z / len(Z)
    for t, rate in enumerate(rates):
        P = np.eye(len(Sigma))
        for later in rates[t + 1 :]:
            P = P @ (np.eye(len(Sigma)) - later * Sigma_hat)
        square = rate**2 * P @ P
        assert kernels.plain[t] == pytest.approx(np.trace(Sigma_hat @ square))
        assert kernels.square[t] == pytest.approx(np.trace(Sigma_hat @ Sigma_hat @ square))
        assert kernels.cross[t] == pytest.approx(np.trace(Sigma @ Sigma_hat @ square))


def test_lemmas_dynamic_kernel_comparison_have_bounded_constants():
    mu = np.arange(1, 65) ** -2.0
    problem = bl.Problem.from_spectrum(mu, np.ones(64), 1.0)
    for N, steps in ((400, 128), (800, 512)):
        Z = problem.sample(N, N)[0]
        upper = bounds.kernel_comparison(mu, Z, bl.wsd(steps, 0.1))
        lower = bounds.cross_kernel_comparison(mu, Z, bl.wsd(steps, 0.1))
        assert upper.holds
        assert lower.holds
        assert 1.0 < upper.tightness[1] < 6.0
        assert 0.8 < lower.tightness[0] < 1.2


@given(datasets(), st.sampled_from(["cross", "printed", "sharp"]), st.booleans())
def test_lemma_batch_d2_analogue_bounds_the_fluctuation(example, form, replacement):
    problem, dataset, rates, batches = example
    N = dataset[1].size
    rho = 1.0 / batches if replacement else without_replacement(batches, N)
    exact = dense_fluctuation(problem, dataset, rates, rho)
    bound = bounds.conditional_fluctuation(
        problem, dataset, rates, batches, exact, replacement=replacement, form=form
    )
    if bound.holds:
        assert bound.inside or exact < 1e-15, bound
    if (batches == N).all() and not replacement:
        assert bound.upper == 0.0


@given(datasets(), st.booleans())
def test_lemma_wr_batch_fluc_lower_empirical_and_its_upper_side(example, replacement):
    problem, dataset, rates, batches = example
    N = dataset[1].size
    rho = 1.0 / batches if replacement else without_replacement(batches, N)
    exact = label_mean(problem, dataset[0], rates, rho)
    bound = bounds.expected_fluctuation(
        problem, dataset[0], rates, batches, exact, replacement=replacement
    )
    assert bound.holds
    assert bound.inside or exact < 1e-15, bound


def test_lemma_wr_batch_fluc_upper_leaves_one_sample_out():
    problem = bl.Problem.from_spectrum([0.9, 0.4, 0.1], [1.0, 0.5, 2.0], 0.7)
    Z, y = problem.sample(6, 2)
    rates = np.array([0.1, 0.2, 0.1])
    N, a, epsilon = 6, 2.0, 0.25
    s = 1.0 - 1.0 / (a * (1.0 - epsilon / 2.0))
    fits, residuals = [], []
    for i in range(N):
        kept = np.arange(N) != i
        for t in range(1, 4):
            # The sums over the others are still divided by N.
            theta = reference.gradient_descent(Z[kept], y[kept], rates[:t] * (N - 1) / N)
            fits.append((Z[i] @ theta) ** 2)
            residuals.append(abs(y[i] - Z[i] @ theta))
    mass = rates.sum()
    mu = problem.eigenvalues
    left = np.linalg.cholesky(np.linalg.inv(Z.T @ Z / N + np.eye(3) / mass))
    ratio = np.linalg.norm(left.T @ np.diag(np.sqrt(mu + 1.0 / mass)), 2) ** 2
    shift = max(residuals) ** 2 * (Z**2).sum(axis=1).max() * ratio * mass ** (2 - s) / N**2
    clean = Z @ problem.optimum
    total = (clean**2).max() + ((y - clean) ** 2).max() + max(fits)
    total = ratio * (total + (Z**2 @ mu**-s).max() * shift)
    factors = bounds.leave_one_out(problem, (Z, y), rates, a)
    assert factors.residual == pytest.approx(max(residuals))
    assert factors.replacement == pytest.approx(ratio)
    assert factors.total == pytest.approx(total)


def test_corollary_wor_batch_fluc_has_bounded_constants(paper):
    rates, batches = bl.wsd(64, 0.05), np.full(64, 8)
    dataset = paper.sample(256, 3)
    exact = dense_fluctuation(paper, dataset, rates, without_replacement(batches, 256))
    bound = bounds.fluctuation_order(paper, dataset, rates, batches, 2.0, exact)
    assert [c.id for c in bound.failed] == ["largest-norm"]
    assert 1.0 < bound.tightness[0] < 5.0
    assert 0.005 < bound.tightness[1] < 1.0


def test_shared_directions_are_written_out():
    shared = bl.Problem.from_spectrum([0.9, 0.2], [1.0, 0.5], 0.7, [1, 3])
    separate = shared.expanded()
    dataset, rates, batches = separate.sample(6, 1), np.array([0.01, 0.02]), np.array([1, 2])
    for problem in (shared, separate):
        given_data = bounds.conditional_fluctuation(problem, dataset, rates, batches)
        over_labels = bounds.expected_fluctuation(problem, dataset[0], rates, batches)
        assert given_data.upper > given_data.lower > 0.0
        assert over_labels.upper > over_labels.lower > 0.0
    with refused("features"):
        bounds.expected_fluctuation(shared, dataset[0][:, :2], rates, batches)


# --- Appendix K: concentration ----------------------------------------------------------------


@pytest.mark.parametrize("ridge", [0.01, 0.1, 1.0])
def test_lemmas_aux_2025_e1_and_aux_two_sided_covariance_hold(ridge):
    problem = bl.Problem.from_spectrum(np.arange(1, 31) ** -2.0, np.ones(30), 1.0)
    data = np.array([problem.sample(120, seed)[0] for seed in range(10)])
    replacement = bounds.covariance_replacement(problem.eigenvalues, data, ridge)
    assert replacement.holds
    assert replacement.inside
    comparison = bounds.regularized_comparison(problem.eigenvalues, data, ridge)
    assert comparison.holds == (ridge > 0.05)
    if comparison.holds:
        assert comparison.inside


def test_lemma_aux_g3_e4_needs_the_square_root():
    """At k = 1 the printed k/M is beaten by a factor that grows as sqrt(M)."""
    printed, corrected = [], []
    for M in (16, 144, 576):
        rng = np.random.default_rng(M)
        ratios = []
        for _ in range(12):
            sketch = np.zeros((M, M))
            sketch[:, 0] = rng.standard_normal(M) / math.sqrt(M)
            ratios.append(
                [
                    bounds.head_concentration(np.ones(M), sketch, 1, as_printed=p).tightness[1]
                    for p in (True, False)
                ]
            )
        means = np.mean(ratios, axis=0)
        printed.append(means[0])
        corrected.append(means[1])
    assert printed[1] > 2.0 * printed[0]
    assert printed[2] > 1.5 * printed[1]
    assert max(corrected) < 2.0


def test_lemmas_aux_g1_to_g5_have_bounded_constants():
    rng = np.random.default_rng(8)
    lam = np.arange(1, 2001) ** -2.0
    for M in (16, 32, 64):
        sketch = rng.standard_normal((M, lam.size)) / math.sqrt(M)
        assert bounds.tail_concentration(lam, sketch, M // 2).tightness[1] < 2.0
        assert bounds.head_concentration(lam, sketch, M // 4).tightness[1] < 3.0
        assert bounds.head_tail_comparison(lam, sketch, M // 4).tightness[1] < 3.0
        resolvent = bounds.head_tail_resolvent(lam, sketch)
        assert resolvent.holds
        assert resolvent.tightness[1] < 2.0
        assert bounds.tail_spectral_ratio(lam, sketch, M // 4).tightness[1] < 8.0
        low, high = bounds.power_law_spectrum(
            np.linalg.eigvalsh((sketch * lam) @ sketch.T), 2.0
        ).tightness
        assert 0.3 < low < high < 3.0


# --- A bound that cannot fail is not a check --------------------------------------------------


def test_a_planted_wrong_constant_breaks_the_bracket(monkeypatch):
    one = bl.Problem.from_spectrum([1.0], [1.0], 1.0)
    assert bounds.fourth_moment([1.0], [[1.0]]).inside
    assert bounds.covariance_fluctuation(one, [1e-3], [1]).inside
    monkeypatch.setattr(one_pass_module, "ALPHA", 1.9)
    assert not bounds.fourth_moment([1.0], [[1.0]]).inside
    assert not bounds.covariance_fluctuation(one, [1e-3], [1]).inside


def _one_heavy_sample(N=200):
    """One sample carries all of Sigma_hat, with residual and prediction error of opposite sign."""
    problem = bl.Problem.from_spectrum([1.0], [1.0], 1.0)
    features = np.zeros((N, 1))
    features[0] = 1.0
    labels = np.zeros(N)
    labels[0] = 2.0
    return problem, features, labels


def _extremes():
    """(bound, side, how near the value comes to it): examples that nearly reach each constant."""
    one = bl.Problem.from_spectrum([1.0], [1.0], 1.0)
    problem, features, labels = _one_heavy_sample()
    rates, single = np.array([0.1]), np.array([1])
    slow = np.full(400, 0.002)
    given_data = dense_fluctuation(problem, (features, labels), rates, [1.0])
    lam, sketch = np.array([1.0, 1.0]), np.array([[1.0, 1.0]])
    yield bounds.additive_noise(one, rates / 10, single, sharp=True), "lower", 1.0
    yield bounds.additive_noise(one, rates / 10, single), "lower", 1.0
    yield bounds.additive_noise(one, rates / 10, single, sharp=True), "upper", 0.97
    yield bounds.covariance_fluctuation(one, rates / 10, single), "upper", 0.6
    yield bounds.product_calculus([1.0], slow), "lower", 0.99
    yield bounds.product_calculus([1.0], slow), "upper", 0.99
    yield bounds.one_pass_bias_simple(one, np.full(500, 0.001)), "upper", 0.99
    yield (
        bounds.one_pass_bias_lower(lam, sketch, lam, np.full(10, 1e-5), cutoff=False),
        "lower",
        0.99,
    )
    yield bounds.approximation_upper(lam, sketch, [1.0, -1.0], 0), "upper", 0.5
    yield bounds.expected_approximation(lam, sketch, lam, 1), "lower", 1.0
    yield bounds.fourth_moment([1.0], [[1.0]]), "upper", 1.0
    factor = bounds.lower_covariance_factor(_one_heavy_sample(2000)[1], np.full(100, 0.1))
    yield replace(factor, lower=1 - factor.value, value=1 - factor.lower), "lower", 0.97
    arguments = (problem, (features, labels), rates, single, given_data)
    for form, near in (("cross", 0.87), ("printed", 0.0), ("sharp", 0.9)):
        bound = bounds.conditional_fluctuation(*arguments, replacement=True, form=form)
        yield bound, "lower", 1.0
        yield bound, "upper", near


@pytest.mark.parametrize(("bound", "side", "near"), list(_extremes()))
def test_an_extreme_example_nearly_reaches_the_constant(bound, side, near):
    assert bound.holds
    assert bound.inside
    low, high = bound.tightness
    assert (1.0 / low if side == "lower" else high) >= near - 1e-9


# --- Errors and documents ---------------------------------------------------------------------


def test_bad_ambient_arrays_are_named():
    with refused("sketch"):
        bounds.approximation_upper([1.0, 0.5], np.ones((1, 3)), [1.0, 1.0])
    with refused("eigenvalues"):
        bounds.tail_concentration([0.5, 1.0], np.ones((1, 2)), 1)
    with refused("target"):
        bounds.approximation_upper([1.0, 0.5], np.ones((1, 2)), [1.0])
    with refused("energies"):
        bounds.expected_approximation([1.0, 0.5], np.ones((1, 2)), [1.0])
    with refused("features"):
        bounds.gd_variance([1.0, 0.5], [0.1], np.ones((3, 3)))


def _benchmark():
    path = BENCHMARKS / "bound_tightness.py"
    spec = importlib.util.spec_from_file_location("bound_tightness", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_function_has_a_row_in_the_table_with_a_test_that_exists():
    text = (DOCS / "bounds.md").read_text()
    files = ("test_bounds.py", "test_laws.py")
    sources = "\n".join(file_of(name).read_text() for name in files)
    rows = [line for line in text.splitlines() if line.startswith("|") and "`test_" in line]
    named = {
        name for row in rows for name in re.findall(r"`((?!test_)[a-z_]+)`", row.split("|")[2])
    }
    functions = {n for n in bounds.__all__ if inspect.isfunction(getattr(bounds, n))}
    assert named == functions - {"tightest"}
    for row in rows:
        for test in re.findall(r"`(test_[a-z_0-9]+)`", row):
            assert f"def {test}(" in sources, test


def test_the_measured_tightness_of_one_pass_is_what_the_docs_print(paper):
    text = (DOCS / "bounds.md").read_text()
    benchmark = _benchmark()
    for bound in benchmark.one_pass_bounds(paper):
        assert benchmark.row(bound) in text
