"""Multi-pass SGD averaged over datasets: both approximations against definitions and limits."""

import csv
import re
import runpy

import numpy as np
import pytest
from scipy import stats

import batchlaw as bl
from batchlaw._base.kernels.common import products
from batchlaw.batches.effective import fluctuation_factors
from batchlaw.risk.contour_solution import contour_parts, gradient_descent_parts
from batchlaw.risk.dataset_average import MAX_ERROR, quadrature_error
from batchlaw.risk.mean_field import expected_gradient_descent_risk, expected_risk_mean_field
from batchlaw.risk.sample_spectrum import (
    contour_resolvent,
    largest_sample_eigenvalue,
    sample_spectrum,
)
from batchlaw.risk.simple_recursion import expected_fluctuation_simple
from batchlaw.risk.single_samples import NOTED_ERROR, outlier_error, unstable_share
from paths import BENCHMARKS, DOCS
from refused import refused

BOTH = (expected_fluctuation_simple, expected_risk_mean_field)


def two_time_equations(problem, rates, rho, N):
    """GD's excess and the fluctuation by dynamical mean field theory, two times at once."""
    mu, s2 = problem.eigenvalues, problem.noise_variance
    start = mu * problem.target_energy
    L, M = len(rates), mu.size
    r = np.zeros((M, L + 1, L))
    p = np.ones((M, L + 1))
    A, K = np.zeros((L, L)), np.zeros((L, L))
    for t in range(L):
        A[t] = r[:, t].sum(axis=0) / N
        K[t] = np.eye(L)[t] + A[t] @ K
        for j in range(M):
            r[j, t + 1] = r[j, t] - rates[t] * mu[j] * (np.eye(L)[t] + K[t] @ r[j, :L])
            p[j, t + 1] = p[j, t] - rates[t] * mu[j] * K[t] @ p[j, :L]

    def excess(extra):
        x = np.zeros((L, L))
        phi_x = np.zeros((L, L))
        for t in range(L):
            phi = np.full(L, s2)
            for j in range(M):
                phi += start[j] * p[j, t] * p[j, :L] + r[j, t] @ x @ r[j, :L].T / N
            for s in range(t + 1):
                phi_x[t, s] = phi @ K[s]
            for s in range(t):
                x[t, s] = x[s, t] = phi_x[t, s] + A[t] @ x[:, s]
            field = phi[t] + 2.0 * A[t] @ phi_x[t] + A[t] @ x @ A[t]
            x[t, t] = (1.0 + extra[t]) * field
        spread = sum(r[j, L] @ x @ r[j, L] for j in range(M)) / N
        return start @ p[:, L] ** 2 + spread

    descent = excess(np.zeros(L))
    return descent, np.array([excess(N * row) - descent for row in rho])


def average_over_datasets(problem, rates, rho, N, datasets, seed):
    """Bias, variance and fluctuation by the M x M recursion given each dataset, and errors.

    GD's error is P e_0 + F xi: averaged over the label noise xi and the signs of e_0.
    Stacks of matrices, one a dataset.
    """
    mu, s2 = problem.eigenvalues, problem.noise_variance
    Z = np.random.default_rng(seed).standard_normal((datasets, N, mu.size)) * np.sqrt(mu)
    Zt = Z.transpose(0, 2, 1)
    hat, sigma, start = Zt @ Z / N, np.diag(mu), np.diag(problem.target_energy)
    P = np.broadcast_to(np.eye(mu.size), hat.shape)
    F, C = np.zeros_like(Zt), np.zeros_like(hat)
    for g, factor in zip(rates, rho, strict=True):
        step = np.eye(mu.size) - g * hat
        signal = P @ start @ P.transpose(0, 2, 1)
        noise = Z @ F - np.eye(N)  # the residuals' response to xi
        squares = (Z @ (signal + C) * Z).sum(axis=2) + s2 * (noise**2).sum(axis=2)
        q = Zt @ noise / N
        mean = hat @ (signal + C) @ hat + s2 * q @ q.transpose(0, 2, 1)
        C = step @ C @ step + g * g * factor * (Zt * squares[:, None, :] @ Z / N - mean)
        P, F = step @ P, F - g * q
    errors = (P @ start @ P.transpose(0, 2, 1), s2 * F @ F.transpose(0, 2, 1), C)
    values = np.array([np.einsum("ab,rba->r", sigma, error) for error in errors])
    return values.mean(axis=1), values.std(axis=1) / np.sqrt(datasets)


