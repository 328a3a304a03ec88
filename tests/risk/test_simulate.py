import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import batchlaw as bl
import reference
from batchlaw.risk import simulate
from refused import refused

RATES = bl.wsd(16, 0.25)
SCHEDULES = np.array([np.full(16, 4), np.repeat([1, 7], 8), np.repeat([7, 1], 8)])


def _within(ours, error, expected, limit):
    distance = np.abs(np.asarray(ours) - expected) / error
    assert np.max(distance) < limit, f"{distance} standard errors apart"


@pytest.mark.slow
def test_one_pass_measures_the_exact_risk(small):
    exact = bl.one_pass_risk(small, RATES, SCHEDULES)
    risk = bl.simulate_one_pass(small, RATES, SCHEDULES, repetitions=20_000, seed=1)
    for term in ("bias", "variance", "excess", "total"):
        _within(getattr(risk, term), risk.standard_error(term), getattr(exact, term), 4)
    ratio, error = risk.ratio("variance", 2, 0)
    _within(ratio, error, exact.ratio("variance", 2, 0)[0], 4)
    # Tight enough to see a missing covariance part or a factor 1/B off by one sample.
    assert (risk.standard_error("variance") < 0.02 * exact.variance).all()


@pytest.mark.slow
@settings(max_examples=15)
@given(st.data())
def test_one_pass_measures_the_exact_risk_of_random_problems(data):
    M, T = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 8))
    mu = data.draw(st.lists(st.floats(0.02, 1.0), min_size=M, max_size=M))
    energy = data.draw(st.lists(st.floats(0.0, 4.0), min_size=M, max_size=M))
    rates = data.draw(st.lists(st.floats(0.01, 0.4), min_size=T, max_size=T))
    batches = data.draw(st.lists(st.integers(1, 6), min_size=T, max_size=T))
    problem = bl.Problem.from_spectrum(mu, energy, data.draw(st.floats(0.1, 2.0)))
    exact = bl.one_pass_risk(problem, rates, batches)
    risk = bl.simulate_one_pass(problem, rates, batches, repetitions=2000, seed=5)
    for term in ("bias", "variance"):
        _within(getattr(risk, term), risk.standard_error(term), getattr(exact, term), 5)


def test_the_centred_variance_is_the_papers_estimator(small):
    R, batches = 50, [[2] * 16, [3] * 16]
    risk = bl.simulate_one_pass(small, RATES, batches, repetitions=R, seed=2)
    streams = np.random.SeedSequence(2, spawn_key=(simulate.ONE_PASS,)).spawn(R)
    finals = np.empty((2, R, 6))
    for r, stream in enumerate(streams):
        features, labels = small.sample(48, np.random.Generator(np.random.PCG64(stream)))
        for s, schedule in enumerate(batches):
            rows = reference.partition(schedule)
            finals[s, r] = reference.sgd(features, labels, RATES, rows)
    scaled = finals * np.sqrt(small.eigenvalues)

    def variance(x):
        return ((x - x.mean(axis=0)) ** 2).sum() / (len(x) - 1)

    np.testing.assert_allclose(risk.variance, [variance(x) for x in scaled], rtol=1e-11)
    without = np.array([[variance(np.delete(x, r, 0)) for r in range(R)] for x in scaled])
    spread = without - without.mean(axis=1, keepdims=True)
    expected = np.sqrt((R - 1) / R * (spread**2).sum(axis=1))
    np.testing.assert_allclose(risk.standard_error("variance"), expected, rtol=1e-9)
    ratios = without[1] / without[0]
    expected = np.sqrt((R - 1) / R * ((ratios - ratios.mean()) ** 2).sum())
    assert risk.ratio("variance", 1, 0)[1] == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_standard_errors_are_the_spread_over_seeds(small):
    runs = [
        bl.simulate_one_pass(small, RATES, SCHEDULES, repetitions=60, seed=seed)
        for seed in range(200)
    ]
    for get, error in (
        (lambda r: r.variance[1], lambda r: r.standard_error("variance")[1]),
        (lambda r: r.bias[1], lambda r: r.standard_error("bias")[1]),
        (lambda r: r.ratio("variance", 1, 0)[0], lambda r: r.ratio("variance", 1, 0)[1]),
    ):
        spread = np.std([get(r) for r in runs])
        claimed = np.sqrt(np.mean([error(r) ** 2 for r in runs]))
        assert claimed == pytest.approx(spread, rel=0.2)


