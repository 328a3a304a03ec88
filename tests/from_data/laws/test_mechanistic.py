"""The project's own theory as a law: against its solvers, and found again in its own curves."""

from dataclasses import replace

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.from_data.laws import mechanistic
from batchlaw.from_data.laws.mechanistic import MechanisticLaw
from batchlaw.risk.adam_diagonal import diagonal_moments
from refused import refused

SGD_RULES = {
    "plain": bl.sgd(),
    "heavy ball": bl.sgd(momentum=0.9),
    "Nesterov": bl.sgd(momentum=0.9, nesterov=True),
    "PyTorch": bl.sgd(momentum=0.9, pytorch=True),
}
ADAM = bl.adam(0.9, 0.999, weight_decay=0.1, basis="generic")
PEAK = 4e-3
# L0, s, a, b, unit, noise: a step D mu_1 of about 0.3 at the peak.
THETA = {"sgd": [1.2, 2.0, 1.6, 1.5, 80.0, 5.0], "adam": [1.2, 2.0, 1.6, 1.5, 5.0, 5.0]}


def theta_of(rule):
    return THETA[rule.name]


def rates_of(length, kind="wsd"):
    n = np.arange(1, length + 1)
    warm = np.minimum(10 * n / length, 1.0)
    shape = {
        "wsd": np.minimum(5 * (length - n) / length, 1.0),
        "cosine": 0.5 + 0.5 * np.cos(np.pi * n / length),
        "flat": np.ones(length),
    }[kind]
    return PEAK * warm * shape