def chi_squared_average(function, N, limit=np.inf):
    """E function(chi^2_N/N) below a limit, by quadrature in the logarithm."""
    x, w = np.polynomial.legendre.leggauss(1000)
    values = np.exp(0.5 * (x + 1.0) * np.log(2e7)) * 1e-6
    density = stats.chi2.pdf(values * N, N) * N * values * w * 0.5 * np.log(2e7)
    return sum(d * function(v) for d, v in zip(density, values, strict=True) if v < limit)


def test_to_leading_order_it_solves_the_two_time_equations(small):
    rates = np.array([0.3, 0.5, 0.4, 0.6, 0.2, 0.5, 0.1])
    for N in (5, 12):
        rho = fluctuation_factors([[1, 2, 4, 1, 2, 3, 5], [4, 4, 3, 2, 2, 1, 1]], 7, N)
        resolvent = contour_resolvent(small, N, rates.sum())
        spectrum = sample_spectrum(small, N, resolvent, leading=True)
        psi = products(resolvent.points, rates)
        ours = contour_parts(spectrum, small.noise_variance, rates, rho, N, psi, finite=False)
        ours = ours[:, 0]
        descent, fluctuation = two_time_equations(small, rates, rho, N)
        np.testing.assert_allclose(ours[:, :2].sum(axis=1), descent, rtol=1e-11)
        np.testing.assert_allclose(ours[:, 2], fluctuation, rtol=1e-10)


@pytest.mark.parametrize(("N", "peak"), [(8, 0.3), (16, 0.2)])
def test_mean_field_matches_the_average_of_dense_recursions(small, N, peak):
    """What is left is of order 1/N^2: the leading order alone would be 2 to 17 % off."""
    rates, batches = bl.wsd(12, peak), np.repeat([2, 3, 4], 4)
    risk = expected_risk_mean_field(small, rates, batches, N)
    rho = fluctuation_factors(batches, rates.size, N)[0]
    mean, error = average_over_datasets(small, rates, rho, N, 8000, seed=5)
    ours = np.array([risk.bias, risk.variance, risk.fluctuation])
    assert (np.abs(ours - mean) < 3.5 * error + mean / N**2).all()
    assert (error < 0.004 * mean).all()


@pytest.mark.slow
@pytest.mark.parametrize("replacement", [False, True])
def test_mean_field_matches_monte_carlo(small, replacement):
    rates, batches = bl.wsd(40, 0.2), np.stack([np.full(40, 3), np.repeat([2, 6], 20)])
    how = {"samples": 24, "replacement": replacement}
    risk = expected_risk_mean_field(small, rates, batches, **how)
    measured = bl.simulate_multi_pass(small, rates, batches, repetitions=6000, seed=1, **how)
    for term in ("bias", "variance", "fluctuation"):
        apart = getattr(risk, term) - getattr(measured, term)
        assert (np.abs(apart) < 4.0 * measured.standard_error(term)).all(), term


