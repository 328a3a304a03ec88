"""Quantiles of the final risk: known distributions, coverage, and the simulators' own runs."""

import itertools
import json
import math

import numpy as np
import pytest
from scipy import stats

import batchlaw as bl
from batchlaw._base.uncertain import with_error
from batchlaw.design import GradientDescent, MultiPass, Reshuffled, risk_quantiles
from batchlaw.design.quantiles import interval_ranks, quantiles_of
from batchlaw.faces.cli import main
from batchlaw.risk.procedure import Procedure
from refused import refused, refused_command

RATES = bl.wsd(40, 0.1)
NAMES = {"over": "datasets", "term": "excess", "schedules": ("",), "seed": 0}


def _case(problem, procedure=None, batches=4):
    named = {"given": np.full(40, batches), "rising": np.repeat([2, 6], 20)}
    return bl.Case(problem, RATES, named, **({} if procedure is None else {"procedure": procedure}))


def test_one_step_of_one_pass_without_noise_has_a_known_distribution():
    """u = g z^2 u*, so that the excess is mu u*^2 (1 - g mu x)^2, x chi-square with B degrees."""
    mu, energy, g, B = 0.5, 2.0, 0.4, 3
    problem = bl.Problem.from_spectrum([mu], [energy], 0.0)
    got = risk_quantiles(bl.Case(problem, [g], B), repetitions=4000, seed=5, levels=[0.1, 0.5, 0.9])
    x = np.array([0.1, 0.5, 0.9])

    def cdf(excess):
        root = math.sqrt(excess / (mu * energy))
        law = stats.chi2(B, scale=g * mu / B)
        return law.cdf(1.0 + root) - law.cdf(1.0 - root)

    for k, level in enumerate(x):
        # The intervals are of 95 %: the exact level of their ends encloses the level.
        assert cdf(got.low[0, k]) < level < cdf(got.high[0, k])
        assert cdf(got.values[0, k]) == pytest.approx(level, abs=3 * math.sqrt(0.25 / 4000))
    assert got.mean[0] == pytest.approx(got.exact_mean[0], abs=4 * got.standard_error[0])


def test_batches_of_one_from_three_samples_by_enumeration():
    """Three steps of three equally likely samples: 27 outcomes, every quantile is one of them."""
    problem = bl.Problem.from_spectrum([1.0], [1.0], 0.5)
    z, noise, g = np.array([1.5, 0.4, -0.8]), np.array([0.3, -0.5, 0.1]), [0.3, 0.4, 0.2]
    labels = z + noise
    outcomes = []
    for batches in itertools.product(range(3), repeat=3):
        u = 0.0
        for rate, i in zip(g, batches, strict=True):
            u -= rate * z[i] * (z[i] * u - labels[i])
        outcomes.append((u - 1.0) ** 2)
    case = bl.Case(problem, g, 1, procedure=MultiPass(samples=3))
    levels = [5.5 / 27, 13.5 / 27, 20.5 / 27]
    got = risk_quantiles(
        case, over="batches", dataset=(z[:, None], labels), repetitions=6000, seed=1, levels=levels
    )
    expected = np.sort(outcomes)[[5, 13, 20]]
    assert (got.low[0] <= expected + 1e-12).all()
    assert (expected <= got.high[0] + 1e-12).all()
    assert got.exact_mean[0] == pytest.approx(np.mean(outcomes), rel=1e-12)
    assert got.mean[0] == pytest.approx(np.mean(outcomes), abs=4 * got.standard_error[0])
    parts = got.exact
    assert parts.bias + parts.variance + parts.cross + parts.fluctuation == got.exact_mean[0]


@pytest.mark.parametrize("level", [0.05, 0.5, 0.9])
def test_intervals_cover_the_quantile_as_often_as_they_say(level):
    rng = np.random.default_rng(2)
    draws = rng.standard_cauchy((60, 2000))  # no mean at all
    got = quantiles_of(draws, np.array([level]), 0.9, **NAMES | {"schedules": ("",) * 2000})
    truth = stats.cauchy.ppf(level)
    covered = ((got.low <= truth) & (truth <= got.high)).mean()
    low, high = interval_ranks(60, level, 0.9)
    exact = stats.binom.cdf(high - 1, 60, level) - stats.binom.cdf(low - 1, 60, level)
    assert exact >= 0.9
    assert abs(covered - exact) < 3 * math.sqrt(exact * (1 - exact) / 2000)


def test_too_few_values_have_no_end_of_an_interval():
    assert interval_ranks(3, 0.5, 0.95) == (0, 4)
    values, level = np.arange(1.0, 4.0)[:, None], np.array([0.5])
    got = quantiles_of(values, level, 0.95, **NAMES)
    assert (got.low[0, 0], got.values[0, 0], got.high[0, 0]) == (-np.inf, 2.0, np.inf)
    bounded = quantiles_of(values, level, 0.95, 0.5, **NAMES)
    assert bounded.low[0, 0] == 0.5
    assert bounded.cell(0, 0) == "2.000 (above 0.5000)"


