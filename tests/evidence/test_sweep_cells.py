"""A cell equals the direct call, and its numbers do not change unnoticed.

``python tests/evidence/test_sweep_cells.py`` rewrites the golden cells.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.evidence.sweep.cell import solve
from batchlaw.jobs.execution import compute_cells
from batchlaw.jobs.store import FAILED, NUMERICS, REFUSED
from batchlaw.jobs.workers import worker_threads

GOLDEN = Path(__file__).with_name("golden_cells.json")
REWRITE = "rewrite the table with python tests/evidence/test_sweep_cells.py"
DRAWN = {"problem": "power-law", "d": 60, "m": 6, "a": 1.5, "seed": 3}
REUSED = {"procedure": "multi-pass", "samples": 48}
MONTE_CARLO = {"solver": "simulated", "repetitions": 8, "data_seed": 5}
# Every solver, and every kind of problem, rates and batches, at least once.
CELLS = [
    {"problem": "paper", "d": 300, "m": 8, "steps": 32},
    {**DRAWN, "rates": "cosine", "steps": 24, "batches": "constant", "prior": True},
    {"problem": "truncation", "m": 1000000, "rates": "linear", "batches": "greedy", "budget": 400},
    {"problem": "sketch", "m": "inf", "rates": "constant", "batches": "continuous"},
    {**DRAWN, "rates": "polynomial", "momentum": 0.9, "nesterov": True, "average": "tail:0.5"},
    {**DRAWN, "rates": "step", "momentum": 0.5, "pytorch": True, "average": "ema:0.9"},
    {**DRAWN, "decay": "1-sqrt", "batches": "early_small_late_large", "mean_batch": 3},
    {**DRAWN, **REUSED, "steps": 40, "gamma": 0.2},
    {**DRAWN, **REUSED, "replacement": True, "batches": "early_large_late_small"},
    {**DRAWN, **REUSED, "method": "simple", "batches": "paper"},
    {**DRAWN, "procedure": "gd", "samples": 48, "sigma": 0.5},
    {**DRAWN, **MONTE_CARLO, "steps": 20},
    {**DRAWN, **REUSED, **MONTE_CARLO, "steps": 20},
    {**DRAWN, **REUSED, **MONTE_CARLO, "steps": 20, "replacement": True},
    {**DRAWN, **MONTE_CARLO, "procedure": "gd", "samples": 48, "steps": 20},
]


@pytest.fixture(scope="module")
def setting():
    problem = bl.Problem.power_law(1.5, 1.5, 6, 60, 1.0, seed=3)
    rates = bl.wsd(20, 0.05)
    batches = bl.schedule_families(bl.influence(problem, rates), 160)["oracle"]
    return problem, rates, batches


def _assert_same(result, risk, parts):
    for part in (*parts, "total", "excess", "irreducible", "approximation"):
        assert result[part] == getattr(risk, part), part


def test_an_exact_cell_is_the_direct_call(setting):
    problem, rates, batches = setting
    parts = ("bias", "variance", "variance_noise", "variance_covariance")
    result = solve({**DRAWN, "steps": 20})
    _assert_same(result, bl.one_pass_risk(problem, rates, batches), parts)
    assert result["b_eff"] == bl.effective_batch(bl.influence(problem, rates), batches)
    assert result["relative_error"] == 0.0
    result = solve({**DRAWN, **REUSED, "steps": 20})
    risk = bl.multi_pass_risk(problem, rates, batches, samples=48)
    _assert_same(result, risk, ("bias", "variance", "fluctuation"))
    assert result["relative_error"] == risk.uncertainty > 0.0
    rho = bl.effective_fluctuation(bl.influence(problem, rates), batches, 48)
    assert result["rho_eff"] == rho
    result = solve({**DRAWN, "procedure": "gd", "samples": 48, "steps": 20})
    _assert_same(result, bl.gradient_descent_risk(problem, rates, samples=48), ("bias", "variance"))


@pytest.mark.parametrize("procedure", ["one-pass", "multi-pass", "gd"])
def test_a_simulated_cell_is_the_direct_call_with_its_standard_errors(setting, procedure):
    problem, rates, batches = setting
    draws = {"repetitions": 8, "seed": 5, "threads": 1}
    cell = {**DRAWN, **MONTE_CARLO, "steps": 20, "procedure": procedure}
    if procedure == "one-pass":
        risk = bl.simulate_one_pass(problem, rates, batches, **draws)
        parts = ["bias", "variance"]
    elif procedure == "multi-pass":
        risk = bl.simulate_multi_pass(problem, rates, batches, samples=48, **draws)
        parts = ["bias", "variance", "fluctuation"]
    else:
        risk = bl.simulate_gradient_descent(problem, rates, samples=48, **draws)
        parts = ["bias", "variance"]
    result = solve(cell if procedure == "one-pass" else {**cell, "samples": 48})
    _assert_same(result, risk, parts)
    for part in ("total", "excess", *parts):
        assert result[f"{part}_se"] == risk.standard_error(part) > 0.0
    errors = {name for name in result if name.endswith("_se")}
    assert errors == {f"{part}_se" for part in ("total", "excess", *parts)}


@pytest.mark.parametrize("procedure", ["one-pass", "multi-pass", "reshuffled", "gd"])
def test_a_cell_with_a_rule_is_simulated_with_it_where_nothing_else_can(setting, procedure):
    """Its oracle is that of the rule's own influence; one pass is exact unless asked otherwise."""
    problem, rates, _ = setting
    words = {"momentum": 0.5, "average": "tail:0.5"}
    rule = bl.sgd(**words)
    kappa = bl.influence(problem, rates, rule=rule)
    batches = bl.schedule_families(kappa, 160, max_batch=48)["oracle"]
    draws = {"repetitions": 8, "seed": 5, "threads": 1, "rule": rule}
    cell = {**DRAWN, **words, "steps": 20, "procedure": procedure}
    if procedure == "one-pass":
        exact = bl.one_pass_risk(problem, rates, batches, rule=rule)
        _assert_same(solve(cell), exact, ["bias", "variance"])
        risk = bl.simulate_one_pass(problem, rates, batches, **draws)
        result = solve({**cell, **MONTE_CARLO})
        assert result["variance_se"] == risk.standard_error("variance")
    else:
        draws["samples"] = cell["samples"] = 48
        if procedure == "gd":
            risk = bl.simulate_gradient_descent(problem, rates, **draws)
        else:
            reshuffle = procedure == "reshuffled"
            risk = bl.simulate_multi_pass(problem, rates, batches, reshuffle=reshuffle, **draws)
        result = solve({**cell, "repetitions": 8, "data_seed": 5})
    _assert_same(result, risk, ["bias", "variance"])


