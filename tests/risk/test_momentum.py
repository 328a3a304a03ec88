"""Momentum and averaging: exact risk and influence against full matrices and perturbation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import batchlaw as bl
import reference
from batchlaw._base.kernels import influence as influence_kernels
from batchlaw._base.kernels import moments
from batchlaw.schedule.averages import ema, readout, running_readout, tail_average
from refused import refused

FORMS = [
    (reference.heavy_ball, {"nesterov": False, "pytorch": False}),
    (reference.nesterov, {"nesterov": True, "pytorch": False}),
    (reference.torch_heavy_ball, {"nesterov": False, "pytorch": True}),
    (reference.torch_nesterov, {"nesterov": True, "pytorch": True}),
]
T = 7
LAST = np.append(np.zeros(T - 1), 1.0)
READOUTS = [None, tail_average(T, 0.5), ema(T, 0.6)]


@pytest.fixture(scope="module")
def setting():
    rng = np.random.default_rng(3)
    return {
        "mu": np.array([0.9, 0.4, 0.1]),
        "v": np.array([1.0, 0.5, 2.0]),
        "s2": 0.8,
        "rates": rng.uniform(0.1, 0.9, T),
        "batches": rng.integers(1, 6, T),
        "betas": rng.uniform(0.0, 0.9, T),
    }


@pytest.mark.parametrize("average", READOUTS)
@pytest.mark.parametrize(("step", "options"), FORMS)
def test_risk_with_momentum_matches_full_matrices(step, options, average, setting):
    s = setting
    problem = bl.Problem.from_spectrum(s["mu"], s["v"] ** 2, s["s2"])
    risk = bl.one_pass_risk(
        problem, s["rates"], s["batches"], momentum=s["betas"], average=average, **options
    )
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    bias, variance = reference.dense_momentum(
        (Q * s["mu"]) @ Q.T,
        Q @ s["v"],
        s["s2"],
        s["rates"],
        s["batches"],
        s["betas"],
        step,
        LAST if average is None else average,
    )
    assert risk.bias == pytest.approx(bias, rel=1e-10)
    assert risk.variance == pytest.approx(variance, rel=1e-10)
    assert risk.variance == risk.variance_noise + risk.variance_covariance


@pytest.mark.parametrize("average", READOUTS)
@pytest.mark.parametrize(("step", "options"), FORMS)
def test_influence_with_momentum_matches_perturbation(step, options, average, setting):
    s = setting
    kappa = bl.influence(s["mu"], s["rates"], momentum=s["betas"], average=average, **options)
    expected = reference.influence_by_perturbation(
        s["mu"], s["rates"], s["betas"], step, LAST if average is None else average
    )
    np.testing.assert_allclose(kappa, expected, rtol=1e-11)


def _gradient_point_moments(problem, rule, batches):
    """E y_tj^2 where step t takes its gradient, by 2 x 2 matrices a direction."""
    mu, s2 = problem.eigenvalues, problem.noise_variance
    P = np.zeros((mu.size, 2, 2))
    mean = np.stack([-problem.optimum, np.zeros(mu.size)], axis=1)
    for (look, keep, gain, drag, push), batch in zip(rule, batches, strict=True):
        at = np.array([1.0, look])
        y = np.einsum("i,jik,k->j", at, P, at) + (mean @ at) ** 2
        yield y
        n2 = (mu**2 * y + mu * (mu @ y + s2)) / batch
        for j, m in enumerate(mu):
            F = np.array(
                [[1 + push * m, drag + push * m * look], [gain * m, keep + gain * m * look]]
            )
            P[j] = F @ P[j] @ F.T + n2[j] * np.outer([push, gain], [push, gain])
            mean[j] = F @ mean[j]


@pytest.mark.parametrize("average", READOUTS)
@pytest.mark.parametrize(("_", "options"), FORMS)
def test_variance_is_the_sum_of_noise_times_response(_, options, average, setting):
    """Var = sum_t sum_j mu_j psi_tj^2 n2_tj exactly: the noise is a martingale difference."""
    s = setting
    mu = s["mu"]
    problem = bl.Problem.from_spectrum(mu, s["v"] ** 2, s["s2"])
    rule = bl.sgd(s["betas"], **options).coefficients(s["rates"])
    # The influence of one direction alone is (mu psi)^2.
    squares = np.stack(
        [
            bl.influence([m], s["rates"], momentum=s["betas"], average=average, **options) / m**2
            for m in mu
        ],
        axis=1,
    )
    y = np.array(list(_gradient_point_moments(problem, rule, s["batches"])))
    n2 = (mu**2 * y + mu * ((y @ mu)[:, None] + s["s2"])) / s["batches"][:, None]
    risk = bl.one_pass_risk(
        problem, s["rates"], s["batches"], momentum=s["betas"], average=average, **options
    )
    assert risk.variance == pytest.approx((mu * squares * n2).sum(), rel=1e-11)


@given(st.lists(st.floats(0.01, 1.5), min_size=3, max_size=9))
def test_momentum_zero_is_plain_sgd(rates):
    """The general recursions against the plain ones, which are other code."""
    mu, many, energy = np.array([0.8, 0.3]), np.array([1.0, 2.0]), np.array([1.0, 0.5])
    rates = np.array(rates)
    batches = np.full((1, rates.size), 2.0)
    last = np.append(np.zeros(rates.size - 1), 1.0)
    rule = bl.sgd().coefficients(rates)
    plain, general = np.empty((2, 1, rates.size + 1, 3))
    moments.one_pass_moments(mu, many, energy, 0.7, rates, batches, plain)
    iterate = running_readout(None, rates.size)
    moments.general_moments(mu, many, energy, 0.7, rule, batches, iterate, general)
    np.testing.assert_allclose(general, plain, rtol=1e-12, atol=1e-15)
    kappa = influence_kernels.general_influence(mu, many, rule, last)
    np.testing.assert_allclose(kappa, influence_kernels.influence(mu, many, rates), rtol=1e-12)


def test_pytorch_heavy_ball_is_heavy_ball_with_rescaled_momentum(small):
    """beta_t = beta gamma_t / gamma_{t-1}; with a decaying rate the two forms differ much."""
    rates = bl.wsd(64, 0.05)
    beta = 0.9 * np.append(0.0, rates[1:] / rates[:-1])
    decays = beta < 1.0
    assert decays[10:].all()
    rates, beta = rates[10:], beta[10:]
    batches = np.full(rates.size, 4)
    torch = bl.one_pass_risk(small, rates, batches, momentum=0.9, pytorch=True)
    ours = bl.one_pass_risk(small, rates, batches, momentum=beta)
    assert torch.total == pytest.approx(ours.total, rel=1e-12)


def test_the_two_forms_of_momentum_differ_by_half_at_the_papers_setting(paper):
    rates = bl.wsd(64, 0.05)
    classic = bl.influence(paper.eigenvalues, rates, momentum=0.9).sum()
    torch = bl.influence(paper.eigenvalues, rates, momentum=0.9, pytorch=True).sum()
    assert torch / classic == pytest.approx(0.521, abs=5e-4)
    flat = bl.constant(64, 0.05)
    classic, torch = (
        bl.influence(paper.eigenvalues, flat, momentum=0.9, pytorch=form).sum()
        for form in (False, True)
    )
    assert torch == pytest.approx(classic, rel=1e-12)


def test_a_trajectory_is_the_risk_of_every_shorter_run(small):
    rates = bl.wsd(12, 0.3)
    batches = np.array([np.arange(1, 13), np.full(12, 3)])
    for options in ({}, {"momentum": 0.7, "nesterov": True}):
        path = bl.one_pass_risk(small, rates, batches, trajectory=True, **options)
        assert np.shape(path.total) == (2, 13)
        start = small.eigenvalues @ small.target_energy
        np.testing.assert_allclose(path.excess[:, 0], start, rtol=1e-14)
        for t in (1, 5, 12):
            short = bl.one_pass_risk(small, rates[:t], batches[:, :t], **options)
            np.testing.assert_allclose(path.total[:, t], short.total, rtol=1e-13)
    one = bl.one_pass_risk(small, rates, batches[0], trajectory=True)
    assert np.shape(one.total) == (13,)


@pytest.mark.parametrize("options", [{}, {"momentum": 0.6}])
def test_a_trajectory_of_an_average_is_the_average_of_every_shorter_run(small, options):
    rates, batches = bl.wsd(12, 0.3), np.arange(1, 13)
    moving = bl.one_pass_risk(
        small, rates, batches, average=ema(12, 0.7), trajectory=True, **options
    )
    for t in (1, 4, 12):
        short = bl.one_pass_risk(small, rates[:t], batches[:t], average=ema(t, 0.7), **options)
        assert moving.total[t] == pytest.approx(short.total, rel=1e-11)
    tail = bl.one_pass_risk(
        small, rates, batches, average=tail_average(12, 0.5), trajectory=True, **options
    )
    plain = bl.one_pass_risk(small, rates, batches, trajectory=True, **options)
    np.testing.assert_allclose(tail.total[:8], plain.total[:8], rtol=1e-12)
    for t in (8, 11, 12):
        weights = np.append(np.zeros(6), np.full(t - 6, 1 / (t - 6)))
        short = bl.one_pass_risk(small, rates[:t], batches[:t], average=weights, **options)
        assert tail.total[t] == pytest.approx(short.total, rel=1e-11)


def test_readouts_have_their_weights():
    np.testing.assert_allclose(tail_average(10, 0.3), [0] * 7 + [1 / 3] * 3)
    weights = ema(5, 0.9)
    np.testing.assert_allclose(weights, [0.1 * 0.9**k for k in (4, 3, 2, 1, 0)])
    assert 1 - weights.sum() == pytest.approx(0.9**5)


def test_an_average_without_weights_keeps_the_start(small):
    """All weight stays on u_0: the bias of doing nothing, and no variance."""
    risk = bl.one_pass_risk(small, bl.wsd(10, 0.2), np.full(10, 2), average=np.zeros(10))
    assert risk.bias == pytest.approx(small.eigenvalues @ small.target_energy)
    assert risk.variance == 0.0


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"momentum": 1.0}, "momentum"),
        ({"momentum": -0.1}, "momentum"),
        ({"momentum": [0.1, 0.2]}, "momentum"),
        ({"momentum": [[0.1, 0.2]]}, "momentum"),
        ({"nesterov": True}, "nesterov"),
        ({"pytorch": True}, "pytorch"),
        ({"average": [0.1] * 9}, "average"),
        ({"average": [0.2] * 10}, "average"),
        ({"average": "median:3"}, "average"),
        ({"average": "tail:2"}, "average"),
        ({"momentum": 0.9, "rule": bl.sgd()}, "momentum"),
        ({"average": "ema:0.9", "rule": bl.sgd(0.5)}, "average"),
        ({"rule": 0.9}, "rule"),
    ],
)
def test_bad_options_are_named(small, options, field):
    with refused(field):
        bl.one_pass_risk(small, bl.wsd(10, 0.2), np.full(10, 2), **options)


def test_the_keywords_are_shorthand_for_a_rule(small):
    """The same bits from both, in all three functions that have them."""
    rates, batches = bl.wsd(12, 0.2), np.full(12, 3)
    options = {"momentum": 0.6, "nesterov": True, "average": "ema:0.8"}
    rule = bl.sgd(**options)
    by_rule = bl.one_pass_risk(small, rates, batches, rule=rule)
    by_keywords = bl.one_pass_risk(small, rates, batches, **options)
    assert (by_rule.total, by_rule.procedure) == (by_keywords.total, by_keywords.procedure)
    np.testing.assert_array_equal(
        bl.influence(small, rates, rule=rule), bl.influence(small, rates, **options)
    )
    np.testing.assert_array_equal(
        bl.optimal_batches(small, rates, 40, rule=rule).batches,
        bl.optimal_batches(small, rates, 40, **options).batches,
    )
    np.testing.assert_array_equal(
        bl.influence(small, rates, average="ema:0.8"),
        bl.influence(small, rates, average=ema(12, 0.8)),
    )


def test_solvers_refuse_a_rule_that_is_not_theirs(small):
    """A further rule reaches the solvers, which say that they cannot solve it."""

    class Sign(bl.UpdateRule):
        name = "sign"
        plain = False

        def readout(self, steps):
            return None

        def title(self, procedure):
            return procedure

        def assumption(self):
            return "sign descent"

    for solve in (
        lambda rule: bl.influence(small, [0.1, 0.1], rule=rule),
        lambda rule: bl.one_pass_risk(small, [0.1, 0.1], 2, rule=rule),
        lambda rule: bl.optimal_batches(small, [0.1, 0.1], 4, rule=rule),
    ):
        with refused("rule"):
            solve(Sign())


def test_momentum_moves_the_limit_of_the_rate(small):
    """Heavy ball contracts up to 2 (1 + beta)/mu, Nesterov up to 2 (1 + beta)/((1 + 2 beta) mu)."""
    top = float(small.eigenvalues[0])
    for nesterov, limit in ((False, 3.0 / top), (True, 1.5 / top)):
        bl.influence(small.eigenvalues, [0.999 * limit], momentum=0.5, nesterov=nesterov)
        with refused("rates", bl.Unstable):
            bl.influence(small.eigenvalues, [1.001 * limit], momentum=0.5, nesterov=nesterov)
    assert readout(None, 3) is None


def test_weights_may_exceed_one_by_rounding_only():
    assert readout([0.5, 0.5 + 1e-12], 2) is not None
    with refused("average"):
        readout([0.5, 0.51], 2)
    assert np.count_nonzero(tail_average(100, 0.29)) == 29
