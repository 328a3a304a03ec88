"""Plans over a range of problems: merged updates, scores, limits and recommendations."""

import itertools

import numpy as np
import pytest

import batchlaw as bl
from batchlaw._base.kernels import merged_steps as kernels
from batchlaw.batches.limits import Limits
from batchlaw.design import plan_range, robust_plan
from batchlaw.design.plan_cases import PlanCases, Rows
from batchlaw.design.plan_search import Cells
from batchlaw.risk.adam_diagonal import diagonal_moments
from refused import refused

ADAMW = bl.adam(0.9, 0.99, weight_decay=0.05, basis="generic")


@pytest.mark.parametrize("rule", [ADAMW, bl.adam(0.0, 0.95), bl.sgd(momentum=0.9)])
def test_slopes_of_merged_rows_are_those_of_finite_differences(rule):
    problem = bl.Problem.power_law_nodes(1.5, 1.4, 4096, nodes=24)
    rows = Rows.of(300, 20)
    table = rows.table(bl.wsd(300, 0.02), rule)
    adaptive = isinstance(rule, type(ADAMW))
    beta = rule.beta1 if adaptive else rule.momentum
    state = problem.eigenvalues, problem.multiplicity, problem.target_energy, 0.7
    options = table, beta, 1e-8, adaptive
    shares = 1.0 / np.random.default_rng(0).uniform(2.0, 20.0, 20)
    saved = np.empty((21, 2, problem.eigenvalues.size + 1))
    slopes = np.empty(20)
    kernels.merged_slopes(*state, *options, shares, saved, slopes)
    h = 1e-6
    for i, unit in enumerate(np.eye(20)):
        up, down = (
            kernels.merged_excess(*state, *options, shares + s * h * unit, saved) for s in (1, -1)
        )
        assert slopes[i] == pytest.approx((up - down) / (2.0 * h), rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("rule", [bl.sgd(), bl.sgd(momentum=0.9)])
def test_many_schedules_of_sgd_are_merged_as_one_is(rule):
    problem = bl.Problem.power_law_nodes(1.5, 1.4, 4096, nodes=24)
    table = Rows.of(300, 20).table(bl.wsd(300, 0.05), rule)
    shares = 1.0 / np.random.default_rng(0).uniform(2.0, 20.0, (3, 20))
    state = problem.eigenvalues, problem.multiplicity, problem.target_energy, 0.7, table
    together, squares = np.empty(3), np.empty((3, 20, problem.eigenvalues.size))
    kernels.fixed_excess(*state, rule.momentum, shares, squares, together)
    saved = np.empty((21, 2, problem.eigenvalues.size + 1))
    for row, excess, square in zip(shares, together, squares, strict=True):
        alone = kernels.merged_excess(*state, rule.momentum, 0.0, False, row, saved)
        assert excess == pytest.approx(alone, rel=1e-12)
        one = saved[:-1, 0, :-1] + saved[:-1, 1, :-1] ** 2
        np.testing.assert_allclose(square, one, rtol=1e-11)
    fast = Rows.of(300, 20).table(bl.wsd(300, 1e3), rule)
    kernels.fixed_excess(*state[:-1], fast, rule.momentum, shares, squares, together)
    assert np.isinf(together).all()


def test_merged_updates_agree_with_single_ones():
    steps, t = 3000, np.arange(1.0, 3001.0)
    rates = bl.wsd(steps, 1.0)
    cases = PlanCases.of(rates, 8.0, ADAMW)
    shapes = [np.ones(steps), t[::-1], t, np.where(t > 0.75 * steps, 8.0, 1.0)]
    batches = np.stack([8.0 * shape / shape.mean() for shape in shapes])
    rows = Rows.of(steps, 1000)
    for case in cases.cases[::7]:
        gamma = case.peak * cases.shape
        single = diagonal_moments(case.problem, gamma, batches, ADAMW).sum(axis=1)
        saved = np.empty((1001, 2, case.problem.eigenvalues.size + 1))
        state = case.problem.eigenvalues, case.problem.multiplicity, case.problem.target_energy
        merged = np.array([
            kernels.merged_excess(
                *state, case.problem.noise_variance, rows.table(gamma, ADAMW), 0.9, 1e-8, True,
                1.0 / rows.mean(sizes), saved,
            )
            for sizes in batches
        ])  # fmt: skip
        np.testing.assert_allclose(merged, single, rtol=0.02)
        np.testing.assert_allclose(merged / merged[0], single / single[0], rtol=0.015)


def test_the_best_peak_of_a_constant_batch_is_among_the_scales():
    cases = PlanCases.of(bl.cosine(500, 1.0, warmup=0.1), 8.0, ADAMW)
    excess = cases.excess(np.full(500, 8.0))[0].reshape(-1, len(plan_range.RATE_SCALES))
    assert (excess.argmin(axis=1) == plan_range.RATE_SCALES.index(1.0)).all()


def test_scores_are_ratios_to_the_constant_batch():
    rates = bl.wsd(200, 1.0)
    ramp = np.linspace(1.0, 15.0, 200)
    scores = robust_plan.score(rates, {"constant": np.full(200, 8), "ramp": ramp}, ADAMW)
    assert list(scores) == ["constant", "ramp"]
    np.testing.assert_array_equal(scores["constant"], 1.0)
    alone = robust_plan.score(rates, {"ramp": ramp}, ADAMW)["ramp"]
    np.testing.assert_allclose(scores["ramp"], alone, rtol=1e-12)


def test_scores_of_sgd_are_those_of_the_exact_risk():
    rates, ramp = bl.wsd(150, 3.0), np.linspace(1.0, 15.0, 150)
    rule = bl.sgd(momentum=0.5)
    cases = PlanCases.of(rates, 8.0, rule)
    batches = {"ramp": ramp, "constant": np.full(150, 8.0)}
    scores = robust_plan.score(rates, batches, rule)["ramp"]
    for k in (0, 21, 47):
        case = cases.cases[k]
        risk = bl.one_pass_risk(case.problem, case.peak * cases.shape, batches, rule=rule)
        assert scores[k] == pytest.approx(risk.excess[0] / risk.excess[1], rel=1e-9)


def test_cells_spend_the_budget_within_their_bounds():
    rng = np.random.default_rng(1)
    counts = rng.integers(1, 9, 40).astype(float)
    cells = Cells.of(np.array([0, 3, 10, 12, 30, 40]), counts, 8.0 * counts.sum(), 2.0, 20.0)
    for scale in (0.1, 1.0, 3.0):
        sizes = cells.batches(scale * rng.standard_normal(5))
        assert cells.counts @ sizes == pytest.approx(cells.budget)
        assert sizes.min() >= 2.0
        assert sizes.max() <= 20.0


def test_averages_are_refused():
    with refused("average"):
        robust_plan.score(bl.wsd(50, 1.0), {"even": np.ones(50)}, bl.adam(average="tail:0.5"))


def test_one_stage_is_the_constant_batch():
    plan = robust_plan.robust_plan(bl.wsd(60, 1.0), 480, ADAMW, Limits(stages=1))
    np.testing.assert_array_equal(plan.batches, 8)
    assert not plan.recommended
    assert len(plan.cases) == 48


@pytest.mark.slow
def test_a_recommended_plan_keeps_its_limits_and_its_standard():
    limits = Limits(min_batch=4, max_batch=40, multiple_of=4, stages=4)
    plan = robust_plan.robust_plan(bl.wsd(800, 1.0), 12_800, bl.adam(0.9, 0.999), limits)
    assert plan.recommended
    assert plan.ratios.max() <= 1.0
    assert np.median(plan.ratios) <= 1.0 - robust_plan.WORTH
    assert (plan.batches % 4 == 0).all()
    assert plan.batches.min() >= 4
    assert plan.batches.max() <= 40
    assert plan.batches.sum() <= 12_800
    assert np.count_nonzero(np.diff(plan.batches)) < 4
    assert (plan.constant_regret >= 0.0).all()


@pytest.mark.slow
def test_a_bold_plan_departs_where_nothing_is_recommended():
    rates, limits = bl.cosine(300, 1.0, warmup=0.1), Limits()
    plain = robust_plan.robust_plan(rates, 2400, ADAMW, limits)
    bold = robust_plan.robust_plan(rates, 2400, ADAMW, limits, bold=True)
    assert not plain.recommended
    assert (plain.batches == plain.constant).all()
    assert bold.regret.mean() < plain.regret.mean()
    assert bold.batches.sum() == 2400


def test_what_is_tried_under_a_limit_on_stages_is_tried_under_every_larger_one():
    tried = [set(robust_plan.tried_limits(Limits(4, stages=k))) for k in [*range(1, 40), None]]
    for fewer, more in itertools.pairwise(tried):
        assert fewer <= more
    assert next(robust_plan.tried_limits(Limits(stages=8))).stages == 8
    assert next(robust_plan.tried_limits(Limits())).stages is None


@pytest.mark.slow
def test_a_plan_is_not_lost_by_allowing_more_stages():
    """With 12 stages none is found that holds; the plan with 8 is the one that was trained."""
    rates, rule = bl.wsd(800, 1.0, stable=0.7), bl.adam(0.9, 0.999, weight_decay=0.01)
    eight, twelve = (
        robust_plan.robust_plan(rates, 6400, rule, Limits(stages=count)) for count in (8, 12)
    )
    trained = np.repeat([8, 10, 12, 9, 7, 5, 3], [475, 50, 75, 50, 50, 50, 50])
    np.testing.assert_array_equal(eight.batches, trained)
    np.testing.assert_array_equal(twelve.batches, trained)
    assert twelve.recommended
