"""Adam's noise limit, against sums by hand, SGD's exact risk, and the mean field's adjoint."""

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.theory.adam_limit import (
    effective_rates,
    inverse_batch,
    learning_batch,
    limit_batches,
    limit_slopes,
    preconditioned,
    squared_rate_gain,
)

STEPS, MEAN = 60, 8.0
NOISY = bl.Problem.power_law_nodes(2.0, 1.5, 200, sigma=20.0, nodes=40)
DRAWN = bl.Problem.power_law(2.0, 1.5, 12, dim=300, sigma=20.0, seed=3)
BASES = ("generic", "eigen", "sketch")


def rule(beta2=0.9, basis="generic", beta1=0.0):
    return bl.adam(beta1, beta2, eps=0.0, basis=basis)


def problem_of(basis):
    return DRAWN if basis == "sketch" else NOISY


def rates_of(basis, peak=0.05):
    largest = preconditioned(problem_of(basis), rule(basis=basis)).eigenvalues[0]
    unit = np.sqrt(problem_of(basis).noise_variance / MEAN) / largest
    return bl.wsd(STEPS, peak * unit, decay="linear")


def uneven(seed=0):
    return MEAN * np.random.default_rng(seed).uniform(0.4, 1.6, STEPS)


@pytest.mark.parametrize("beta2", [0.0, 0.5, 0.99])
def test_the_inverse_batch_is_the_corrected_average_that_v_holds(beta2):
    batches, v = uneven(), 0.0
    for t, batch in enumerate(batches, 1):
        v = beta2 * v + (1.0 - beta2) / batch
        found = inverse_batch(batches, rule(beta2))[t - 1]
        assert found == pytest.approx(v / (1.0 - beta2**t), rel=1e-12)


def test_a_constant_batch_is_its_own_learning_batch_and_gives_the_root():
    rates = rates_of("generic")
    assert learning_batch(rates, np.full(STEPS, 5.0), rule(0.99)) == pytest.approx(5.0)
    eta = [effective_rates(NOISY, rates, np.full(STEPS, b), rule(0.99)) for b in (4.0, 16.0)]
    np.testing.assert_allclose(eta[1], 2.0 * eta[0], rtol=1e-12)


def test_without_memory_the_learning_batch_is_the_power_mean():
    rates, batches = rates_of("generic"), uneven()
    mean = (rates @ np.sqrt(batches) / rates.sum()) ** 2
    assert learning_batch(rates, batches, rule(0.0)) == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize("basis", BASES)
def test_the_preconditioned_problem_keeps_what_there_is_to_learn(basis):
    problem, sgd = problem_of(basis), preconditioned(problem_of(basis), rule(basis=basis))
    sums = [(p.multiplicity * p.eigenvalues) @ p.target_energy for p in (problem, sgd)]
    assert sums[1] == pytest.approx(sums[0], rel=1e-10)
    assert sgd.noise_variance == problem.noise_variance


@pytest.mark.parametrize("basis", BASES)
def test_adam_is_sgd_at_the_effective_rates_where_label_noise_dominates(basis):
    problem, rates, batches = problem_of(basis), rates_of(basis), uneven()
    adam = bl.one_pass_risk(problem, rates, batches, rule=rule(0.99, basis))
    eta = effective_rates(problem, rates, batches, rule(0.99, basis))
    sgd = bl.one_pass_risk(preconditioned(problem, rule(basis=basis)), eta, batches)
    # The law leaves out terms of relative size B R / s2 and 1 - beta2.
    assert adam.excess == pytest.approx(sgd.excess, rel=0.05)
    assert adam.bias == pytest.approx(sgd.bias, rel=0.05)


@pytest.mark.parametrize("basis", BASES)
def test_the_limit_excess_is_sgds_bias_and_label_noise(basis):
    problem, rates, batches = problem_of(basis), rates_of(basis), uneven()
    eta = effective_rates(problem, rates, batches, rule(basis=basis))
    sgd = bl.one_pass_risk(preconditioned(problem, rule(basis=basis)), eta, batches)
    limit = limit_slopes(problem, rates, batches, rule(basis=basis))
    assert limit.bias == pytest.approx(sgd.bias, rel=1e-10)
    # To first order: what this noise adds to later noise is left out.
    kappa = bl.influence(preconditioned(problem, rule(basis=basis)), eta)
    noise = problem.noise_variance * (kappa / batches).sum()
    assert limit.noise == pytest.approx(noise, rel=1e-10)


@pytest.mark.parametrize("beta2", [0.0, 0.9, 0.999])
def test_the_slopes_are_finite_differences(beta2):
    rates, x = rates_of("generic"), 1.0 / uneven()
    slopes = limit_slopes(NOISY, rates, 1.0 / x, rule(beta2)).total
    for t in (0, 1, 30, STEPS - 2):
        step = np.zeros(STEPS)
        step[t] = 1e-5 * x[t]
        up, down = (limit_slopes(NOISY, rates, 1.0 / (x + s * step), rule(beta2)).excess
                    for s in (1.0, -1.0))  # fmt: skip
        assert slopes[t] == pytest.approx((up - down) / (2.0 * step[t]), rel=1e-5, abs=1e-9)


def test_the_direct_term_is_sgds_influence_at_the_effective_rates():
    rates, batches = rates_of("generic"), np.full(STEPS, MEAN)
    eta = effective_rates(NOISY, rates, batches, rule())
    kappa = bl.influence(preconditioned(NOISY, rule()), eta)
    direct = limit_slopes(NOISY, rates, batches, rule()).direct
    np.testing.assert_allclose(direct, NOISY.noise_variance * kappa, rtol=1e-10)


@pytest.mark.parametrize("beta2", [0.9, 0.99])
def test_the_fixed_point_is_stationary_by_the_mean_fields_adjoint(beta2):
    rates = rates_of("generic")
    best = limit_batches(NOISY, rates, MEAN * STEPS, rule(beta2))
    assert best.sum() == pytest.approx(MEAN * STEPS)
    assert best.min() >= 1.0 - 1e-9
    worth = -bl.design.sensitivity(NOISY, rates, best, rule=rule(beta2)).total
    free = best > 1.01
    assert worth[free].std() < 0.04 * worth[free].mean()
    assert worth[~free].max() < 1.04 * worth[free].mean()


@pytest.mark.parametrize("beta2", [0.5, 0.999])
def test_no_other_schedule_that_is_tried_has_a_smaller_limit(beta2):
    rates = rates_of("generic")
    best = limit_batches(NOISY, rates, MEAN * STEPS, rule(beta2))
    least = limit_slopes(NOISY, rates, best, rule(beta2)).excess
    for seed in range(5):
        other = 1.0 + (best - 1.0) * np.random.default_rng(seed).uniform(0.5, 1.5, STEPS)
        other = 1.0 + (other - 1.0) * (best - 1.0).sum() / (other - 1.0).sum()
        assert limit_slopes(NOISY, rates, other, rule(beta2)).excess > least


def test_the_squared_rate_has_the_largest_learning_batch_of_all_powers():
    rates = rates_of("generic")[:-1]
    no_memory = rule(0.0)

    def learning(power):
        batches = rates**power
        return learning_batch(rates, MEAN * batches / batches.mean(), no_memory)

    assert learning(2.0) == pytest.approx(MEAN * squared_rate_gain(rates), rel=1e-12)
    assert all(learning(power) < learning(2.0) for power in (0.0, 1.0, 1.9, 2.1, 3.0))
