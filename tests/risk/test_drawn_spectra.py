"""Averages over drawn sample covariances: the recursion on one, and the weights of the mixture."""

import numpy as np
import pytest

import batchlaw as bl
from batchlaw._base.kernels.mean_field import spectrum_moments
from batchlaw.risk.drawn_spectra import _spectra, average_over_spectra, draws_allowed


def rotated_recursion(covariance, problem, rates, rho, N):
    """Bias, variance and fluctuation given Sigma_hat, with whole matrices (module mean_field)."""
    mu, s2 = problem.eigenvalues, problem.noise_variance
    M = mu.size
    P, response, C = np.eye(M), np.zeros((M, M)), np.zeros((M, M))
    for g, factor in zip(rates, rho, strict=True):
        A = np.eye(M) - g * covariance
        error = P @ np.diag(problem.target_energy) @ P.T
        # The residuals' noise part: its mean square and its second moment with the features.
        left = s2 * (1.0 - (M - np.trace(P @ P)) / N)
        V = left + np.trace(covariance @ (error + C))
        qq = covariance @ error @ covariance + s2 / N * covariance @ P @ P
        spread = N / (N + 2) * V * covariance
        spread += (N - 2) / (N + 2) * (qq + covariance @ C @ covariance)
        C = A @ C @ A + g * g * factor * spread
        response = A @ response + g * np.eye(M)
        P = A @ P
    return (
        np.trace(np.diag(mu) @ P @ np.diag(problem.target_energy) @ P.T),
        s2 / N * np.trace(np.diag(mu) @ response @ covariance @ response.T),
        np.trace(np.diag(mu) @ C),
    )


@pytest.mark.parametrize("N", [3, 9])
def test_the_recursion_on_one_spectrum_matches_whole_matrices(N):
    rng = np.random.default_rng(4)
    problem = bl.Problem.from_spectrum([0.9, 0.5, 0.3, 0.1], [1.0, 0.4, 2.0, 1.0], 0.7)
    rates, rho = rng.uniform(0.1, 0.4, 12), rng.uniform(0.0, 0.5, (2, 12))
    Z = rng.standard_normal((N, 4)) * np.sqrt(problem.eigenvalues)
    covariance = Z.T @ Z / N
    nu, W = np.linalg.eigh(covariance)
    nu = np.where(nu < 1e-12, 0.0, nu)
    sigma, target = ((W.T * d) @ W for d in (problem.eigenvalues, problem.target_energy))
    out = np.empty((2, 13, 3))
    spectrum_moments(nu, sigma, target, 0.7, rates, rho, float(N), out)
    for row in range(2):
        for t in (0, 5, 12):
            expected = rotated_recursion(covariance, problem, rates[:t], rho[row, :t], N)
            np.testing.assert_allclose(out[row, t], expected, rtol=1e-12, atol=1e-15)
    last = np.empty((2, 1, 3))
    spectrum_moments(nu, sigma, target, 0.7, rates, rho, float(N), last)
    np.testing.assert_array_equal(last[:, 0], out[:, -1])


@pytest.mark.parametrize("N", [3, 20])
def test_weighted_draws_have_the_mean_covariance(N):
    problem = bl.Problem.from_spectrum([1.0, 0.5, 0.2, 0.1, 0.1], np.ones(5), 0.0)
    draws = 6000
    weighted = [w * np.append(c.ravel(), 1.0) for w, c in _spectra(problem, 30.0, N, draws)]
    expected = np.append(np.diag(problem.eigenvalues).ravel(), 1.0)
    error = np.std(weighted, axis=0) / np.sqrt(draws)
    assert (np.abs(np.mean(weighted, axis=0) - expected) < 4.0 * error).all()


def test_the_average_is_that_of_plain_draws():
    """Wishart matrices drawn whole, without a mixture, in numbers enough for a rare event."""
    problem = bl.Problem.from_spectrum([1.0, 0.4, 0.2], [1.0, 1.0, 1.0], 0.1)
    rates, N, plain = bl.wsd(60, 0.3), 24, 4000
    rho = np.full((1, 60), 0.05)
    drawn = average_over_spectra(problem, rates, rho, N, 3000)
    rng = np.random.default_rng(8)
    rows = []
    for _ in range(plain):
        Z = rng.standard_normal((N, 3)) * np.sqrt(problem.eigenvalues)
        nu, W = np.linalg.eigh(Z.T @ Z / N)
        sigma, target = ((W.T * d) @ W for d in (problem.eigenvalues, problem.target_energy))
        out = np.empty((1, 1, 3))
        spectrum_moments(nu, sigma, target, 0.1, rates, rho, float(N), out)
        rows.append(out[0, 0])
    error = np.hypot(np.std(rows, axis=0) / np.sqrt(plain), drawn.error[0, 0])
    assert (np.abs(np.mean(rows, axis=0) - drawn.mean[0, 0]) < 3.5 * error).all()


def test_spectra_are_drawn_for_small_problems_only():
    assert draws_allowed(bl.Problem.from_spectrum([1.0], [1.0], 0.0), 100) > 1000
    assert draws_allowed(bl.Problem.from_spectrum([1.0], [1.0], 0.0, [1000]), 100) == 0
    assert draws_allowed(bl.Problem.paper(), 10**7) == 0