def test_fluctuation_and_gradient_descent_match_the_definition(small):
    R, N = 5, 20
    options = {"samples": N, "repetitions": R, "seed": 4}
    risk = bl.simulate_multi_pass(small, RATES, SCHEDULES[1], **options)
    gd = bl.simulate_gradient_descent(small, RATES, **options)
    assert gd.bias == risk.bias
    assert gd.variance == risk.variance
    fluctuations, biases = [], []
    for stream in np.random.SeedSequence(4, spawn_key=(simulate.REUSE,)).spawn(R):
        rng = np.random.Generator(np.random.PCG64(stream))
        features, labels = small.sample(N, rng)
        u = reference.sgd(features, labels, RATES, reference.subsets(N, SCHEDULES[1], rng))
        theta = reference.gradient_descent(features, labels, RATES)
        fluctuations.append(small.eigenvalues @ (u - theta) ** 2)
        clean = reference.gradient_descent(features, features @ small.optimum, RATES)
        biases.append(small.eigenvalues @ (clean - small.optimum) ** 2)
    assert risk.fluctuation == pytest.approx(np.mean(fluctuations), rel=1e-10)
    assert risk.bias == pytest.approx(np.mean(biases), rel=1e-10)
    error = np.std(fluctuations, ddof=1) / np.sqrt(R)
    assert risk.standard_error("fluctuation") == pytest.approx(error, rel=1e-9)


@pytest.mark.slow
def test_fluctuation_of_one_step_is_the_sampling_variance(small):
    """One step from zero on N samples: Fluc = rho gamma^2 E tr(Sigma Cov_i(z_i y_i))."""
    N, rate, repetitions = 6, 0.3, 6000
    second = small.eigenvalues @ small.target_energy + small.noise_variance  # E y^2
    mu, signal = small.eigenvalues, small.eigenvalues * small.optimum
    # E |Sigma^1/2 z y|^2 = sum mu_j (mu_j E y^2 + 2 (mu v)_j^2); the mean takes (mu v)_j^2 off.
    spread = mu @ (mu * second + signal**2)
    for replacement in (False, True):
        for batch in (1, 4):
            rho = (1 / batch) if replacement else (N - batch) / (batch * (N - 1))
            # The population of N is itself a sample: its covariance is short by (N - 1)/N.
            expected = rho * rate**2 * spread * (N - 1) / N
            risk = bl.simulate_multi_pass(
                small,
                [rate],
                [batch],
                samples=N,
                repetitions=repetitions,
                seed=8,
                replacement=replacement,
            )
            _within(risk.fluctuation, risk.standard_error("fluctuation"), expected, 4)


def test_full_batches_have_no_fluctuation(paper):
    risk = bl.simulate_multi_pass(
        paper, bl.wsd(32, 0.1), np.full(32, 64), samples=64, repetitions=5, seed=0
    )
    assert risk.fluctuation < 1e-26


def test_reshuffling_is_another_world(small):
    """Its fluctuation is far smaller, and its cross term is measured."""
    N, rates = 32, bl.wsd(64, 0.1)
    options = {"samples": N, "repetitions": 300, "seed": 3}
    batches = np.full(64, 4)
    independent = bl.simulate_multi_pass(small, rates, batches, **options)
    epochs = bl.simulate_multi_pass(small, rates, batches, reshuffle=True, **options)
    assert epochs.fluctuation < 0.4 * independent.fluctuation
    assert epochs.bias == independent.bias  # the same datasets
    assert epochs.cross != 0.0
    assert independent.cross == 0.0
    assert epochs.standard_error("cross") > 0.0
    assert epochs.procedure == "multi-pass SGD, reshuffled by epochs"


@pytest.mark.parametrize("options", [{}, {"replacement": True}, {"reshuffle": True}])
def test_multi_pass_bits_do_not_depend_on_the_number_of_threads(small, options):
    runs = [
        bl.simulate_multi_pass(
            small, RATES, SCHEDULES, samples=9, repetitions=24, seed=6, threads=n, **options
        )
        for n in (1, 2, 7)
    ]
    for run in runs[1:]:
        for term, values in runs[0].leave_one_out.items():
            np.testing.assert_array_equal(run.leave_one_out[term], values)


def test_one_pass_bits_do_not_depend_on_threads_or_on_the_window(small, monkeypatch):
    def run(threads):
        return bl.simulate_one_pass(
            small, RATES, SCHEDULES, repetitions=24, seed=6, threads=threads
        ).leave_one_out["variance"]

    one, three = run(1), run(3)
    np.testing.assert_array_equal(one, three)
    monkeypatch.setattr(simulate, "WINDOW_ENTRIES", 6 * 5)  # five samples: batches of 7 straddle it
    np.testing.assert_array_equal(run(2), one)


def test_other_seeds_give_other_numbers(small):
    runs = [
        bl.simulate_one_pass(small, RATES, SCHEDULES[0], repetitions=5, seed=seed).variance
        for seed in (1, 2)
    ]
    assert runs[0] != runs[1]


def test_a_draw_may_replace_the_gaussian_law(small):
    """Only the variance of the label noise enters: Rademacher noise gives the same risk."""

    def draw(n, rng):
        features = rng.standard_normal((n, 6)) * np.sqrt(small.eigenvalues)
        noise = np.sqrt(small.noise_variance) * rng.choice([-1.0, 1.0], n)
        return features, features @ small.optimum + noise

    exact = bl.one_pass_risk(small, RATES, SCHEDULES)
    risk = bl.simulate_one_pass(small, RATES, SCHEDULES, repetitions=4000, seed=1, draw=draw)
    _within(risk.variance, risk.standard_error("variance"), exact.variance, 4)


