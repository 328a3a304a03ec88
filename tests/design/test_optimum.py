"""Optimal batch schedules: their certificates, against finite differences and brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import batchlaw as bl
from batchlaw.batches.sharing import water_fill
from batchlaw.design.descent import Point, duality_gap, kkt_residual
from batchlaw.design.optimum import optimal_batches
from batchlaw.design.variance_objective import plain_objective
from batchlaw.risk.simple_recursion import expected_fluctuation_simple
from batchlaw.schedule.averages import tail_average
from refused import refused
from sgd_rules import RULES, T

problems = st.builds(
    lambda mu, energy, s2: bl.Problem.from_spectrum(mu, energy[: len(mu)], s2),
    st.lists(st.floats(0.01, 1.0), min_size=1, max_size=4),
    st.lists(st.floats(0.0, 3.0), min_size=4, max_size=4),
    st.floats(0.05, 2.0),
)
rate_lists = st.lists(st.floats(0.01, 1.4), min_size=2, max_size=12)


def _variance(problem, rates, batches, **options):
    return bl.one_pass_risk(problem, rates, batches, **options).variance


def test_the_papers_instance_has_the_known_optimum(paper):
    """math: 0.67959 of the constant schedule's variance, and 0.68093 for whole batches."""
    rates = bl.wsd(64, 0.05)
    constant = _variance(paper, rates, 8)
    real = optimal_batches(paper, rates, 512, integer=False)
    assert real.variance / constant == pytest.approx(0.67959, abs=5e-6)
    assert real.kkt_residual < 1e-9
    assert real.rounds <= 10
    whole = optimal_batches(paper, rates, 512)
    assert whole.variance / constant <= 0.68093
    assert whole.batches.dtype == np.int64
    assert whole.batches.sum() == 512
    assert 0.0 < whole.gap < 0.003
    assert whole.lower_bound == pytest.approx(real.variance, rel=1e-9)
    greedy = bl.allocate(bl.influence(paper, rates), 512)
    assert whole.variance < _variance(paper, rates, greedy)


@settings(max_examples=25)
@given(problems, rate_lists, st.integers(0, 40), st.data())
def test_no_schedule_beats_the_optimum_on_exact_risk(problem, rates, extra, data):
    rates = np.array(rates)
    budget = rates.size + extra
    real = optimal_batches(problem, rates, budget, integer=False)
    whole = optimal_batches(problem, rates, budget)
    assert real.kkt_residual < 1e-9
    assert real.batches.sum() == pytest.approx(budget, rel=1e-12)
    assert whole.batches.sum() == budget
    assert real.batches.min() >= 1.0
    assert whole.batches.min() >= 1
    assert whole.lower_bound <= real.variance <= whole.variance * (1 + 1e-12)
    assert whole.variance == pytest.approx(_variance(problem, rates, whole), rel=1e-11)
    shape = np.array(data.draw(st.lists(st.floats(0.1, 9.0), min_size=12, max_size=12)))
    kappa = bl.influence(problem, rates)
    families = bl.schedule_families(kappa, budget)
    others = [*families.values(), bl.allocate(kappa, budget)]
    others.append(bl.allocate(shape[: rates.size], budget, method="continuous"))
    values = bl.one_pass_risk(problem, rates, np.array(others, dtype=float)).variance
    assert whole.lower_bound <= values.min() * (1 + 1e-11)
    assert whole.variance <= values[:-1].min() * (1 + 1e-11)


@settings(max_examples=40)
@given(problems, rate_lists, st.integers(1, 4), st.integers(0, 6), st.floats(0.0, 1.0))
def test_bounds_are_respected(problem, rates, low, width, share):
    steps, high = len(rates), low + width
    budget = steps * low + int(share * steps * width)
    for integer in (True, False):
        optimum = optimal_batches(
            problem, rates, budget, min_batch=low, max_batch=high, integer=integer
        )
        assert low <= optimum.batches.min() <= optimum.batches.max() <= high
        assert optimum.batches.sum() == pytest.approx(budget, rel=1e-12)
        assert optimum.kkt_residual < 1e-9


def _schedules(steps, budget, low, high):
    for head in itertools.product(range(low, high + 1), repeat=steps - 1):
        last = budget - sum(head)
        if low <= last <= high:
            yield (*head, last)


