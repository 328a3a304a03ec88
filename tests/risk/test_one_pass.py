import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import batchlaw as bl
import reference
from refused import refused


def test_one_pass_risk_has_the_reference_figures_of_the_paper_instance(paper):
    rates = bl.wsd(64, 0.05)
    families = bl.schedule_families(bl.influence(paper.eigenvalues, rates), 512)
    risk = bl.one_pass_risk(paper, rates, list(families.values()))
    np.testing.assert_allclose(risk.bias, 1.1362567, atol=5e-8)
    table = {
        "variance": [0.00381969, 0.00553432, 0.00479844, 0.00820942],
        "variance_noise": [0.00187253, 0.00272614, 0.00238874, 0.00394834],
        "variance_covariance": [0.00194717, 0.00280818, 0.00240970, 0.00426107],
    }
    for term, expected in table.items():
        np.testing.assert_allclose(getattr(risk, term), expected, atol=5.1e-9)
    ratios = [risk.ratio("variance", row, 1) for row in range(4)]
    np.testing.assert_allclose([r for r, _ in ratios], [0.690183, 1, 0.867033, 1.483365], atol=5e-7)
    assert [error for _, error in ratios] == [0.0] * 4


@given(
    st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(0.0, 3.0)), min_size=1, max_size=4),
    st.lists(st.tuples(st.floats(0.0, 0.6), st.integers(1, 9)), min_size=1, max_size=10),
    st.floats(0.0, 2.0),
)
def test_one_pass_risk_matches_dense_recursions_in_any_basis(directions, steps, s2):
    """Appendix F's exact split, by M x M matrices in a rotated basis."""
    mu, v = map(np.array, zip(*directions, strict=True))
    rates, batches = map(list, zip(*steps, strict=True))
    if not any(rates):
        return
    problem = bl.Problem.from_spectrum(mu, v**2, s2)
    risk = bl.one_pass_risk(problem, rates, batches)
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((mu.size, mu.size)))[0]
    expected = reference.dense_one_pass((Q * mu) @ Q.T, Q @ v, s2, rates, batches)
    ours = (risk.bias, risk.variance_noise, risk.variance_covariance)
    np.testing.assert_allclose(ours, expected, rtol=1e-10, atol=1e-14)


def test_parts_add_up_and_the_excess_leaves_the_noise_floor_out(small):
    risk = bl.one_pass_risk(small, bl.wsd(20, 0.2), np.full(20, 3))
    assert risk.variance == risk.variance_noise + risk.variance_covariance
    assert risk.excess == risk.bias + risk.variance
    assert risk.total == pytest.approx(1.0 + 0.3 + risk.excess, rel=1e-15)
    assert risk.method == "exact"


def test_risk_is_linear_in_energy_and_noise_so_the_prior_needs_no_draws():
    problem = bl.Problem.power_law(2.0, 1.5, 6, 500, seed=2)
    prior = problem.prior_mean()
    rates, batches = bl.wsd(30, 0.3), np.full(30, 2)
    parts = [
        bl.one_pass_risk(bl.Problem.from_spectrum(prior.eigenvalues, energy, s2), rates, batches)
        for energy, s2 in (
            (prior.target_energy, 0.0),
            (0 * prior.target_energy, prior.noise_variance),
        )
    ]
    whole = bl.one_pass_risk(prior, rates, batches)
    assert whole.excess == pytest.approx(parts[0].excess + parts[1].excess, rel=1e-13)


def test_real_valued_batches_are_scored_too(small):
    rates = bl.wsd(10, 0.2)
    between = bl.one_pass_risk(small, rates, np.full(10, 2.5)).variance
    low, high = (bl.one_pass_risk(small, rates, np.full(10, b)).variance for b in (2, 3))
    assert high < between < low


def test_a_second_moment_that_overflows_is_named(small):
    with refused("rates", bl.Unstable):
        bl.one_pass_risk(small, bl.constant(5000, 2.0), np.ones(5000))


def test_exact_risks_have_no_standard_error(small):
    risk = bl.one_pass_risk(small, bl.wsd(10, 0.2), np.full(10, 2))
    with refused("term"):
        risk.standard_error("variance")


@pytest.mark.parametrize(
    "batches",
    [
        [1.0] * 9,
        [1.0] * 9 + [0.0],
        [1.0] * 9 + [float("nan")],
        [[1.0] * 10, [1.0] * 9 + [-2.0]],
    ],
)
def test_bad_batches_are_named(small, batches):
    with refused("batches"):
        bl.one_pass_risk(small, bl.wsd(10, 0.2), batches)


def test_unstable_rates_are_named(paper):
    with refused("rates", bl.Unstable):
        bl.one_pass_risk(paper, bl.wsd(64, 3.1), np.full(64, 8))


def test_batches_may_be_one_number_or_a_dictionary(small):
    rates = bl.wsd(16, 0.2)
    families = bl.schedule_families(bl.influence(small, rates), 64)
    by_name = bl.one_pass_risk(small, rates, families)
    constant = bl.one_pass_risk(small, rates, 4)
    assert np.shape(by_name.variance) == (4,)
    assert by_name.variance[1] == constant.variance
    assert by_name.schedules == tuple(families)
    assert constant.schedules == ()


def test_a_ratio_names_bad_terms_and_schedules(small):
    risk = bl.one_pass_risk(small, bl.wsd(10, 0.2), [[2] * 10, [3] * 10])
    with refused("term"):
        risk.ratio("varience", 0, 1)
    with refused("schedule"):
        risk.ratio("variance", 2, 0)


def test_batches_that_are_worse_for_an_average_than_constant_are_named(paper):
    """From plain SGD's influence; batches from the average's own influence have no note."""
    rates = bl.constant(512, 0.05)
    for average in ("tail:0.5", "ema:0.99"):
        plain, own = (
            bl.allocate(bl.influence(paper, rates, **options), 8 * 512)
            for options in ({}, {"average": average})
        )
        schedules = {"own": own, "plain": plain, "constant": np.full(512, 8)}
        risk = bl.one_pass_risk(paper, rates, schedules, average=average)
        (note,) = risk.notes
        assert (note.kind, note.schedule) == ("allocation", 1)
        assert "the batches of schedule plain change the excess" in note
        change = float(re.search(r"by ([+-][\d.]+) %", note)[1])
        assert change == pytest.approx(100 * (risk.ratio("excess", 1, 2)[0] - 1), rel=0.05)
        said = float(re.search(r"with ([\d.]+) times", note)[1])
        assert said == pytest.approx(risk.ratio("variance", 1, 2)[0], rel=0.005)
        assert risk.ratio("variance", 1, 2)[0] > 1.2
        assert risk.ratio("variance", 0, 2)[0] < 0.91
        assert bl.one_pass_risk(paper, rates, own, average=average).notes == ()
    assert bl.one_pass_risk(paper, rates, plain).notes == ()
