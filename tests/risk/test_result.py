"""Risk: names of schedules, ratios, and how it is printed."""

import math

import numpy as np
import pytest

import batchlaw as bl
from batchlaw._base.uncertain import with_error
from batchlaw.risk.reshuffling import reshuffling_first_order
from refused import refused

NAMED = {"two": [2] * 10, "three": [3] * 10}
RATES = bl.wsd(10, 0.2)


@pytest.mark.parametrize(
    "solve",
    [
        lambda p, d, b: bl.one_pass_risk(p, RATES, b),
        lambda p, d, b: bl.one_pass_risk(p, RATES, b, momentum=0.5, trajectory=True),
        lambda p, d, b: bl.multi_pass_risk(p, RATES, b, samples=64),
        lambda p, d, b: bl.multi_pass_risk(p, RATES, b, samples=64, method="simple"),
        lambda p, d, b: bl.multi_pass_risk(p, RATES, b, dataset=d),
        lambda p, d, b: reshuffling_first_order(p, RATES, b, d),
        lambda p, d, b: bl.simulate_one_pass(p, RATES, b, repetitions=3, seed=0),
        lambda p, d, b: bl.simulate_multi_pass(p, RATES, b, samples=16, repetitions=3, seed=0),
        lambda p, d, b: bl.Case(p, RATES, b).solve(),
    ],
)
def test_every_solver_keeps_the_names_of_schedules(small, solve):
    dataset = small.sample(16, np.random.default_rng(0))
    assert solve(small, dataset, NAMED).schedules == ("two", "three")
    assert solve(small, dataset, list(NAMED.values())).schedules == ()
    assert solve(small, dataset, NAMED["two"]).schedules == ()


def test_a_note_names_the_schedule_that_it_is_about(small):
    rate = 0.9 * 2.0 / small.eigenvalues[0]
    batches = {"fine": [64] * 10, "coarse": [1] * 10}
    (note,) = bl.one_pass_risk(small, bl.constant(10, rate), batches).notes
    assert "of schedule coarse is above" in note
    assert (note.kind, note.schedule) == ("growth", 1)
    (row,) = bl.one_pass_risk(small, bl.constant(10, rate), list(batches.values())).notes
    assert "of schedule 1 is above" in row


def test_the_error_of_a_ratio_of_totals_is_that_of_totals(small):
    """Against the jackknife written out; the excess, without the constant parts, has another."""
    risk = bl.simulate_one_pass(small, RATES, NAMED, repetitions=7, seed=2)
    floor = risk.irreducible + risk.approximation
    totals = floor + risk.leave_one_out["bias"] + risk.leave_one_out["variance"]
    ratios = totals[0] / totals[1]
    error = math.sqrt(6 / 7 * sum((x - ratios.mean()) ** 2 for x in ratios))
    ratio, found = risk.ratio("total", "two", "three")
    assert ratio == risk.total[0] / risk.total[1]
    assert found == pytest.approx(error, rel=1e-12)
    assert found < 0.9 * risk.ratio("excess", "two", "three")[1]


def test_a_ratio_takes_names_and_rows(small):
    named = bl.one_pass_risk(small, bl.wsd(10, 0.2), {"two": [2] * 10, "three": [3] * 10})
    assert named.ratio("variance", "two", "three") == named.ratio("variance", 0, 1)
    assert named.ratio("variance", "three", 0) == named.ratio("variance", 1, 0)
    with refused("schedule"):
        named.ratio("variance", "four", "two")
    with refused("schedule"):
        bl.one_pass_risk(small, bl.wsd(10, 0.2), [[2] * 10, [3] * 10]).ratio("bias", "two", 0)


def test_a_ratio_of_trajectories_is_that_after_the_last_update(small):
    for solve in (bl.one_pass_risk, lambda *a, **k: bl.multi_pass_risk(*a, samples=64, **k)):
        path, last = (solve(small, RATES, NAMED, trajectory=every) for every in (True, False))
        for term in ("total", "excess", "bias"):
            expected = last.ratio(term, "two", "three")[0]
            assert path.ratio(term, "two", "three")[0] == pytest.approx(expected, rel=1e-9)