def test_the_runs_are_those_of_the_simulators(small):
    one_pass = _case(small)
    got = risk_quantiles(one_pass, repetitions=30, seed=7)
    assert got.mean == pytest.approx(one_pass.simulate(30, 7).excess, rel=1e-12)
    assert got.exact_mean == pytest.approx(one_pass.risk().excess, rel=1e-14)
    assert got.schedules == ("given", "rising")
    for procedure in (MultiPass(samples=32), MultiPass(samples=32, replacement=True)):
        reused = _case(small, procedure)
        got = risk_quantiles(reused, repetitions=30, seed=7, term="fluctuation")
        assert got.mean == pytest.approx(reused.simulate(30, 7).fluctuation, rel=1e-10)
        assert got.exact is None
    shuffled = _case(small, Reshuffled(samples=32))
    got = risk_quantiles(shuffled, repetitions=30, seed=7)
    assert got.mean == pytest.approx(shuffled.simulate(30, 7).excess, rel=1e-10)
    descent = bl.Case(small, RATES, procedure=GradientDescent(samples=32))
    got = risk_quantiles(descent, repetitions=30, seed=7, term="total")
    floor = small.noise_variance
    one = bl.gradient_descent_risk(small, RATES, samples=32).excess
    assert abs(got.mean[0] - floor - one) < 4 * got.standard_error[0] + 0.02 * one


@pytest.mark.parametrize("rule", [bl.sgd(momentum=0.6), bl.sgd(average="tail:0.5")])
def test_the_runs_follow_the_update_rule(small, rule):
    """Means are the simulators', and the exact mean beside them that of the rule's own solver."""
    one_pass = bl.Case(small, RATES, {"given": 4}, rule=rule)
    got = risk_quantiles(one_pass, repetitions=30, seed=7)
    assert got.mean == pytest.approx(one_pass.simulate(30, 7).excess, rel=1e-12)
    assert got.exact_mean == pytest.approx(one_pass.risk().excess, rel=1e-14)
    for procedure in (MultiPass(samples=32), Reshuffled(samples=32)):
        reused = bl.Case(small, RATES, {"given": 4}, procedure, rule)
        got = risk_quantiles(reused, repetitions=30, seed=7, term="fluctuation")
        assert got.mean == pytest.approx(reused.simulate(30, 7).fluctuation, rel=1e-10)
    reused = bl.Case(small, RATES, {"given": 4}, MultiPass(samples=32), rule)
    given = risk_quantiles(reused, over="batches", repetitions=400, seed=7)
    assert abs(given.mean[0] - given.exact_mean[0]) < 4 * given.standard_error[0]
    plain = risk_quantiles(
        bl.Case(small, RATES, {"given": 4}, MultiPass(samples=32)), over="batches", repetitions=3
    )
    assert abs(given.mean[0] - plain.exact_mean[0]) > 8 * given.standard_error[0]


def test_quantiles_are_printed_with_their_intervals(small):
    got = risk_quantiles(_case(small), repetitions=40, seed=7, levels=[0.5, 0.95])
    text = repr(got)
    assert text.startswith("Quantiles(quantiles of the excess over datasets, 40 runs, seed 7, ")
    assert f"given: mean {with_error(got.mean[0], got.standard_error[0])} (exact " in text
    assert f"0.5: {got.cell(0, 0)}, 0.95: {got.cell(0, 1)}; rising: mean" in text
    assert "(above " in got.cell(0, 1)
    total = risk_quantiles(_case(small), repetitions=5, seed=7, levels=[0.5], term="total")
    assert total.low[0, 0] == small.noise_variance


def test_results_do_not_depend_on_the_threads(small):
    case = _case(small, MultiPass(samples=16))
    one, two = (risk_quantiles(case, repetitions=12, seed=3, threads=n) for n in (1, 3))
    assert (one.values == two.values).all()


def test_averaging_over_batches_gives_the_exact_risk_of_each_dataset(small):
    case = _case(small, MultiPass(samples=24))
    got = risk_quantiles(case, repetitions=3, seed=3, average_batches=True, levels=[0.3, 0.6, 0.9])
    exact = []
    for k in range(3):
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(3, spawn_key=(2, k))))
        data = small.sample(24, rng)
        exact.append(bl.multi_pass_risk(small, RATES, case.batches, dataset=data).excess)
    np.testing.assert_allclose(got.values.T, np.sort(exact, axis=0), rtol=1e-12)


def test_the_event_leaves_out_datasets_with_a_large_norm(small):
    case = _case(small, MultiPass(samples=24))
    whole = risk_quantiles(case, repetitions=60, seed=3)
    inside = risk_quantiles(case, repetitions=60, seed=3, max_norm=0.75)
    assert whole.share == 1.0
    assert 0.0 < inside.share < 1.0
    assert inside.repetitions == round(60 * inside.share)
    with refused("max_norm"):
        risk_quantiles(case, repetitions=60, seed=3, max_norm=0.01)


