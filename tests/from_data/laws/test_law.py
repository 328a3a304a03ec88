"""The law of whole loss curves: each formula against loops, fits, bands, JSON, refusals."""

import copy
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import batchlaw as bl
from batchlaw._base.kernels.law_states import SLOWEST, remaining, states
from batchlaw.from_data.laws.bands import Misfit
from batchlaw.from_data.laws.curves import Rows, Scale, groups
from batchlaw.from_data.laws.fit_law import baseline_scores
from batchlaw.from_data.laws.least_squares import fit
from batchlaw.from_data.laws.member import LAG, Member, members
from batchlaw.from_data.laws.published.momentum import MomentumLaw
from batchlaw.from_data.laws.selection import _folds, best, cross_validated, published_scores
from refused import refused

UPDATES = 400
PEAK = 0.01
PLANTED = {"power": 0.7, "delay": 0.05, "forgetting": 0.8, "memory": 0.02}
FACTORS = np.array([2.0, 1.5, 0.4])
ADAM = bl.adam(beta2=0.95)
SHAPES = {
    "cosine": bl.cosine(UPDATES, PEAK, warmup=0.02),
    "wsd": bl.wsd(UPDATES, PEAK, decay="linear", warmup=0.02),
    "constant": bl.constant(UPDATES, PEAK, warmup=0.02),
}
ALL = {
    **PLANTED,
    "growth": 4.0,
    "openness": 0.5,
    "psi": 0.6,
    "early noise": 2.0,
    "omega": 1.3,
    "theta": 0.7,
    "alpha": 0.2,
    "beta": 0.6,
}


def coordinates(member, values=ALL):
    return np.array([p.inner(values[p.name]) for p in member.shape])


def loss_of(member, rates, batches, at):
    rows = Rows.of(rates, np.broadcast_to(batches, rates.size) * 1.0, at, member.scale)
    return member.terms(rows, coordinates(member)) @ FACTORS


def planted_runs(batches, rule=ADAM, noise=1e-3, shapes=SHAPES, factor=1.0):
    """Curves of the planted law, with a little noise on every loss."""
    scale = Scale(PEAK, 16.0, UPDATES, 1)
    member = Member(rule, scale, second_moment=rule is ADAM)
    draws = np.random.default_rng(0)
    at = np.linspace(0, UPDATES, 26)[1:].astype(int)
    return [
        bl.Run(
            rates,
            np.full(rates.size, batch * factor),
            at,
            loss_of(member, rates, batch, at) + noise * draws.standard_normal(at.size),
            rule=rule,
        )
        for rates in shapes.values()
        for batch in batches
    ]


@pytest.fixture(scope="module")
def law():
    """Fitted to three schedules at one batch."""
    return bl.fit_law(planted_runs([16.0]))


@pytest.fixture(scope="module")
def batch_law():
    """Fitted to four curves: two schedules at two batches."""
    shapes = {name: SHAPES[name] for name in ("cosine", "constant")}
    return bl.fit_law(planted_runs([8.0, 32.0], shapes=shapes))


# The states of a run


def states_loop(g, x, c, keep2, growth, shrink, s, lag):
    """Averages as sums over the past, curvature as a differential equation in small steps."""
    a, e, h = [], [], [1.0]
    for t in range(len(g)):
        v = 1.0
        if keep2 >= 0.0:
            shares = [(1 - keep2) * keep2 ** (t - k) for k in range(t + 1)]
            v = sum(w * h[k] * x[k] for k, w in enumerate(shares)) / sum(shares)
        norm2 = math.prod((1 - shrink * g[k]) ** (2 * c) for k in range(t))
        for k in range(t):
            grown = growth * c * a[k] ** 2 * h[k] * x[k]
            norm2 += grown * math.prod((1 - shrink * g[j]) ** (2 * c) for j in range(k + 1, t))
        a.append(g[t] / math.sqrt(v))
        e.append(a[t] / math.sqrt(norm2))
        if s < 0.0:
            h.append(1.0)
            continue
        target = (1 + s) / (x[t] * max(e[t], SLOWEST) + s)
        now, dt = h[t], 1.0 / (200 * lag)

        def slope(y, target=target):
            return y * (1.0 - y / target)

        for _ in range(200):
            k1 = slope(now)
            k2 = slope(now + 0.5 * dt * k1)
            k3 = slope(now + 0.5 * dt * k2)
            now += dt * (k1 + 2 * k2 + 2 * k3 + slope(now + dt * k3)) / 6
        h.append(now)
    return np.array(e), np.array(h[:-1])