@pytest.mark.parametrize(("N", "peak", "steps"), [(16, 0.3, 24), (512, 0.05, 400)])
def test_a_trajectory_is_the_risk_of_every_shorter_run(paper, N, peak, steps):
    rates = bl.wsd(steps, peak)
    batches = np.stack([np.full(steps, 3), np.repeat([2, 6], steps // 2)])
    path = bl.multi_pass_risk(paper, rates, batches, samples=N, trajectory=True)
    descent = bl.gradient_descent_risk(paper, rates, samples=N, trajectory=True)
    start = paper.eigenvalues @ paper.target_energy
    np.testing.assert_allclose(path.excess[:, 0], start, rtol=1e-14)
    for t in (1, 2, steps // 8, steps // 3, steps):
        short = bl.multi_pass_risk(paper, rates[:t], batches[:, :t], samples=N)
        for term in ("bias", "variance", "fluctuation"):
            found, expected = getattr(path, term), getattr(short, term)
            scale = np.abs(found).max()
            np.testing.assert_allclose(found[:, t], expected, rtol=1e-9, atol=1e-12 * scale)
        assert descent.excess[t] == pytest.approx(short.bias[0] + short.variance[0], rel=1e-9)
    one = bl.multi_pass_risk(paper, rates, batches[1], samples=N, trajectory=True)
    np.testing.assert_array_equal(one.total, path.total[1])


FLAT = bl.Problem.from_spectrum([1.0], [1.0], 1.0, [50])


@pytest.mark.parametrize(
    ("problem", "N", "peak"),
    [(bl.Problem.paper(), 512, 0.05), (bl.Problem.paper(), 64, 0.2), (FLAT, 10**5, 0.01)],
)
def test_the_contour_has_enough_points_for_runs_of_every_length(problem, N, peak):
    for steps in (2, 10, 30, 60, 80, 100, 130, 200, 375, 400):
        rates, batches = bl.wsd(512, peak)[:steps], np.full(steps, 8)
        ours, finer = (
            expected_risk_mean_field(problem, rates, batches, N, nodes=nodes)
            for nodes in (None, 200)
        )
        for term in ("bias", "variance", "fluctuation"):
            assert getattr(ours, term) == pytest.approx(getattr(finer, term), rel=1e-8)


@pytest.mark.parametrize("solver", BOTH)
def test_many_samples_turn_reuse_into_one_pass(small, solver):
    rates, batches = bl.wsd(30, 0.3), np.repeat([1, 2, 5], 10)
    ours = solver(small, rates, batches, 10**10, replacement=True)
    one_pass = bl.one_pass_risk(small, rates, batches)
    assert ours.fluctuation == pytest.approx(one_pass.variance, rel=1e-8)
    assert ours.bias == pytest.approx(one_pass.bias, rel=1e-8)


def test_a_trillion_weak_directions_cancel_no_digits():
    problem = bl.Problem.from_spectrum([0.5, 0.01, 1e-13], [1.0, 2.0, 1e-6], 1.0, [1, 20, 1e12])
    rates, batches = bl.wsd(50, 0.4), np.full(50, 2)
    ours = expected_risk_mean_field(problem, rates, batches, 10**13, replacement=True)
    one_pass = bl.one_pass_risk(problem, rates, batches)
    assert ours.fluctuation == pytest.approx(one_pass.variance, rel=1e-10)


@pytest.mark.parametrize("solver", BOTH)
def test_full_batches_do_not_fluctuate(small, solver):
    rates = bl.wsd(30, 0.1)
    risk = solver(small, rates, np.full((2, 30), 40), 40)
    assert (risk.fluctuation == 0.0).all()


def test_without_batch_noise_it_is_gradient_descent(small):
    rates = bl.wsd(30, 0.3)
    sgd = expected_risk_mean_field(small, rates, np.full(30, 16), 16)
    gd = expected_gradient_descent_risk(small, rates, 16)
    assert (sgd.bias, sgd.variance) == (gd.bias, gd.variance)
    measured = bl.simulate_gradient_descent(small, rates, samples=16, repetitions=8000, seed=2)
    for term in ("bias", "variance"):
        apart = abs(getattr(gd, term) - getattr(measured, term))
        assert apart < 4.0 * measured.standard_error(term), term


@pytest.mark.parametrize("solver", BOTH)
def test_nodes_with_multiplicity_equal_the_expanded_problem(solver):
    nodes = bl.Problem.from_spectrum([0.8, 0.2, 0.05], [1.0, 0.3, 2.0], 1.1, [1, 3, 6])
    rates, batches = bl.wsd(25, 0.2), np.full(25, 3)
    ours, expanded = (solver(p, rates, batches, 32) for p in (nodes, nodes.expanded()))
    for term in ("bias", "variance", "fluctuation"):
        assert getattr(ours, term) == pytest.approx(getattr(expanded, term), rel=1e-11)


@pytest.mark.parametrize("solver", BOTH)
def test_many_schedules_at_once_equal_one_at_a_time(small, solver):
    rates = bl.wsd(20, 0.2)
    batches = np.random.default_rng(0).integers(1, 20, (5, 20))
    together = solver(small, rates, batches, 48)
    for row, schedule in enumerate(batches):
        alone = solver(small, rates, schedule, 48)
        for term in ("bias", "variance", "fluctuation"):
            assert isinstance(getattr(alone, term), float)
            assert getattr(alone, term) == getattr(together, term)[row]


@pytest.mark.parametrize("solver", BOTH)
def test_batches_enter_through_rho_alone(small, solver):
    rates, N, B = bl.wsd(20, 0.2), 40, 5.0
    with_replacement = solver(small, rates, np.full(20, B), N, replacement=True)
    same = solver(small, rates, np.full(20, N / (1.0 + (N - 1) / B)), N)
    assert same.fluctuation == pytest.approx(with_replacement.fluctuation, rel=1e-12)


def test_the_simple_recursion_matches_its_definition(small):
    rates, batches, N = bl.wsd(15, 0.2), np.arange(1, 16), 50
    mu, energy, s2 = small.eigenvalues, small.target_energy, small.noise_variance
    C, m = np.zeros_like(mu), np.ones_like(mu)

    def spread(x):
        return mu**2 * x + mu * (mu @ x)

    for g, rho in zip(rates, fluctuation_factors(batches, rates.size, N)[0], strict=True):
        shrunk = (1.0 - (1.0 - m).sum() / N) ** 2
        source = spread(C) + shrunk * (spread(energy * m**2) + s2 * mu)
        C, m = (1.0 - g * mu) ** 2 * C + g**2 * rho * source, (1.0 - g * mu) * m
    risk = expected_fluctuation_simple(small, rates, batches, N)
    assert risk.fluctuation == pytest.approx(mu @ C, rel=1e-12)
    assert risk.bias == pytest.approx(mu @ (energy * m**2), rel=1e-12)


def test_both_give_the_expected_ratio_of_the_paper_setting(paper):
    rates = bl.wsd(512, 0.05)
    families = bl.schedule_families(bl.influence(paper.eigenvalues, rates), 4096, max_batch=512)
    for solver, expected in zip(BOTH, (0.6205, 0.6204), strict=True):
        risk = solver(paper, rates, list(families.values()), 512)
        assert risk.ratio("fluctuation", 0, 1)[0] == pytest.approx(expected, abs=5.1e-5)


@pytest.mark.slow
def test_the_stated_errors_cover_exact_averages():
    """Settings where rare datasets decide, few samples and one direction among them."""
    bench = runpy.run_path(str(BENCHMARKS / "mean_field_error.py"))
    rows = list(bench["compare"]())
    covered, known, total, largest, usual, ratio = bench["summary"](rows)
    assert total >= 40
    assert covered >= 0.95 * known
    assert total - known <= 4
    assert usual >= 10
    assert largest <= 0.02
    assert ratio < 10.0


def test_a_bias_that_is_almost_gone_comes_from_drawn_spectra():
    """One direction, 17 samples, no label noise: E psi(nu)^2 by quadrature over chi^2."""
    problem, rates, N = bl.Problem.from_spectrum([1.0], [1.0], 0.0), bl.cosine(30, 0.3), 17
    risk = expected_gradient_descent_risk(problem, rates, N)
    assert "drawn spectra" in risk.method
    expected = chi_squared_average(lambda nu: np.prod(1.0 - rates * nu) ** 2, N, limit=2.0 / 0.3)
    assert expected == pytest.approx(1.633e-3, rel=1e-3)
    assert abs(risk.bias / expected - 1.0) < risk.uncertainty < MAX_ERROR


def test_an_error_that_nothing_bounds_is_unknown():
    """Too many directions to draw, and a bias that rare datasets decide."""
    flat = bl.Problem.from_spectrum([0.3], [1.0], 0.0, [100])
    risk = expected_gradient_descent_risk(flat, np.full(2000, 0.5), 400)
    assert risk.uncertainty == np.inf
    assert [note.kind for note in risk.notes][1] == "unknown error"


def test_a_part_that_is_known_worse_than_the_excess_is_named():
    problem = bl.Problem.from_spectrum([1.0, 0.25, 0.11, 0.06], np.ones(4), 1.0)
    risk = expected_gradient_descent_risk(problem, bl.wsd(1000, 0.2), 129)
    assert risk.uncertainty < 0.01
    assert [note.kind for note in risk.notes] == ["approximation", "part error"]


def test_errors_grow_with_fewer_samples_and_a_vanishing_bias(small):
    def stated(steps, N):
        return expected_gradient_descent_risk(small, bl.wsd(steps, 0.3), N).uncertainty

    assert stated(60, 16) > stated(60, 64) > stated(60, 1000) > 0.0


def test_the_contour_is_fine_enough_and_says_when_it_is_not(small):
    rates, N = bl.wsd(60, 0.5), 20

    def excess_and_error(nodes):
        resolvent = contour_resolvent(small, N, float(rates.sum()), nodes)
        psi = products(resolvent.points, rates)
        spectrum = sample_spectrum(small, N, resolvent)
        excess = sum(gradient_descent_parts(spectrum, small.noise_variance, psi))
        return excess, quadrature_error(small, resolvent, psi, rates, N)

    finer, _ = excess_and_error(200)
    usual, stated = excess_and_error(None)
    assert usual == pytest.approx(finer, rel=1e-11)
    assert stated < 1e-11
    coarse, stated = excess_and_error(24)
    error = abs(coarse / finer - 1.0)
    assert error > 1e-9
    assert 0.3 * error < stated < 3.0 * error


def test_dropped_points_of_the_contour_are_not_felt(small, monkeypatch):
    rates, batches = bl.wsd(400, 0.8), np.full(400, 6)
    usual = expected_risk_mean_field(small, rates, batches, 30)
    monkeypatch.setattr("batchlaw.risk.contour_solution.LOG_UNDERFLOW", -np.inf)
    whole = expected_risk_mean_field(small, rates, batches, 30)
    assert usual.fluctuation == pytest.approx(whole.fluctuation, rel=1e-12)


def test_the_largest_sample_eigenvalue_is_the_marchenko_pastur_edge():
    problem = bl.Problem.from_spectrum([0.7], [1.0], 1.0, [20])
    edge = 0.7 * (1.0 + np.sqrt(20 / 50)) ** 2
    assert largest_sample_eigenvalue(problem, 50) == pytest.approx(edge, rel=1e-12)


def test_outliers_that_batch_noise_amplifies_are_named(small):
    rates = np.full(100, 0.5)
    batches = np.outer([8, 1], np.ones(100))
    risk = expected_risk_mean_field(small, rates, batches, 16)
    assert [note.schedule for note in risk.notes if note.kind == "outliers"] == [1]
    assert np.isfinite(risk.uncertainty[0])
    assert risk.uncertainty[1] == np.inf
    alone = expected_risk_mean_field(small, rates, batches[1], 16)
    assert alone.uncertainty == np.inf
    assert "rare datasets may decide the exact average" in alone.notes[-1]


def test_the_error_from_outliers_is_the_growth_averaged_over_their_norm():
    """One direction: growth (1 - x)^2 + (N - 1) rho x^2 a step, x = gamma r/N, averaged by hand."""
    problem, N, rates = bl.Problem.from_spectrum([1.0], [1.0], 1.0), 40, np.full(10, 0.5)
    rho = np.full((1, 10), 0.9)
    r = np.linspace(0.0, stats.chi2.isf(1.0 / (1e4 * N), 1), 200_001)[1:]
    x = 0.5 * r / N
    factor = (1.0 - x) ** 2 + (N - 1) * 0.9 * x**2
    growth = np.maximum(factor, 1.0) ** 10 - 1.0
    expected = np.trapezoid(growth * stats.chi2.pdf(r, 1), r)
    assert outlier_error(problem, rates, rho, N)[0] == pytest.approx(expected, rel=1.0)


@pytest.mark.parametrize(
    ("solver", "change", "field"),
    [
        (BOTH[0], {"samples": 8}, "samples"),
        (BOTH[1], {"rates": np.full(20, 2.0), "samples": 6}, "rates"),
        (BOTH[1], {"nodes": 9}, "nodes"),
        (BOTH[1], {"nodes": 6}, "nodes"),
        *((solver, {"samples": 1}, "samples") for solver in BOTH),
        *((solver, {"samples": 3}, "batches") for solver in BOTH),
        *((solver, {"batches": [4]}, "batches") for solver in BOTH),
        *((solver, {"rates": np.full(20, 9.0)}, "rates") for solver in BOTH),
    ],
)
def test_bad_arguments_are_named(small, solver, change, field):
    arguments = {"rates": np.full(20, 0.5), "batches": np.full(20, 4), "samples": 64} | change
    with refused(field):
        solver(small, **arguments)


def test_second_moments_that_overflow_are_named():
    problem = bl.Problem.from_spectrum([1.0], [1.0], 1.0, [30])
    with refused("rates", bl.Unstable):
        expected_risk_mean_field(problem, np.full(2000, 0.3), np.ones(2000), 10**4)


def _limits():
    """Rows of the table of limits: solver, least N, largest df/N, then a limit for each term."""
    text = (DOCS / "mean_field.md").read_text()
    pattern = r"^\| `(\w+)` \| (\d+) \| ([\d.]+) \| ([\d.]+) % \| ([\d.]+) % \| ([\d.]+) % \|$"
    return [(name, *map(float, rest)) for name, *rest in re.findall(pattern, text, re.MULTILINE)]


def stored_errors():
    """Relative errors of both solvers on the grid of the benchmark, and those of its averages."""
    bench = runpy.run_path(str(BENCHMARKS / "mean_field_limits.py"))
    with bench["STORE"].open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if int(row["M"]) < 64]
    for row in rows:
        simple, full, share, outliers = bench["relative_errors"](row)
        known = np.array([float(row[f"{t}_error"]) / float(row[t]) for t in bench["TERMS"]])
        yield int(row["N"]), share, simple, full, known, outliers <= NOTED_ERROR


def test_the_simple_recursion_keeps_the_limits_of_the_document():
    """Against stored exact averages, of which each is allowed three standard errors."""
    limits = _limits()
    assert {row[0] for row in limits} == {expected_fluctuation_simple.__name__}
    used = set()
    for N, share, simple, _, known, steady in stored_errors():
        for _, least, most, *bounds in limits:
            if simple is None or least > N or share > most:
                continue
            used.add((least, most))
            allowed = np.array([*bounds[1:], *np.full(4, bounds[0])]) / 100.0 + 3.0 * known
            inside = np.abs(simple) <= allowed
            assert inside[np.r_[True, True, steady]].all(), (N, share, simple)
    assert len(used) == len(limits)


def test_the_mean_field_is_within_a_per_cent_where_outliers_do_not_decide():
    for N, _, _, full, known, steady in stored_errors():
        allowed = (0.01 if N == 16 else 0.005) + 3.0 * known
        assert (np.abs(full) <= allowed)[np.r_[True, True, steady]].all(), (N, full)


@pytest.mark.parametrize(
    ("rates", "N", "B", "average"),
    [(bl.wsd(10, 0.9), 200, 2, 0.7688), (bl.wsd(10, 0.6), 60, 2, 0.3591)],
)
def test_fourth_moments_of_the_data_are_part_of_the_error(rates, N, B, average):
    """Averages over 100,000 datasets (exact given each) of noisy runs with small batches."""
    problem = bl.Problem.from_spectrum(np.exp(-1.2 * np.arange(4)), np.ones(4), 1.0)
    risk = expected_risk_mean_field(problem, rates, np.full(rates.size, B), N)
    assert abs(risk.excess / average - 1.0) < risk.uncertainty


@pytest.mark.parametrize(("rate", "N"), [(1.2, 17), (1.3, 65), (0.5, 5)])
def test_an_average_with_unstable_datasets_has_no_known_error(rate, N):
    problem, rates = bl.Problem.from_spectrum([1.0], [1.0], 1.0), np.full(30, rate)
    assert expected_gradient_descent_risk(problem, rates, N).uncertainty == np.inf
    # Datasets whose only eigenvalue is beyond 2/rate, where GD grows.
    share = stats.chi2.sf(2.0 / rate * N, N)
    assert unstable_share(problem, rates, N) == pytest.approx(share, rel=0.5)
    assert share > 1e-4


def test_an_excess_below_rounding_is_drawn_or_unknown():
    free = bl.Problem.from_spectrum([1.0], [1.0], 0.0)
    exact = chi_squared_average(lambda nu: (1.0 - 0.6 * nu) ** 60, 300, limit=3.0)
    risk = expected_gradient_descent_risk(free, np.full(30, 0.6), 300)
    assert abs(risk.bias / exact - 1.0) < risk.uncertainty
    three = bl.Problem.from_spectrum([1.0, 0.5, 0.2], np.ones(3), 0.0)
    for steps, N in ((1500, 200), (2000, 10_000), (10_000, 20)):
        run = expected_risk_mean_field(three, np.full(steps, 0.1), np.full(steps, 4), N)
        assert (np.asarray(run.uncertainty) >= 0.0).all()


def test_nearly_equal_eigenvalues_do_not_state_a_small_error():
    """Tilts along axes miss rare directions between them: exactly 0.44 low at N = 17."""
    flat = bl.Problem.from_spectrum([1.0, 1.0], [1.0, 1.0], 0.0)
    assert expected_gradient_descent_risk(flat, bl.cosine(200, 0.3), 17).uncertainty == np.inf


def test_nodes_that_stand_for_an_average_are_not_drawn():
    nodes = bl.Problem.power_law_nodes(2.0, 1.5, 16, kind="sketch")
    risk = expected_risk_mean_field(nodes, bl.wsd(100, 0.2), np.full(100, 4), 10)
    assert "drawn" not in risk.method
    assert risk.uncertainty > 0.0


def test_a_coarse_contour_states_the_error_of_the_fluctuation(small):
    rates, batches = bl.wsd(60, 0.3), np.full(60, 4)
    fine = expected_risk_mean_field(small, rates, batches, 200)
    coarse = expected_risk_mean_field(small, rates, batches, 200, nodes=24)
    assert abs(coarse.excess / fine.excess - 1.0) < coarse.uncertainty


def test_other_schedules_do_not_change_a_schedules_result():
    problem, rates = bl.Problem.from_spectrum([1.0], [1.0], 1.0), np.full(30, 0.55)
    alone = expected_risk_mean_field(problem, rates, np.full(30, 17), 17)
    both = expected_risk_mean_field(problem, rates, np.outer([17, 1], np.ones(30)), 17)
    assert both.excess[0] == alone.excess
