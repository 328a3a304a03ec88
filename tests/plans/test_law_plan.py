"""Plans by a law of training runs: what is recommended, what it says, what is refused."""

import json

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.batches.rules import RULES, ChangesRates, FollowsNoise
from batchlaw.faces.cli import main
from batchlaw.plans.trainers import TRAINERS
from batchlaw.plans.verdict import SETTING, Verdict
from refused import refused, refused_command
from small_laws import small_law

RATES = bl.wsd(400, 0.01)
# Noise falls like 1/B, and little else matters: a schedule gains.
LAW = small_law(beta=1.0, factors=(1.0, 0.1, 0.5))
VAGUE = small_law(beta=1.0, factors=(1.0, 0.1, 0.5), error=1.0)
OPTIONS = ["--steps", "400", "--gamma", "0.01", "--budget", "3200"]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "law.json"
    path.write_text(LAW.to_json())
    return str(path)


def test_a_schedule_is_used_where_the_band_of_the_difference_excludes_zero():
    made = bl.plan(RATES, 3200, law=LAW)
    given = made.prediction
    assert made.verdict.recommendation.startswith("use this schedule for adamw")
    assert len(made.stages) > 1
    even = np.full(400, made.samples / 400)
    change, low, high = LAW.difference((RATES, made.batches), (RATES, even))
    assert given["loss_against_constant"] == pytest.approx(change, abs=1e-12)
    assert given["loss_against_constant_low"] == pytest.approx(low, abs=1e-12)
    assert given["loss_against_constant_high"] == pytest.approx(high, abs=1e-12)
    assert high < 0.0
    loss, *ends = LAW.predict(RATES, made.batches, steps=[400]).final
    assert given["final_loss"] == pytest.approx(loss)
    assert [given["final_loss_low"], given["final_loss_high"]] == pytest.approx(ends)
    assert given["final_loss_of_constant"] == pytest.approx(loss - change)
    assert f"{change:+.4f}" in made.verdict.worth
    assert given["batch_exponent"] == pytest.approx(1.0, abs=0.01)


def test_no_gain_is_promised_where_the_band_holds_zero():
    kept = bl.plan(RATES, 3200, law=VAGUE)
    assert kept.stages == ((400, 8),)
    assert kept.verdict.recommendation.startswith("keep the batch constant: no gain")
    assert "the best schedule found would change it by -" in kept.verdict.worth
    given = kept.prediction
    assert given["loss_against_constant"] == 0.0
    assert given["best_found_against_constant"] < 0.0 < given["best_found_against_constant_high"]
    bold = bl.plan(RATES, 3200, law=VAGUE, bold=True)
    assert len(bold.stages) > 1
    assert bold.verdict.recommendation.endswith("the bold schedule follows")
    assert any("as asked for boldly" in text for text in bold.assumptions)


def test_no_gain_is_promised_where_the_exponent_of_the_batch_may_be_zero():
    law = small_law(beta=0.02, spread=0.1, factors=(1.0, 0.1, 5.0), error=1e-9)
    assert law.batch_exponent()[1] < 0.0
    kept = bl.plan(RATES, 3200, law=law)
    assert kept.stages == ((400, 8),)
    assert "do not show that noise falls with the batch" in kept.verdict.recommendation


def test_runs_with_one_batch_size_give_a_constant_batch_and_say_what_to_run():
    law = small_law(batches=(8, 8), flags=("norm",), factors=(1.0, 0.1, 5.0))
    for bold in (False, True):
        kept = bl.plan(RATES, 3200, law=law, bold=bold)
        assert kept.stages == ((400, 8),)
        assert "the runs have one batch size, 8" in kept.verdict.recommendation
        assert "add two or three runs" in kept.verdict.recommendation
        assert "batch_exponent" not in kept.prediction


def test_a_mean_batch_beyond_the_runs_is_kept_constant():
    kept = bl.plan(RATES, 400 * 50, law=LAW)
    assert kept.stages == ((400, 50),)
    assert "no schedule stays within the batches of the runs" in kept.verdict.recommendation
    assert any("batch beyond the runs" in text for text in kept.assumptions)


def test_rules_stand_beside_the_plan_in_the_loss():
    verdict = bl.plan(RATES, 3200, law=LAW).verdict
    scored = {n for n, rule in RULES.items() if not isinstance(rule, FollowsNoise)} - {"constant"}
    assert set(verdict.differences) == scored
    assert set(verdict.steps) == {n for n in scored if isinstance(RULES[n], ChangesRates)}
    own = RULES["Seesaw"].schedule(RATES, 3200)
    change, low, high = LAW.difference((own.rates, own.batches), (RATES, np.full(400, 8.0)))
    assert verdict.differences["Seesaw"] == pytest.approx((low, change, high), abs=1e-12)
    assert verdict.steps["Seesaw"] == own.rates.size
    assert bl.plan(RATES, 3200, law=LAW, score_rules=False).verdict.differences == {}


def test_the_evidence_states_the_runs_and_the_error_on_schedules_left_out():
    evidence = bl.plan(RATES, 3200, law=LAW).verdict.evidence
    assert "6 runs with 5 schedules" in evidence
    assert "left out 0.001" in evidence
    assert LAW.member.name in evidence
    assert "the batch changes within none of them" in evidence
    changing = small_law(largest_change=4.0)
    evidence = bl.plan(RATES, 3200, law=changing).verdict.evidence
    assert "by a factor of up to 4" in evidence


