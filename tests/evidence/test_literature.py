"""Laws of other works, judged by our exact risks."""

import numpy as np
import pytest

from batchlaw.evidence.claims import literature
from batchlaw.evidence.claims.check_settings import FULL, QUICK
from batchlaw.evidence.claims.literature import random_features, sketched_regression
from batchlaw.from_data.slopes import fit_slope
from batchlaw.risk.one_pass import one_pass_risk


def test_full_size_adds_the_panels_the_boundary_and_the_finite_sizes():
    quick, full = literature.tasks(QUICK), literature.tasks(FULL)
    assert len(full) - len(quick) == 3 + 1 + len(random_features.LATE_SETTLING)


@pytest.mark.parametrize(
    ("alpha", "beta", "phase", "size", "loss"),
    [
        (1.0, 0.25, "Ia", 1 / 3, -1 / 2),
        (1.0, 0.75, "II", 3 / 7, -5 / 7),
        (1.5, 1.0, "II", 2 / 5, -4 / 5),
        (1.0, 2.0, "III", 1 / 2, -3 / 4),
        (0.7, 0.7, "III", 1 / 2, -9 / 14),
    ],
)
def test_compute_optimal_exponents_by_hand(alpha, beta, phase, size, loss):
    case = random_features.Features(alpha, beta, 0.1)
    assert case.phase == phase
    assert random_features.compute_optimal(alpha, beta, phase) == pytest.approx((size, loss))


def test_phases_agree_on_their_boundaries():
    exponents = random_features.compute_optimal
    assert exponents(0.8, 0.5, "Ia") == pytest.approx(exponents(0.8, 0.5, "II"))
    assert exponents(0.7, 0.7, "II") == pytest.approx(exponents(0.7, 0.7, "III"))
    # The theoretical value stated in their figure 3.
    assert -exponents(0.7, 0.7, "II")[1] == pytest.approx(0.643, abs=5e-4)


def test_phase_ia_is_where_the_limit_of_both_works_is_the_same():
    """2 beta < 1 is b < a + 1, and there F_0 is Lin et al.'s M^(1-b)."""
    case = random_features.Features(1.0, 0.25, 0.5)
    a, b = case.ours
    assert (a, b) == (2.0, 2.5)
    ours = sketched_regression.exponents(a, b)
    theirs = random_features.term_exponents(case.alpha, case.beta)
    assert theirs["F_0"] == pytest.approx(ours["approximation"])
    assert theirs["F_pp"] == pytest.approx(ours["bias"])


def test_rates_are_halved_log_n_times():
    rates = sketched_regression.halving(2**12, 0.4)
    values, lengths = np.unique(rates, return_counts=True)
    np.testing.assert_allclose(values[::-1], 0.4 * 0.5 ** np.arange(12))
    assert np.abs(lengths - 2**12 / 12).max() <= 1
    assert (np.diff(rates) <= 0.0).all()


def test_frontier_of_two_powers_has_their_exponents():
    """min over d of r^-p + d^-q with r = f/d: d* ~ f^(p/(p+q)), loss ~ f^(-pq/(p+q))."""
    p, q = 0.75, 1.5
    sizes, steps = np.geomspace(10, 1e4, 16), np.geomspace(1, 1e5, 300)
    flops, best, loss = random_features.frontier(sizes, steps, steps**-p + sizes[:, None] ** -q)
    assert fit_slope(flops, best).value == pytest.approx(p / (p + q), abs=3e-3)
    assert fit_slope(flops, loss).value == pytest.approx(-p * q / (p + q), abs=3e-3)
    middle = flops.size // 2
    exact = (q / p * flops[middle] ** p) ** (1 / (p + q))
    assert best[middle] == pytest.approx(exact, rel=0.02)


def test_forcing_function_is_approximation_plus_bias():
    case = random_features.Features(1.0, 0.75, 0.1)
    steps = np.array([1.0, 7.0, 50.0])
    problem = sketched_regression.sketch(*case.ours, 100, 0.0, 60)
    risk = one_pass_risk(problem, np.full(50, case.rate), np.ones(50), trajectory=True)
    expected = risk.approximation + risk.bias[steps.astype(int)]
    forcing = random_features.forcing_loss(case, 100, steps, nodes=60)
    np.testing.assert_allclose(forcing, expected, rtol=1e-12)
    assert (random_features.sgd_loss(case, 100, steps, nodes=60) > forcing).all()
