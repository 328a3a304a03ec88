"""Published laws of loss curves: their formulas as loops, and fits to curves that they made."""

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.from_data.laws.published import PUBLISHED, descent, pieces
from batchlaw.from_data.laws.published.base import warmup
from batchlaw.from_data.laws.published.descent import MultiPowerDescent
from batchlaw.from_data.laws.published.forcing_memory import ForcingMemoryLaw
from batchlaw.from_data.laws.published.functional import FunctionalScalingLaw
from batchlaw.from_data.laws.published.momentum import MomentumLaw
from batchlaw.from_data.laws.published.multi_power import MultiPowerLaw
from refused import refused

# Parameters of the size that fits of language models find, for a peak of 3e-4.
THETA = {
    MultiPowerLaw: [3.0, 0.5, 0.5, 400.0, 2.0, 0.6, 0.6],
    MomentumLaw: [3.1, 0.5, 0.5, 0.8, 0.998],
    FunctionalScalingLaw: [3.1, 0.5, 0.5, 60.0, 2.0, 200.0, 0.7],
    ForcingMemoryLaw: [3.0, 1.5, 0.8, 3e5, 1e5, 300.0, 1.2],
}
LAWS = [law for law in PUBLISHED if type(law) in THETA]
by_law = pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)


def ramp(warm, peak, rates):
    """Rates after a linear warmup, and a batch that doubles halfway."""
    rates = np.append(peak * np.arange(1, warm + 1) / warm, rates)
    return rates, np.where(np.arange(rates.size) < rates.size // 2, 1.0, 2.0)


def cosine(length, peak=3e-4, low=0.1):
    along = np.arange(1, length + 1) / length
    return peak * (low + 0.5 * (1 - low) * (1 + np.cos(np.pi * along)))


def run_of(law, rates, batches, every=50):
    at = np.arange(every, rates.size + 1, every)
    return bl.Run(rates, batches, at, law.curve(THETA[type(law)], rates, batches, at))


def three_runs(law, warm=200, length=3000):
    half = length // 2
    shapes = [
        cosine(length),
        np.full(length, 3e-4),
        np.append(np.full(half, 3e-4), np.full(half, 9e-5)),
    ]
    return [run_of(law, *ramp(warm, 3e-4, shape)) for shape in shapes]


def multi_power_loop(theta, g, batches, n):
    level, a, alpha, b, c, beta, gamma = theta
    gain = 0.0
    for k in range(2, n + 1):
        since = sum(g[k:n], g[k - 1])
        gain += (g[k - 2] - g[k - 1]) * (1 - (1 + c * g[k - 1] ** -gamma * since) ** -beta)
    return level + a * sum(g[:n]) ** -alpha - b * gain


def momentum_loop(theta, g, batches, n):
    level, a, alpha, c, memory = theta
    momentum = area = 0.0
    for i in range(2, n + 1):
        momentum = memory * momentum + g[i - 2] - g[i - 1]
        area += momentum
    return level + a * sum(g[:n]) ** -alpha - c * area


def functional_loop(theta, g, batches, n):
    level, c1, s, c2, c3, c4, gamma = theta
    gain = 0.0
    for i in range(warmup(g) + 1, n + 1):
        time, since = sum(g[:i]), sum(g[i:n])
        gain += (g[i - 2] - g[i - 1]) * (c3 + time**-s) * (1 - (1 + c4 * since) ** -gamma)
    return level + c1 * sum(g[:n]) ** -s - c2 * gain


def forcing_memory_loop(theta, g, batches, n):
    """The integral by the rule of the middle, which is exact enough for small rates."""
    level, forcing, q, a0, a1, c, memory = theta
    noise = 0.0
    for k in range(n):
        before, since = sum(g[:k]), sum(g[k:n])
        parts = (np.arange(20) + 0.5) / 20 * g[k]
        source = a0 + a1 * (1 + before + parts) ** -q
        kernel = (1 + c * (since - parts)) ** -memory
        noise += g[k] / batches[k] * g[k] * np.mean(source * kernel)
    return level + forcing * (1 + sum(g[:n])) ** -q + noise


LOOPS = {
    MultiPowerLaw: multi_power_loop,
    MomentumLaw: momentum_loop,
    FunctionalScalingLaw: functional_loop,
    ForcingMemoryLaw: forcing_memory_loop,
}


@by_law
def test_a_curve_is_what_the_formula_says(law):
    shape = np.concatenate([np.full(40, 3e-4), cosine(80), np.linspace(3e-5, 2e-4, 30)])
    rates, batches = ramp(30, 3e-4, shape)
    steps = [1, 30, 31, 70, 71, 95, 150, 151, 180]
    theta = THETA[type(law)]
    expected = [LOOPS[type(law)](theta, rates, batches, n) for n in steps]
    # The forcing-memory loop is a quadrature.
    tolerance = 1e-6 if isinstance(law, ForcingMemoryLaw) else 1e-11
    np.testing.assert_allclose(law.curve(theta, rates, batches, steps), expected, rtol=tolerance)


@by_law
def test_a_rate_of_zero_is_a_limit_of_small_ones(law):
    rates, batches = ramp(10, 3e-4, np.append(cosine(50), np.zeros(3)))
    small = np.maximum(rates, 1e-16)
    theta = THETA[type(law)]
    zero, limit = (law.curve(theta, g, batches, [61, 62, 63]) for g in (rates, small))
    np.testing.assert_allclose(zero, limit, rtol=1e-3)


@by_law
def test_merged_updates_change_a_curve_by_less_than_2e_5(law, monkeypatch):
    rates, batches = ramp(2000, 3e-4, cosine(18_000))
    steps = np.arange(2000, 20_001, 125)
    merged = law.curve(THETA[type(law)], rates, batches, steps)
    monkeypatch.setattr(pieces, "MOST_PIECES", rates.size)
    exact = law.curve(THETA[type(law)], rates, batches, steps)
    assert np.abs(merged - exact).max() < 2e-5


@by_law
def test_rises_and_falls_that_alternate_are_merged_apart(law, monkeypatch):
    rates, batches = ramp(500, 3e-4, cosine(6000))
    rates[600:] *= 1.0 + 0.05 * np.random.default_rng(0).standard_normal(rates.size - 600)
    steps = np.arange(500, 6501, 250)
    merged = law.curve(THETA[type(law)], rates, batches, steps)
    monkeypatch.setattr(pieces, "MOST_PIECES", rates.size)
    exact = law.curve(THETA[type(law)], rates, batches, steps)
    assert np.abs(merged - exact).max() < 2e-4


@by_law
def test_the_law_is_found_again_in_its_own_curves(law):
    runs = three_runs(law)
    fitted = law.fit(runs)
    assert fitted.rms < 1e-4
    rates, batches = ramp(200, 3e-4, np.append(np.full(4000, 3e-4), cosine(500, low=0.2)))
    truth = law.curve(THETA[type(law)], rates, batches, [rates.size])[0]
    assert fitted.predict(rates, batches) == pytest.approx(truth, abs=5e-4)


def test_all_parameters_are_found_where_the_curves_hold_them():
    law = MomentumLaw()
    np.testing.assert_allclose(law.fit(three_runs(law)).theta, THETA[MomentumLaw], rtol=1e-4)


def test_a_few_wrong_losses_hardly_move_a_fit():
    law = MomentumLaw()
    runs = three_runs(law)
    spiked = runs[0].losses.copy()
    spiked[[20, 30, 40]] += 1.0
    runs[0] = bl.Run(runs[0].rates, runs[0].batches, runs[0].steps, spiked)
    np.testing.assert_allclose(law.fit(runs).theta, THETA[MomentumLaw], rtol=2e-2)


def test_losses_within_the_warmup_are_left_out():
    law = MomentumLaw()
    runs = three_runs(law)
    wrong = runs[0].losses.copy()
    wrong[runs[0].steps < 200] = 50.0
    assert (runs[0].steps < 200).sum() == 3
    changed = bl.Run(runs[0].rates, runs[0].batches, runs[0].steps, wrong)
    assert law.fit([changed, *runs[1:]]).theta.tolist() == law.fit(runs).theta.tolist()


@pytest.mark.parametrize(
    ("rates", "updates"),
    [
        ([1, 2, 3, 3, 2], 3),
        ([1, 2, 3, 2], 3),
        ([3, 3, 4, 5], 0),
        ([3, 2, 1], 0),
        ([1, 2, 3], 0),
        ([1], 0),
    ],
)
def test_a_warmup_ends_where_the_rate_stops_rising(rates, updates):
    assert warmup(np.array(rates, dtype=float)) == updates


@by_law
def test_there_is_no_loss_before_the_first_update(law):
    rates, batches = np.full(5, 1e-4), np.ones(5)
    curve = law.curve(THETA[type(law)], rates, batches, [0, 1, 5])
    assert np.isnan(curve[0])
    assert np.isfinite(curve[1:]).all()


@by_law
def test_a_long_curve_is_the_same_as_its_points_alone(law):
    rates, batches = ramp(20, 3e-4, cosine(1000))
    theta = THETA[type(law)]
    whole = law.curve(theta, rates, batches, np.arange(1, rates.size + 1))
    alone = law.curve(theta, rates, batches, [30, 500, 1020])
    np.testing.assert_allclose(whole[[29, 499, 1019]], alone, rtol=1e-6)


@by_law
def test_a_fit_can_start_from_given_parameters(law):
    fitted = law.fit(three_runs(law), starts=[THETA[type(law)]])
    np.testing.assert_allclose(fitted.theta, THETA[type(law)], rtol=1e-3)


def test_the_authors_descent_does_not_depend_on_the_unit_of_the_rates():
    law = MultiPowerDescent()
    runs = three_runs(MultiPowerLaw(), length=1500)
    larger = [bl.Run(run.rates * 50, run.batches, run.steps, run.losses) for run in runs]
    fitted, again = law.fit(runs), law.fit(larger)
    rates, batches = ramp(200, 3e-4, cosine(2500))
    assert fitted.objective < 0.1
    assert again.objective == pytest.approx(fitted.objective, rel=1e-3)
    assert again.predict(50 * rates, batches) == pytest.approx(
        fitted.predict(rates, batches), rel=1e-4
    )


def test_the_authors_descent_steps_as_adamw():
    """One step from a known gradient: each parameter moves by its step size, against its sign."""
    losses = np.array([3.0, 2.0])
    points = descent.Points(losses, None, np.empty((0, 2)))
    theta = np.array([2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    visited = []

    def predicted(x):
        visited.append(x)
        return np.full(2, x[0])

    descent._adamw(points, predicted, theta)
    # Too low for one loss, right for the other: the level rises, and the rest only decays.
    step = descent.STEP_SIZES
    expected = theta * (1 - 0.01 * step)
    expected[0] += step[0]
    np.testing.assert_allclose(visited[8], expected, rtol=1e-6)


def test_every_law_says_what_it_is():
    assert len({law.name for law in PUBLISHED}) == len(PUBLISHED) == 5
    for law in PUBLISHED:
        theta = np.array(next(v for k, v in THETA.items() if isinstance(law, k)))
        assert len(law.parameters) == theta.size
        assert law.summary
        assert law.source
        np.testing.assert_allclose(law.join(*law.split(theta)), theta, rtol=1e-12)


def test_what_cannot_be_fitted_is_refused():
    law = MomentumLaw()
    run = bl.Run(np.full(9, 0.1), 1, [1, 2, 3], [3.0, 2.0, 1.0])
    for runs in ([], [run], [run, "run"]):
        with refused("runs"):
            law.fit(runs)
    with refused("runs"):
        law.fit([bl.Run(np.full(9, 0.1), 1, np.arange(1, 10), np.linspace(3, -1, 9))])


@pytest.mark.parametrize("steps", [[2, 1], [1.5], [6], [-1]])
def test_steps_outside_the_run_are_refused(steps):
    with refused("steps"):
        MomentumLaw().curve(THETA[MomentumLaw], np.full(5, 0.1), 1, steps)


def test_parameters_of_another_law_are_refused():
    with refused("theta"):
        MomentumLaw().curve(THETA[MultiPowerLaw], np.full(5, 0.1), 1, [5])