def test_progress_counts_every_repetition(small):
    counts = []
    bl.simulate_one_pass(small, RATES, SCHEDULES, repetitions=7, seed=1, progress=counts.append)
    assert sum(counts) == 7


def test_bad_simulations_are_named(small):
    run = bl.simulate_one_pass
    options = {"repetitions": 5, "seed": 1}
    with refused("batches"):
        run(small, RATES, SCHEDULES, samples=70, **options)
    with refused("repetitions"):
        run(small, RATES, SCHEDULES, repetitions=2, seed=1)
    with refused("seed"):
        run(small, RATES, SCHEDULES, repetitions=5, seed=-1)
    with refused("threads"):
        run(small, RATES, SCHEDULES, threads=0, **options)
    with refused("batches"):
        bl.simulate_multi_pass(small, RATES, SCHEDULES[1], samples=5, **options)
    with refused("term"):
        run(small, RATES, SCHEDULES, **options).standard_error("noise")


@pytest.mark.parametrize("shape", [(3,), (6, 1), (80,)])
def test_a_draw_of_the_wrong_shape_is_named(small, shape):
    """Compiled loops would read past the end of it."""

    def draw(n, rng):
        rows, columns = (n, shape[0]) if len(shape) == 1 else (5, 6)
        return rng.standard_normal((rows, columns)), rng.standard_normal(rows)

    options = {"repetitions": 5, "seed": 1, "draw": draw}
    with refused("draw"):
        bl.simulate_one_pass(small, RATES, SCHEDULES, **options)
    with refused("draw"):
        bl.simulate_multi_pass(small, RATES, SCHEDULES, samples=40, **options)


@pytest.mark.slow
def test_bias_is_unbiased_even_from_few_repetitions(small):
    """|mean|^2 of R runs is too large by variance/R, which must be taken off."""
    runs = [
        bl.simulate_one_pass(small, RATES, 1, repetitions=3, seed=seed, threads=1).bias
        for seed in range(1500)
    ]
    exact = bl.one_pass_risk(small, RATES, 1)
    error = np.std(runs) / np.sqrt(len(runs))
    assert exact.variance / 3 > 6 * error  # the correction is well visible
    assert abs(np.mean(runs) - exact.bias) < 4 * error


@pytest.mark.parametrize("reshuffle", [False, True])
def test_parts_of_a_custom_draw_add_up_to_the_measured_risk(small, reshuffle):
    """Residuals that depend on the features: the cross term carries what bias and noise share."""

    def draw(n, rng):
        features, labels = small.sample(n, rng)
        third = features[:, 0] / np.sqrt(small.eigenvalues[0])
        return features, labels + 0.8 * (third**3 - 3 * third)

    R, N = 6, 12
    options = {"samples": N, "repetitions": R, "seed": 4, "draw": draw}
    risk = bl.simulate_multi_pass(small, RATES, SCHEDULES[1], reshuffle=reshuffle, **options)
    gd = bl.simulate_gradient_descent(small, RATES, **options)
    sampled = reference.epochs if reshuffle else reference.subsets
    direct, descents = [], []
    for stream in np.random.SeedSequence(4, spawn_key=(simulate.REUSE,)).spawn(R):
        rng = np.random.Generator(np.random.PCG64(stream))
        features, labels = draw(N, rng)
        u = reference.sgd(features, labels, RATES, sampled(N, SCHEDULES[1], rng))
        theta = reference.gradient_descent(features, labels, RATES)
        direct.append(small.eigenvalues @ (u - small.optimum) ** 2)
        descents.append(small.eigenvalues @ (theta - small.optimum) ** 2)
    assert risk.excess == pytest.approx(np.mean(direct), rel=1e-9)
    assert gd.excess == pytest.approx(np.mean(descents), rel=1e-9)
    assert risk.total == risk.irreducible + risk.approximation + risk.excess
    assert (risk.irreducible, risk.approximation) == (1.0, pytest.approx(0.3))
    error = np.std(direct, ddof=1) / np.sqrt(R)
    assert risk.standard_error("excess") == pytest.approx(error, rel=1e-8)


def test_a_batch_longer_than_the_window_is_drawn_at_once(small, monkeypatch):
    sizes = []

    def draw(n, rng):
        sizes.append(n)
        return small.sample(n, rng)

    monkeypatch.setattr(simulate, "WINDOW_ENTRIES", 6 * 5)
    batches = np.append(np.full(15, 1), 500)
    bl.simulate_one_pass(small, RATES, batches, repetitions=3, seed=1, threads=1, draw=draw)
    assert len(sizes) <= 3 * 5
    assert sum(sizes) == 3 * 515


def test_divergence_is_named_not_returned(small):
    with (
        np.errstate(all="ignore"),
        refused("rates", bl.Unstable),
    ):
        bl.simulate_multi_pass(small, bl.constant(6000, 2.0), 1, samples=16, repetitions=3, seed=0)


def test_batches_past_every_count_are_refused(small):
    with refused("batches"):
        bl.simulate_one_pass(small, RATES, np.full(16, 1e19), repetitions=3, seed=1)
