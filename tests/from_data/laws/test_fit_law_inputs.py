"""What bl.fit_law refuses, and odd runs that it takes."""

import math

import numpy as np
import pytest

import batchlaw as bl
from batchlaw._base.kernels.law_states import remaining, states
from batchlaw.from_data.laws.bands import covariance
from batchlaw.from_data.laws.curves import Scale, groups
from batchlaw.from_data.laws.least_squares import Fit
from batchlaw.from_data.laws.member import Member

UPDATES = 200
AT = np.arange(10, UPDATES + 1, 10)


def run(rates, losses=None, at=AT, batch=8.0):
    clock = np.cumsum(rates)[at - 1]
    fall = 2.0 + (1.0 + clock / 0.1) ** -0.5 + 10.0 * rates[at - 1]
    sizes = np.full(rates.size, batch)
    return bl.Run(rates, sizes, at, fall if losses is None else losses, rule=bl.sgd())


def two(**changes):
    return [run(bl.constant(UPDATES, 0.01), **changes), run(bl.cosine(UPDATES, 0.01), **changes)]


@pytest.fixture(scope="module")
def law():
    return bl.fit_law(two())


@pytest.mark.parametrize("runs", [None, 3, [1, 2], two()[0]])
def test_only_lists_of_runs_are_taken(runs):
    with pytest.raises(bl.InputError, match="^runs must be"):
        bl.fit_law(runs)


def test_runs_may_come_from_a_generator(law):
    assert bl.fit_law(one for one in two()).parameters == law.parameters


def test_negative_losses_are_refused():
    with pytest.raises(bl.InputError, match="losses above 0, got -1 in run 1"):
        bl.fit_law(two(losses=np.linspace(2.0, -1.0, AT.size)))


def test_a_run_that_never_moves_is_refused():
    with pytest.raises(bl.InputError, match="rate above 0, got only zeros in run 3"):
        bl.fit_law([*two(), run(np.zeros(UPDATES))])


def test_the_rule_must_be_an_update_rule():
    with pytest.raises(bl.InputError, match="rule must be an update rule"):
        bl.fit_law(two(), rule="adam")


def test_seeds_of_one_schedule_are_not_two_schedules():
    rates = bl.cosine(UPDATES, 0.01)
    with pytest.raises(bl.InputError, match="2 different schedules, got 1"):
        bl.fit_law([run(rates), run(rates, at=AT[1::2])])


def test_a_prediction_needs_a_rate_that_moves(law):
    with pytest.raises(bl.InputError, match="rates must have one above 0"):
        law.predict(np.zeros(UPDATES), 8)


@pytest.mark.parametrize("level", [0.0, 1.0, 2.0, math.nan])
def test_levels_are_probabilities(law, level):
    rates = bl.cosine(UPDATES, 0.01)
    for ask in (
        lambda: law.predict(rates, 8, level=level),
        lambda: law.intervals(level),
        lambda: law.batch_exponent(level),
        lambda: law.difference((rates, 8), (rates[::-1], 8), level),
    ):
        with pytest.raises(bl.InputError, match="^level"):
            ask()


def test_a_parameter_on_which_nothing_depends_has_a_large_variance():
    runs = two()
    scale = Scale.of(runs)
    member = Member(bl.sgd(), scale)
    names = [p.name for p in member.shape]
    for factors, name in (([2.0, 0.0, 0.1], "delay"), ([2.0, 0.5, 0.0], "memory")):
        fit = Fit(member, member.starts()[0], np.array(factors), 0.0)
        assert np.diag(covariance(fit, groups(runs, scale)))[names.index(name)] > 1e100


def test_the_batch_exponent_of_a_law_without_a_hill_stays_in_range():
    at = AT[2:]
    runs = [
        run(bl.constant(UPDATES, 0.01), 2.0 + (1.0 + at / 50) ** -0.5, at, float(batch))
        for batch in (4, 8, 16)
    ]
    _, low, high = bl.fit_law(runs).batch_exponent()
    assert -100.0 < low <= high < 100.0


def test_states_match_their_definition():
    rates, noise = np.array([0.2, 1.0, 0.7, 0.0, 0.4]), np.array([1.0, 0.5, 2.0, 2.0, 0.25])
    steps, keep2, growth, shrink, share, lag = 3.0, 0.9, 0.05, 0.01, 0.5, 2.0
    h, norm2, expected = 1.0, 1.0, []
    weighted = []
    for t in range(rates.size):
        weighted.append(h * noise[t])
        shares = np.array([keep2 ** (t - s) for s in range(t + 1)])
        a = rates[t] / math.sqrt(shares @ weighted / shares.sum())
        e = a / math.sqrt(norm2)
        expected.append((e, h))
        norm2 = norm2 * (1.0 - shrink * rates[t]) ** (2 * steps)
        norm2 += growth * steps * a**2 * h * noise[t]
        target = (1.0 + share) / (noise[t] * max(e, 1e-3) + share)
        # A logistic curve: the odds h / (target - h) grow like exp(time / lag).
        h = target / (1.0 + (target / h - 1.0) * math.exp(-1.0 / lag))
    own = states(rates, noise, steps, keep2, growth, shrink, share, lag)
    np.testing.assert_allclose(np.transpose(own), expected, rtol=1e-12)


def test_curvature_reaches_its_target_where_a_row_is_much_longer_than_the_lag():
    _, h = states(np.ones(2), np.full(2, 4.0), 1e6, -1.0, 0.0, 0.0, 0.5, 5e-4)
    assert h[1] == pytest.approx(1.5 / 4.5, rel=1e-12)


def test_remaining_matches_its_definition():
    clock, level = np.array([0.0, 0.3, 0.5, 1.1]), np.array([1.0, 0.2, 0.6])
    scale, power = 0.1, 0.7
    places = [(0, 0.5), (2, 0.25), (3, 0.0)]  # full rows, share of the next
    padded = np.append(clock, clock[-1])
    at = np.array([clock[n] + part * (padded[n + 1] - clock[n]) for n, part in places])

    def rest(d):
        return (1.0 + d / scale) ** -power

    expected = [
        sum(
            level[r] * (rest(now - min(clock[r + 1], now)) - rest(now - clock[r]))
            for r in range(level.size)
            if clock[r] < now
        )
        for now in at
    ]
    own = remaining(at, np.array([n for n, _ in places]), clock, level, scale, power)
    np.testing.assert_allclose(own, expected, rtol=1e-12)
