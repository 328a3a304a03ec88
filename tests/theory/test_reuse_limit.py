"""The limit functions of df/N, against ridge regression's fixed point, sums and the mean field."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from batchlaw.evidence.claims.check_settings import peak_rate, wide_problem
from batchlaw.risk.multi_pass import gradient_descent_risk
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.risk.over_datasets import degrees_of_freedom
from batchlaw.schedule.rates import wsd
from batchlaw.theory import reuse_limit
from batchlaw.theory.reuse_limit import (
    first_order_bias,
    first_order_variance,
    gd_bias_factor,
    gd_variance,
    gd_variance_factor,
    training_residual,
)
from refused import refused

PAIRS = [(1.2, 1.1), (1.2, 2.0), (1.5, 1.5), (2.0, 1.5), (2.0, 2.6), (3.0, 2.5)]


@pytest.mark.parametrize("a", [1.2, 2.0, 3.0])
@pytest.mark.parametrize("exponent", [-1.0, 0.4, 1.0])
def test_the_series_are_powers_of_the_root_of_ridge_regressions_fixed_point(a, exponent):
    y, alpha = 0.2, 1.0 / a
    root = brentq(lambda u: u - 1.0 - y * u ** (1.0 - alpha), 1.0, 2.0, xtol=1e-15)
    terms = reuse_limit._power(exponent, alpha) * y ** np.arange(reuse_limit.TERMS + 1)
    assert terms.sum() == pytest.approx(root**exponent, rel=1e-12)


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_the_slopes_at_no_reuse_are_the_closed_forms(a, b):
    x = 1e-4
    curvature = 3.0 * x
    assert (gd_variance_factor(x, a) - 1.0) / x == pytest.approx(
        first_order_variance(a), abs=curvature
    )
    assert (gd_bias_factor(x, a, b) - 1.0) / x == pytest.approx(
        first_order_bias(a, b), abs=curvature
    )
    assert (1.0 - training_residual(x, a)) / x == pytest.approx(2.0 ** (1.0 / a), abs=curvature)


def test_the_variance_changes_its_first_order_at_two():
    assert first_order_variance(1.9) < 0.0
    assert first_order_variance(2.0) == 0.0
    assert first_order_variance(2.1) > 0.0


def test_the_first_order_of_the_bias_is_that_of_perturbation_theory():
    """Second-order perturbation of exp(-A S_hat) by E|E_jk|^2 = mu_j mu_k/N, as sums over j, k.

    v_j^2 mu_j = j^-b; f the filter, f[.,.] its divided differences. The sums miss a tail beyond
    the last direction and differ from the limit's integrals by the directions near j = 1.
    """
    a, b, mass = 2.0, 1.5, 400.0
    # Directions in groups: 1..200 alone, then ever larger ones.
    edges = np.unique(np.concatenate([np.arange(1, 201), np.geomspace(201, 3e6, 900).round()]))
    n, j = np.diff(edges), 0.5 * (edges[1:] + edges[:-1] - 1.0)
    mu, energy = j**-a, j**-b
    f = np.exp(-mass * mu)
    gap = mass * (mu[None, :] - mu[:, None])
    near = np.abs(gap) < 1e-3
    safe = np.where(near, 1.0, gap)
    left, right = f[:, None], f[None, :]
    once = np.where(near, left * (1.0 - gap / 2 + gap**2 / 6), (left - right) / safe)
    twice = np.where(
        near, left * (0.5 - gap / 6 + gap**2 / 24), (right - left + gap * left) / safe**2
    )
    shift = 2.0 * (n * energy * f * mu) @ (mass**2 * twice) @ (n * mu)
    moved = (n * energy) @ (mass**2 * once**2) @ (n * mu**2)
    df = float(n @ (1.0 - f))
    slope = (shift + moved) / (df * float(n @ (energy * f * f)))
    assert slope == pytest.approx(first_order_bias(a, b), rel=0.03)


@pytest.mark.parametrize("a", [1.2, 1.5, 2.0, 3.0])
def test_interpolation_has_the_variance_a_minus_one_and_no_residual(a):
    """Ridgeless: df_1 = N and df_2 = (1 - 1/a) N, so that df_2/(N - df_2) = a - 1."""
    assert gd_variance(3.0, a) == pytest.approx(a - 1.0, rel=0.05)
    assert gd_variance(3.0, a) < a - 1.0
    assert training_residual(3.0, a) < 0.005


def test_the_bias_saturates_at_that_of_the_ridgeless_limit():
    """k with df_1(k) = N; bias = k^2 sum_j j^-b/(mu_j + k)^2 / (1 - df_2/N), df_2 = df_1 (1 - 1/a).

    Over one pass's Gamma(b')(2 A)^-b'/a, b' = (b - 1)/a, at A with Gamma(1 - 1/a) A^(1/a) = x N.
    """
    a, b = 2.0, 1.5
    alpha, beta = 1.0 / a, (b - 1.0) / a
    x = np.array([3.0, 4.0])
    k = (math.gamma(1.0 - alpha) * math.gamma(1.0 + alpha)) ** a
    # sum_j j^-b k^2/(j^-a + k)^2, by its integral over mu.
    shrunk = alpha * k**beta * math.gamma(beta) * math.gamma(2.0 - beta)
    mass = (x / math.gamma(1.0 - alpha)) ** a
    one_pass = alpha * math.gamma(beta) * (2.0 * mass) ** -beta
    expected = a * shrunk / one_pass
    measured = gd_bias_factor(x, a, b)
    assert (measured < 1.02 * expected).all()
    np.testing.assert_allclose(measured[1], expected[1], rtol=0.02)


@pytest.mark.parametrize(
    ("a", "b", "samples", "steps"),
    [(1.5, 1.5, 256, 20_000), (1.5, 2.2, 256, 20_000), (2.0, 1.5, 128, 50_000)],
)
def test_the_mean_field_tends_to_the_limit(a, b, samples, steps):
    problem = wide_problem(a, b)
    rates = wsd(steps, peak_rate(problem))
    x = degrees_of_freedom(problem, rates) / samples
    assert x > 0.4
    descent = gradient_descent_risk(problem, rates, samples=samples)
    without = one_pass_risk(problem, rates, np.full(steps, 1e9))
    assert descent.bias / without.bias == pytest.approx(gd_bias_factor(x, a, b), rel=0.005)
    # Sums of 1 - exp(-A mu_j) are half a direction short of their integrals.
    half = 0.5 / (samples * gd_variance(x, a))
    variance = descent.variance / problem.noise_variance
    assert variance == pytest.approx(gd_variance(x, a), rel=half)


def test_what_the_series_cannot_do_is_refused():
    with refused("share"):
        gd_variance(0.0, 2.0)
    with refused("share"):
        training_residual([0.5, 20.0], 3.0)
    with refused("b"):
        gd_bias_factor(0.5, 1.5, 2.5)
    with refused("a"):
        gd_variance(0.5, 1.0)