def test_a_diverging_run_is_infinite_and_quantiles_stay():
    """Where a sample is large its direction grows until it overflows."""
    problem = bl.Problem.from_spectrum([1.0], [1.0], 1.0)
    case = bl.Case(problem, bl.constant(800, 0.9), 1, procedure=MultiPass(samples=4))
    got = risk_quantiles(case, repetitions=20, seed=0, average_batches=True, levels=[0.1, 0.95])
    assert np.isfinite(got.values[0, 0])
    assert got.values[0, 1] == np.inf
    assert got.mean[0] == np.inf


def test_sketches_are_drawn_afresh():
    def sketches(k):
        return bl.Problem.power_law(2.0, 1.5, 4, dim=50, seed=k)

    case = bl.Case(sketches(0), RATES, 2)
    got = risk_quantiles(case, over="sketches", sketches=sketches, repetitions=5, levels=[1.0])
    singles = []
    for k in range(5):
        problem = sketches(k)
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(0, spawn_key=(1, k))))
        features, labels = problem.sample(80, rng)
        u = np.zeros(4)
        for t, g in enumerate(RATES):
            z, y = features[2 * t : 2 * t + 2], labels[2 * t : 2 * t + 2]
            u -= g * z.T @ (z @ u - y) / 2
        singles.append(problem.eigenvalues @ (u - problem.optimum) ** 2)
    assert got.values[0, 0] == pytest.approx(max(singles), rel=1e-12)
    assert got.mean[0] == pytest.approx(np.mean(singles), rel=1e-12)


def test_what_has_no_meaning_is_refused(small):
    case, reused = _case(small), _case(small, MultiPass(samples=16))
    descent = bl.Case(small, RATES, procedure=GradientDescent(samples=16))
    data = small.sample(16, 0)
    for field, bad, options in [
        ("over", case, {"over": "batches"}),
        ("over", descent, {"over": "batches"}),
        ("over", case, {"over": "rates"}),
        ("term", case, {"term": "fluctuation"}),
        ("sketches", case, {"over": "sketches"}),
        ("sketches", case, {"sketches": lambda k: small}),
        ("dataset", reused, {"dataset": data}),
        ("average_batches", case, {"average_batches": True}),
        ("average_batches", reused, {"average_batches": True, "over": "batches"}),
        ("max_norm", case, {"max_norm": 1.0}),
        ("levels", case, {"levels": [0.0]}),
        ("repetitions", case, {"repetitions": 2}),
        ("rates", bl.Case(small, RATES * 40, 2, rule=bl.sgd(momentum=0.5)), {}),
    ]:
        with refused(field):
            risk_quantiles(bad, **options)

    class Other(Procedure):
        name, title, sampling, parts, noise, summary = "o", "o", "o", ("bias",), "bias", "b_eff"
        samples = 4

        def expected(self, setup, *, trajectory=False):
            raise NotImplementedError

        def simulated(self, setup, draws):
            raise NotImplementedError

    with refused("procedure"):
        risk_quantiles(_case(small, Other()))


def test_the_command_prints_quantiles(capsys):
    simulated = ["risk", "--solver", "simulated", "--repetitions", "20", "--m", "4", "--d", "50"]
    simulated += ["--batches", "constant"]
    assert main([*simulated, "--quantiles", "datasets"]) == 0
    table = capsys.readouterr().out
    heading = "quantiles of the excess over datasets, 20 runs, seed 0, intervals of 95 %"
    assert heading in table
    assert "-inf" not in table
    options = ["--procedure", "multi-pass", "--samples", "32", "--quantiles", "batches", "--json"]
    assert main([*simulated, *options]) == 0
    (row,) = json.loads(capsys.readouterr().out)["schedules"]
    assert abs(row["mean"] - row["exact_mean"]) < 4 * row["mean_se"]
    assert [q["level"] for q in row["quantiles"]] == [0.05, 0.25, 0.5, 0.75, 0.95]
    assert main([*simulated, "--quantiles", "sketches", "--problem", "power-law", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["schedules"]
    problems = [bl.Problem.power_law(2.0, 1.5, 4, dim=50, seed=123 + k) for k in range(20)]
    case = bl.Case(problems[0], bl.wsd(64, 0.05), 8)
    expected = risk_quantiles(
        case, over="sketches", sketches=lambda k: problems[k], repetitions=20, seed=0
    )
    assert row["mean"] == pytest.approx(expected.mean[0], rel=1e-12)


def test_the_command_refuses_quantiles_without_runs(capsys, tmp_path):
    refused_command(["risk", "--quantiles", "datasets"], "solver", capsys)
    options = ["risk", "--solver", "simulated", "--quantiles", "datasets"]
    refused_command([*options, "--trajectory", str(tmp_path / "t")], "trajectory", capsys)
    options = ["risk", "--solver", "simulated", "--quantiles", "sketches", "--problem", "sketch"]
    refused_command(options, "problem", capsys)