@pytest.mark.parametrize("options", [{}, {"momentum": 0.6}, {"average": tail_average(4, 0.75)}])
def test_integers_equal_brute_force_on_tiny_cases(options):
    rng = np.random.default_rng(8)
    for _ in range(25):
        M = int(rng.integers(1, 4))
        problem = bl.Problem.from_spectrum(
            rng.uniform(0.05, 1.0, M), rng.exponential(2.0, M), rng.uniform(0.1, 2.0)
        )
        rates = rng.uniform(0.05, 1.6, 4)
        low, high = int(rng.integers(1, 3)), int(rng.integers(5, 9))
        budget = int(rng.integers(4 * low, 20))
        every = np.array(list(_schedules(4, budget, low, high)), dtype=float)
        best = bl.one_pass_risk(problem, rates, every, **options).variance.min()
        optimum = optimal_batches(problem, rates, budget, min_batch=low, max_batch=high, **options)
        assert optimum.variance == pytest.approx(best, rel=1e-11)


def test_no_exchange_of_one_sample_improves_the_integers(small):
    rates = bl.wsd(20, 1.2)
    optimum = optimal_batches(small, rates, 50)
    assert "no exchange of one sample improves it" in optimum.certificate
    moves = np.eye(20)[:, None, :] - np.eye(20)[None, :, :]
    neighbours = optimum.batches + moves.reshape(-1, 20)
    neighbours = neighbours[neighbours.min(axis=1) >= 1]
    values = bl.one_pass_risk(small, rates, neighbours).variance
    assert values.min() >= optimum.variance * (1 - 1e-12)


def _undamped(objective, steps, budget, rounds=200):
    batches = np.full(steps, budget / steps)
    for _ in range(rounds):
        _, w = objective(batches)
        batches = water_fill(np.sqrt(w), budget, 1.0, budget)
    return kkt_residual(batches, objective(batches)[1], 1.0, budget)


def test_it_converges_where_the_undamped_iteration_cycles():
    """gamma mu_1 = 1: every step wipes out the top direction, and what is left is its noise."""
    problem = bl.Problem.from_spectrum([1.0, 0.6, 0.3], [1.0, 1.0, 2.0], 0.5)
    rates = np.full(24, 1.0)
    objective = plain_objective(problem, rates)
    assert _undamped(objective, 24, 96.0) > 0.9
    optimum = optimal_batches(problem, rates, 96, integer=False)
    assert optimum.kkt_residual < 1e-9
    assert optimum.variance < _variance(problem, rates, 4)


def test_it_converges_in_random_hard_settings():
    rng = np.random.default_rng(4)
    for _ in range(40):
        M, steps = int(rng.integers(1, 20)), int(rng.integers(1, 80))
        mu = rng.uniform(0.01, 1.0, M) ** rng.uniform(0.5, 6.0)
        energy = rng.exponential(size=M) / mu * rng.choice([0, 1, 100])
        problem = bl.Problem.from_spectrum(mu, energy, rng.uniform(0.01, 2.0))
        flat = rng.choice([0.0, 0.3, 1.0])
        rates = rng.uniform(0.2, 1.99) / mu.max() * rng.uniform(0.01, 1.0, steps) ** flat
        budget = int(steps * rng.choice([1.0, 1.05, 1.5, 4.0, 1e3, 1e9]))
        optimum = optimal_batches(problem, rates, budget, integer=False)
        assert optimum.kkt_residual < 1e-9
        assert optimum.lower_bound == pytest.approx(optimum.variance, rel=1e-7)
        start = bl.allocate(bl.influence(problem, rates), budget, method="continuous")
        assert optimum.variance <= _variance(problem, rates, start) * (1 + 1e-11)


@pytest.mark.parametrize("options", RULES)
def test_momentum_and_averaging_have_a_certified_optimum(small, options):
    rates = np.linspace(0.6, 0.1, T)
    real = optimal_batches(small, rates, 30, integer=False, **options)
    whole = optimal_batches(small, rates, 30, **options)
    assert real.kkt_residual < 1e-9
    assert whole.variance == pytest.approx(_variance(small, rates, whole, **options), rel=1e-11)
    rng = np.random.default_rng(2)
    others = 1.0 + (30 - T) * rng.dirichlet(np.ones(T), size=300)
    assert (_variance(small, rates, others, **options) >= real.lower_bound).all()
    oracle = bl.allocate(bl.influence(small, rates, **options), 30)
    assert whole.variance <= _variance(small, rates, oracle, **options) * (1 + 1e-12)


