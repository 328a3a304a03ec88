import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import batchlaw as bl
from batchlaw.influences.worst_case import power_law_candidates, robust_influence
from refused import refused


def _ratios(candidates, batches):
    best = np.sqrt(candidates).sum(axis=1) ** 2 / batches.sum()
    return (candidates / batches).sum(axis=1) / best


@given(st.integers(0, 10_000), st.integers(2, 4), st.integers(2, 12))
def test_no_other_schedule_has_a_smaller_worst_ratio(seed, K, T):
    rng = np.random.default_rng(seed)
    candidates = rng.random((K, T)) ** 3 + 1e-9
    ours = robust_influence(candidates)
    batches = np.sqrt(ours.influence)
    np.testing.assert_allclose(_ratios(candidates, batches), ours.ratios, rtol=1e-9)
    assert ours.worst_ratio == pytest.approx(ours.ratios.max(), rel=1e-12)
    assert ours.lower_bound <= ours.worst_ratio * (1 + 1e-12)
    assert ours.worst_ratio - ours.lower_bound < 1e-4
    for _ in range(20):
        other = batches * np.exp(0.3 * rng.standard_normal(T))
        assert _ratios(candidates, other).max() >= ours.lower_bound * (1 - 1e-12)


def test_one_candidate_is_its_own_oracle():
    ours = robust_influence([[1.0, 4.0, 9.0]])
    assert ours.worst_ratio == pytest.approx(1.0)
    np.testing.assert_allclose(np.sqrt(ours.influence / ours.influence[0]), [1, 2, 3])


def test_a_range_of_exponents_costs_less_than_the_wrong_exponent():
    """WSD, 512 steps, a from 1.2 to 3: 1.6 % at worst, while a wrong guess costs up to 7 %."""
    rates = bl.wsd(512, 0.05)
    ours = robust_influence(power_law_candidates(rates, bl.PowerLaw((1.2, 3.0), 1.3)))
    assert ours.worst_ratio == pytest.approx(1.0157, abs=2e-4)
    candidates = np.array([bl.influence_proxy(rates, a, 1.3) for a in (1.2, 3.0)])
    wrong = max(_ratios(candidates, np.sqrt(row)).max() for row in candidates)
    assert wrong > 1.05


def test_bad_candidates_are_named():
    with refused("candidates"):
        robust_influence([[0.0, 0.0], [1.0, 1.0]])
    for exponent in ((2.0, 1.5), 1.0, (1.1, 1.2, 1.3)):
        with refused("exponent"):
            bl.PowerLaw(exponent)
    with refused("scale"):
        bl.PowerLaw(2.0, -1.0)
