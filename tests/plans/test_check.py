import json

import numpy as np
import pytest

import batchlaw as bl
from batchlaw._base.errors import InputError
from batchlaw.faces.cli import main
from batchlaw.plans.check import SEVERITY, check
from batchlaw.plans.plan import Plan, stages_of
from batchlaw.plans.trainer_settings import TrainerSettings
from batchlaw.plans.trainers import export
from refused import refused_command
from trainer_rules import megatron_arguments

RATES = bl.wsd(1000, 0.05, warmup=100, stable=800, decay="linear")
BATCHES = np.repeat([256, 512], [300, 700])
SAMPLES = 435200


def found(settings, batches=BATCHES, rates=RATES, **options):
    """Id and message of every finding; its severity follows from the id."""
    findings = check(rates, batches, settings, **options)
    assert all(each.severity == SEVERITY[each.id] for each in findings)
    return [(each.id, each.message) for each in findings]


def test_a_sound_run_has_no_findings():
    settings = TrainerSettings(
        train_steps=1000,
        train_samples=SAMPLES,
        data_parallel=32,
        micro_batch=8,
        dataset_samples=10**6,
        warmup=100,
        decay=200,
        horizon=1000,
    )
    assert found(settings) == []
    assert found(TrainerSettings()) == []


def test_steps_multiplied_by_the_last_batch_double_the_warmup_and_never_finish_the_decay():
    settings = TrainerSettings(counted_batch=512, warmup=100, decay=200, train_steps=1000)
    warmup, start, end = found(settings)
    assert warmup == (
        "horizon-warmup",
        "The warmup ends at step 200, by the rates at step 100: its setting amounts to 51200 "
        "samples (100 steps of 512), 100 steps as if all batches were the last, 512; "
        "with these batches it must be 25600 samples (50 steps of 512).",
    )
    assert [start[0], end[0]] == ["horizon-decay-start", "horizon-decay-end"]
    assert "The decay starts at step 950, by the rates at step 800" in start[1]
    assert (
        "The decay never ends, by the rates at step 1000: its setting amounts to 512000" in end[1]
    )


def test_samples_counted_with_the_mean_batch_break_the_warmup():
    mean = SAMPLES / 1000
    settings = TrainerSettings(counts="samples", warmup=int(100 * mean), train_samples=SAMPLES)
    ((id_, message),) = found(settings)
    assert id_ == "horizon-warmup"
    assert "The warmup ends at step 170, by the rates at step 100" in message
    assert "as if all batches were the mean, 435.2" in message
    assert "it must be 25600 samples" in message


def test_tokens_are_counted_in_tokens():
    right = {"counts": "tokens", "sequence_length": 64, "train_tokens": SAMPLES * 64 + 63}
    assert found(TrainerSettings(warmup=25600 * 64, decay=200 * 512 * 64, **right)) == []
    ((_, message),) = found(TrainerSettings(warmup=51200 * 64, **right))
    assert f"must be {25600 * 64} tokens" in message


def test_a_decay_that_ends_early_is_an_error():
    ((id_, message),) = found(TrainerSettings(horizon=900))
    assert id_ == "horizon-decay-end"
    assert "The decay ends at step 900, by the rates at step 1000" in message


def test_a_step_horizon_from_the_first_batch_is_an_error():
    ((id_, message),) = found(TrainerSettings(train_steps=1700, train_samples=SAMPLES))
    assert id_ == "length"
    assert message == (
        "The trainer runs 1700 steps, the schedule has 1000, 1700 steps as if all batches were "
        "the first, 256."
    )


def test_counting_samples_through_a_change_of_batch_bends_the_rates():
    batches = np.repeat([256, 512], [900, 100])
    ((id_, message),) = found(TrainerSettings(counts="samples"), batches)
    assert id_ == "bend-decay"
    assert message == (
        "The decay counts samples while the batch changes in it: at step 900 it is 33% done "
        "instead of 50%."
    )
    assert found(TrainerSettings(counts="steps"), batches) == []


@pytest.mark.parametrize(
    ("settings", "id_", "message"),
    [
        (
            TrainerSettings(train_samples=SAMPLES + 1),
            "budget",
            "sum to 435200 samples, the trainer is to use 435201: they leave 1 samples.",
        ),
        (
            TrainerSettings(train_tokens=SAMPLES * 10 - 1, sequence_length=10),
            "budget",
            "sum to 4352000 tokens (435200 samples of 10), the trainer is to use 4351999: "
            "they lack 1 tokens.",
        ),
        (
            TrainerSettings(data_parallel=24, micro_batch=8),
            "divisibility",
            "2 of 2 stages are no multiple of data_parallel x micro_batch = 192; the first, up to "
            "step 300, has batches of 256.",
        ),
        (
            TrainerSettings(dataset_samples=500),
            "dataset",
            "The batch of 512 at step 301 is larger than the dataset of 500 samples.",
        ),
    ],
)
def test_each_contradiction_is_an_error_with_its_numbers(settings, id_, message):
    ((found_id, text),) = found(settings)
    assert found_id == id_
    assert SEVERITY[id_] == "error"
    assert message in text


