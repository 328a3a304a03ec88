"""The batches that a law of training runs predicts the least final loss for."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import batchlaw as bl
from batchlaw.batches.rules import KeepsRates, rules_of
from batchlaw.batches.stages import best_stages
from batchlaw.design.law_optimum import FinalLoss, LawSearch, law_optimum
from batchlaw.design.law_settings import law_settings, reshaped
from batchlaw.design.within_limits import within_limits
from refused import refused
from small_laws import small_law

WSD = bl.wsd(400, 0.01)


def hill_weights(law, rates):
    """kappa_t of a law whose loss is sum kappa_t B_t^-beta, from its definition."""
    value, scale = law.parameters, law.member.scale
    clock = np.append(0.0, np.cumsum(rates / scale.peak * scale.steps / scale.span))
    left = (1.0 + (clock[-1] - clock) / value["memory"]) ** -value["forgetting"]
    return rates / scale.peak * np.diff(left)


@pytest.mark.parametrize("beta", [0.3, 1.0])
@pytest.mark.parametrize("rates", [WSD, bl.cosine(400, 0.01, warmup=0.1)])
def test_a_separable_law_has_its_optimum_in_closed_form(beta, rates):
    """B_t ~ kappa_t^(1/(1 + beta)): the square root only where beta is 1."""
    law = small_law(rule=bl.sgd(), beta=beta, batches=(1, 10**6))
    kappa = hill_weights(law, rates)
    loss = FinalLoss(law, rates)
    shape = np.maximum(kappa ** (1.0 / (1.0 + beta)), 1e-9)
    best = loss.of(4e5 * shape / shape.sum())
    found = law_optimum(law, rates, 400_000, bl.Limits())
    constant = loss.of(np.full(400, 1000.0))
    assert best < loss.of(found) < best + 0.02 * (constant - best)
    middle = slice(60, 380)
    near = np.log(found[middle] / (4e5 * shape / shape.sum())[middle])
    assert np.abs(near).mean() < 0.1
    staged = law_optimum(law, rates, 400_000, bl.Limits(stages=8))
    assert np.count_nonzero(np.diff(staged)) <= 7
    assert loss.of(staged) < best + 0.1 * (constant - best)


def test_slopes_of_the_search_are_those_of_the_loss():
    law = small_law(flags=("second_moment", "norm", "curvature", "early_noise"))
    loss = FinalLoss(law, WSD)
    batches = np.linspace(4.0, 12.0, 400)
    floor = law.fit.factors[0]
    assert loss.log_excess(batches) == pytest.approx(np.log(loss.of(batches) - floor), abs=1e-12)
    assert loss.of(batches) == pytest.approx(law.curve(WSD, batches, [400])[0], abs=1e-14)


MEMBERS = [
    ("batch_exponents",),
    ("norm", "batch_exponents", "rate_exponents"),
    ("second_moment",),
    ("second_moment", "norm", "curvature", "early_noise"),
]


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    flags=st.sampled_from(MEMBERS),
    beta=st.floats(0.0, 1.5),
    alpha=st.floats(-0.3, 0.5),
    memory=st.floats(0.001, 0.5),
    early=st.floats(0.1, 5.0),
    rates=st.sampled_from([bl.wsd(60, 0.01), bl.cosine(60, 0.01), bl.constant(60, 0.01)]),
    limits=st.builds(
        bl.Limits,
        min_batch=st.sampled_from([1, 3]),
        max_batch=st.sampled_from([None, 20]),
        multiple_of=st.sampled_from([1, 2]),
        stages=st.sampled_from([None, 1, 2, 4, 8]),
    ),
)
def test_no_rule_that_keeps_the_rates_is_better_nor_a_constant_batch(
    flags, beta, alpha, memory, early, rates, limits
):
    law = small_law(
        flags=flags, span=60, beta=beta, alpha=alpha, memory=memory, **{"early noise": early}
    )
    found = law_optimum(law, rates, 480, limits)
    assert found.sum() <= 480
    assert found.min() >= max(limits.min_batch, 2)
    assert found.max() <= (limits.max_batch or 32)
    assert not (found % limits.multiple_of).any()
    if limits.stages is not None:
        assert np.count_nonzero(np.diff(found)) < limits.stages
    loss = FinalLoss(law, rates)
    least = loss.of(found)
    assert least <= loss.of(within_limits(np.ones(60), 480, limits)) + 1e-12
    inside = bl.Limits(
        max(limits.min_batch, 2), limits.max_batch or 32, limits.multiple_of, limits.stages
    )
    for rule in rules_of(KeepsRates).values():
        shape = np.maximum(rule.shape(rates), 1e-6)
        if inside.stages is not None:
            shape = best_stages(
                (shape / shape.mean()) ** 2, 10**9, bl.Limits(stages=inside.stages), integer=False
            ).batches
        assert least <= loss.of(within_limits(np.asarray(shape), 480, inside)) + 1e-9
    assert np.array_equal(found, law_optimum(law, rates, 480, limits))


def test_batches_stay_within_those_of_the_runs_unless_asked_otherwise():
    law = small_law(batches=(6, 11), rule=bl.sgd(), beta=1.0)
    inside = law_optimum(law, WSD, 3200, bl.Limits(stages=8))
    assert 6 <= inside.min() < inside.max() <= 11
    beyond = law_optimum(law, WSD, 3200, bl.Limits(stages=8), beyond=True)
    assert beyond.min() < 6
    assert beyond.max() > 11
    # A mean that the runs do not have leaves nothing to search for.
    search = LawSearch(law, WSD, 400 * 50, bl.Limits(stages=8))
    assert search.limits is None
    assert np.array_equal(search.best(), np.full(400, 50))


def test_powers_of_a_factor_are_kept():
    law = small_law(rule=bl.sgd(), beta=1.0)
    found = law_optimum(law, WSD, 3200, bl.Limits(stages=6, batch_factor=2))
    ratios = np.log2(found / found.min())
    assert np.array_equal(ratios, np.rint(ratios))
    assert found.sum() <= 3200


def test_a_shape_of_rates_keeps_its_phases_over_another_number_of_updates():
    longer = reshaped(WSD, 800, 0.02)
    assert longer.max() == 0.02
    assert np.abs(longer[1::2] / 2.0 - WSD).max() < 2e-4
    assert np.array_equal(reshaped(WSD, 400, 0.01), WSD)


def test_the_number_of_updates_is_the_best_within_the_batches_of_the_runs():
    law = small_law(peaks=(0.005, 0.02), batches=(4, 16))
    rows = law_settings(law, WSD, 3200, bl.Limits(), steps=True, peak=False)
    assert [row.steps for row in rows] == sorted({row.steps for row in rows})
    assert {rows[0].steps, rows[-1].steps} == {200, 800}
    assert all(4 <= row.batch <= 16 for row in rows)
    for row in rows:
        assert row.loss == pytest.approx(law.curve(row.rates, 3200 / row.steps, [row.steps])[0])
        low, change, high = row.change
        assert low <= change <= high
        assert change == pytest.approx(row.loss - law.curve(WSD, 8.0, [400])[0], abs=1e-12)
    dense = [
        law.curve(reshaped(WSD, steps, 0.01), 3200 / steps, [steps])[0]
        for steps in range(200, 801, 5)
    ]
    excess = min(dense) - law.fit.factors[0]
    assert min(row.loss for row in rows) < min(dense) + 0.002 * excess
    both = law_settings(law, WSD, 3200, bl.Limits(), steps=True, peak=True)
    assert all(0.005 <= row.peak <= 0.02 + 1e-12 for row in both)
    assert min(row.loss for row in both) <= min(row.loss for row in rows) + 1e-12
    narrow = law_settings(law, WSD, 3200, bl.Limits(max_batch=10), steps=True, peak=False)
    assert all(row.batch <= 10 for row in narrow)


def test_what_the_runs_have_not_shown_is_not_chosen():
    with refused("choose_peak"):
        law_settings(small_law(), WSD, 3200, bl.Limits(), steps=False, peak=True)
    with refused("choose_steps"):
        alone = small_law(batches=(8, 8))
        law_settings(alone, WSD, 3200, bl.Limits(), steps=True, peak=False)
    with refused("choose_steps"):
        law_settings(small_law(), WSD, 400 * 100, bl.Limits(), steps=True, peak=False)
