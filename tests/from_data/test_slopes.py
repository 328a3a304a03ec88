import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchlaw.from_data.slopes import fit_slope, local_slope
from refused import refused

X = np.geomspace(1e2, 1e5, 13)


@given(
    exponent=st.floats(-3.0, 3.0),
    scale=st.floats(1e-6, 1e6),
    stretch=st.floats(1e-3, 1e3),
)
def test_a_power_has_its_exponent_whatever_the_units(exponent, scale, stretch):
    slope = fit_slope(stretch * X, scale * X**exponent)
    assert slope.value == pytest.approx(exponent, abs=1e-9)
    assert slope.drift == pytest.approx(0.0, abs=1e-9)
    assert slope.error == 0.0
    assert slope.settled(1e-6)


def test_local_slope_is_weighted_least_squares():
    y = np.exp(np.random.default_rng(0).normal(size=X.size))
    centre, width = math.log(3e3), 4.0
    weight = np.maximum(1.0 - ((np.log(X) - centre) / 2.0) ** 2, 0.0)
    expected = np.polyfit(np.log(X), np.log(y), 1, w=np.sqrt(weight))[0]
    assert float(local_slope(X, y, centre, width)) == pytest.approx(expected, rel=1e-10)


def test_a_slope_that_still_moves_is_not_settled_and_its_interval_reaches_the_limit():
    slope = fit_slope(X, X**-0.5 * (1.0 + 3.0 * X**-0.3))
    assert slope.value < -0.51
    assert not slope.settled(0.02)
    low, high = slope.interval
    assert low < -0.5 < high


def test_a_correction_that_has_died_out_leaves_a_settled_slope():
    slope = fit_slope(X, X**-0.5 * (1.0 + 3.0 / X))
    assert slope.value == pytest.approx(-0.5, abs=1e-3)
    assert slope.settled(0.02)


def test_two_standard_errors_cover_the_exponent_of_noisy_draws():
    """24 draws with 20 % noise; a wrong error by a factor of two would break the bounds."""
    hits, errors, values = 0, [], []
    for seed in range(300):
        noise = np.random.default_rng(seed).normal(0.0, 0.2, (24, X.size))
        slope = fit_slope(X, X**-0.7 * np.exp(noise), width=math.log(X[-1] / X[0]))
        hits += abs(slope.value + 0.7) < 2.0 * slope.error
        errors.append(slope.error)
        values.append(slope.value)
    assert 0.90 < hits / 300 < 0.985
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.15)


def test_noise_alone_is_not_taken_for_drift():
    drifts = [
        fit_slope(
            X, X**-0.7 * np.exp(np.random.default_rng(seed).normal(0.0, 0.2, (24, X.size)))
        ).drift
        for seed in range(100)
    ]
    assert np.mean(np.array(drifts) == 0.0) > 0.88


@pytest.mark.parametrize(
    ("x", "y", "field"),
    [
        (X[:5], X[:5], "x"),
        (X[::-1], X, "x"),
        (X, X[1:], "y"),
        (X, -X, "y"),
    ],
)
def test_bad_curves_are_refused_in_one_line(x, y, field):
    with refused(field):
        fit_slope(x, y)


def test_drift_is_tested_however_wide_the_window_is():
    bent = X**-0.5 * np.exp(0.05 * np.log(X / X[0]) ** 2)
    slopes = [
        fit_slope(X, bent, width=share * math.log(X[-1] / X[0])) for share in (0.5, 0.75, 1.0)
    ]
    assert min(slope.drift for slope in slopes) > 0.3
    assert all(slope.drift == pytest.approx(slopes[0].drift) for slope in slopes)