@pytest.mark.parametrize("keep2", [-1.0, 0.0, 0.9])
@pytest.mark.parametrize(("growth", "shrink"), [(0.0, 0.0), (0.3, 0.0), (0.3, 0.02)])
@pytest.mark.parametrize("open_share", [-1.0, 0.4])
def test_the_states_are_averages_and_a_logistic_curve(keep2, growth, shrink, open_share):
    draws = np.random.default_rng(1)
    g, x = draws.uniform(0.1, 1.0, 25), draws.uniform(0.2, 3.0, 25)
    given = 3.0, keep2, growth, shrink, open_share, 4.0
    e, h = states(g, x, *given)
    expected_e, expected_h = states_loop(g, x, *given)
    np.testing.assert_allclose(e, expected_e, rtol=1e-9)
    np.testing.assert_allclose(h, expected_h, rtol=1e-9)


def test_a_rate_of_zero_moves_nothing_and_keeps_the_states_finite():
    e, h = states(np.zeros(5), np.ones(5), 1.0, 0.9, 1.0, 0.1, 0.5, 3.0)
    assert not e.any()
    assert np.isfinite(h).all()


@pytest.mark.parametrize("power", [0.3, 1.7])
@pytest.mark.parametrize("memory", [0.003, 0.5])
def test_what_remains_is_an_integral_over_the_clock(power, memory):
    draws = np.random.default_rng(2)
    clock = np.append(0.0, np.cumsum(draws.uniform(0.01, 0.2, 12)))
    level = draws.uniform(0.1, 2.0, 12)
    rows = np.array([0, 3, 7, 11, 12])
    at = np.array([0.5 * clock[1], 0.2 * clock[3] + 0.8 * clock[4], clock[7], clock[11], clock[12]])
    nodes, weights = np.polynomial.legendre.leggauss(200)
    expected = []
    for then in at:
        total = 0.0
        for r in range(12):
            start, end = clock[r], min(clock[r + 1], then)
            if end <= start:
                continue
            # In powers of the distance, where the integrand is smooth.
            near, far = math.log1p((then - end) / memory), math.log1p((then - start) / memory)
            u = 0.5 * (far - near) * nodes + 0.5 * (far + near)
            total += level[r] * power * 0.5 * (far - near) * float(weights @ np.exp(-power * u))
        expected.append(total)
    got = remaining(at, rows, clock, level, memory, power)
    np.testing.assert_allclose(got, expected, rtol=1e-10)


# The terms of a member


def terms_loop(member, rates, batches, steps):
    """The terms as sums over updates, in the words of the module's docstring."""
    value, scale, T = ALL, member.scale, rates.size
    g, x = rates / scale.peak, scale.batch / batches
    beta2 = member.rule.beta2 if member.second_moment else -1.0
    e, h = states_loop(
        g,
        x,
        1.0,
        beta2,
        value["growth"] / scale.span if member.norm else 0.0,
        getattr(member.rule, "weight_decay", 0.0) * scale.peak if member.norm else 0.0,
        value["openness"] if member.curvature else -1.0,
        LAG,
    )
    psi = value["psi"] if member.curvature else 0.0
    early = value["early noise"] if member.early_noise else 1.0
    omega, theta = (value["omega"], value["theta"]) if member.rate_exponents else (1.0, 1.0)
    alpha, beta = (value["alpha"], value["beta"]) if member.batch_exponents else (0.0, 1.0)
    tau, clock = [0.0], [0.0]
    level = []
    for t in range(T):
        todo = (1 + tau[-1] / value["delay"]) ** -value["power"]
        level.append(e[t] ** omega * h[t] * x[t] ** beta * (1 + (early - 1) * todo))
        tau.append(tau[-1] + e[t] * h[t] ** (1 + psi) * x[t] ** -alpha / scale.span)
        clock.append(clock[-1] + e[t] ** theta * h[t] / scale.span)

    def left(distance):
        return (1 + distance / value["memory"]) ** -value["forgetting"]

    rows = []
    for n in steps:
        hill = sum(
            level[s] * (left(clock[n] - clock[s + 1]) - left(clock[n] - clock[s])) for s in range(n)
        )
        rows.append((1.0, (1 + tau[n] / value["delay"]) ** -value["power"], hill))
    return np.array(rows)


