"""Adam simulated: its definition, the data of the other rules, its coordinates and its parts."""

import numpy as np
import pytest

import batchlaw as bl
import reference
from batchlaw.design import GradientDescent, MultiPass, risk_quantiles, simulate_procedure
from batchlaw.risk import runs
from batchlaw.schedule.averages import ema, tail_average
from refused import refused

T, N = 7, 18
LAST = np.append(np.zeros(T - 1), 1.0)
RATES = np.random.default_rng(3).uniform(0.1, 0.6, T)
BATCHES = np.array([1, 3, 2, 5, 1, 4, 2])
WAYS = [{}, {"replacement": True}, {"reshuffle": True}]
RULES = [
    {},
    {"beta1": 0.0, "beta2": 0.9},
    {"beta1": 0.5, "beta2": 0.0, "eps": 1e-3},
    {"beta2": 0.95, "eps": 0.0, "weight_decay": 0.3},
    {"beta1": 0.8, "average": ema(T, 0.6)},
    {"weight_decay": 0.1, "average": tail_average(T, 0.5)},
]
each_rule = pytest.mark.parametrize(
    ("rule", "average"),
    [
        (bl.adam(basis=basis, **options), options.get("average", LAST))
        for options in RULES
        for basis in ("eigen", "generic")
    ],
)


@pytest.fixture(scope="module")
def drawn():
    return bl.Problem.power_law(1.8, 1.5, 5, 60, seed=4)


@pytest.fixture
def dataset(small):
    return small.sample(N, seed=11)


@each_rule
def test_runs_match_their_definition_on_the_batches_of_plain_sgd(dataset, rule, average):
    """The index sets that ``reference`` draws are those that plain SGD is tested on."""

    def close(ours, index_sets):
        expected = reference.adam_run(*dataset, RATES, index_sets, rule, average)
        np.testing.assert_allclose(ours, expected, rtol=1e-10, atol=1e-13)

    close(runs.one_pass_sgd(dataset, RATES, BATCHES, rule=rule), reference.partition(BATCHES))
    close(runs.gradient_descent(dataset, RATES, rule=rule), [range(N)] * T)
    for options, index_sets in zip(
        WAYS, (reference.subsets, reference.with_replacement, reference.epochs), strict=True
    ):
        ours = runs.multi_pass_sgd(dataset, RATES, BATCHES, 5, rule=rule, **options)
        close(ours, index_sets(N, BATCHES, np.random.default_rng(5)))


def test_a_run_does_not_depend_on_the_windows_of_its_samples(drawn, monkeypatch):
    options = {"rule": bl.adam(beta2=0.9), "repetitions": 3, "seed": 2}
    schedules = np.stack([BATCHES, BATCHES[::-1]])
    whole = bl.simulate_one_pass(drawn, RATES, schedules, **options)
    monkeypatch.setattr("batchlaw.risk.simulate.WINDOW_ENTRIES", 10)
    pieces = bl.simulate_one_pass(drawn, RATES, schedules, **options)
    np.testing.assert_allclose(pieces.excess, whole.excess, rtol=1e-11)


def test_results_do_not_depend_on_the_number_of_threads(drawn):
    options = {"rule": bl.adam(), "repetitions": 40, "seed": 2}
    for simulate, more in (
        (bl.simulate_one_pass, {}),
        (bl.simulate_multi_pass, {"samples": N}),
    ):
        one, two = (
            simulate(drawn, RATES, BATCHES, threads=threads, **more, **options)
            for threads in (1, 2)
        )
        assert one.excess == two.excess
        assert one.standard_error("excess") == two.standard_error("excess") > 0.0


def _own_adam(axes, beta1=0.9, beta2=0.999, eps=1e-8):
    """Adam in rotated coordinates, as a step on the eigenbasis's samples."""

    def step(u, state, features, labels, rate, t):
        G = (features.T @ (features @ u - labels) / labels.size) @ axes
        state[0] = beta1 * state[0] + (1 - beta1) * G
        state[1] = beta2 * state[1] + (1 - beta2) * G**2
        m, v = state[0] / (1 - beta1 ** (t + 1)), state[1] / (1 - beta2 ** (t + 1))
        return u - rate * (m / (np.sqrt(v) + eps)) @ axes.T

    return step


