"""The tail of the largest norm, and datasets whose one outlying sample decides an average."""

import itertools
import json
import math

import numpy as np
import pytest
from scipy import stats

import batchlaw as bl
from batchlaw.batches.effective import fluctuation_factors
from batchlaw.faces.cli import main
from batchlaw.model.norm_tail import (
    log_largest_norm_tail,
    log_norm_tail,
    saddle_norm_tail,
)
from batchlaw.theory.outlier_datasets import growth_of, outlier_datasets
from refused import refused


@pytest.mark.parametrize("directions", [1, 2, 3, 10, 300])
def test_the_tail_of_equal_eigenvalues_is_chi_square(directions):
    problem = bl.Problem.from_spectrum([0.7], [1.0], 1.0, [directions])
    norms = 0.7 * directions * np.array([1e-3, 0.1, 0.5, 0.9, 0.99, 1.0, 1.01, 1.2, 2.0, 3.0])
    exact = stats.chi2(directions).logsf(norms / 0.7)
    assert log_norm_tail(problem, norms) == pytest.approx(exact, abs=1e-6)
    far = 0.7 * directions * np.array([0.5, 2.0, 3.0])
    assert log_norm_tail(problem, far) == pytest.approx(
        stats.chi2(directions).logsf(far / 0.7), rel=1e-11
    )


def test_the_tail_of_pairs_of_directions_is_a_sum_of_exponentials():
    mu, norms = [1.0, 0.5, 0.2], np.array([0.05, 0.5, 1.7, 3.4, 5.0, 30.0, 400.0, 1200.0])
    problem = bl.Problem.from_spectrum(mu, [1.0] * 3, 1.0, [2, 2, 2])
    share = [math.prod(m / (m - k) for k in mu if k != m) for m in mu]
    exact = [
        math.log(sum(s * math.exp(-r / (2 * m)) for s, m in zip(share, mu, strict=True)))
        for r in norms
    ]
    assert log_norm_tail(problem, norms) == pytest.approx(exact, rel=1e-11)


def test_the_largest_of_many_norms(paper):
    r = np.array([3.0, 8.0, 40.0, 3000.0])
    single = np.exp(log_norm_tail(paper, r[:3]))
    assert log_largest_norm_tail(paper, 512, r[:3]) == pytest.approx(
        np.log(1.0 - (1.0 - single) ** 512), rel=1e-6
    )
    # Far out the union bound is exact, and nothing underflows.
    far = log_largest_norm_tail(paper, 512, r[3:])
    assert far == pytest.approx(math.log(512) + log_norm_tail(paper, r[3:]), rel=1e-12)
    assert far[0] < -2000.0
    drawn = np.array([(paper.sample(512, s)[0] ** 2).sum(axis=1).max() for s in range(300)])
    p = math.exp(log_largest_norm_tail(paper, 512, [8.0])[0])
    assert abs((drawn > 8.0).mean() - p) < 3.0 * math.sqrt(p * (1 - p) / 300)


def test_a_norm_of_zero_is_refused(paper):
    with refused("norms"):
        log_norm_tail(paper, [0.0])


def _outlier(problem, samples, norm, seed):
    """A dataset whose first sample is sqrt(norm) in the first direction."""
    features, labels = problem.sample(samples, seed)
    residual = labels - features @ problem.optimum
    features[0] = 0.0
    features[0, 0] = math.sqrt(norm)
    return features, features @ problem.optimum + residual


# Squared norm of the outlier, and the power of ten of the fluctuation.
COUNTER_EXAMPLE = [(400.0, 119), (900.0, 263)]


@pytest.mark.parametrize(("norm", "power"), COUNTER_EXAMPLE)
def test_theorem_2_as_printed_has_a_counter_example_in_the_exact_solver(norm, power):
    """One sample of norm 900: a fluctuation of 3e263 at probability 1e-194."""
    problem, rates, N = bl.Problem.power_law_nodes(2.0, 2.6, 17), bl.wsd(400, 0.08), 300
    dataset = _outlier(problem, N, norm, seed=0)
    exact = float(bl.multi_pass_risk(problem, rates, np.ones(400), dataset=dataset).fluctuation)
    assert math.floor(math.log10(exact)) == power
    grow = growth_of(problem, rates, np.ones(400), N)
    # The source of the outlier, of order 1, is multiplied by the growth.
    assert math.log(exact) == pytest.approx(grow(norm), abs=1.0)
    probability = log_largest_norm_tail(problem, N, [norm])[0] / math.log(10.0)
    if norm == 900.0:
        assert probability == pytest.approx(-194.0, abs=1.0)
    # What this dataset's neighbourhood adds is beyond everything that the law predicts.
    assert math.log10(exact) + probability > 30.0


