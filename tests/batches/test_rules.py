"""Rules that people use against loops, by hand, and at equal samples."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import batchlaw as bl
from batchlaw.batches.rules import RULES, ChangesRates, FollowsNoise, KeepsRates, rules_of
from paths import DOCS

RATES = bl.wsd(40, 0.3)
# A position in the run, its last, and a rate with those to come -> the batch, up to a factor.
SHAPES = {
    "constant": lambda t, T, rate, to_come: 1.0,
    "linear ramp": lambda t, T, rate, to_come: t,
    "late-large": lambda t, T, rate, to_come: 8.0 if t > 0.75 * T else 1.0,
    "early-large": lambda t, T, rate, to_come: T - t + 1,
    "like the rate": lambda t, T, rate, to_come: rate,
    "batch doubling": lambda t, T, rate, to_come: 2 ** (4 * (t - 1) // T),
    "Li-Bu-Xu": lambda t, T, rate, to_come: rate / math.sqrt(sum(to_come)),
}
# Exponent of a cut's factor by which the rate falls.
TRADES = {
    "Seesaw": (2.0, 0.5),
    "Seesaw, cuts of 1.1": (1.1, 0.5),
    "batch doubling, no decay": (2.0, 0.0),
}
any_rates = st.one_of(
    st.lists(st.floats(1e-6, 10.0), min_size=1, max_size=60).map(np.array),
    st.builds(bl.cosine, st.integers(2, 60), st.floats(0.01, 3.0)),
)


def test_the_kinds_cover_the_registry_and_each_name_stands_once():
    kinds = [rules_of(kind) for kind in (KeepsRates, FollowsNoise, ChangesRates)]
    assert [name for kind in kinds for name in kind] == list(RULES)
    assert all(name == rule.name for name, rule in RULES.items())
    assert set(SHAPES) == set(kinds[0])


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_are_those_of_their_loops(name):
    T = RATES.size
    loop = [SHAPES[name](t, T, RATES[t - 1], RATES[t - 1 :]) for t in range(1, T + 1)]
    shape = RULES[name].shape(RATES)
    np.testing.assert_allclose(shape / shape.sum(), np.array(loop) / sum(loop), rtol=1e-12)


@given(st.sampled_from(list(RULES)), any_rates, st.integers(0, 500))
def test_every_rule_spends_the_samples_in_whole_batches(name, rates, extra):
    samples = rates.size + extra
    noise = np.linspace(1.0, 50.0, rates.size)
    own = RULES[name].schedule(rates, samples, noise)
    assert own.batches.dtype == np.int64
    assert own.batches.sum() == samples
    assert own.batches.min() >= 1
    assert own.rates.size == own.batches.size <= rates.size
    assert own.rates.max() <= rates.max()
    if name not in rules_of(ChangesRates):
        assert own.rates is rates


def _traded(rates, samples, factor, fall):
    """By a trainer that counts samples and compares the rate with that of the last cut."""
    each = Fraction(samples, rates.size)
    at, level, k, peak, own, batches = Fraction(0), 0.0, 0, 0.0, [], []
    seen = -1
    while at < rates.size:
        for position in range(seen + 1, int(at) + 1):
            rate = rates[position]
            peak = max(peak, rate)
            level = max(level, peak / factor**k)
            while 0.0 < rate <= level / factor * (1.0 + 1e-9):
                level, k = level / factor, k + 1
        seen = int(at)
        own.append(peak / factor ** (fall * k))
        end = min(at + Fraction(str(factor)) ** k, Fraction(rates.size))
        batches.append(math.floor(end * each) - math.floor(at * each))
        at = end
    return np.array(own), np.array(batches)


@pytest.mark.parametrize("name", TRADES)
@given(rates=any_rates, extra=st.integers(0, 300))
def test_trades_are_those_of_a_trainer_that_counts_samples(name, rates, extra):
    factor, fall = TRADES[name]
    loop_rates, loop_batches = _traded(rates, rates.size + extra, factor, fall)
    own = RULES[name].schedule(rates, rates.size + extra)
    some = loop_batches > 0
    assert own.batches.size == some.sum()
    np.testing.assert_allclose(own.rates, loop_rates[some], rtol=1e-6)
    np.testing.assert_array_equal(own.batches, loop_batches[some])


def test_seesaw_on_rates_that_fall_by_steps_by_hand():
    own = RULES["Seesaw"].schedule(np.repeat([1.0, 0.5, 0.25], 8), 96)
    np.testing.assert_array_equal(own.batches, [4] * 8 + [8] * 4 + [16] * 2)
    np.testing.assert_allclose(own.rates, [1.0] * 8 + [math.sqrt(0.5)] * 4 + [0.5] * 2, rtol=1e-15)


def test_one_fall_by_ten_is_three_halvings():
    own = RULES["Seesaw"].schedule(np.repeat([1.0, 0.1], 8), 32)
    np.testing.assert_array_equal(own.batches, [2] * 8 + [16])
    assert own.rates[-1] == pytest.approx(2.0**-1.5)


def test_seesaw_keeps_warmup_and_never_takes_a_cut_back():
    own = RULES["Seesaw"].schedule(np.array([0.0, 0.5, 1.0, 0.5, 1.0, 1.0]), 6)
    np.testing.assert_array_equal(own.batches, [1, 1, 1, 2, 1])
    np.testing.assert_allclose(own.rates, [0.0, 0.5, 1.0, math.sqrt(0.5), math.sqrt(0.5)])


def test_seesaw_in_fine_cuts_makes_the_steps_of_the_continuous_limit():
    # The batch is inversely proportional to a rate cos(pi t / 2), whose mean is 2 / pi.
    rates = np.cos(0.5 * np.pi * np.arange(20_000) / 20_000)
    own = RULES["Seesaw, cuts of 1.1"].schedule(rates, 20_000 * 8)
    assert own.rates.size / rates.size == pytest.approx(2.0 / math.pi, abs=0.04)


def test_doubling_with_half_the_rate_has_four_stages_after_warmup():
    own = RULES["batch doubling, rate halved"].schedule(np.array([0.5] + [1.0] * 7), 60)
    np.testing.assert_array_equal(own.batches, [2, 2, 4, 4, 8, 8, 16, 16])
    np.testing.assert_allclose(own.rates, [0.5, 1.0, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125])


def test_noise_that_is_infinite_counts_as_the_largest():
    own = RULES["noise scale"].schedule(np.ones(4), 40, np.array([1.0, 3.0, 3.0, np.inf]))
    np.testing.assert_array_equal(own.batches, [4, 12, 12, 12])


def test_every_rule_has_a_row_on_the_page_of_rules():
    rows = (DOCS / "rules.md").read_text()
    for name, rule in RULES.items():
        assert f"| {name} | {rule.summary} |" in rows
