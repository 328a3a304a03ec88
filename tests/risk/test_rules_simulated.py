"""Momentum and averaging, simulated against exact: settings drawn once from a fixed seed.

Settings and seeds were fixed before the first run. Its repetitions (3000 in one pass, 150 datasets)
were too few for Student's statistic of such skewed runs: 2 of 120 distances were -3.04 and -3.35.
The streams are the same ones, continued. Chance puts one of 24 distances beyond 3 in 6 % of all
lists and two in 0.2 %, so one is allowed; their sum of squares is judged as well.
"""

import numpy as np
import pytest
from scipy.stats import chi2

import batchlaw as bl
from batchlaw.risk import runs, simulate

SETTINGS = 24
FORMS = [
    {},
    {"nesterov": True},
    {"pytorch": True},
    {"nesterov": True, "pytorch": True},
    None,  # no momentum
]
AVERAGES = [None, "tail", "ema"]
# 0.1 % and 99.9 % of chi-squared.
LEVELS = (0.001, 0.999)


def _settings():
    """A problem, rates, batches, a rule and a dataset's size, at random, every kind of rule."""
    kinds = [(form, average) for form in FORMS for average in AVERAGES][:-3]
    kinds += [(None, "tail"), (None, "ema")]
    for index in range(SETTINGS):
        rng = np.random.default_rng([2026, index])
        form, average = kinds[index % len(kinds)]
        M, T = int(rng.integers(1, 7)), int(rng.integers(4, 16))
        mu = np.sort(rng.uniform(0.05, 1.0, M))[::-1]
        problem = bl.Problem.from_spectrum(mu, rng.uniform(0.1, 2.0, M), rng.uniform(0.1, 2.0))
        beta = 0.0 if form is None else float(rng.uniform(0.2, 0.9))
        rates = rng.uniform(0.1, 0.6, T) * (1.0 - beta) / mu.sum()
        parameter = round(float(rng.uniform(0.3, 0.9)), 2)
        rule = bl.sgd(
            beta, average=None if average is None else f"{average}:{parameter}", **(form or {})
        )
        yield problem, rates, rng.integers(1, 7, T), rule, int(rng.integers(8, 30))


def _judge(distances):
    far = np.abs(distances)
    assert far.size >= 20
    assert (far > 3.0).sum() <= 1, distances
    assert far.max() < 4.0
    low, high = chi2.ppf(LEVELS, far.size)
    assert low < (far**2).sum() < high


@pytest.mark.slow
def test_one_pass_with_a_rule_measures_the_exact_risk():
    distances = {"bias": [], "variance": []}
    for problem, rates, batches, rule, _ in _settings():
        exact = bl.one_pass_risk(problem, rates, batches, rule=rule)
        risk = bl.simulate_one_pass(problem, rates, batches, rule=rule, repetitions=8000, seed=1)
        assert risk.procedure == exact.procedure
        for term, listed in distances.items():
            away = getattr(risk, term) - getattr(exact, term)
            listed.append(away / risk.standard_error(term))
    for listed in distances.values():
        _judge(listed)


@pytest.mark.slow
def test_multi_pass_with_a_rule_measures_the_exact_risk_of_its_datasets():
    """The simulator's datasets, each solved exactly: its fluctuation differs by chance alone."""
    R, distances = 1000, []
    for index, (problem, rates, batches, rule, N) in enumerate(_settings()):
        options = {"rule": rule, "replacement": index % 2 == 1}
        risk = bl.simulate_multi_pass(
            problem, rates, batches, samples=N, repetitions=R, seed=2, **options
        )
        streams = np.random.SeedSequence(2, spawn_key=(simulate.REUSE,)).spawn(R)
        exact = [
            bl.multi_pass_risk(
                problem,
                rates,
                batches,
                dataset=problem.sample(N, np.random.Generator(np.random.PCG64(stream))),
                **options,
            )
            for stream in streams
        ]
        for part in ("bias", "variance"):
            mean = np.mean([getattr(one, part) for one in exact])
            assert getattr(risk, part) == pytest.approx(mean, rel=1e-10)
        # Single repetitions, from the means without each of them.
        without = risk.leave_one_out["fluctuation"][0]
        single = R * risk.fluctuation - (R - 1) * without
        away = single - [one.fluctuation for one in exact]
        distances.append(away.mean() / (away.std(ddof=1) / np.sqrt(R)))
    _judge(distances)


@pytest.mark.slow
def test_many_runs_on_one_dataset_have_its_exact_risk():
    R, distances = 4000, []
    for problem, rates, batches, rule, N in _settings():
        data = problem.sample(N, seed=3)
        risk = bl.multi_pass_risk(problem, rates, batches, dataset=data, rule=rule)
        finals = runs.multi_pass_sgd(data, rates, np.tile(batches, (R, 1)), 4, rule=rule)
        excess = (finals - problem.optimum) ** 2 @ problem.eigenvalues
        distances.append((excess.mean() - risk.excess) / (excess.std() / np.sqrt(R)))
    _judge(distances)


@pytest.mark.slow
def test_the_same_runs_against_a_wrong_rule_are_told_apart():
    """The measure is sharp: heavy ball is not Nesterov, nor PyTorch's form, nor an EMA a tail."""
    small = bl.Problem.from_spectrum([0.9, 0.5, 0.2], [1.0, 0.4, 2.0], 1.3)
    rates, batches = bl.linear(12, 0.3), np.full(12, 3)
    risk = bl.simulate_one_pass(
        small, rates, batches, rule=bl.sgd(0.6, average="ema:0.6"), repetitions=8000, seed=1
    )
    for wrong in (
        {"nesterov": True, "average": "ema:0.6"},
        {"pytorch": True, "average": "ema:0.6"},
        {"average": "tail:0.4"},
        {},
    ):
        exact = bl.one_pass_risk(small, rates, batches, rule=bl.sgd(0.6, **wrong))
        away = [
            (getattr(risk, term) - getattr(exact, term)) / risk.standard_error(term)
            for term in ("bias", "variance")
        ]
        assert np.abs(away).max() > 6.0, wrong
