"""A user's own procedure: the built-in ones written as steps, weight decay, and bad steps."""

import numpy as np
import pytest
from numba import njit

import batchlaw as bl
from batchlaw.design import paired_difference, simulate_procedure
from batchlaw.risk.simulate import REUSE
from refused import refused

RATES = bl.wsd(16, 0.25)
SCHEDULES = np.array([np.full(16, 4), np.repeat([1, 7], 8)])
OPTIONS = {"repetitions": 12, "seed": 5}
WAYS = [
    {},
    {"samples": 20},
    {"samples": 20, "replacement": True},
    {"samples": 20, "reshuffle": True},
]
DECAY = 0.4


def sgd_step(u, state, features, labels, rate, t):
    u -= rate * features.T @ (features @ u - labels) / labels.size


def returned_step(u, state, features, labels, rate, t):
    return u - rate * features.T @ (features @ u - labels) / labels.size


@njit
def compiled_step(u, state, features, labels, rate, t):
    for i in range(labels.size):
        state[0] += features[i] * (features[i] @ u - labels[i])
    u -= rate * state[0] / labels.size
    state[0] = 0.0


@njit
def compiled_and_returned(u, state, features, labels, rate, t):
    return u - rate * features.T @ (features @ u - labels) / labels.size


def momentum_step(u, velocity, features, labels, rate, t):
    gradient = features.T @ (features @ u - labels) / labels.size
    velocity[0] = 0.7 * velocity[0] - rate * gradient
    u += velocity[0]


def weight_decay(u, state, features, labels, rate, t):
    gradient = features.T @ (features @ u - labels) / labels.size
    u -= rate * (gradient + DECAY * u)


def _same(risk, other, rtol=1e-9):
    for term, values in other.leave_one_out.items():
        np.testing.assert_allclose(risk.leave_one_out[term], values, rtol=rtol, atol=1e-12)
        np.testing.assert_allclose(getattr(risk, term), getattr(other, term), rtol=rtol)


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("step", [sgd_step, returned_step, compiled_step, compiled_and_returned])
def test_plain_sgd_as_a_step_is_plain_sgd_on_the_same_batches(small, step, way):
    ours = simulate_procedure(small, RATES, SCHEDULES, step, memory=1, **way, **OPTIONS)
    _same(ours, simulate_procedure(small, RATES, SCHEDULES, bl.sgd(), **way, **OPTIONS))


def test_one_pass_of_a_rule_is_the_built_in_simulation(small):
    ours = simulate_procedure(small, RATES, SCHEDULES, bl.sgd(), **OPTIONS)
    _same(ours, bl.simulate_one_pass(small, RATES, SCHEDULES, **OPTIONS), rtol=0)
    assert ours.procedure == "SGD, one pass"


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_momentum_and_an_average_as_a_step_are_the_rule(small, way):
    rule = bl.sgd(0.7, average="tail:0.5")
    ours = simulate_procedure(
        small, RATES, SCHEDULES, momentum_step, memory=1, average="tail:0.5", **way, **OPTIONS
    )
    _same(ours, simulate_procedure(small, RATES, SCHEDULES, rule, **way, **OPTIONS))


@pytest.mark.slow
def test_reused_data_have_the_bias_and_variance_of_all_datasets_together(small):
    """Their sum is the excess that the exact solver has for the same datasets."""
    R, N = 1500, 20
    risk = simulate_procedure(
        small, RATES, SCHEDULES[0], compiled_and_returned, samples=N, repetitions=R, seed=3
    )
    exact = []
    for stream in np.random.SeedSequence(3, spawn_key=(REUSE,)).spawn(R):
        data = small.sample(N, np.random.Generator(np.random.PCG64(stream)))
        exact.append(bl.multi_pass_risk(small, RATES, SCHEDULES[0], dataset=data).excess)
    assert abs(risk.excess - np.mean(exact)) < 3 * risk.standard_error("excess")
    assert risk.procedure == "compiled and returned, without replacement"