def test_the_law_says_which_average_it_is_about():
    law = bl.multi_pass_law(
        2.0,
        2.6,
        17,
        samples=300,
        steps=400,
        peak=0.08,
        batches=1,
        problem=bl.Problem.power_law_nodes(2.0, 2.6, 17),
    )
    assert law.average == "datasets within the max-norm event"
    outliers = law.outliers
    assert outliers.dominate
    assert 60.0 < outliers.log_weight / math.log(10.0) < 80.0
    assert 200.0 < outliers.crossing < outliers.heaviest[0]
    assert outliers.probability == 1.0  # the event fails with probability 1e-21
    assert -50.0 < outliers.log_failure < -40.0
    assert "1e+69 times the fluctuation" in str(law)
    one_pass = bl.one_pass_law(2.0, 2.6, 17, steps=400, peak=0.08, batches=1)
    assert one_pass.average == "all data"
    assert one_pass.outliers is None


def test_at_the_papers_setting_the_plain_expectation_is_safe(paper):
    law = bl.multi_pass_law(
        2.0, 1.5, 64, samples=512, steps=512, peak=0.05, batches=8, problem=paper
    )
    assert not law.outliers.dominate
    assert law.outliers.crossing == math.inf
    assert law.outliers.log_weight == pytest.approx(law.outliers.log_failure)
    assert "in the plain expectation the others add about 1e-172" in str(law)


@pytest.mark.parametrize("N", [300, 3000, 30_000])
@pytest.mark.parametrize("B", [1, 16])
def test_outliers_dominate_once_the_learning_horizon_exceeds_the_root_of_samples_and_batch(N, B):
    """From gamma L of 1.2 to 1.5 sqrt(N B) on, with WSD and mu_1 = 1."""
    problem = bl.Problem.power_law_nodes(2.0, 2.6, 17)
    dominate = []
    for share in (1.2, 1.5):
        rates = bl.wsd(round(share * math.sqrt(N * B) / 0.08), 0.08)
        rho = fluctuation_factors(np.full(rates.size, B), rates.size, N, replacement=False)[0]
        dominate.append(outlier_datasets(problem, rates, rho, N).dominate)
    assert dominate == [False, True]


def test_growth_starts_where_the_event_ends(small):
    rates, N = bl.wsd(300, 0.2), 64
    rho = fluctuation_factors(np.full(300, 2.0), 300, N, replacement=False)[0]
    outliers = outlier_datasets(small, rates, rho, N)
    grow = growth_of(small, rates, rho, N)
    assert grow(outliers.largest_norm) == 0.0
    assert grow(outliers.largest_norm * 1.001) > 0.0
    assert outliers.limit == pytest.approx(0.2 * outliers.largest_norm)


def test_where_ordinary_samples_grow_there_is_no_event():
    problem = bl.Problem.from_spectrum([1.0], [1.0], 1.0)
    outliers = outlier_datasets(problem, np.full(50, 1.5), np.ones(50), 20)
    assert outliers.largest_norm == 0.0
    assert outliers.probability == 0.0


def test_a_long_run_is_represented_by_some_of_its_steps():
    problem = bl.Problem.power_law_nodes(2.0, 2.6, 17)
    values = []
    for stride in (1, 4):
        rates = bl.wsd(4 * 4096, 0.08)
        grow = growth_of(problem, rates[::stride], np.ones(rates[::stride].size), 3000)
        values.append(stride * grow(5000.0))
    # The first has 4 x 4096 steps, of which it takes every fourth itself.
    assert values[0] == pytest.approx(values[1], rel=1e-12)
    g = bl.wsd(4 * 4096, 0.08)
    nu, fourth = (5000.0 + 2999.0) / 3000.0, (5000.0**2 + 3.0 * 2999.0) / 3000.0
    steps = np.log((1.0 - g * nu) ** 2 + g**2 * (fourth - nu**2))
    assert values[0] == pytest.approx(np.cumsum(steps[::-1]).max(), rel=1e-3)


