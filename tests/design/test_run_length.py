import numpy as np
import pytest

import batchlaw as bl
from batchlaw.batches.rules import RULES
from batchlaw.design.comparison import compare, noise_scales
from batchlaw.design.run_length import (
    CostModel,
    best_run_length,
    best_run_length_and_rate,
    evaluate,
    frontier,
    run_length_choices,
)
from refused import refused


@pytest.fixture(scope="module")
def problem():
    return bl.Problem.power_law(2.0, 1.5, 8, 500, seed=1)


def test_the_best_horizon_is_best_among_all(problem):
    best = best_run_length(problem, 120, 0.5)
    everyone = {T: evaluate(problem, 120, T, 0.5) for T in range(10, 121)}
    totals = {T: choice.total for T, choice in everyone.items() if choice is not None}
    assert best.total == min(totals.values())
    assert best.batches.sum() == 120
    assert best.total == bl.one_pass_risk(problem, best.rates, best.batches).total


@pytest.mark.slow
def test_choosing_the_rate_too_is_at_least_as_good(problem):
    joint = best_run_length_and_rate(problem, 120)
    for peak in (0.1, 0.5, 1.0):
        assert joint.total <= best_run_length(problem, 120, peak).total * (1 + 2e-3)


@pytest.mark.parametrize("directions", [1, 1000])
def test_the_rate_of_a_run_length_is_its_best(directions):
    """With 1000 equal directions it is far below 2/mu, where the risk is beyond 10^100."""
    flat = bl.Problem.from_spectrum([1.0], [1.0 / directions], 1.0, [directions])
    for choice in run_length_choices(flat, 120, points=5):
        others = [evaluate(flat, 120, choice.steps, x * choice.peak) for x in (0.5, 0.98, 1.02, 2)]
        assert all(other is None or choice.total < other.total for other in others)


@pytest.mark.slow
def test_the_frontier_has_no_choice_that_another_beats(problem):
    cost = CostModel(step_seconds=1.0, sample_seconds=0.01, width=4)
    kept = frontier(problem, 120, cost, points=8)
    times, risks = [c.seconds for c in kept], [c.total for c in kept]
    assert times == sorted(times)
    assert risks == sorted(risks, reverse=True)
    for choice in run_length_choices(problem, 120, points=8, cost=cost):
        steps, peak = choice.steps, choice.peak
        flat = np.ceil(120 / steps / 4) * 4  # constant batches, in as many waves as they need
        capped = evaluate(problem, 120, steps, peak, cost=cost, max_batch=int(flat))
        for other in (choice, capped):
            assert any(k.seconds <= other.seconds and k.total <= other.total + 1e-12 for k in kept)
        assert any(k.seconds <= choice.seconds and k.total <= choice.total for k in kept)


def test_a_batch_is_free_up_to_the_width():
    batches = np.array([1.0, 4.0, 5.0, 8.0])
    assert CostModel(2.0, 0.5).seconds(batches) == 4 * 2.0 + 18 * 0.5
    assert CostModel(2.0, 0.5, width=4).seconds(batches) == (1 + 1 + 2 + 2) * 2.0 + 18 * 0.5


def test_the_comparison_is_at_an_equal_budget_and_led_by_the_oracle(paper):
    rows = compare(paper, bl.wsd(64, 0.05), 512)
    names = [row.name for row in rows]
    assert names[:2] == ["greedy", "constant"]
    assert set(names) == {"greedy", *RULES}
    assert all(row.batches.sum() == 512 for row in rows)
    totals = {row.name: row.risk.total for row in rows if row.rates.size == 64}
    assert min(totals, key=totals.get) == "greedy"
    doubling = rows[names.index("batch doubling, rate halved")]
    assert doubling.rates[-1] == pytest.approx(0.05 / 8)
    assert doubling.batches[-1] / doubling.batches[0] == pytest.approx(8, rel=0.3)


def test_the_noise_scale_is_that_of_sampled_gradients(small):
    rates = bl.wsd(10, 0.3)
    scale = noise_scales(small, rates)
    features, labels = small.sample(200_000, seed=2)
    error = -small.optimum.copy()
    for t, rate in enumerate(rates):
        gradients = features * (features @ (error + small.optimum) - labels)[:, None]
        trace = gradients.var(axis=0).sum()
        mean = small.eigenvalues * error
        assert scale[t] == pytest.approx(trace / (mean @ mean), rel=0.03)
        error *= 1 - rate * small.eigenvalues


def test_bad_choices_are_named(problem):
    with refused("samples"):
        best_run_length(problem, 5, 0.1)
    with refused("peak", bl.Unstable):
        best_run_length(problem, 100, 50.0)
    with refused("width"):
        CostModel(width=0)
    with refused("step_seconds"):
        CostModel(step_seconds=-1)