@pytest.mark.parametrize("basis", ["sketch", "eigen"])
def test_adam_reads_the_samples_and_batches_of_every_other_rule(drawn, basis):
    """A step of one's own is given the data of plain SGD, in the eigenbasis."""
    axes = drawn.axes if basis == "sketch" else np.eye(5)
    schedules, rule = np.stack([BATCHES, BATCHES[::-1]]), bl.adam(basis=basis)
    common = {"repetitions": 5, "seed": 8}
    for way in ({}, *({"samples": N} | way for way in WAYS)):
        theirs = simulate_procedure(
            drawn, RATES, schedules, _own_adam(axes), memory=2, **way, **common
        )
        ours = simulate_procedure(drawn, RATES, schedules, rule, **way, **common)
        np.testing.assert_allclose(ours.bias, theirs.bias, rtol=1e-9)
        np.testing.assert_allclose(ours.variance, theirs.variance, rtol=1e-9)
    one_pass = bl.simulate_one_pass(drawn, RATES, schedules, rule=rule, **common)
    np.testing.assert_array_equal(
        one_pass.excess, simulate_procedure(drawn, RATES, schedules, rule, **common).excess
    )


@pytest.mark.parametrize("basis", ["sketch", "eigen", "generic"])
@pytest.mark.parametrize("way", WAYS)
def test_parts_of_multi_pass_add_up_to_the_excess_of_the_same_runs(drawn, basis, way):
    common = {"samples": N, "repetitions": 50, "seed": 3, **way}
    rule = bl.adam(basis=basis, weight_decay=0.2)
    split = bl.simulate_multi_pass(drawn, RATES, BATCHES, rule=rule, **common)
    whole = simulate_procedure(drawn, RATES, BATCHES, rule, **common)
    assert split.excess == pytest.approx(whole.excess, rel=1e-11)
    assert split.cross != 0.0


def test_full_batches_do_not_fluctuate_around_full_batch_adam(drawn):
    rule, common = bl.adam(weight_decay=0.1), {"samples": N, "repetitions": 20, "seed": 3}
    full = bl.simulate_multi_pass(drawn, RATES, np.full(T, N), rule=rule, **common)
    descent = bl.simulate_gradient_descent(drawn, RATES, rule=rule, **common)
    assert full.fluctuation == pytest.approx(0.0, abs=1e-20)
    for part in ("bias", "variance", "cross"):
        assert getattr(full, part) == pytest.approx(getattr(descent, part), rel=1e-7)
    assert descent.procedure == "full-batch AdamW with betas 0.9 and 0.999"


def test_without_label_noise_full_batch_adam_has_a_bias_alone():
    problem = bl.Problem.from_spectrum([0.9, 0.3], [1.0, 0.5], 0.0)
    risk = bl.simulate_gradient_descent(
        problem, RATES, rule=bl.adam(basis="eigen"), samples=N, repetitions=5, seed=3
    )
    assert risk.bias > 0.0
    assert risk.variance == pytest.approx(0.0, abs=1e-20)


def test_a_large_rate_is_not_refused_by_the_limit_of_sgd_but_by_overflow(drawn):
    common = {"repetitions": 3, "seed": 1}
    assert np.isfinite(
        bl.simulate_one_pass(drawn, np.full(T, 100.0), 2, rule=bl.adam(), **common).excess
    )
    with refused("rates", bl.Unstable):
        bl.simulate_one_pass(drawn, np.full(T, 1e200), 2, rule=bl.adam(weight_decay=1.0), **common)


def test_a_spectrum_has_no_coordinates_of_a_sketch(small):
    for simulate in (bl.simulate_one_pass, bl.simulate_multi_pass, bl.simulate_gradient_descent):
        more = {} if simulate is bl.simulate_one_pass else {"samples": N}
        batches = () if simulate is bl.simulate_gradient_descent else (2,)
        with refused("problem"):
            simulate(small, RATES, *batches, rule=bl.adam(), repetitions=3, seed=1, **more)


@pytest.mark.parametrize("procedure", [None, MultiPass(samples=N), GradientDescent(samples=N)])
def test_quantiles_are_of_the_simulators_own_runs(drawn, procedure):
    batches = {"given": BATCHES}
    chosen = {} if procedure is None else {"procedure": procedure}
    case = bl.Case(drawn, RATES, batches, rule=bl.adam(), **chosen)
    got = risk_quantiles(case, repetitions=12, seed=6)
    assert got.exact is None
    common = {"rule": bl.adam(), "repetitions": 12, "seed": 6}
    if procedure is None:
        risk = bl.simulate_one_pass(drawn, RATES, BATCHES, **common)
    elif isinstance(procedure, MultiPass):
        risk = bl.simulate_multi_pass(drawn, RATES, BATCHES, samples=N, **common)
    else:
        risk = bl.simulate_gradient_descent(drawn, RATES, samples=N, **common)
    assert got.mean[0] == pytest.approx(risk.excess, rel=1e-10)
