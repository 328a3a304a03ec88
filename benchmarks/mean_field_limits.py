"""Both approximations of multi-pass SGD's expected risk against exact averages over datasets.

    python benchmarks/mean_field_limits.py            # the table, from the stored averages
    python benchmarks/mean_field_limits.py --measure  # the averages too: some minutes
    python benchmarks/mean_field_limits.py --others   # problems unlike those of the grid

The reference is the exact recursion given a dataset, averaged over label noise and over many
datasets. Regression on entries of the sample covariance, whose means are known, removes most of
the scatter. The averages are stored in mean_field_limits.csv, from which
tests/risk/test_mean_field.py checks the limits of docs/mean_field.md.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import time
from pathlib import Path

import numpy as np

import batchlaw as bl
from batchlaw.batches.effective import fluctuation_factors
from batchlaw.risk.mean_field import expected_risk_mean_field
from batchlaw.risk.simple_recursion import expected_fluctuation_simple
from batchlaw.risk.single_samples import NOTED_ERROR, outlier_error

STORE = Path(__file__).with_suffix(".csv")
SCHEDULES = ("oracle", "constant", "early", "late")
TERMS = ("bias", "variance", *SCHEDULES)
SETTING = ("M", "N", "gamma", "L", "a")
KINDS = (int, int, float, int, float)
# M = 64 is the paper's instance and setting.
GRID = (
    *itertools.product((16,), (16, 64, 128), (0.05, 0.2, 0.4), (32, 128), (1.5, 2.0)),
    (64, 512, 0.05, 512, 2.0),
)


def setting(M, N, gamma, L, a):
    """Problem, rates and the paper's four schedules: 4 samples per update, or the paper's 8."""
    i = np.arange(1.0, M + 1.0)
    paper = M == 64
    problem = bl.Problem.paper() if paper else bl.Problem.from_spectrum(i**-a, i ** (a - 1.5), 1.3)
    rates = bl.wsd(L, gamma)
    kappa = bl.influence(problem.eigenvalues, rates)
    families = bl.schedule_families(kappa, (8 if paper else 4) * L, max_batch=N)
    return problem, rates, np.array(list(families.values()))


def given_datasets(Z, problem, rates, rho):
    """Bias, variance and each schedule's fluctuation, for every dataset of Z (R, N, M).

    Averaged over label noise and over the signs of u*, which do not affect expectations.
    """
    R, N, M = Z.shape
    mu, s2 = problem.eigenvalues, problem.noise_variance
    nu, W = np.linalg.eigh(Z.transpose(0, 2, 1) @ Z / N)
    nu = np.maximum(nu, 1e-15)  # null directions, which never move
    Y = Z @ W
    # Symmetric matrices in packed form: entries (a, b) with a <= b.
    a, b = np.triu_indices(M)
    twice = np.where(a == b, 1.0, 2.0)
    sigma, start = (
        (W.transpose(0, 2, 1) @ (diagonal[:, None] * W))[:, a, b]
        for diagonal in (mu, problem.target_energy)
    )
    products = Y[:, :, a] * Y[:, :, b]
    doubled, transposed = products * twice, products.transpose(0, 2, 1) / N
    both = (nu[:, a] * nu[:, b])[:, :, None]
    C = np.zeros((R, a.size, rho.shape[0]))
    psi = np.ones((R, M))
    for g, factors in zip(rates, rho.T, strict=True):
        signal = start * psi[:, a] * psi[:, b]
        fitted = np.zeros_like(signal)
        fitted[:, a == b] = s2 / N * (1.0 - psi**2) / nu
        mean = np.zeros_like(signal)
        mean[:, a == b] = s2 / N * nu * psi**2
        residual = s2 + doubled @ (C + (signal - fitted)[:, :, None])
        noise = transposed @ residual - mean[:, :, None] - both * (C + signal[:, :, None])
        d = 1.0 - g * nu
        C = (d[:, a] * d[:, b])[:, :, None] * C + g * g * factors * noise
        psi = psi * d
    bias = (sigma * twice * start * psi[:, a] * psi[:, b]).sum(axis=1)
    variance = s2 / N * (sigma[:, a == b] * (1.0 - psi) ** 2 / nu).sum(axis=1)
    fluctuation = np.einsum("rk,rks->rs", sigma * twice, C)
    return np.column_stack([bias, variance, fluctuation])


def controls(Z, mu, top):
    """A column of ones, and functions of the leading directions whose mean is zero."""
    N = Z.shape[1]
    X = Z[:, :, :top] / np.sqrt(mu[:top])
    a, b = np.triu_indices(top)
    same = (a == b).astype(float)
    covariance = (X.transpose(0, 2, 1) @ X / N)[:, a, b] - same
    squares = covariance**2 - (1.0 + same) / N
    diagonal = covariance[:, a == b]
    i, j = np.triu_indices(top, 1)
    fourth = ((X**2).transpose(0, 2, 1) @ X**2 / N)[:, a, b] - 1.0 - 2.0 * same
    known = [covariance, squares, diagonal[:, i] * diagonal[:, j], fourth]
    return np.column_stack([np.ones(Z.shape[0]), *known])


def exact_average(problem, rates, rho, samples, datasets, *, seed, top=6, block=20):
    """Means over datasets of (bias, variance, fluctuations...) and their standard errors."""
    mu = problem.eigenvalues
    rng = np.random.default_rng(seed)
    values, known = [], []
    for _ in range(-(-datasets // block)):
        Z = rng.standard_normal((block, samples, mu.size)) * np.sqrt(mu)
        values.append(given_datasets(Z, problem, rates, rho))
        known.append(controls(Z, mu, top))
    Y, X = np.concatenate(values), np.concatenate(known)
    coefficients = np.linalg.lstsq(X, Y, rcond=None)[0]
    scatter = ((Y - X @ coefficients) ** 2).sum(axis=0) / (Y.shape[0] - X.shape[1])
    return coefficients[0], np.sqrt(scatter / Y.shape[0])


def measure():
    """Write the stored averages: one line per setting, means and standard errors of all terms."""
    with STORE.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([*SETTING, *TERMS, *(f"{term}_error" for term in TERMS)])
        for seed, point in enumerate(GRID):
            problem, rates, batches = setting(*point)
            N = point[1]
            rho = fluctuation_factors(batches, rates.size, N)
            few = {"datasets": 24, "top": 1, "block": 2}  # seconds per dataset
            how = few if point[0] == 64 else {"datasets": 64_000 // N}
            began = time.perf_counter()
            exact, error = exact_average(problem, rates, rho, N, seed=seed, **how)
            table.writerow([*point, *(f"{x:.8g}" for x in exact), *(f"{x:.3g}" for x in error)])
            file.flush()
            print(*point, f"{time.perf_counter() - began:.1f} s", flush=True)


def approximation(solver, problem, rates, batches, samples, replacement=False):
    """Bias, variance and fluctuations, or None if the solver refuses."""
    try:
        risk = solver(problem, rates, batches, samples, replacement=replacement)
    except ValueError:
        return None
    return np.array([risk.bias[0], risk.variance[0], *risk.fluctuation])


def relative_errors(row):
    """Relative errors of both approximations in the order of TERMS, df/N, and outliers' error.

    The simple recursion's errors are None if it refuses.
    """
    point = tuple(kind(row[name]) for name, kind in zip(SETTING, KINDS, strict=True))
    problem, rates, batches = setting(*point)
    N = point[1]
    exact = np.array([float(row[term]) for term in TERMS])
    errors = [
        None if ours is None else ours / exact - 1.0
        for solver in (expected_fluctuation_simple, expected_risk_mean_field)
        for ours in [approximation(solver, problem, rates, batches, N)]
    ]
    psi = np.prod(1.0 - np.multiply.outer(rates, problem.eigenvalues), axis=0)
    outliers = outlier_error(problem, rates, fluctuation_factors(batches, rates.size, N), N)
    return *errors, float((1.0 - psi).sum() / N), outliers


def table(rows):
    """Markdown table of errors in per cent; the fluctuation is the worst of four schedules.

    A star marks the worst of fewer: outliers dominate the exact average of the others.
    """
    yield "| M | N | gamma | L | a | df/N | exact +- | (i) | (ii) | (ii) ratio | bias | variance |"
    yield "|" + " ---: |" * 12
    for row in rows:
        simple, full, share, outliers = relative_errors(row)
        known = np.array([float(row[f"{term}_error"]) / float(row[term]) for term in TERMS])
        steady = outliers <= NOTED_ERROR
        ratio = (1.0 + full[2]) / (1.0 + full[3]) - 1.0
        cells = [
            *(row[name] for name in SETTING),
            f"{share:.2f}",
            percent(np.abs(known[2:][steady]).max()),
            "refused" if simple is None else percent(worst(simple[2:][steady])),
            percent(worst(full[2:][steady])) + ("" if steady.all() else " *"),
            percent(ratio) if steady[:2].all() else "",
            f"{percent(full[0])} +- {percent(known[0])}",
            f"{percent(full[1])} +- {percent(known[1])}",
        ]
        yield "| " + " | ".join(cells) + " |"


def others():
    """Settings not used to make any choice: name, problem, N, rates and two schedules."""

    def law(M, a, source, s2):
        i = np.arange(1.0, M + 1.0)
        return bl.Problem.from_spectrum(i**-a, i**-source, s2)

    def case(name, problem, N, steps, peak, batches, replacement=False):
        rates = bl.wsd(steps, peak)
        return name, problem, N, rates, np.outer(batches, np.ones(steps)), replacement

    flat = bl.Problem.from_spectrum(np.full(12, 0.3), np.full(12, 0.5), 1.0)
    spike = np.append(1.0, np.full(15, 0.02))
    spiked = bl.Problem.from_spectrum(spike, np.append(4.0, np.ones(15)), 0.3)
    yield case("flat spectrum, M = 12", flat, 48, 60, 0.4, (4, 8))
    yield case("one spike, M = 16", spiked, 64, 60, 0.3, (4, 8))
    yield case("a = 1.2, M = 24", law(24, 1.2, 0.3, 0.5), 80, 80, 0.15, (3, 8))
    yield case("a = 3, M = 10", law(10, 3.0, -1.5, 2.0), 96, 100, 0.3, (4, 16))
    yield case("with replacement", law(16, 2.0, -0.5, 1.3), 64, 50, 0.2, (4, 64), True)
    yield case("target in one direction", law(16, 1.7, 60.0, 1.0), 64, 60, 0.25, (3, 8))
    yield case("little noise", law(16, 1.7, -0.2, 0.01), 64, 60, 0.25, (3, 8))
    yield case("M = 20, N = 24", law(20, 1.5, 0.0, 1.0), 24, 60, 0.15, (3, 8))
    yield case("M = 40, N = 32", law(40, 1.3, 0.0, 1.0), 32, 60, 0.1, (3, 8))
    yield case("interpolation, M = N = 16", law(16, 1.5, 0.0, 1.3), 16, 400, 0.2, (4, 8))


def other_table():
    yield "| setting | N | df/N | exact +- | (i) | (ii) | bias | variance |"
    yield "| --- |" + " ---: |" * 7
    for seed, (name, problem, N, rates, batches, replacement) in enumerate(others()):
        rho = fluctuation_factors(batches, rates.size, N, replacement=replacement)
        exact, error = exact_average(problem, rates, rho, N, 50_000 // N, seed=100 + seed, top=4)
        full, simple = (
            approximation(solver, problem, rates, batches, N, replacement)
            for solver in (expected_risk_mean_field, expected_fluctuation_simple)
        )
        full = full / exact - 1.0
        known = error / exact
        psi = np.prod(1.0 - np.multiply.outer(rates, problem.eigenvalues), axis=0)
        cells = [
            name,
            str(N),
            f"{(1.0 - psi).sum() / N:.2f}",
            percent(known[2:].max()),
            "refused" if simple is None else percent(worst((simple / exact - 1.0)[2:])),
            percent(worst(full[2:])),
            f"{percent(full[0])} +- {percent(known[0])}",
            f"{percent(full[1])} +- {percent(known[1])}",
        ]
        yield "| " + " | ".join(cells) + " |"


def worst(errors):
    return errors[np.argmax(np.abs(errors))]


def percent(x):
    return f"{100.0 * x:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="measure the averages again")
    parser.add_argument("--others", action="store_true", help="problems unlike the grid's instead")
    chosen = parser.parse_args()
    if chosen.others:
        print("\n".join(other_table()))
        return
    if chosen.measure:
        measure()
    with STORE.open(newline="") as file:
        print("\n".join(table(list(csv.DictReader(file)))))


if __name__ == "__main__":
    main()