def shrunk_moments(mu, energy, s2, rates, batches):
    """Bias and variance of u <- (1 - g lambda) u - g G, direction by direction.

    e = u - u* obeys e' = (1 - g lambda) e - g lambda u* - g G: the one-pass recursion with every
    contraction less g lambda, and a mean that is pulled to zero.
    """
    v = np.sqrt(energy)
    mean, C = -v, np.zeros_like(mu)
    for g, batch in zip(rates, batches, strict=True):
        Y = C + mean**2
        noise = (mu**2 * Y + mu * (mu @ Y) + s2 * mu) / batch
        factor = 1.0 - g * DECAY - g * mu
        mean, C = factor * mean - g * DECAY * v, factor**2 * C + g**2 * noise
    return mu @ mean**2, mu @ C


@pytest.mark.slow
def test_weight_decay_has_the_risk_of_its_shrunk_recursion(small):
    batches = SCHEDULES[1]
    risk = simulate_procedure(small, RATES, batches, weight_decay, repetitions=4000, seed=1)
    expected = shrunk_moments(
        small.eigenvalues, small.target_energy, small.noise_variance, RATES, batches
    )
    for term, value in zip(("bias", "variance"), expected, strict=True):
        assert abs(getattr(risk, term) - value) < 3 * risk.standard_error(term)
    plain = bl.one_pass_risk(small, RATES, batches)
    assert abs(risk.bias - plain.bias) > 20 * risk.standard_error("bias")
    # The data are shared: the difference is known better than from two independent runs.
    reference = bl.simulate_one_pass(small, RATES, batches, repetitions=4000, seed=1)
    difference, error = paired_difference(risk, reference)
    assert abs(difference - (sum(expected) - plain.excess)) < 3 * error
    alone = [each.standard_error("excess") for each in (risk, reference)]
    assert error < 0.7 * np.hypot(*alone)


def test_a_difference_has_the_spread_of_its_pairs(small):
    ours = simulate_procedure(small, RATES, SCHEDULES, weight_decay, **OPTIONS)
    plain = bl.simulate_one_pass(small, RATES, SCHEDULES, **OPTIONS)
    difference, error = paired_difference(ours, plain, "variance")
    without = ours.leave_one_out["variance"] - plain.leave_one_out["variance"]
    np.testing.assert_allclose(difference, ours.variance - plain.variance, rtol=1e-14)
    np.testing.assert_allclose(error, np.sqrt(11 * without.var(axis=1)), rtol=1e-12)
    for term in ("excess", "total"):
        single = paired_difference(
            simulate_procedure(small, RATES, SCHEDULES[1], weight_decay, **OPTIONS),
            bl.simulate_one_pass(small, RATES, SCHEDULES[1], **OPTIONS),
            term,
        )
        assert all(isinstance(number, float) for number in single)


@pytest.mark.parametrize("step", [momentum_step, compiled_step])
def test_numbers_do_not_depend_on_the_threads(small, step):
    runs = [
        simulate_procedure(small, RATES, SCHEDULES, step, memory=1, threads=n, **OPTIONS)
        for n in (1, 3)
    ]
    _same(*runs, rtol=0)


def test_bad_procedures_are_named(small):
    def lost(u, state, features, labels, rate, t):
        u = u - rate * features.T @ (features @ u - labels)  # changes nothing outside

    def wrong_shape(u, state, features, labels, rate, t):
        return features

    for step in (lost, wrong_shape, "sgd"):
        with refused("step"):
            simulate_procedure(small, RATES, 3, step, **OPTIONS)
    for option in ("replacement", "reshuffle"):
        with refused(option):
            simulate_procedure(small, RATES, 3, sgd_step, **{option: True}, **OPTIONS)
    for option in ({"memory": 1}, {"average": "tail:0.5"}):
        with refused(next(iter(option))):
            simulate_procedure(small, RATES, 3, bl.sgd(), **option, **OPTIONS)
    with refused("memory"):
        simulate_procedure(small, RATES, 3, sgd_step, memory=-1, **OPTIONS)
    with refused("rates", bl.Unstable):
        simulate_procedure(small, bl.constant(2000, 50.0), 1, sgd_step, **OPTIONS)
    plain = bl.simulate_one_pass(small, RATES, 3, **OPTIONS)
    with refused("reference"):
        paired_difference(plain, bl.simulate_one_pass(small, RATES, 3, repetitions=5, seed=5))
    with refused("risk"):
        paired_difference(bl.one_pass_risk(small, RATES, 3), plain)
    with refused("term"):
        paired_difference(plain, plain, "fluctuation")