@pytest.mark.parametrize("replacement", [False, True])
def test_multi_pass_minimises_the_expected_fluctuation(small, replacement):
    rates, N, budget = bl.wsd(20, 0.3), 40, 160
    options = {"samples": N, "replacement": replacement}
    whole = optimal_batches(small, rates, budget, **options)
    real = optimal_batches(small, rates, budget, integer=False, **options)
    assert real.kkt_residual < 1e-9

    def fluctuation(batches):
        return expected_fluctuation_simple(
            small, rates, batches, N, replacement=replacement
        ).fluctuation

    assert whole.variance == pytest.approx(fluctuation(whole), rel=1e-12)
    rng = np.random.default_rng(3)
    others = 1.0 + (budget - 20) * rng.dirichlet(np.full(20, 20.0), size=200)
    assert (fluctuation(np.minimum(others, N)) >= real.lower_bound).all()
    oracle = bl.allocate(bl.influence(small, rates), budget, max_batch=N)
    assert whole.variance <= fluctuation(oracle)
    assert "an approximation" in whole.certificate
    assert ("N/2 = 20" in whole.certificate) == (not replacement)


def test_multi_pass_says_where_convexity_ends(small):
    """Batches past N/2 are stationary only; at B = N nothing fluctuates."""
    optimum = optimal_batches(small, bl.wsd(10, 0.2), 350, samples=40, integer=False)
    assert "no proven bound" in optimum.certificate
    assert optimum.kkt_residual < 1e-9
    full = optimal_batches(small, bl.wsd(10, 0.2), 400, samples=40)
    assert (full.batches == 40).all()
    assert full.variance == 0.0
    bounded = optimal_batches(small, bl.wsd(10, 0.2), 80, samples=40, max_batch=20)
    assert "optimal by convexity" in bounded.certificate


def test_steps_without_influence_get_the_minimum(small):
    rates = np.array([0.3, 0.0, 0.3, 0.0])
    optimum = optimal_batches(small, rates, 40, min_batch=2)
    assert optimum.batches[1] == optimum.batches[3] == 2
    nothing = optimal_batches(small, bl.wsd(10, 0.2), 20, average=np.zeros(10))
    assert nothing.variance == nothing.gap == 0.0
    assert nothing.batches.sum() == 20


def test_the_residual_and_the_gap_see_a_schedule_that_is_not_optimal(small):
    rates = bl.wsd(10, 0.5)
    objective = plain_objective(small, rates)
    constant = np.full(10, 4.0)
    value, w = objective(constant)
    best = optimal_batches(small, rates, 40, integer=False).variance
    assert kkt_residual(constant, w, 1, 31) > 0.1
    assert value - duality_gap(Point(constant, value, w), 40, 1, 31.0) < best < value


def test_an_optimum_goes_wherever_batches_go(small):
    rates = bl.wsd(10, 0.3)
    optimum = optimal_batches(small, rates, 40)
    assert len(optimum) == 10
    np.testing.assert_array_equal(np.asarray(optimum), optimum.batches)
    assert np.asarray(optimum, dtype=float).dtype == float
    assert bl.one_pass_risk(small, rates, optimum).variance == pytest.approx(optimum.variance)
    kappa = bl.influence(small, rates)
    assert bl.effective_batch(kappa, optimum) == bl.effective_batch(kappa, optimum.batches)
    assert "10 batches of 1 to" in repr(optimum)


def test_nodes_are_named_in_the_certificate():
    nodes = bl.Problem.power_law_nodes(2.0, 1.5, 10**6, nodes=32)
    assert "on nodes (leading coordinates" in optimal_batches(nodes, [0.3] * 4, 12).certificate


def test_long_runs_are_not_searched_and_say_so(monkeypatch, small):
    monkeypatch.setattr("batchlaw.design.whole_batches.EXCHANGE_WORK", 100.0)
    optimum = optimal_batches(small, bl.wsd(30, 0.3), 200)
    assert "by the greedy rule alone" in optimum.certificate
    assert optimum.gap < 0.02


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"budget": 9}, "budget"),
        ({"min_batch": 5}, "budget"),
        ({"max_batch": 3}, "budget"),
        ({"min_batch": 5, "max_batch": 4}, "min_batch"),
        ({"max_batch": 2.5, "samples": 40}, "max_batch"),
        ({"samples": 40, "budget": 401}, "budget"),
        ({"samples": 40, "momentum": 0.5}, "samples"),
        ({"samples": 1}, "samples"),
        ({"samples": 8}, "samples"),
        ({"replacement": True}, "replacement"),
        ({"average": [0.1] * 9}, "average"),
        ({"rates": [3.0] * 10}, "rates"),
    ],
)
def test_bad_requests_are_refused_in_one_line(small, options, field):
    arguments = {"rates": bl.wsd(10, 0.5), "budget": 40, **options}
    with refused(field) as error:
        optimal_batches(small, **arguments)
    assert "\n" not in str(error.value)


def test_overflow_of_the_second_moment_is_named():
    problem = bl.Problem.from_spectrum(np.ones(500), np.ones(500), 1.0)
    with refused("rates", bl.Unstable):
        optimal_batches(problem, np.full(200, 1.9), 200)
