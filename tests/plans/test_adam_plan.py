"""Plans for Adam: verdicts over the range and for known problems."""

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.design.plan_cases import RANGE
from batchlaw.faces.cli import main
from batchlaw.faces.cli.plan import plan as command
from batchlaw.model.spectrum import EXPONENTS
from batchlaw.plans.plan import Plan
from batchlaw.plans.verdict import CONSTANT_BATCH, PLAN
from refused import refused

ADAMW = bl.adam(0.9, 0.99, weight_decay=0.01)


@pytest.mark.slow
def test_a_plan_over_the_range_has_its_verdict_in_its_json():
    plan = bl.plan(bl.wsd(200, 0.01), 1600, rule=ADAMW, stages=4)
    assert plan.verdict is not None
    assert "early-large" in plan.verdict.rules
    assert plan.prediction["worst_excess_against_constant"] <= 1.0
    assert Plan.from_json(plan.to_json()) == plan
    regrets = plan.verdict.regrets
    assert regrets.keys() == plan.verdict.rules.keys() | {PLAN, CONSTANT_BATCH}
    assert regrets[PLAN] == min(regrets.values())


@pytest.mark.slow
def test_the_first_lines_are_recommendation_worth_and_evidence(capsys):
    command = ["plan", "--optimizer", "adamw", "--rates", "cosine", "--steps", "200"]
    assert main([*command, "--gamma", "0.01", "--budget", "1600"]) == 0
    first, second, third = capsys.readouterr().out.splitlines()[:3]
    assert first.startswith("recommended: keep the batch constant")
    assert second == "worth: nothing changes against a constant batch"
    assert third.startswith("evidence: 48 solvable problems, by a mean field of AdamW")


@pytest.mark.slow
def test_a_known_problem_is_judged_in_the_sketchs_own_coordinates():
    problem = bl.Problem.power_law(2.0, 1.5, 8, dim=200, seed=1)
    rates = bl.wsd(60, 0.02)
    plan = bl.plan(rates, 480, spectrum=problem, rule=ADAMW, stages=3, bold=True)
    schedules = {"plan": plan.batches, "constant": np.full(60, plan.batches.mean())}
    risk = bl.one_pass_risk(problem, rates, schedules, rule=ADAMW)
    ratio = plan.prediction["excess_against_constant"]
    assert ratio == pytest.approx(risk.excess[0] / risk.excess[1], rel=1e-12)


def test_a_plan_says_where_the_rate_is_too_large_for_the_problem():
    problem = bl.Problem.power_law_nodes(2.0, 1.5, 1e6, nodes=40)
    rule = bl.adam(basis="generic")
    for peak, grows in ((0.5, True), (1e-4, False)):
        found = bl.plan(bl.wsd(30, peak), 240, rule=rule, spectrum=problem, stages=2).verdict
        assert ("the second moment grows" in found.evidence) == grows


def test_what_a_plan_for_adam_cannot_use_is_refused():
    rates, law = bl.wsd(50, 0.01), bl.PowerLaw((1.2, 2.0), 3.0)
    with refused("scale"):
        bl.plan(rates, 400, spectrum=law, rule=ADAMW)
    with refused("procedure"):
        bl.plan(rates, 400, rule=ADAMW, procedure="multi-pass", dataset_size=400)
    with refused("noise"):
        bl.plan(rates, 400, rule=ADAMW, noise=np.ones(50))


def test_the_help_names_the_default_exponents():
    exponents = RANGE.exponents
    text = " ".join(str(command.__doc__).split())
    low, high = EXPONENTS
    listed = "{:g}, {:g} and {:g}".format(*exponents)
    assert f"by default {low:g}:{high:g} for SGD and momentum, and {listed} for Adam" in text