def test_one_direction_and_one_outlier_by_enumeration():
    """Every sequence of batches of one: the mean square around GD, against the formula."""
    z, g = np.array([3.0, 0.4, -0.8]), np.array([0.3, 0.4, 0.2, 0.3, 0.4])
    problem = bl.Problem.from_spectrum([1.0], [1.0], 0.5)
    labels = z * problem.optimum[0] + np.array([0.3, -0.5, 0.1])
    finals = []
    for batches in itertools.product(range(3), repeat=g.size):
        u = 0.0
        for rate, i in zip(g, batches, strict=True):
            u -= rate * z[i] * (z[i] * u - labels[i])
        finals.append(u)
    theta = np.mean(finals)
    enumerated = np.mean((np.array(finals) - theta) ** 2)
    exact = bl.multi_pass_risk(problem, g, np.ones(5), dataset=(z[:, None], labels))
    assert exact.fluctuation == pytest.approx(enumerated, rel=1e-12)
    # One more step, on the fluctuation alone, multiplies it by the bracket of growth_of with the
    # moments of these three samples.
    nu, fourth = np.mean(z**2), np.mean(z**4)
    for rate in (0.05, 0.3):
        moved = [(u - theta) * (1.0 - rate * z[i] ** 2) for u in finals for i in range(3)]
        bracket = (1.0 - rate * nu) ** 2 + rate**2 * (fourth - nu**2)
        assert np.mean(np.square(moved)) == pytest.approx(bracket * enumerated, rel=1e-12)


def _scalar_fluctuation(z, residual, g):
    """M = 1, batches of one, u* = 1: the recursion around GD, a loop over the samples' moments."""
    theta, C = 0.0, 0.0
    for rate in g:
        noise = z * (z * (1.0 - theta) + residual)
        spread = np.mean(noise**2) - np.mean(noise) ** 2
        kept = np.mean((1.0 - rate * z**2) ** 2)
        theta, C = theta + rate * np.mean(noise), kept * C + rate**2 * spread
    return C


def test_the_weight_of_outliers_is_that_of_an_average_by_quadrature():
    """One of 40 samples is averaged over all its values, and the others stay."""
    problem, g, N = bl.Problem.from_spectrum([1.0], [1.0], 1.0), np.full(60, 0.3), 40
    others = stats.norm.ppf((np.arange(N - 1) + 0.5) / (N - 1))
    residual = np.random.default_rng(3).standard_normal(N)

    def average(low, high):
        x, w = np.polynomial.legendre.leggauss(400)
        z = 0.5 * (high - low) * (x + 1.0) + low
        values = [_scalar_fluctuation(np.append(v, others), residual, g) for v in z]
        density = 2.0 * stats.norm.pdf(z)
        return float((w * density * values).sum() * 0.5 * (high - low))

    z = np.append(2.0, others)
    given = bl.multi_pass_risk(problem, g, np.ones(60), dataset=(z[:, None], z + residual))
    assert _scalar_fluctuation(z, residual, g) == pytest.approx(given.fluctuation, rel=1e-10)
    outliers = outlier_datasets(problem, g, np.ones(60), N)
    root = math.sqrt(outliers.largest_norm)
    ratio = average(root, root + 30.0) / average(0.0, root)
    assert outliers.dominate
    # Left out: the width of the peak in r, and the outlier's source against the ordinary one.
    assert outliers.log_weight == pytest.approx(math.log(N * ratio), abs=6.0)


def test_the_command_names_the_average(capsys):
    options = ["--problem", "truncation", "--m", "17", "--b", "2.6", "--steps", "400"]
    options += ["--gamma", "0.08", "--samples", "300", "--mean-batch", "1"]
    assert main(["law", *options]) == 0
    assert "average: over datasets with gamma max ||z_i||^2 <= 8.014" in capsys.readouterr().out
    assert main(["law", *options, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["average"] == "datasets within the max-norm event"
    assert document["outliers"]["log_added_to_plain_expectation"] > 100.0
    assert main(["law", "--json"]) == 0
    assert "outliers" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("directions", [1, 20])
def test_the_saddle_point_alone_is_within_a_factor_of_two_of_chi_squared(directions):
    problem = bl.Problem.from_spectrum([0.5], [1.0], 1.0, [directions])
    norms, log_tail = saddle_norm_tail(problem, 48)
    exact = stats.chi2.logsf(norms / 0.5, directions)
    rare = (exact < np.log(0.05)) & (exact > -600.0)
    assert (log_tail - exact)[rare].min() > -0.05
    assert (log_tail - exact)[rare].max() < np.log(2.0)
