"""Influence from measured spectra: tails, measured noise, and Adam with frozen scales."""

import numpy as np
import pytest

import batchlaw as bl
from batchlaw._base.kernels import adjoint
from batchlaw.influences.adaptive import adam_influence
from batchlaw.model.model_spectrum import ModelSpectrum
from refused import refused

RATES = np.random.default_rng(5).uniform(0.05, 0.6, 9)
MU = np.array([1.1, 0.4, 0.09])


def frozen_adam(P, G, rates, kicks, beta, decay, debias, start):
    """Adam's own formulas with sqrt(v) + eps = P, gradient G x + kick."""
    x, m = start.copy(), np.zeros_like(start)
    for t, gamma in enumerate(rates):
        g = G @ x + kicks[t]
        x = x * (1.0 - gamma * decay)
        m = beta * m + (1.0 - beta) * g
        x = x - gamma * (m / (1.0 - beta ** (t + 1)) if debias else m) / P
    return x


@pytest.mark.parametrize("debias", [True, False])
@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("beta", [0.0, 0.9])
def test_influence_is_the_exact_effect_of_noise_under_frozen_adam(beta, decay, debias):
    """Kick each update by every column of sqrt(C); twice the final loss sums to kappa."""
    rng = np.random.default_rng(1)
    P = rng.uniform(0.3, 3.0, 4)
    Q = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    G = (Q * [1.0, 0.5, 0.2, 0.05]) @ Q.T
    root = np.tril(rng.standard_normal((4, 4)))  # C = root root^T
    expected = np.zeros(RATES.size)
    for t in range(RATES.size):
        for column in root.T:
            kicks = np.zeros((RATES.size, 4))
            kicks[t] = column
            x = frozen_adam(P, G, RATES, kicks, beta, decay, debias, np.zeros(4))
            expected[t] += x @ G @ x
    half = np.diag(P**-0.5)
    mu, vectors = np.linalg.eigh(half @ G @ half)
    noise = np.diag(vectors.T @ half @ root @ root.T @ half @ vectors)
    kappa = adam_influence(mu, RATES, beta1=beta, weight_decay=decay, noise=noise, debias=debias)
    np.testing.assert_allclose(kappa, expected, rtol=1e-10)


def test_without_momentum_adam_is_sgd_in_its_own_coordinates():
    np.testing.assert_allclose(
        adam_influence(MU, RATES, beta1=0.0), bl.influence(MU, RATES), rtol=1e-12
    )
    np.testing.assert_allclose(
        adam_influence(MU, RATES, beta1=0.8, debias=False),
        bl.influence(MU, 0.2 * RATES, momentum=0.8, pytorch=True),
        rtol=1e-12,
    )


def test_a_common_scale_of_the_preconditioner_divides_the_rates():
    scale = np.linspace(2.0, 1.0, RATES.size)
    np.testing.assert_allclose(
        adam_influence(MU, RATES, scale=scale), adam_influence(MU, RATES / scale), rtol=1e-12
    )


def spectrum(**changes):
    values = np.arange(1, 21) ** -1.6
    whole = float((np.arange(1, 1001) ** -1.6).sum())
    given = {"trace": whole, "trace_error": 0.0, "dimension": 1000, "samples": 10} | changes
    return ModelSpectrum("gauss-newton", values, **given)


@pytest.mark.parametrize("tail", ["power", "lump"])
def test_nodes_keep_the_trace_and_the_dimension(tail):
    noisy = spectrum(noise=2.0 * np.arange(1, 21) ** -1.6, noise_trace=5.0)
    nodes = noisy.nodes(tail)
    assert nodes.multiplicity.sum() == 1000
    assert nodes.multiplicity @ nodes.eigenvalues == pytest.approx(noisy.trace, rel=1e-12)
    assert nodes.multiplicity @ nodes.noise == pytest.approx(5.0, rel=1e-12)
    np.testing.assert_array_equal(nodes.eigenvalues[:20], noisy.eigenvalues)


def test_a_power_tail_recovers_the_influence_of_a_power_law():
    """From 20 of 1000 eigenvalues and the trace; one lump or no tail is off by over half."""
    rates = bl.wsd(400, 0.5)
    whole = bl.influence(np.arange(1, 1001) ** -1.6, rates)
    errors = {}
    for tail in ("power", "lump", "none"):
        nodes = spectrum().nodes(tail)
        kappa = bl.influence(nodes.eigenvalues, rates, multiplicity=nodes.weight)
        errors[tail] = np.abs(kappa / whole - 1.0).max()
    assert errors["power"] < 1e-3
    assert 0.5 < errors["lump"] < errors["none"]


def test_a_tail_heavier_than_the_last_eigenvalue_allows_is_flat():
    nodes = spectrum(trace=100.0).nodes("power")
    assert np.ptp(nodes.eigenvalues[20:]) < 1e-12
    assert nodes.multiplicity @ nodes.eigenvalues == pytest.approx(100.0)


def test_a_tail_too_light_for_any_power_still_has_the_trace():
    nodes = spectrum(trace=spectrum().eigenvalues.sum() * (1 + 1e-11)).nodes("power")
    assert nodes.multiplicity @ nodes.eigenvalues == pytest.approx(nodes.eigenvalues[:20].sum())
    assert (nodes.eigenvalues > 0.0).all()


def test_negative_eigenvalues_are_left_out():
    values = np.array([2.0, 0.5, -0.3])
    nodes = ModelSpectrum("hessian", values, 2.2, 0.0, 3, 10).nodes()
    np.testing.assert_array_equal(nodes.eigenvalues, [2.0, 0.5])
    with refused("eigenvalues"):
        ModelSpectrum("hessian", -values[:2], -2.5, 0.0, 3, 10).nodes()


def test_exact_slopes_of_the_regression_are_just_above_influence():
    """The regression of examples/sensitivity.py, as a noise-free measurement would see it."""
    mu, rates = np.arange(1, 33) ** -1.5, bl.wsd(80, 0.2)
    slopes = np.empty(80)
    start, shares = np.zeros(32), np.full(80, 1.0 / 16.0)
    adjoint.plain_slopes(mu, np.ones(32), start, 1.0, rates, np.ones(80), shares, slopes)
    ratio = slopes / bl.influence(mu, rates)
    assert 1.0 < ratio.min() < ratio.max() < 1.04


def test_bad_input_is_refused_by_field():
    with refused("beta1"):
        adam_influence(MU, RATES, beta1=1.0)
    with refused("weight_decay"):
        adam_influence(MU, RATES, weight_decay=4.0)
    with refused("rates", bl.Unstable):
        adam_influence(MU, 100.0 * RATES)
    with refused("noise"):
        adam_influence(MU, RATES, noise=[1.0])
    with refused("scale"):
        adam_influence(MU, RATES, scale=[1.0])
    with refused("noise"):
        adam_influence(spectrum(), RATES, noise=MU)
    with refused("tail"):
        spectrum().nodes("fat")