def early_large(length, mean=8.0):
    batches = np.full(length, mean / 2)
    batches[: length // 2] = 1.5 * mean
    return batches


def run_of(law, theta, rates, batches, every=50):
    sizes = np.broadcast_to(batches, rates.shape)
    steps = np.arange(every, rates.size + 1, every)
    return bl.Run(rates, sizes, steps, law.curve(theta, rates, sizes, steps))


def planted(rule, length=1000):
    """Constant batches of three sizes under two shapes of the rates."""
    law = MechanisticLaw(rule)
    return law, [
        run_of(law, theta_of(rule), rates_of(length, kind), size)
        for kind in ("wsd", "flat")
        for size in (2.0, 8.0, 32.0)
    ]


@pytest.mark.parametrize("rule", SGD_RULES.values(), ids=SGD_RULES)
def test_the_excess_of_sgd_is_the_exact_one(rule):
    law, rates, batches = MechanisticLaw(rule), rates_of(500), early_large(500)
    level, scale, *_, unit, _ = theta = [1.2, 2.0, 1.6, 1.5, 8.0, 5.0]
    steps = np.arange(1, 501, 7)
    risk = bl.one_pass_risk(law.problem(theta), unit * rates, batches, rule=rule, trajectory=True)
    excess = (law.curve(theta, rates, batches, steps) - level) / scale
    np.testing.assert_allclose(excess, risk.excess[steps], rtol=1e-10)


@pytest.mark.parametrize(("beta2", "spread"), [(0.95, 0.04), (0.999, 0.01)])
def test_the_excess_of_adam_is_the_mean_field_without_the_spread_of_v(beta2, spread):
    rates, batches = rates_of(1000), early_large(1000)
    level, scale, *_, unit, _ = theta = THETA["adam"]
    rule = replace(ADAM, beta2=beta2)
    law = MechanisticLaw(rule)
    # Weight decay is that of the run's own rates.
    scaled = replace(rule, weight_decay=rule.weight_decay / unit)
    problem, steps = law.problem(theta), np.arange(10, 1001, 10)
    mean_field = diagonal_moments(problem, unit * rates, batches[None], scaled, trajectory=True)
    excess = (law.curve(theta, rates, batches, steps) - level) / scale
    np.testing.assert_allclose(excess, mean_field[0, steps].sum(axis=1), rtol=1e-10)
    whole = bl.one_pass_risk(problem, unit * rates, batches, rule=scaled, trajectory=True)
    np.testing.assert_allclose(excess, whole.excess[steps], rtol=spread)


def test_adam_works_in_a_generic_basis_whatever_its_own():
    rates, batches, steps = rates_of(100), np.full(100, 4.0), [50, 100]
    own = MechanisticLaw(bl.adam()).curve(THETA["adam"], rates, batches, steps)
    generic = MechanisticLaw(bl.adam(basis="generic")).curve(THETA["adam"], rates, batches, steps)
    assert own.tolist() == generic.tolist()


@pytest.mark.parametrize("rule", [SGD_RULES["plain"], SGD_RULES["PyTorch"], ADAM])
@pytest.mark.parametrize("batches", [np.full(12_000, 8.0), early_large(12_000)])
def test_merged_updates_change_the_excess_by_less_than_2_percent(rule, batches, monkeypatch):
    law, rates = MechanisticLaw(rule), rates_of(12_000)
    theta = np.array(theta_of(rule))
    theta[4] *= 1.0 - law._momentum if rule.name == "sgd" else 1.0
    steps = np.arange(300, 12_001, 300)
    shape = law.split(theta)[1]
    merged = law.prepare(rates, batches, steps)
    assert merged.shares.size <= 450
    monkeypatch.setattr(mechanistic, "SINGLE_UPDATES", rates.size)
    exact = law.terms(shape, law.prepare(rates, batches, steps))[:, 1]
    error = law.terms(shape, merged)[:, 1] / exact - 1.0
    assert np.abs(error).max() < 0.02


@pytest.mark.parametrize("rule", [SGD_RULES["plain"], ADAM], ids=["SGD", "Adam"])
def test_the_parameters_are_found_again_and_a_schedule_not_seen_is_predicted(rule):
    law, runs = planted(rule)
    fitted = law.fit(runs)
    assert fitted.rms < 1e-4
    np.testing.assert_allclose(fitted.theta, theta_of(rule), rtol=0.02)
    rates, batches = rates_of(1400, "cosine"), early_large(1400)
    truth = law.curve(theta_of(rule), rates, batches, [1400])[0]
    constant = law.curve(theta_of(rule), rates, np.full(1400, 8.0), [1400])[0]
    assert fitted.predict(rates, batches) == pytest.approx(truth, abs=1e-4)
    assert abs(truth - constant) > 1e-2


def test_batches_may_be_in_tokens():
    law, theta = MechanisticLaw(ADAM), np.array(THETA["adam"])
    theta[5] *= 1e5
    runs = [run_of(law, theta, rates_of(500), 1e5 * size) for size in (2.0, 8.0, 32.0)]
    fitted = law.fit(runs)
    assert fitted.rms < 1e-4
    rates, batches = rates_of(500, "cosine"), 1e5 * early_large(500)
    truth = law.curve(theta, rates, batches, [500])[0]
    assert fitted.predict(rates, batches) == pytest.approx(truth, abs=1e-3)


@pytest.mark.parametrize("length", [1000, 6000])
@pytest.mark.parametrize("rule", [*SGD_RULES.values(), ADAM], ids=[*SGD_RULES, "Adam"])
@pytest.mark.filterwarnings("error")
def test_an_unstable_excess_is_large_and_finite(rule, length):
    law, rates, steps = (
        MechanisticLaw(rule),
        rates_of(length, "flat"),
        np.array([length // 2, length]),
    )
    run = law.prepare(rates, np.full(length, 0.01), steps)
    excess = law.terms(np.array([1.3, 0.5, 3.0 / PEAK * 10, 10.0]), run)[:, 1]
    assert np.isfinite(excess).all()
    assert (excess > 1e2).all()


@pytest.mark.filterwarnings("error")
def test_a_fit_can_start_where_the_excess_diverges():
    law, runs = planted(bl.sgd(), length=500)
    theta = np.array(THETA["sgd"])
    theta[4] = 5.0 / PEAK
    fitted = law.fit(runs, starts=[theta])
    assert np.isfinite(fitted.theta).all()
    assert np.isfinite(fitted.objective)


@pytest.mark.parametrize(
    "rule",
    [
        bl.sgd(average="tail:0.5"),
        bl.adam(average="ema:0.99"),
        bl.sgd(momentum=np.full(10, 0.9)),
        "adam",
        None,
    ],
)
def test_rules_that_it_cannot_follow_are_refused(rule):
    with refused("rule"):
        MechanisticLaw(rule)


def test_parameters_of_another_law_are_refused():
    law = MechanisticLaw(bl.sgd())
    for use in (law.problem, lambda theta: law.curve(theta, np.full(5, 0.1), 1, [5])):
        with refused("theta"):
            use([1.0, 2.0])


def test_there_is_no_loss_before_the_first_update():
    law = MechanisticLaw(ADAM)
    assert np.isnan(law.curve(THETA["adam"], rates_of(50), 8, [0])).all()
