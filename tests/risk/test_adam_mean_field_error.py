"""Adam's mean field against the stored Monte Carlo averages of its benchmark.

Over all settings 85 % of the rows hold (docs/adam_mean_field.md says where they do not); what is
tested here is what does hold.
"""

import runpy

import numpy as np
import pytest

from paths import BENCHMARKS

BENCH = runpy.run_path(str(BENCHMARKS / "adam_mean_field.py"))
DRAWN = [*BENCH["ROUNDS"]["one"], *BENCH["ROUNDS"]["two"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "share"),
    [
        ([s for s in DRAWN if s.beta2 >= 0.99], 0.95),
        (BENCH["ROUNDS"]["section 8"], 1.0),
    ],
    ids=["slow second moment", "section 8"],
)
def test_the_stated_errors_cover_the_simulated_averages(settings, share):
    rows = list(BENCH["compare"](settings))
    assert len(rows) >= 30
    assert np.mean([row.holds for row in rows]) >= share
    assert np.median([row.stated for row in rows]) < 0.03
    assert max(row.stated for row in rows) <= 0.10


def test_at_least_thirty_settings_span_what_the_comparison_asks_for():
    assert len(DRAWN) >= 30
    for name, low, high in (
        ("beta1", 0.0, 0.95),
        ("beta2", 0.9, 0.999),
        ("batch", 1, 64),
        ("M", 8, 64),
        ("a", 1.2, 3.0),
    ):
        values = [getattr(setting, name) for setting in DRAWN]
        assert (min(values), max(values)) == (low, high)
    assert {setting.shape for setting in DRAWN} == set(BENCH["SHAPES"])