FLAGS = [
    {},
    {"batch_exponents": True},
    {"norm": True, "rate_exponents": True, "batch_exponents": True},
    {"second_moment": True},
    {"second_moment": True, "norm": True},
    {"second_moment": True, "norm": True, "curvature": True, "early_noise": True},
]


@pytest.mark.parametrize("flags", FLAGS, ids=lambda flags: " ".join(flags) or "plain")
def test_the_terms_are_sums_over_updates(flags):
    rule = bl.adam(beta2=0.9, weight_decay=0.5)
    rates = bl.wsd(40, 0.02, decay="linear", final=0.1)
    batches = np.where(np.arange(40) < 25, 4.0, 12.0)
    member = Member(rule, Scale(0.02, 8.0, 40, 1), **flags)
    steps = np.array([1, 7, 25, 26, 40])
    got = member.terms(Rows.of(rates, batches, steps, member.scale), coordinates(member))
    np.testing.assert_allclose(got, terms_loop(member, rates, batches, steps), rtol=1e-8)


def test_sgd_has_the_noise_of_the_paper():
    """C sum_s g_s^2 / B_s (1 + (x_n - x_s) / r_0)^-q, up to the width of an update."""
    T = 2000
    member = Member(bl.sgd(), Scale(1.0, 1.0, T, 1))
    rates = bl.cosine(T, 1.0, final=0.2)
    batches = np.where(np.arange(T) < 900, 1.0, 3.0)
    hill = member.terms(Rows.of(rates, batches, np.array([T]), member.scale), coordinates(member))
    f, r0 = PLANTED["forgetting"], PLANTED["memory"]
    behind = np.append(np.cumsum(rates[:0:-1])[::-1], 0.0) + 0.5 * rates
    kernel = f / r0 * (1 + behind / T / r0) ** -(f + 1)
    assert hill[0, 2] == pytest.approx(float(rates**2 / batches @ kernel) / T, rel=1e-3)


def test_merged_rows_change_a_smooth_run_little():
    rates = bl.cosine(2000, 1.0, warmup=0.05)
    steps = np.array([500, 1203, 2000])
    curves = []
    for merged in (1, 5):
        member = Member(
            ADAM, Scale(1.0, 8.0, 2000, merged), second_moment=True, norm=True, curvature=True
        )
        curves.append(loss_of(member, rates, 8.0, steps))
    np.testing.assert_allclose(curves[1], curves[0], rtol=2e-3)


@given(
    factor=st.floats(1e-4, 1e4),
    unit=st.floats(1e-3, 1e3),
    which=st.integers(0, len(FLAGS) - 1),
    seed=st.integers(0, 99),
)
def test_units_of_rates_and_batches_do_not_matter(factor, unit, which, seed):
    draws = np.random.default_rng(seed)
    rates, batches = draws.uniform(0.1, 1.0, 30), draws.uniform(1.0, 9.0, 30)
    at = np.array([10, 20, 30])
    losses = draws.uniform(1.0, 2.0, 3)
    terms = []
    for c, u in ((1.0, 1.0), (factor, unit)):
        # Weight decay acts by rate times decay.
        rule = bl.adam(beta2=0.9, weight_decay=0.01 / u)
        scale = Scale.of([bl.Run(u * rates, c * batches, at, losses)])
        member = Member(rule, scale, **FLAGS[which])
        rows = Rows.of(u * rates, c * batches, at, scale)
        terms.append(member.terms(rows, coordinates(member)))
    np.testing.assert_allclose(terms[1], terms[0], rtol=1e-9)


# Fits


def test_a_planted_law_of_several_batches_is_recovered():
    runs = planted_runs([4.0, 16.0, 64.0], noise=1e-4)
    scale = Scale.of(runs)
    found = fit(Member(ADAM, scale, second_moment=True), groups(runs, scale))
    value = found.member.values(found.coordinates)
    for name, planted in PLANTED.items():
        assert value[name] == pytest.approx(planted, rel=0.08), name
    np.testing.assert_allclose(found.factors, FACTORS, rtol=0.02)


