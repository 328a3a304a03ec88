"""Reuse with epochs as the variable: the runs, and the rows at a size of seconds."""

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.evidence.claims import reuse_departures
from batchlaw.evidence.claims.check_settings import QUICK, peak_rate, wide_problem
from batchlaw.evidence.claims.claim import CONFIRMED, CONTRADICTED, Exponent, Value
from batchlaw.evidence.claims.reuse_runs import BATCH, drawn_risks, reuse_runs, steps_for
from batchlaw.risk.over_datasets import degrees_of_freedom

SHARES = np.array([0.2, 0.5])


@pytest.mark.parametrize("a", [1.2, 2.0])
def test_a_run_is_as_long_as_its_degrees_of_freedom_ask(a):
    problem = wide_problem(a, 1.5)
    gamma = peak_rate(problem)
    L = steps_for(problem, gamma, 20.0)
    assert degrees_of_freedom(problem, bl.wsd(L, gamma)) == pytest.approx(20.0, rel=0.05)


def test_the_factors_are_the_terms_over_those_of_fresh_samples():
    """By sums over the spectrum, and one pass with batches that have the same rho."""
    a, b, N = 1.5, 2.2, 32
    runs = reuse_runs(a, b, N, SHARES)
    problem = wide_problem(a, b)
    for k, L in enumerate(runs.steps):
        rates = bl.wsd(int(L), peak_rate(problem))
        left = np.prod([1.0 - g * problem.eigenvalues for g in rates], axis=0)
        df = (problem.multiplicity * (1.0 - left)).sum()
        assert runs.share[k] == pytest.approx(df / N, rel=1e-9)
        assert runs.epochs[k] == BATCH * L / N
        risk = bl.multi_pass_risk(problem, rates, np.full(L, float(BATCH)), samples=N)
        fresh = problem.noise_variance * (problem.multiplicity * (1.0 - left) ** 2).sum() / N
        assert runs.variance_factor[k] == pytest.approx(risk.variance / fresh, rel=1e-9)
        one_pass = bl.one_pass_risk(problem, rates, np.full(L, BATCH * (N - 1) / (N - BATCH)))
        assert runs.bias_factor[k] == pytest.approx(risk.bias / one_pass.bias, rel=1e-9)
        expected = risk.fluctuation / one_pass.variance
        assert runs.fluctuation_factor[k] == pytest.approx(expected, rel=1e-9)


def test_drawn_datasets_agree_with_the_mean_field_where_reuse_is_strong():
    N = 24
    problem = bl.Problem.power_law(1.5, 1.5, 48, dim=1000, seed=4).prior_mean()
    gamma = peak_rate(problem)
    rates = bl.wsd(steps_for(problem, gamma, 0.7 * N), gamma)
    drawn = drawn_risks(problem, rates, N, 20, seed=6)
    expected = bl.multi_pass_risk(problem, rates, np.full(rates.size, float(BATCH)), samples=N)
    for part, values in drawn.items():
        error = values.std(ddof=1) / np.sqrt(values.size)
        assert abs(values.mean() - getattr(expected, part)) < 4.0 * error, part


def test_beyond_the_theorem_its_law_is_rejected_and_the_limit_is_not():
    checks = reuse_departures._beyond(1.2, 2.0, 256)
    assert len(checks) == 6
    for check in checks:
        assert check.judge().verdict == CONFIRMED, (check.claim.id, check.judge())
        assert all(check.rejected().values()), (check.claim.id, check.rejected())
    (bias,) = (c for c in checks if c.claim.id == "reuse/beyond-gd-bias-exponent")
    assert bias.wrong["theorem 2"] == Value(-1.0 / 1.2, 0.01)
    assert bias.evidence.judge(bias.wrong["theorem 2"]).verdict == CONTRADICTED


def test_inside_the_theorem_fresh_samples_are_rejected():
    checks = reuse_departures._inside(QUICK, 1.5, 2.2) + reuse_departures._inside_batches(2.0, 2.6)
    for check in checks:
        assert check.judge().verdict == CONFIRMED, (check.claim.id, check.judge())
        assert all(check.rejected().values()), (check.claim.id, check.rejected())
        assert check.unmet == ()
    _, variance, batches = checks
    fresh = variance.wrong["fresh samples, N = BL"]
    assert isinstance(fresh, Exponent)
    assert fresh.value == pytest.approx(1.0 / 1.5 - 1.0)
    assert "fresh samples, N = BL" in batches.wrong
