"""What a plan recommends, what it says that is worth, and how that reaches its readers."""

import json

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.batches.rules import RULES, ChangesRates, rules_of
from batchlaw.design import compare
from batchlaw.design.plan_cases import PlanCases
from batchlaw.design.rule_scores import DIVERGED
from batchlaw.design.within_limits import within_limits
from batchlaw.faces.cli import main
from batchlaw.plans.trainers import TRAINERS
from batchlaw.plans.verdict import Verdict
from batchlaw.plans.worth import LossLevel
from refused import refused, refused_command

RUN = bl.wsd(400, 0.05)


def test_a_plan_for_sgd_is_used_only_where_no_problem_of_the_range_loses():
    made = bl.plan(RUN, 1600, rule=bl.sgd())
    assert made.verdict.recommendation.startswith("use this schedule for sgd")
    assert made.verdict.optimizer == "sgd"
    cases = PlanCases.of(RUN, 4.0, bl.sgd())
    (ratios,) = cases.ratios([made.batches], np.full(400, 4))
    assert ratios.max() < 1.0
    assert made.prediction["worst_excess_against_constant"] == pytest.approx(ratios.max())
    assert made.prediction["median_excess_against_constant"] == pytest.approx(np.median(ratios))


def test_where_some_problem_loses_the_batch_stays_constant_unless_asked_for_boldly():
    """A momentum of 0.9 under a short linear decay: batches of 1 at the peak are unstable."""
    rates, rule = bl.cosine(400, 0.05, warmup=0.1), bl.sgd(0.9, pytorch=True)
    kept = bl.plan(rates, 1600, rule=rule)
    assert kept.stages == ((400, 4),)
    assert kept.verdict.recommendation.startswith("keep the batch constant")
    assert kept.verdict.worth == "nothing changes against a constant batch"
    assert kept.prediction["noise_against_constant"] == 1.0
    bold = bl.plan(rates, 1600, rule=rule, bold=True)
    assert len(bold.stages) > 1
    assert bold.verdict.recommendation.endswith("the bold schedule follows")


def test_a_plan_with_momentum_is_not_lost_by_allowing_more_stages():
    """Five stages, and 16, lose in some problem of the range; four and eight do not."""
    rates, rule = bl.wsd(3000, 0.1, stable=0.8, decay="linear"), bl.sgd(0.9, pytorch=True)
    plans = {
        stages: bl.plan(rates, 24_000, rule=rule, stages=stages) for stages in (4, 5, 8, 16, None)
    }
    assert all(len(made.stages) > 1 for made in plans.values())
    assert plans[5].stages == plans[4].stages
    assert plans[16].stages == plans[None].stages == plans[8].stages


def test_the_worth_of_a_known_problem_is_its_exact_risk(paper):
    made = bl.plan(bl.wsd(64, 0.05), 512, rule=bl.sgd(), spectrum=paper)
    assert made.verdict.recommendation.startswith("this schedule if changing the batch costs")
    assert "whole risk changes by -0.0692 %, the excess by -0.149 %" in made.verdict.worth


def test_a_known_problem_has_a_table_of_rules(paper, capsys):
    rates = bl.wsd(64, 0.05)
    found = bl.plan(rates, 512, rule=bl.sgd(), spectrum=paper).verdict
    exact = {row.name: row for row in compare(paper, rates, 512)}
    least = float(exact["constant"].risk.excess)
    assert found.rules.keys() == RULES.keys() - {"constant"}
    for name, ratios in found.rules.items():
        # The noise scale is that of this run with a constant batch, in ``compare`` of the mean one.
        tolerance = 1e-3 if name == "noise scale" else 1e-12
        ratio = float(exact[name].risk.excess) / least
        assert ratios == pytest.approx((ratio, ratio, ratio), rel=tolerance)
    assert found.steps == {name: exact[name].rates.size for name in rules_of(ChangesRates)}
    words = ["--steps", "64", "--gamma", "0.05", "--budget", "512"]
    assert main(["plan", "--optimizer", "sgd", "--problem", "paper", *words]) == 0
    out = capsys.readouterr().out
    assert "other rules, the excess  against constant" in out
    assert "median" not in out


def test_where_an_option_has_a_number_per_update_only_rules_with_as_many_are_scored(paper):
    rates = bl.wsd(40, 0.02)
    whole = RULES.keys() - {"constant"} - rules_of(ChangesRates).keys()
    weights = bl.tail_average(40, 0.5)
    for rule in (bl.sgd(average=weights), bl.adam(average=weights, basis="generic")):
        found = bl.plan(rates, 320, rule=rule, spectrum=paper, stages=3).verdict
        assert found.rules.keys() == whole
        assert not found.steps
    assert not bl.plan(rates, 320, rule=bl.sgd(np.full(40, 0.5)), spectrum=paper).verdict.rules


def test_a_rule_that_diverges_on_a_known_problem_is_said_to():
    problem = bl.Problem.from_spectrum([1.0, 0.3], [1.0, 1.0], 0.1, [1, 30])
    rates = bl.constant(4000, 0.35)
    found = bl.plan(rates, 120_000, rule=bl.sgd(), spectrum=problem, min_batch=22).verdict
    assert found.rules["early-large"] == (DIVERGED, DIVERGED, DIVERGED)
    assert found.rules["batch doubling"][0] < 10.0