def test_schedules_of_two_lengths_are_one_error():
    assert found(TrainerSettings(train_samples=3), batches=[1, 2]) == [
        ("schedule-lengths", "The rates have 1000 steps and the batches 2.")
    ]


def test_stages_too_short_to_matter_are_a_warning():
    batches = np.repeat([256, 512, 1024], [5, 290, 705])
    ((id_, message),) = found(TrainerSettings(), batches)
    assert id_ == "short-stages"
    assert SEVERITY[id_] == "warning"
    assert "1 of 3 stages are too short to matter" in message
    assert "the first is steps 1 to 5" in message
    assert "squared rate" in message
    # The same five steps at the end matter, if their influence says so.
    influence = np.append(np.full(995, 1.0), np.full(5, 100.0))
    assert found(TrainerSettings(), batches[::-1], influence=influence) == []
    assert found(TrainerSettings(), np.full(1000, 3)) == []


def test_the_settings_of_an_export_pass():
    plan = Plan(rates=RATES, stages=stages_of(BATCHES), budget=SAMPLES, sequence_length=64)
    given = megatron_arguments(export(plan, "megatron").text)
    settings = TrainerSettings(
        counts="samples",
        train_samples=int(given["train-samples"]),
        warmup=int(given["lr-warmup-samples"]),
        decay=int(given["lr-wsd-decay-samples"]),
        horizon=int(given["lr-decay-samples"]),
    )
    assert found(settings) == []


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"train_samples": 10, "train_tokens": 900, "sequence_length": 64}, "train_samples"),
        ({"train_tokens": 900}, "sequence_length"),
        ({"counts": "epochs"}, "counts"),
        ({"counts": "samples", "counted_batch": 8}, "counted_batch"),
        ({"micro_batch": 0}, "micro_batch"),
    ],
)
def test_contradicting_settings_are_refused(settings, field):
    with pytest.raises(InputError) as refused:
        TrainerSettings(**settings)
    assert refused.value.field == field


def test_an_influence_of_another_length_is_refused():
    with pytest.raises(InputError) as refused:
        check(RATES, BATCHES, TrainerSettings(), influence=[1.0, 2.0])
    assert refused.value.field == "influence"


@pytest.fixture
def files(tmp_path):
    rates, batches, plan = (tmp_path / name for name in ("rates.csv", "batches.csv", "plan.json"))
    rates.write_text("rate\n" + "\n".join(map(repr, RATES.tolist())))
    rows = "\n".join(f"{step},{size}" for step, size in enumerate(BATCHES, start=1))
    batches.write_text("step,batch\n" + rows)
    made = Plan(rates=RATES, stages=stages_of(BATCHES), budget=SAMPLES, sequence_length=64)
    plan.write_text(made.to_json())
    return {"rates": str(rates), "batches": str(batches), "plan": str(plan)}


def run(*arguments):
    return main(["check", *arguments])


def test_the_command_passes_a_sound_plan_and_sound_files(files, capsys):
    assert run(files["plan"], "--train-tokens", str(SAMPLES * 64)) == 0
    assert capsys.readouterr().out.startswith("nothing found\n")
    assert run("--rates", files["rates"], "--batches", files["batches"]) == 0
    assert capsys.readouterr().out.startswith("nothing found\n")


def test_the_command_prints_findings_and_exits_with_1(files, capsys):
    options = ["--counted-batch", "512", "--warmup", "100", "--data-parallel", "24"]
    assert run(files["plan"], *options) == 1
    first, second, _ = capsys.readouterr().out.splitlines()
    assert first.startswith("error: The warmup ends at step 200, by the rates at step 100")
    assert second.startswith("error: 2 of 2 stages are no multiple")
    assert run(files["plan"], *options, "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["errors"], document["warnings"]) == (2, 0)
    assert [each["id"] for each in document["findings"]] == ["horizon-warmup", "divisibility"]
    assert document["findings"][0]["severity"] == "error"


def test_warnings_alone_exit_with_0(files, capsys, tmp_path):
    batches = tmp_path / "short.csv"
    batches.write_text("\n".join(["8"] * 3 + ["16"] * 997))
    options = ["--rates", files["rates"], "--batches", str(batches)]
    assert run(*options, "--exponent", "2", "--scale", "1") == 0
    assert capsys.readouterr().out.startswith("warning: 1 of 2 stages are too short to matter")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ("", "plan"),
        ("--rates {rates}", "plan"),
        ("{plan} --rates {rates}", "rates"),
        ("none.json", "plan"),
        ("{rates}", "plan"),
        ("{plan} --sequence-length 32", "sequence_length"),
        ("{plan} --train-samples 9 --train-tokens 640", "train_samples"),
        ("{plan} --exponent 2", "scale"),
        ("{plan} --micro-batch 1.5", "--micro-batch"),
        ("{plan} --counts epochs", "--counts"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(options, field, files, capsys):
    refused_command(["check", *options.format(**files).split()], field, capsys)


def test_a_rate_file_with_gaps_is_one_line_and_exit_code_2(files, tmp_path, capsys):
    gaps = tmp_path / "gaps.csv"
    gaps.write_text("step,rate\n1,0.1\n3,0.1\n")
    words = ["check", "--rates", str(gaps), "--batches", files["batches"]]
    refused_command(words, "path", capsys)
