"""Noise levels along a run, against the exact bias and a momentum recursion written out."""

import math

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.design.noise_level import model_noise, plan_weights
from refused import refused


def test_model_noise_is_the_residual_before_each_step(small):
    rates = bl.wsd(16, 0.4)
    for options in ({}, {"momentum": 0.5}):
        path = bl.one_pass_risk(small, rates, 1e6, trajectory=True, **options)
        expected = small.noise_variance + path.bias[:-1]
        levels = model_noise(small, rates, rule=bl.sgd(**options))
        np.testing.assert_allclose(levels, expected, rtol=1e-13)
    beta = 0.5
    e, v = -small.optimum, np.zeros(6)
    levels = model_noise(small, rates, rule=bl.sgd(beta, nesterov=True))
    for rate, level in zip(rates, levels, strict=True):
        y = e + beta * v
        assert level == pytest.approx(small.noise_variance + small.eigenvalues @ y**2)
        v = beta * v - rate * small.eigenvalues * y
        e = e + v


def test_a_plan_follows_the_noise(paper):
    rates = bl.wsd(64, 0.05)
    kappa, noise = bl.influence(paper, rates), model_noise(paper, rates)
    weights = plan_weights(kappa, noise)
    np.testing.assert_allclose(weights / weights[0], kappa * noise / (kappa * noise)[0])
    real = bl.allocate(weights, 51200, method="continuous")
    np.testing.assert_allclose(real / real[0], np.sqrt(weights / weights[0]), rtol=1e-9)
    np.testing.assert_array_equal(
        bl.allocate(plan_weights(kappa, np.full(64, 3.0)), 512), bl.allocate(kappa, 512)
    )
    schedules = {"noise": bl.allocate(weights, 512), "influence": bl.allocate(kappa, 512)}
    with_noise, without = bl.one_pass_risk(paper, rates, schedules).variance
    best = bl.optimal_batches(paper, rates, 512).variance
    assert best <= with_noise < without


def test_noise_levels_must_match_the_steps():
    with refused("noise"):
        plan_weights([1.0, 2.0, 3.0], [1.0])
    assert math.isfinite(plan_weights([1e200], [1e200])[0])