@pytest.mark.slow
def test_an_unseen_schedule_is_predicted_and_adam_is_told_from_sgd():
    runs = planted_runs([8.0, 32.0])
    law = bl.fit_law(runs)
    assert law.member.second_moment
    assert law.held_out[law.member.name] < 0.004 < law.held_out["SGD's clock"]
    rates, batches = bl.cosine(UPDATES, 0.8 * PEAK), np.repeat([10.0, 20.0], UPDATES // 2)
    truth = Member(ADAM, Scale(PEAK, 16.0, UPDATES, 1), second_moment=True)
    expected = float(loss_of(truth, rates, batches, np.array([UPDATES]))[0])
    loss, low, high = law.predict(rates, batches).final
    assert loss == pytest.approx(expected, abs=0.003)
    assert low < expected < high
    change, low, high = law.difference((rates, batches), (rates, 15.0))
    other = float(loss_of(truth, rates, 15.0, np.array([UPDATES]))[0])
    assert change == pytest.approx(expected - other, abs=0.002)
    assert low < change < high


@pytest.mark.slow
def test_the_form_is_chosen_by_schedules_left_out_and_not_by_the_fit():
    runs = planted_runs([16.0], noise=0.01)
    scale = Scale.of(runs)
    found = groups(runs, scale)
    candidates = [cross_validated(m, found) for m in members(ADAM, scale, several_batches=False)]
    chosen = best(candidates)
    assert chosen.score == min(c.score for c in candidates)
    for c in (candidates[0], chosen):
        for i, g in enumerate(found):
            others = [h for k, h in enumerate(found) if k != i]
            again = fit(c.fit.member, others, [c.fit.coordinates])
            error = (again.curve(g) - g.losses)[g.steps >= 0.7 * UPDATES]
            assert c.held_out[i] == pytest.approx(math.sqrt(np.mean(error**2)), rel=1e-6)


@pytest.mark.slow
def test_seeds_of_a_schedule_are_averaged_and_give_the_spread_of_a_band():
    one, other = planted_runs([16.0]), planted_runs([16.0], noise=0.02)
    law = bl.fit_law([*one, *other])
    assert (law.seen.runs, law.seen.schedules) == (6, 3)
    ends = np.array([[a.final_loss, b.final_loss] for a, b in zip(one, other, strict=True)])
    assert law.misfit.seeds == pytest.approx(math.sqrt(np.mean(np.var(ends, axis=1, ddof=1))))


def test_a_schedule_measured_at_other_steps_is_left_out_with_its_other_runs():
    runs = planted_runs([16.0])
    late = bl.Run(SHAPES["wsd"], 16, runs[1].steps[3:], runs[1].losses[3:], rule=ADAM)
    found = groups([*runs, late], Scale.of(runs))
    assert len(found) == 4
    assert [sorted(fold) for fold in _folds(found)] == [[0], [1, 3], [2]]
    assert bl.fit_law([*runs, late]).seen.schedules == 3


def test_runs_in_other_units_have_the_same_law(law):
    other = bl.fit_law(planted_runs([16.0], factor=7.0))
    np.testing.assert_allclose(other.fit.coordinates, law.fit.coordinates, rtol=1e-6)
    assert other.held_out == pytest.approx(law.held_out, rel=1e-6)


def test_an_optimizer_may_be_given_where_the_runs_have_none(law):
    bare = [bl.Run(r.rates, r.batches, r.steps, r.losses) for r in planted_runs([16.0])]
    assert bl.fit_law(bare, rule=ADAM).to_json() == law.to_json()


def test_it_says_what_runs_do_not_identify(law, batch_law):
    notes = " ".join(law.unidentified)
    assert "one batch size" in notes
    assert "peak rate" in notes
    assert "no run changes its batch" in " ".join(batch_law.unidentified)
    assert "one batch size" not in " ".join(batch_law.unidentified)


def test_a_batch_exponent_that_is_planted_is_reported(batch_law):
    truth = Member(ADAM, Scale(PEAK, 16.0, UPDATES, 1), second_moment=True)
    rates, at = np.full(UPDATES, PEAK), np.array([UPDATES])
    hill = [
        truth.terms(Rows.of(rates, np.full(UPDATES, b), at, truth.scale), coordinates(truth))[0, 2]
        for b in (15.0, 17.0)
    ]
    expected = math.log(hill[0] / hill[1]) / math.log(17.0 / 15.0)
    beta, low, high = batch_law.batch_exponent()
    assert beta == pytest.approx(expected, abs=0.08)
    assert low <= beta <= high


# Predictions


@given(
    level=st.floats(0.05, 0.999),
    peak=st.floats(1e-4, 0.1),
    length=st.integers(5, 900),
    batch=st.floats(0.5, 500.0),
)
def test_a_band_contains_the_prediction_and_grows_with_its_level(
    batch_law, level, peak, length, batch
):
    rates = bl.linear(length, peak)
    narrow, wide = (batch_law.predict(rates, batch, level=p) for p in (0.8 * level, level))
    assert np.isfinite([wide.low, wide.losses, wide.high]).all()
    assert (wide.low < wide.losses).all()
    assert (wide.losses < wide.high).all()
    assert (wide.low <= narrow.low).all()
    np.testing.assert_array_equal(wide.losses, narrow.losses)
    np.testing.assert_allclose(wide.losses, batch_law.curve(rates, batch, wide.steps), rtol=1e-12)


def width(prediction):
    _, low, high = prediction.final
    return high - low


def test_what_no_run_has_shown_widens_the_band_and_is_said(batch_law):
    known = batch_law.predict(SHAPES["cosine"], 16.0)
    assert known.notes == ()
    longer = batch_law.predict(bl.cosine(4 * UPDATES, PEAK), 16.0)
    higher = batch_law.predict(bl.cosine(UPDATES, 8 * PEAK), 16.0)
    larger = batch_law.predict(SHAPES["cosine"], 1024.0)
    changed = batch_law.predict(SHAPES["cosine"], np.repeat([8.0, 32.0], UPDATES // 2))
    for strange, what in (
        (longer, "updates beyond the runs by a factor of 4"),
        (higher, "peak rate beyond the runs by a factor of 8"),
        (larger, "batch beyond the runs by a factor of 32"),
        (changed, "change of the batch within a run beyond the runs by a factor of 4"),
    ):
        assert strange.notes == (what,)
        assert width(strange) > width(known)


def test_a_band_has_parameters_misfit_and_seeds(batch_law):
    rates, z = SHAPES["cosine"], 1.6448536269514722
    got = batch_law.predict(rates, 16.0, steps=[UPDATES])
    x, member = batch_law.fit.coordinates, batch_law.member
    rows = Rows.of(rates, np.full(UPDATES, 16.0), np.array([UPDATES]), member.scale)
    base = member.terms(rows, x) @ batch_law.fit.factors
    slope = []
    for j in range(x.size):
        up, down = x.copy(), x.copy()
        up[j] += 1e-5
        down[j] -= 1e-5
        moved = [float((member.terms(rows, y) @ batch_law.fit.factors)[0]) for y in (up, down)]
        slope.append((moved[0] - moved[1]) / 2e-5)
    slope = np.array([*slope, *member.terms(rows, x)[0]])
    misfit = batch_law.misfit.at(UPDATES, PEAK)
    half = z * math.sqrt(slope @ batch_law.covariance @ slope + misfit**2)
    assert got.losses[0] == pytest.approx(float(base[0]), rel=1e-12)
    assert got.high[0] - got.losses[0] == pytest.approx(half, rel=1e-3)


def test_the_misfit_is_that_of_runs_nearby():
    misfit = Misfit(
        np.array([100.0, 1e4]), np.array([0.1, 0.1]), np.array([0.01, 1.0]), np.ones(2) * 0.04, 0.0
    )
    assert misfit.at(100, 0.1) == pytest.approx(math.sqrt(0.01 * 0.04), rel=1e-3)
    assert misfit.at(1e4, 0.1) == pytest.approx(math.sqrt(1.0 * 0.04), rel=1e-3)


def test_equal_schedules_do_not_differ(batch_law):
    assert batch_law.difference((SHAPES["wsd"], 8), (SHAPES["wsd"], 8)) == (0.0, 0.0, 0.0)


def test_intervals_contain_the_parameters(batch_law):
    for name, (low, high) in batch_law.intervals(0.5).items():
        assert low <= batch_law.parameters[name] <= high
        wide = batch_law.intervals(0.99)[name]
        assert wide[0] <= low
        assert high <= wide[1]


# JSON


def test_a_law_from_its_json_predicts_the_same(batch_law):
    text = batch_law.to_json()
    again = bl.TrainingLaw.from_json(text)
    assert again.to_json() == text
    assert str(again) == str(batch_law)
    batches = np.repeat([8.0, 48.0], UPDATES // 2)
    ours, theirs = (x.predict(SHAPES["wsd"], batches) for x in (batch_law, again))
    for name in ("losses", "low", "high"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert again.batch_exponent() == batch_law.batch_exponent()


def used(text):
    """Read a law and use it; the field that is refused, if any. Nothing else may be raised."""
    try:
        law = bl.TrainingLaw.from_json(text)
    except bl.InputError as error:
        return error.field
    with np.errstate(all="ignore"):
        str(law.predict(SHAPES["cosine"], 16.0))
        law.intervals()
        if law.member.scale.span <= 10_000:
            str(law)
    return None


@given(data=st.data())
def test_a_law_cut_or_with_other_letters_is_refused_or_works(batch_law, data):
    text = batch_law.to_json()
    at = data.draw(st.integers(0, len(text) - 1))
    length = data.draw(st.sampled_from([1, 1, 2, 30, 10**6]))
    new = data.draw(st.sampled_from(["", "9", "-", "e9", "0", '"', "}", "[", "null", "\0", "é"]))
    assert used(text[:at] + new + text[at + length :]) in (None, "law")


STRANGE = [
    None, True, -1, 0, 1, 10**400, -1e-3, 1e58, 1e-58, 1e200, math.inf, math.nan, "", "x", [], {},
    [1.0], {"a": 1}, 0.5,
]  # fmt: skip


def leaves(value, path=()):
    yield path
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from leaves(item, (*path, key))


@given(data=st.data())
def test_a_law_with_a_value_that_is_no_law_is_refused_or_works(batch_law, data):
    document = json.loads(batch_law.to_json())
    path = data.draw(st.sampled_from(list(leaves(document))[1:]))
    place = document
    for key in path[:-1]:
        place = place[key]
    if data.draw(st.booleans()):
        place[path[-1]] = data.draw(st.sampled_from(STRANGE))
    else:
        del place[path[-1]]
    assert used(json.dumps(document)) in (None, "law")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), 2),
        (("schema",), True),
        (("rule", "name"), "lion"),
        (("rule", "options", "beta2"), 2.0),
        (("rule", "options", "beta3"), 0.1),
        (("scale", "span"), 1e9),
        (("scale", "steps"), 0),
        (("scale", "peak"), 0.0),
        (("member", "norm"), 1),
        (("coordinates", 0), 99.0),
        (("factors", 0), -1.0),
        (("covariance", 0, 0), -1.0),
        (("covariance", 0, 1), 1e3),
        (("misfit", "length", 0), 0.0),
        (("misfit", "seeds"), math.nan),
        (("seen", "runs"), 1.5),
        (("held_out",), {}),
        (("unidentified",), [1]),
    ],
)
def test_each_part_of_a_law_is_checked(batch_law, path, value):
    document = copy.deepcopy(json.loads(batch_law.to_json()))
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with refused("law"):
        bl.TrainingLaw.from_json(json.dumps(document))


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", "null", "[" * 10**5, '{"schema": 1}', None])
def test_a_text_that_is_no_law_is_refused(text):
    with refused("law"):
        bl.TrainingLaw.from_json(text)


# Refusals; the sentences are in tests/refusals.txt


def with_rule(run, rule):
    return bl.Run(run.rates, run.batches, run.steps, run.losses, rule=rule)


def with_losses(run, losses):
    return bl.Run(run.rates, run.batches, run.steps, losses, rule=run.rule)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda runs: [with_losses(run, -run.losses) for run in runs],
        lambda runs: [runs[0], bl.Run(SHAPES["cosine"], 16, [99, 200, 300], [3.0, 2.9, 2.8])],
        lambda runs: runs[0],
        lambda runs: [],
        lambda runs: runs[:1],
        lambda runs: [runs[0], runs[0]],
        lambda runs: [*runs, "run.csv"],
        lambda runs: [runs[0], with_rule(runs[1], bl.sgd())],
        lambda runs: [runs[0], with_rule(runs[1], bl.adam(beta2=0.99))],
        lambda runs: [runs[0], bl.Run(SHAPES["wsd"], 8, [1, 2, 3], [3.0, 2.9, 2.8], rule=ADAM)],
        lambda runs: [runs[0], bl.Run(np.zeros(40), 8, [20, 30, 40], [3.0, 2.9, 2.8], rule=ADAM)],
    ],
    ids=[
        "below 0",
        "other steps",
        "one run",
        "none",
        "few",
        "one schedule",
        "text",
        "rules",
        "betas",
        "early",
        "rates 0",
    ],
)
def test_runs_that_cannot_be_fitted_are_refused(spoil):
    with refused("runs"):
        bl.fit_law(spoil(planted_runs([16.0])))