def test_defaults_are_those_of_the_command_line(setting):
    assert solve({**DRAWN, "steps": 20, "batches": "oracle", "mean_batch": 8}) == solve(
        {**DRAWN, "steps": 20, "gamma": 0.05, "sigma": 1.0, "solver": "exact"}
    )


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        ({"gamma": 50.0}, REFUSED, "peak rate 50 is unstable"),
        ({"budget": 3}, REFUSED, "budget must be at least one sample per update"),
        ({"rates": "schedule.csv"}, REFUSED, "rates must be one of wsd"),
        ({"batches": "oracle,constant"}, REFUSED, "batches must be one of oracle"),
        ({"rates": "constant", "steps": 10**15}, FAILED, "llocate"),
    ],
)
def test_a_refused_or_failed_cell_is_stored_with_its_reason(change, status, reason):
    (outcome,) = compute_cells(solve, [{**DRAWN, "steps": 20, **change}])
    assert outcome.status == status
    assert reason in outcome.result["reason"]


def _golden():
    with worker_threads(1):
        return [{"cell": cell, "result": solve(cell)} for cell in CELLS]


def test_golden_cells_are_what_they_were():
    recorded = json.loads(GOLDEN.read_text())
    if recorded["numerics"] != NUMERICS:
        pytest.fail(f"NUMERICS was raised: {REWRITE}")
    assert [row["cell"] for row in recorded["cells"]] == CELLS
    advice = (
        "a stored result would differ: if that is intended, raise NUMERICS in jobs/store.py "
        f"and {REWRITE}"
    )
    for before, now in zip(recorded["cells"], _golden(), strict=True):
        assert before["result"].keys() == now["result"].keys(), advice
        for name, value in before["result"].items():
            # Another processor's BLAS adds in another order, which changes the last digits;
            # a change of method changes far more.
            # Errors are differences of nearly equal numbers, and keep fewer digits.
            digits = 1e-4 if name == "relative_error" else 1e-9
            close = np.isclose(now["result"][name], value, rtol=digits, atol=0.0, equal_nan=True)
            assert close, f"{name} of {before['cell']}: {advice}"


if __name__ == "__main__":
    table = {"numerics": NUMERICS, "cells": _golden()}
    GOLDEN.write_text(json.dumps(table, indent=1) + "\n")
