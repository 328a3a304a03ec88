"""Adam's mean field with a diagonal covariance in a sketch's coordinates, against full matrices."""

from dataclasses import replace

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.risk.adam_matrix import matrix_moments
from batchlaw.risk.adam_preconditioned import preconditioned_moments, preconditioned_slopes
from refused import refused

STEPS = 30
RULES = {
    "adam": bl.adam(0.9, 0.99),
    "adamw": bl.adam(0.8, 0.95, weight_decay=0.3),
    "rmsprop": bl.adam(0.0, 0.9, eps=1e-3),
    "averaged": bl.adam(0.9, 0.98, weight_decay=0.1, average="tail:0.4"),
}


def setting(sigma=0.7, sketch=8):
    problem = bl.Problem.power_law(1.6, 1.4, sketch, 100, sigma, seed=3)
    rng = np.random.default_rng(7)
    rates = rng.uniform(0.01, 0.05, STEPS)
    return problem, rates, rng.uniform(1.0, 9.0, (2, STEPS))


def by_matrices(problem, rates, batches, rule):
    """v at its mean: every step on full matrices, the covariances then cut to H's diagonal."""
    sigma, M = problem.covariance, problem.target.size
    s = np.diag(sigma)
    to_x = np.diag(s**0.25)
    H = np.linalg.inv(to_x) @ sigma @ np.linalg.inv(to_x)
    Q = np.linalg.eigh(H)[1]

    def cut(A):
        return Q @ np.diag(np.diag(Q.T @ A @ Q)) @ Q.T

    e = start = -problem.target
    m, v = np.zeros(M), np.zeros(M)
    ee, me, mm = np.zeros((M, M)), np.zeros((M, M)), np.zeros((M, M))
    b1, b2 = rule.beta1, rule.beta2
    for t, (rate, batch) in enumerate(zip(rates, batches, strict=True), start=1):
        k = 1.0 - rate * rule.weight_decay
        x = to_x @ e
        g = H @ x
        trace = np.trace(H @ (ee + np.outer(x, x))) + problem.noise_variance
        signal = H @ ee @ H
        noise = (signal + np.outer(g, g) + trace * H) / batch
        # Of the signal's covariance each coordinate has a share in proportion to its noise.
        even = np.sqrt(s) * np.trace(signal) / np.trace(H)
        second = np.sqrt(s) * (even + g**2 + (even + g**2 + np.sqrt(s) * trace) / batch)
        v = b2 * v + (1.0 - b2) * second
        D = rate / (1.0 - b1**t) / (np.sqrt(v / (1.0 - b2**t)) + rule.eps)
        step = D * np.sqrt(s)
        m = b1 * m + (1.0 - b1) * sigma @ e
        e = k * e + (1.0 - k) * start - D * m
        mm = (
            b1**2 * mm
            + b1 * (1.0 - b1) * (me @ H + H @ me.T)
            + (1.0 - b1) ** 2 * cut(signal + noise)
        )
        me = b1 * me + (1.0 - b1) * H @ ee
        ee = k**2 * ee - k * step.mean() * (me + me.T) + np.mean(step**2) * mm
        me = k * me - step.mean() * mm
    return e @ sigma @ e, np.trace(H @ ee)


@pytest.mark.parametrize("name", ["adam", "adamw", "rmsprop"])
def test_it_is_the_matrix_recursion_cut_to_the_preconditioned_diagonal(name):
    problem, rates, batches = setting()
    moments = preconditioned_moments(problem, rates, batches, RULES[name], spread=False)
    for row, sizes in zip(moments, batches, strict=True):
        dense = by_matrices(problem, rates, sizes, RULES[name])
        np.testing.assert_allclose(row, dense, rtol=1e-10)


@pytest.mark.parametrize("name", ["adam", "adamw", "averaged"])
def test_it_is_the_full_mean_field_where_noise_alone_sets_v(name):
    problem, rates, batches = setting(sigma=1e5)
    full = matrix_moments(problem, rates, batches, RULES[name], spread=False)
    cheap = preconditioned_moments(problem, rates, batches, RULES[name], spread=False)
    np.testing.assert_allclose(cheap, full, rtol=1e-7)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("spread", [False, True])