def test_runs_without_an_optimizer_are_refused():
    with refused("rule"):
        bl.fit_law([with_rule(run, None) for run in planted_runs([16.0])])


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("rates", ([], 8)),
        ("rates", (np.zeros(9), 8)),
        ("rates", ([0.1, -0.1], 8)),
        ("batches", (np.ones(9), [8] * 8)),
        ("batches", (np.ones(9), 0)),
        ("batches", (np.ones(9), np.ones((2, 9)))),
        ("steps", (np.ones(9), 8, [10])),
        ("steps", (np.ones(9), 8, [1.5])),
    ],
)
def test_schedules_that_are_none_are_refused(batch_law, field, arguments):
    rates, batches, *steps = arguments
    with refused(field):
        batch_law.predict(rates, batches, steps=steps[0] if steps else None)


@pytest.mark.parametrize("level", [0.0, 1.0, math.nan, "most"])
def test_a_level_that_is_no_probability_is_refused(batch_law, level):
    with refused("level"):
        batch_law.predict(SHAPES["wsd"], 8, level=level)
    with refused("level"):
        batch_law.intervals(level)
    with refused("level"):
        batch_law.batch_exponent(level)
    with refused("level"):
        batch_law.difference((SHAPES["wsd"], 8), (SHAPES["wsd"], 9), level)


