"""Scores of rules that people use: their own rates and steps, and the noise of every case."""

import math

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.batches.rules import RULES, Schedule
from batchlaw.design.noise_scale import noise_scale_at
from batchlaw.design.plan_cases import Grid, PlanCases, pilot_noise_scales
from batchlaw.design.robust_plan import score
from batchlaw.design.rule_scores import DIVERGED, score_rules
from batchlaw.risk.adam_diagonal import diagonal_moments

GRID = Grid((1.5,), (1.5,), (1.0,), (0.5, 1.0))
RATES = bl.wsd(48, 0.3)
EVEN = np.full(48, 8)
SGD, ADAM = bl.sgd(momentum=0.5), bl.adam(0.9, 0.95, basis="generic")


def _excess(case, rates, batches, rule):
    rates = case.peak * rates / RATES.max()
    if rule is SGD:
        return bl.one_pass_risk(case.problem, rates, batches, rule=rule).excess
    return diagonal_moments(case.problem, rates, batches[None].astype(float), rule).sum()


@pytest.mark.parametrize("rule", [SGD, ADAM])
def test_every_rule_is_scored_with_its_own_rates_and_steps(rule):
    scores = score_rules(RATES, EVEN, rule, GRID)
    cases = PlanCases.of(RATES, 8.0, rule, grid=GRID).cases
    assert list(scores) == [name for name in RULES if name != "constant"]
    for name, scored in scores.items():
        for k, case in enumerate(cases):
            peaked = case.peak * RATES / RATES.max()
            noise = pilot_noise_scales(case.problem, peaked, 8.0, rule)
            own = RULES[name].schedule(RATES, 384, noise)
            ratio = _excess(case, own.rates, own.batches, rule) / _excess(case, RATES, EVEN, rule)
            assert scored.ratios[k] == pytest.approx(ratio, rel=1e-9)
        assert scored.steps == own.rates.size
        assert scored.keeps_rates == (own.rates is RATES)
    assert scores["Seesaw"].steps < 48


def test_a_schedule_with_rates_of_its_own_is_scored_in_their_units():
    own = RULES["Seesaw"].schedule(RATES, 384)
    same = Schedule(RATES, EVEN)
    scores = score(RATES, {"constant": EVEN, "own": own, "same": same}, SGD, GRID)
    np.testing.assert_array_equal(scores["same"], 1.0)
    np.testing.assert_allclose(
        scores["own"], score_rules(RATES, EVEN, SGD, GRID)["Seesaw"].ratios, rtol=1e-12
    )
    # Other units of both rates change nothing, because a case's peak is relative.
    tenfold = Schedule(10.0 * own.rates, own.batches)
    scaled = score(10.0 * RATES, {"constant": EVEN, "own": tenfold}, SGD, GRID)
    np.testing.assert_allclose(scaled["own"], scores["own"], rtol=1e-9)


def _pilot_loop(problem, rates, batch, rule):
    """Noise scales of a run with single updates and beta1 = 0, or plain SGD, by its recursion."""
    mu, n, s2 = problem.eigenvalues, problem.multiplicity, problem.noise_variance
    mean, var, v = np.sqrt(problem.target_energy), 0.0 * mu, 0.0
    scales = []
    for t, rate in enumerate(rates, 1):
        square = var + mean**2
        gradient = sum(n * mu**2 * square)
        residual = sum(n * mu * square) + s2
        scales.append((sum(n * mu) * residual + gradient) / gradient)
        noise = (mu * residual + mu**2 * square) / batch
        step = rate
        if rule is not None:
            seen = sum(n * (mu**2 * square + noise)) / sum(n)
            v = rule.beta2 * v + (1.0 - rule.beta2) * seen
            step = rate / math.sqrt(v / (1.0 - rule.beta2**t))
        mean = mean * (1.0 - step * mu)
        var = var * (1.0 - step * mu) ** 2 + step**2 * noise
    return np.array(scales)


@pytest.mark.parametrize(
    ("rule", "peak"), [(None, 0.05), (bl.adam(0.0, 0.9, eps=0.0, basis="generic"), 0.003)]
)
def test_a_pilots_noise_scales_are_those_of_its_recursion(rule, peak):
    problem = bl.Problem.power_law_nodes(1.5, 1.4, 512, nodes=20)
    rates = bl.wsd(60, peak)
    pilot = pilot_noise_scales(problem, rates, 4.0, rule or bl.sgd())
    loop = _pilot_loop(problem, rates, 4.0, rule)
    assert loop.max() > 1.5 * loop.min()
    # The mean field of merged updates relaxes exponentially within an update.
    np.testing.assert_allclose(pilot, loop, rtol=0.03)


def test_the_noise_scale_is_that_of_sampled_gradients():
    problem = bl.Problem.from_spectrum([1.0, 0.5, 0.2], [1.0, 1.0, 1.0], 0.3)
    error = np.array([0.7, -0.4, 1.1])
    rng = np.random.default_rng(0)
    features = rng.standard_normal((200_000, 3)) * np.sqrt(problem.eigenvalues)
    residual = features @ error - math.sqrt(0.3) * rng.standard_normal(200_000)
    gradients = residual[:, None] * features
    sampled = gradients.var(axis=0).sum() / (gradients.mean(axis=0) ** 2).sum()
    assert noise_scale_at(problem, error**2) == pytest.approx(sampled, rel=0.02)


def test_the_noise_scale_of_no_gradient_is_infinite():
    problem = bl.Problem.from_spectrum([1.0, 0.5], [1.0, 1.0], 0.3)
    assert noise_scale_at(problem, np.zeros(2)) == np.inf


def test_a_rule_that_diverges_has_a_finite_score():
    # With small batches at first, plain SGD is unstable at twice the best rate.
    grid = Grid((1.2,), (1.3,), (0.25,), (2.0,))
    scores = score_rules(bl.wsd(800, 1.0), np.full(800, 8), bl.sgd(), grid)
    assert scores["noise scale"].ratios[0] == DIVERGED
    assert scores["early-large"].ratios[0] < 2.0
    assert all(np.isfinite(scored.ratios).all() for scored in scores.values())