def test_it_is_the_full_mean_field_in_one_direction(name, spread):
    problem, rates, batches = setting(sketch=1)
    full = matrix_moments(problem, rates, batches, RULES[name], spread=spread)
    cheap = preconditioned_moments(problem, rates, batches, RULES[name], spread=spread)
    np.testing.assert_allclose(cheap, full, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("name", RULES)
def test_it_is_near_the_full_mean_field(name):
    problem, rates, batches = setting(sketch=16)
    rule = RULES[name]
    full = matrix_moments(problem, rates, batches, rule).sum(axis=1)
    cheap = preconditioned_moments(problem, rates, batches, rule).sum(axis=1)
    generic = bl.one_pass_risk(problem, rates, batches, rule=replace(rule, basis="generic")).excess
    np.testing.assert_allclose(cheap, full, rtol=0.003)
    assert (np.abs(cheap / full - 1.0) < 0.1 * np.abs(generic / full - 1.0)).all()


@pytest.mark.parametrize("name", ["adam", "adamw", "rmsprop"])
def test_its_slopes_are_those_of_finite_differences(name):
    problem, rates, batches = setting()
    rule, shares, h = RULES[name], 1.0 / batches[0], 1e-5
    excess, slopes = preconditioned_slopes(problem, rates, batches[0], rule)
    moved = np.stack([shares + s * h * unit for unit in np.eye(STEPS) for s in (1, -1)])
    values = preconditioned_moments(problem, rates, 1.0 / moved, rule, spread=False).sum(axis=1)
    total = preconditioned_moments(problem, rates, batches[:1], rule, spread=False).sum()
    assert excess == pytest.approx(total, rel=1e-12)
    differences = (values[0::2] - values[1::2]) / (2.0 * h)
    np.testing.assert_allclose(slopes.sum(axis=0), differences, rtol=1e-5, atol=1e-9 * excess)


def test_its_slopes_split_as_those_of_full_matrices():
    problem, rates, batches = setting()
    cheap, full = (
        bl.design.sensitivity(problem, rates, batches[0], rule=replace(RULES["adam"], basis=basis))
        for basis in ("sketch-diagonal", "sketch")
    )
    for name in ("deterministic", "noise"):
        expected = getattr(full, name)
        largest = np.abs(expected).max()
        np.testing.assert_allclose(getattr(cheap, name), expected, atol=0.01 * largest)


def test_a_risk_in_this_basis_is_that_of_the_sketch_within_what_it_states():
    problem, rates, batches = setting()
    path = bl.one_pass_risk(
        problem, rates, batches, rule=bl.adam(basis="sketch-diagonal"), trajectory=True
    )
    full = bl.one_pass_risk(problem, rates, batches, rule=bl.adam(), trajectory=True)
    assert [note.kind for note in path.notes] == ["approximation"] * 2
    assert (np.asarray(path.uncertainty) > np.asarray(full.uncertainty)).all()
    np.testing.assert_allclose(path.excess, full.excess, rtol=0.003)


def test_it_is_simulated_in_the_sketch_s_coordinates():
    problem, rates, _ = setting()
    runs = [
        bl.simulate_one_pass(
            problem, rates, np.full(STEPS, 3), repetitions=3, seed=1, rule=bl.adam(basis=basis)
        ).excess
        for basis in ("sketch", "sketch-diagonal")
    ]
    assert runs[0] == runs[1]


def test_what_it_does_not_cover_is_refused():
    problem, rates, batches = setting()
    rule = replace(RULES["averaged"], basis="sketch-diagonal")
    with refused("average"):
        bl.design.sensitivity(problem, rates, batches[0], rule=rule)
    with refused("problem"):
        bl.one_pass_risk(problem.prior_mean(), rates, batches, rule=rule)


@pytest.mark.slow
def test_the_optimum_in_this_basis_is_nearly_that_of_full_matrices():
    problem, rates, _ = setting()
    rule, steps = bl.adam(0.9, 0.95), 10
    sizes = [
        bl.optimal_batches(
            problem, rates[:steps], 6 * steps, rule=replace(rule, basis=basis), stages=2
        ).batches
        for basis in ("sketch-diagonal", "sketch")
    ]
    found = matrix_moments(problem, rates[:steps], np.stack(sizes).astype(float), rule)
    excess = found.sum(axis=1)
    assert excess[0] == pytest.approx(excess[1], rel=2e-3)