def test_a_ratio_refuses_parts_that_there_are_not(small):
    """A part that a solver lacks is a number 0 beside arrays, or None."""
    exact = bl.one_pass_risk(small, RATES, NAMED)
    drawn = bl.simulate_one_pass(small, RATES, NAMED, repetitions=3, seed=0)
    for risk, term in ((exact, "fluctuation"), (exact, "cross"), (drawn, "variance_noise")):
        with refused("term"):
            risk.ratio(term, "two", "three")
    whole = bl.multi_pass_risk(small, RATES, {"some": 8, "all": 64}, samples=64)
    assert whole.fluctuation[1] == 0.0
    assert whole.ratio("fluctuation", "all", "some") == (0.0, 0.0)
    with refused("term"):
        whole.ratio("fluctuation", "some", "all")


def test_a_number_under_a_name_is_a_constant_schedule(small):
    named = bl.one_pass_risk(small, RATES, {"two": 2, "rising": np.arange(1, 11)})
    assert named.schedules == ("two", "rising")
    assert named.total[0] == bl.one_pass_risk(small, RATES, 2).total
    drawn = [
        bl.simulate_one_pass(small, RATES, {"two": two}, repetitions=4, seed=1).total
        for two in (2, [2] * 10)
    ]
    assert drawn[0] == drawn[1]


def test_a_risk_names_the_values_of_its_rule(small):
    risk = bl.one_pass_risk(small, RATES, 3, momentum=0.9, average="ema:0.99")
    assert risk.procedure == "one-pass SGD with heavy-ball momentum 0.9, averaged by ema:0.99"
    several = bl.one_pass_risk(small, RATES, 3, momentum=np.full(10, 0.5), average=np.full(10, 0.1))
    assert several.procedure == "one-pass SGD with heavy-ball momentum, averaged"


def test_a_risk_shows_the_whole_first_then_its_parts(small):
    exact = bl.one_pass_risk(small, bl.wsd(10, 0.2), 3)
    assert repr(exact) == (
        f"Risk(one-pass SGD; exact: total {exact.total:.6g}, excess {exact.excess:.6g}, "
        f"irreducible 1, approximation 0.3, bias {exact.bias:.6g}, variance {exact.variance:.6g})"
    )
    several = bl.one_pass_risk(small, bl.wsd(10, 0.2), {"two": [2] * 10, "three": [3] * 10})
    assert repr(several).startswith("Risk(one-pass SGD; exact; two, three: total [")
    many = bl.one_pass_risk(small, bl.wsd(10, 0.2), {f"s{k}": 10 * [k + 1] for k in range(20)})
    assert "; s0, s1, s2, ..., s17, s18, s19: total [" in repr(many)
    assert repr(many).count("...") == 5  # the names, total, excess, bias and variance


def test_a_simulated_risk_shows_two_digits_of_every_error(small):
    """The error of the variance is 0.01 to 0.1 here; two digits of it are what is shown."""
    seen = bl.simulate_one_pass(small, bl.wsd(10, 0.2), 3, repetitions=10, seed=0)
    for term in ("total", "excess", "bias", "variance"):
        error = seen.standard_error(term)
        places = 1 - math.floor(math.log10(error))
        shown = f"{getattr(seen, term):.{places}f} ± {error:.{places}f}"
        assert f"{term} {shown}" in repr(seen)
        assert len(f"{error:.{places}f}".replace(".", "").lstrip("0")) == 2
    both = bl.simulate_one_pass(small, bl.wsd(10, 0.2), [[3] * 10] * 2, repetitions=10, seed=0)
    assert f"excess [{shown_pair(both, 'excess')}]" in repr(both)


def shown_pair(risk, term):
    values, errors = getattr(risk, term), risk.standard_error(term)
    return ", ".join(map(with_error, values, errors))


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [
        (0.11463, 0.0017, "0.1146 ± 0.0017"),
        (0.11463, 0.00201, "0.1146 ± 0.0020"),
        (-0.5, 0.0996, "-0.50 ± 0.10"),
        (1234.5, 560.0, "1230 ± 560"),
        (0.0, 0.3, "0.00 ± 0.30"),
        (1.2e-9, 3e-11, "(1.200 ± 0.030)e-09"),
        (3.0, 1e7, "(0.0 ± 1.0)e+07"),
        (1e-310, 1e-311, "(1.00 ± 0.10)e-310"),
        (1.5, 0.0, "1.5 ± 0"),
        (1.5, math.inf, "1.5 ± inf"),
    ],
)
def test_a_value_is_shown_to_the_place_of_its_errors_second_digit(value, error, shown):
    assert with_error(value, error) == shown