def test_the_plan_and_its_exports_carry_the_verdict():
    made = bl.plan(RATES, 3200, law=LAW, choose_steps=True)
    assert bl.Plan.from_json(made.to_json()) == made
    document = json.loads(made.to_json())
    assert set(document["verdict"]["settings"][0]) == set(SETTING)
    assert len(document["inputs"]["law"]["sha256"]) == 64
    assert Verdict.from_dict(document["verdict"]) == made.verdict
    for name in TRAINERS:
        options = {"sequence_length": 16, "data_parallel": 1, "micro_batch": 1}
        if name != "olmo":
            text = bl.trainers.export(made, name, **options).text
            assert made.verdict.worth in " ".join(text.replace("#", " ").split())
    broken = document["verdict"] | {"settings": [{"steps": 3}]}
    with refused("verdict"):
        Verdict.from_dict(broken)


def test_the_number_of_updates_is_changed_only_beyond_the_band():
    kept = bl.plan(RATES, 3200, law=VAGUE, choose_steps=True)
    assert kept.steps == 400
    assert kept.verdict.recommendation.startswith("keep the updates")
    best = min(kept.verdict.settings, key=lambda row: row["loss"])
    assert best["steps"] != 400
    # Progress is worth much: more updates of smaller batches are better.
    slow = small_law(beta=0.1, factors=(1.0, 3.0, 0.05), batches=(4, 16))
    made = bl.plan(RATES, 3200, law=slow, choose_steps=True)
    assert made.steps == 800
    assert made.rates.max() == 0.01
    assert made.samples <= 3200
    assert made.verdict.recommendation.startswith("use 800 updates in place of 400")
    row = next(row for row in made.verdict.settings if row["steps"] == 800)
    assert row["high"] < 0.0
    assert row["batch"] == 4.0


def test_the_peak_is_chosen_within_those_of_the_runs():
    law = small_law(peaks=(0.004, 0.02), factors=(1.0, 3.0, 0.05))
    made = bl.plan(RATES, 3200, law=law, choose_peak=True)
    assert 0.01 < made.rates.max() <= 0.02 * (1 + 1e-12)
    assert made.steps == 400
    assert "a peak rate of 0.02 in place of 0.01" in made.verdict.recommendation


def test_what_has_no_use_with_a_law_is_refused():
    given = {
        "spectrum": bl.PowerLaw(2.0),
        "influence": np.ones(400),
        "noise": np.ones(400),
        "rule": bl.sgd(),
    }
    for name, value in given.items():
        with refused(name):
            bl.plan(RATES, 3200, law=LAW, **{name: value})
    with refused("loss"):
        bl.plan(RATES, 3200, law=LAW, loss=3.0, lowest_loss=2.0)
    with refused("procedure"):
        bl.plan(RATES, 3200, law=LAW, procedure="multi-pass", dataset_size=1000)
    with refused("choose_peak"):
        bl.plan(RATES, 3200, law=LAW, choose_peak=True)
    with refused("choose_steps"):
        bl.plan(RATES, 3200, rule=bl.sgd(), choose_steps=True)
    with refused("law"):
        bl.plan(RATES, 3200, law=LAW.to_json())
    same = bl.plan(RATES, 3200, law=LAW, rule=bl.adam(weight_decay=0.01))
    assert same.stages == bl.plan(RATES, 3200, law=LAW).stages


def test_the_command_plans_by_a_law(file, tmp_path, capsys):
    output = tmp_path / "out"
    words = ["plan", "--law", file, *OPTIONS, "--optimizer", "adamw", "--choose-steps"]
    assert main([*words, "--output-dir", str(output)]) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert lines[0].startswith("recommended: ")
    assert lines[1].startswith("worth: predicted final loss")
    assert lines[2].startswith("evidence: a law fitted to 6 runs")
    assert "other rules, the final loss" in text
    assert "to the given" in text
    made = bl.Plan.from_json((output / "plan.json").read_text())
    assert made.inputs["law"]["file"] == "law.json"
    assert len(made.inputs["law"]["sha256"]) == 64
    assert (output / "plan.png").stat().st_size > 0
    assert main(["check", str(output / "plan.json")]) == 0


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (["--optimizer", "sgd"], "rule"),
        (["--beta2", "0.95"], "rule"),
        (["--exponent", "2"], "exponent"),
        (["--problem", "paper"], "problem"),
        (["--loss", "3", "--lowest-loss", "2"], "loss"),
        (["--choose-peak"], "choose_peak"),
    ],
)
def test_the_command_refuses_what_a_law_leaves_no_room_for(words, field, file, capsys):
    refused_command(["plan", "--law", file, *OPTIONS, *words], field, capsys)


def test_the_command_refuses_a_file_that_is_no_law(tmp_path, capsys):
    path = tmp_path / "law.json"
    refused_command(["plan", "--law", str(path), *OPTIONS], "law", capsys)
    path.write_text('{"schema": 1}')
    refused_command(["plan", "--law", str(path), *OPTIONS], "law", capsys)
    assert list(tmp_path.iterdir()) == [path]
