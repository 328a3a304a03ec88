import math

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.schedule.rates import wsd_phases
from refused import refused


@pytest.mark.parametrize("J", [10, 64, 512, 1000])
def test_wsd_is_the_paper_schedule(J):
    gamma, w, s = 0.05, math.floor(0.1 * J), math.floor(0.5 * J)
    expected = [
        gamma * t / w
        if t <= w
        else gamma
        if t <= s
        else gamma * math.exp(-(t - s) * math.log(J) / (J - s))
        for t in range(1, J + 1)
    ]
    np.testing.assert_allclose(bl.wsd(J, gamma), expected, rtol=1e-13)
    assert bl.wsd(J, gamma)[-1] == pytest.approx(gamma / J, rel=1e-12)


def test_the_phases_of_the_paper_are_51_and_256():
    assert wsd_phases(512) == (51, 256)
    assert wsd_phases(64) == (6, 32)


def test_phases_may_be_shares_or_steps():
    np.testing.assert_array_equal(bl.wsd(100, 1.0, 0.29, 0.5), bl.wsd(100, 1.0, 29, 50))


@pytest.mark.parametrize(("decay", "shape"), [("linear", lambda x: x), ("1-sqrt", np.sqrt)])
def test_wsd_decays_to_its_final_share(decay, shape):
    rates = bl.wsd(100, 2.0, 10, 60, decay=decay)
    x = np.arange(1, 41) / 40
    np.testing.assert_allclose(rates[60:], 2.0 * (1 - shape(x)), atol=1e-15)
    assert bl.wsd(100, 2.0, 10, 60, decay=decay, final=0.1)[-1] == pytest.approx(0.2)
    assert (rates[9:60] == 2.0).all()


def test_the_other_schedules_follow_their_formulas():
    t = np.arange(1, 11)
    x = (t - 1) / 9
    np.testing.assert_array_equal(bl.constant(10, 0.3), np.full(10, 0.3))
    np.testing.assert_allclose(bl.linear(10, 0.3), 0.3 * (1 - x), atol=1e-16)
    np.testing.assert_allclose(bl.linear(10, 0.3, final=0.5), 0.3 * (1 - x / 2))
    np.testing.assert_allclose(bl.polynomial(10, 0.3, 3.0), 0.3 * (1 - x) ** 3, atol=1e-16)
    np.testing.assert_allclose(bl.cosine(10, 0.3), 0.15 * (1 + np.cos(np.pi * x)), atol=1e-16)
    np.testing.assert_allclose(bl.step(10, 1.0, (5, 8)), [1.0] * 5 + [0.1] * 3 + [0.01] * 2)
    np.testing.assert_allclose(bl.step(10, 1.0, ()), np.ones(10))


@pytest.mark.parametrize("schedule", [bl.linear, bl.polynomial, bl.cosine, bl.step, bl.constant])
def test_warmup_is_a_straight_line_to_the_peak(schedule):
    rates = schedule(50, 1.0, warmup=5)
    np.testing.assert_allclose(rates[:5], np.arange(1, 6) / 5)
    np.testing.assert_allclose(schedule(50, 1.0, warmup=0.1), rates)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: bl.wsd(2, 0.1), "steps"),
        (lambda: bl.wsd(9, 0.1), "warmup"),
        (lambda: bl.wsd(64, 0.1, 0.6), "stable"),
        (lambda: bl.wsd(64, 0.1, stable=64), "stable"),
        (lambda: bl.wsd(64, -0.1), "peak"),
        (lambda: bl.wsd(64, math.nan), "peak"),
        (lambda: bl.wsd(64, math.inf), "peak"),
        (lambda: bl.wsd(64, 0.1, decay="cubic"), "decay"),
        (lambda: bl.wsd(64, 0.1, warmup=6.0), "warmup"),
        (lambda: bl.cosine(10, 0.1, warmup=10), "warmup"),
        (lambda: bl.linear(10, 0.1, final=2.0), "final"),
        (lambda: bl.constant(0, 0.1), "steps"),
    ],
)
def test_a_bad_schedule_is_named(call, field):
    with refused(field):
        call()


@pytest.mark.parametrize("steps", [3, 9, 10, 64, 97, 999, 1000, 1001, 10**6])
def test_the_share_that_a_refusal_names_is_accepted(steps):
    with refused("warmup") as caught:
        bl.wsd(steps, 0.1, warmup=0.99 / steps)
    share = float(caught.value.needed.partition("a share of ")[2].split()[0])
    assert bl.wsd(steps, 0.1, warmup=share, stable=steps - 1)[0] == 0.1


def test_a_warmup_of_zero_is_none():
    for warmup in (0, 0.0):
        rates = bl.wsd(9, 0.3, warmup=warmup, stable=4)
        np.testing.assert_array_equal(rates[:4], 0.3)
        np.testing.assert_array_equal(rates, bl.wsd(9, 0.3, warmup=1, stable=4))
    assert wsd_phases(9, 0, 4) == (0, 4)


def test_the_cosine_decay_of_wsd_is_half_a_cosine():
    x = np.arange(1, 41) / 40
    rates = bl.wsd(100, 2.0, 10, 60, decay="cosine", final=0.1)
    np.testing.assert_allclose(rates[60:], 2.0 * (0.1 + 0.9 * (1 + np.cos(np.pi * x)) / 2))
    assert rates[-1] == pytest.approx(0.2)


def test_the_last_exponential_rate_is_its_final_share():
    assert bl.wsd(100, 2.0, final=0.25)[-1] == pytest.approx(0.5)
    assert bl.wsd(100, 2.0, final=0.25)[74] == pytest.approx(2.0 * 0.25**0.5)
