"""Profile intervals of a law's parameters."""

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.from_data.laws.bands import unit_variance
from batchlaw.from_data.laws.curves import groups
from batchlaw.from_data.laws.least_squares import held, objective
from batchlaw.from_data.laws.profiles import law_profiles
from batchlaw.from_data.laws.training_law import quantile


@pytest.fixture(scope="module")
def fitted():
    """A law of three curves with a little noise."""
    rng = np.random.default_rng(1)
    t = np.arange(20, 401, 10)
    runs = []
    for rates in (bl.constant(400, 0.01), bl.cosine(400, 0.01), bl.step(400, 0.01, drops=(0.6,))):
        clock = np.cumsum(rates)[t - 1] / 4.0
        hill = 0.1 * rates[t - 1] / 0.01
        losses = 2.0 + (1.0 + clock / 0.1) ** -0.5 + hill + 0.002 * rng.standard_normal(t.size)
        runs.append(bl.Run(rates, np.full(400, 8), t, losses, rule=bl.sgd()))
    return bl.fit_law(runs), runs


def test_an_end_is_where_the_objective_has_risen_by_what_the_level_allows(fitted):
    law, runs = fitted
    found = groups(runs, law.member.scale)
    allowed = unit_variance(law.fit, found) * quantile(0.9) ** 2
    least = objective(law.fit, law.fit, found)
    inside = 0
    for j, (parameter, (low, high)) in enumerate(
        zip(law.member.shape, law_profiles(law, runs, 0.9).values(), strict=True)
    ):
        assert low <= law.parameters[parameter.name] * (1 + 1e-9)
        assert high >= law.parameters[parameter.name] * (1 - 1e-9)
        for end in (low, high):
            if parameter.low * 1.01 < end < parameter.high * 0.99:
                rise = held(law.fit, found, j, parameter.inner(end))[1] - least
                inside += abs(rise / allowed - 1.0) < 0.5
    assert inside >= 4


def test_a_higher_level_gives_wider_profiles(fitted):
    law, runs = fitted
    narrow, wide = law_profiles(law, runs, 0.5)["power"], law_profiles(law, runs, 0.95)["power"]
    assert wide[0] <= narrow[0] <= narrow[1] <= wide[1]