def test_the_worth_is_stated_in_the_loss_where_its_level_is_known(paper):
    level = LossLevel.of(2.5, 2.0)
    assert level.at(0.9) == pytest.approx(2.45)
    made = bl.plan(RUN, 1600, rule=bl.sgd(), loss=2.5, lowest_loss=2.0)
    middle = made.prediction["median_excess_against_constant"]
    assert made.verdict.worth.startswith(f"final loss {2.0 + 0.5 * middle:.5g} instead of 2.5 in")
    for options, field in (
        ({"loss": 2.5}, "lowest_loss"),
        ({"lowest_loss": 2.5}, "loss"),
        ({"loss": 2.0, "lowest_loss": 2.5}, "lowest_loss"),
    ):
        with refused(field):
            bl.plan(RUN, 1600, rule=bl.sgd(), **options)


def test_noise_alone_promises_nothing_in_the_loss():
    law = bl.PowerLaw(2.0, 10.0)
    made = bl.plan(RUN, 1600, rule=bl.sgd(), spectrum=law)
    assert "what that is in your loss is not known" in made.verdict.worth
    assert "visible share of the loss" in made.verdict.recommendation
    loss = bl.plan(RUN, 1600, rule=bl.sgd(), spectrum=law, loss=2.5, lowest_loss=2.0).verdict
    assert "2.5 as with a constant batch if none is" in loss.worth


def test_the_constant_batch_is_one_that_the_limits_allow():
    limits = bl.Limits(multiple_of=8, stages=4)
    assert within_limits(np.ones(50), 600, limits).tolist() == [8] * 50
    made = bl.plan(bl.wsd(50, 0.05), 600, rule=bl.sgd(), multiple_of=8, stages=4, bold=True)
    assert made.prediction["constant_batch"] == 8.0
    assert (
        "constant batch of 8 (it spends 67 % of the samples; compared at"
        in made.verdict.recommendation
    )


def test_the_time_of_the_run_comes_from_a_cost_model(capsys):
    cost = bl.design.CostModel.measured({64: 0.4, 256: 1.0})
    made = bl.plan(RUN, 1600, rule=bl.sgd(), cost=cost)
    expected = 0.2 * 400 + 1600 * 0.6 / 192
    assert made.prediction["seconds"] == pytest.approx(expected)
    assert made.prediction["seconds_of_constant"] == pytest.approx(expected)
    run = ["plan", "--optimizer", "sgd", "--steps", "400", "--gamma", "0.05", "--budget", "1600"]
    assert main([*run, "--step-seconds", "64:0.4,256:1.0"]) == 0
    assert "time: 85 s (85 s with the constant batch)" in capsys.readouterr().out
    assert main([*run, "--step-seconds", "20", "--width", "4"]) == 0
    out = capsys.readouterr().out
    waves = sum(-(-size // 4) for size in made.batches)
    assert f"time: {20 * waves / 3600:.3g} h (2.22 h with the constant batch)" in out
    for options, field in (
        (["--width", "4"], "width"),
        (["--step-seconds", "64:0.4"], "step_seconds"),
        (["--step-seconds", "64:0.4,256:0.1"], "step_seconds"),
        (["--step-seconds", "64:0.4,256:4.0"], "step_seconds"),
    ):
        refused_command([*run, *options], field, capsys)


@pytest.mark.parametrize("name", TRAINERS)
def test_every_export_carries_optimizer_verdict_and_evidence(name):
    made = bl.plan(
        bl.wsd(400, 0.05), 12_800, rule=bl.sgd(), multiple_of=8, batch_factor=2, bold=True
    )
    layout = {"sequence_length": 128, "data_parallel": 2, "micro_batch": 4}
    text = " ".join(bl.trainers.export(made, name, **layout).text.replace("#", " ").split())
    for part in (made.verdict.optimizer, made.verdict.recommendation, made.verdict.evidence):
        assert part in text


def test_the_steps_of_rules_that_change_the_rates_stay_in_a_plans_json(capsys):
    made = bl.plan(RUN, 1600, rule=bl.sgd())
    assert made.verdict.rules.keys() == RULES.keys() - {"constant"}
    assert made.verdict.steps.keys() == rules_of(ChangesRates).keys()
    seesaw = RULES["Seesaw"].schedule(RUN, 1600)
    assert made.verdict.steps["Seesaw"] == seesaw.rates.size < 400
    assert Verdict.from_dict(json.loads(json.dumps(made.verdict.to_dict()))) == made.verdict
    run = ["plan", "--optimizer", "sgd", "--steps", "400", "--gamma", "0.05", "--budget", "1600"]
    assert main(run) == 0
    kept, changed = capsys.readouterr().out.split("with rates of their own")
    assert "Li-Bu-Xu" in kept
    row = next(line for line in changed.splitlines() if line.startswith("Seesaw "))
    assert row.split()[1] == str(seesaw.rates.size)


@pytest.mark.parametrize(
    "entry",
    [
        {"steps": {"no rule": 3}},
        {"steps": {"Seesaw": 2.5}},
        {"steps": None},
        {"regrets": {"Seesaw": "large"}},
        {"regrets": None},
        {"rules": {"Seesaw": [1.0]}},
        {"other": 1},
    ],
)
def test_a_verdict_whose_json_is_wrong_is_refused(entry):
    values = Verdict("sgd", "a", "b", "c", {"Seesaw": (0.9, 1.0, 1.1)}, {"Seesaw": 7}).to_dict()
    assert Verdict.from_dict(values).steps == {"Seesaw": 7}
    earlier = {name: value for name, value in values.items() if name != "regrets"}
    assert Verdict.from_dict(earlier).regrets == {}
    with refused("verdict"):
        Verdict.from_dict(values | entry)
