import math

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.schedule.rates import wsd_phases


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


@pytest.mark.parametrize("schedule", [bl.linear, bl.polynomial, bl.cosine, bl.step])
def test_warmup_is_a_straight_line_to_the_peak(schedule):
    rates = schedule(50, 1.0, warmup=5)
    np.testing.assert_allclose(rates[:5], np.arange(1, 6) / 5)
    np.testing.assert_allclose(schedule(50, 1.0, warmup=0.1), rates)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bl.wsd(2, 0.1), "steps must be a whole number of at least 3, got 2"),
        (lambda: bl.wsd(9, 0.1), "at least one step, a share of 0.112 of 9, got 0.1 (one step"),
        (lambda: bl.wsd(64, 0.1, 0.6), "got 38, 32, 64"),
        (lambda: bl.wsd(64, 0.1, stable=64), "got 6, 64, 64"),
        (lambda: bl.wsd(64, -0.1), "peak must be above 0.0, got -0.1"),
        (lambda: bl.wsd(64, math.nan), "peak must be finite, got nan"),
        (lambda: bl.wsd(64, math.inf), "peak must be finite, got inf"),
        (lambda: bl.wsd(64, 0.1, decay="cubic"), "decay must be one of exponential, linear"),
        (lambda: bl.wsd(64, 0.1, warmup=6.0), "a share of the steps below 1, or a whole step"),
        (lambda: bl.cosine(10, 0.1, warmup=10), "warmup must end before step 10, got 10"),
        (lambda: bl.linear(10, 0.1, final=2.0), "final must be at most 1.0, got 2.0"),
        (lambda: bl.constant(0, 0.1), "steps must be a whole number of at least 1, got 0"),
    ],
)
def test_a_bad_schedule_is_named(call, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        call()


@pytest.mark.parametrize("steps", [3, 9, 10, 64, 97, 999, 1000, 1001, 10**6])
def test_the_share_that_a_message_names_is_accepted(steps):
    with pytest.raises(ValueError, match="a share of ") as caught:
        bl.wsd(steps, 0.1, warmup=0.0)
    share = float(str(caught.value).partition("a share of ")[2].split()[0])
    assert bl.wsd(steps, 0.1, warmup=share, stable=steps - 1)[0] == 0.1
    with pytest.raises(ValueError, match="at least one step"):
        bl.wsd(steps, 0.1, warmup=0.99 / steps)


def test_the_last_exponential_rate_is_its_final_share():
    assert bl.wsd(100, 2.0, final=0.25)[-1] == pytest.approx(0.5)
    assert bl.wsd(100, 2.0, final=0.25)[74] == pytest.approx(2.0 * 0.25**0.5)