# Published laws in the same folds


def test_published_laws_are_scored_on_the_schedules_left_out():
    runs = planted_runs([16.0], rule=bl.sgd())
    found = groups(runs, Scale.of(runs))
    law = MomentumLaw()
    seen = [bl.Run(g.run.rates, g.run.batches, g.steps, g.losses) for g in found]
    full, squares = law.fit(seen), []
    for i, run in enumerate(seen):
        again = law.fit([r for k, r in enumerate(seen) if k != i], starts=[full.theta])
        late = run.steps >= 0.7 * UPDATES
        error = (again.curve(run.rates, run.batches, run.steps) - run.losses)[late]
        squares.append(np.mean(error**2))
    expected = math.sqrt(np.mean(squares))
    assert published_scores([law], found) == {law.name: pytest.approx(expected, rel=1e-9)}


def test_a_published_law_that_cannot_be_fitted_says_why():
    runs = [
        bl.Run(rates, 8, [200, 300, 400], [3.0, 2.5, 2.4], rule=ADAM)
        for rates in (SHAPES["wsd"], SHAPES["cosine"])
    ]
    found = groups([with_losses(r, -r.losses) for r in runs], Scale.of(runs))
    assert "positive" in published_scores([MomentumLaw()], found)["momentum law"]


@pytest.mark.slow
def test_all_published_laws_and_the_own_theory_have_a_score():
    runs = planted_runs([16.0], shapes={n: SHAPES[n] for n in ("wsd", "constant")})
    scores = baseline_scores(runs)
    assert len(scores) == 6
    assert all(0.0 < score < math.inf for score in scores.values())
    assert scores["momentum law"] < 0.02
    averaged = [with_rule(run, bl.adam(average="tail:0.1")) for run in runs]
    assert isinstance(baseline_scores(averaged)["mechanistic law"], str)
