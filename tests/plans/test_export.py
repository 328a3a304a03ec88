"""Every export, read by the trainer's documented rules (``trainer_rules``), is the plan."""

import csv

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import batchlaw as bl
from batchlaw._base.errors import InputError
from batchlaw.plans.plan import Plan, stages_of
from batchlaw.plans.trainers import TRAINERS, export
from trainer_rules import (
    accumulation_table,
    call_arguments,
    hugging_face_batches,
    hugging_face_rate,
    lightning_batches,
    megatron_run,
    megatron_schedule,
    olmo_batches,
    olmo_rate,
    olmo_settings,
)

LENGTH = 512


def make(rates=None, stages=((8, 8), (12, 16), (20, 32)), **changes):
    rates = bl.wsd(20, 0.05, warmup=5, stable=12, decay="linear") if rates is None else rates
    sizes = sum(size for _, size in stages) * len(rates)
    return Plan(rates=rates, stages=stages, **({"budget": sizes} | changes))


def arguments_of(text):
    (line,) = [line for line in text.splitlines() if line.startswith("# TrainingArguments: ")]
    return call_arguments(line.partition(": ")[2])


def test_json_is_the_plan():
    assert Plan.from_json(export(make(), "json").text) == make()


def test_megatron_rules_read_its_documented_examples():
    # training_config.py, and examples/gpt3/train_gpt3_175b_distributed.sh
    assert megatron_schedule("0:768 250B:1536 500B:3072 750B:6144", 8192) == [
        (0, 768),
        (30517578, 1536),
        (61035156, 3072),
        (91552734, 6144),
    ]
    example = "0:16 2.4B:320 4.8B:624 7.2B:928 9.6B:1232 12B:1536"
    assert megatron_schedule(example, 2048)[1] == (1171875, 320)
    assert megatron_schedule("0:16 100:32") == [(0, 16), (100, 32)]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 4000), min_size=3, max_size=25), st.integers(1, 10**5))
def test_megatron_runs_the_planned_batches(sizes, length):
    plan = make(bl.linear(len(sizes), 0.1), stages_of(sizes))
    batches, _ = megatron_run(export(plan, "megatron", sequence_length=length).text)
    assert batches == sizes


@pytest.mark.parametrize("decay", ["linear", "1-sqrt"])
@pytest.mark.parametrize("final", [0.0, 0.1])
def test_megatron_rates_are_the_plans_where_phases_have_one_batch(decay, final):
    rates = bl.wsd(20, 0.05, warmup=5, stable=12, decay=decay, final=final)
    plan = make(rates, ((8, 8), (11, 24), (20, 40)))
    text = export(plan, "megatron", sequence_length=LENGTH).text
    batches, ran = megatron_run(text)
    assert batches == plan.batches.tolist()
    np.testing.assert_allclose(ran, rates, rtol=1e-12, atol=1e-15)
    assert "Rates: equal to the plan's." in text


def test_megatron_cosine_and_constant_are_the_plans():
    for rates in (bl.cosine(20, 0.3, final=0.1), bl.constant(20, 0.3)):
        plan = make(rates, ((20, 8),))
        _, ran = megatron_run(export(plan, "megatron", sequence_length=LENGTH).text)
        np.testing.assert_allclose(ran, rates, rtol=1e-12, atol=1e-15)


def test_megatron_says_how_far_the_rates_bend_and_keeps_their_ends():
    rates = bl.wsd(200, 0.05, decay="linear")
    plan = make(rates, ((10, 8), (150, 16), (200, 64)))
    text = export(plan, "megatron", sequence_length=LENGTH).text
    _, ran = megatron_run(text)
    apart = np.abs(np.array(ran) - rates).max() / 0.05
    assert apart > 0.05
    assert f"up to {apart:.2%} of the peak away from the plan's" in text
    for step in (1, 20, 100, 200):  # start, end of the warmup, of the plateau, of the run
        assert ran[step - 1] == pytest.approx(rates[step - 1], rel=1e-12)
    assert ran[100] < 0.05


def test_an_export_says_as_data_how_far_its_rates_depart_and_warns():
    rates = bl.wsd(200, 0.05, decay="linear")
    bent = export(make(rates, ((10, 8), (150, 16), (200, 64))), "megatron", sequence_length=LENGTH)
    _, ran = megatron_run(bent.text)
    apart = np.abs(np.array(ran) - rates) / 0.05
    assert bent.match.departure == pytest.approx(apart.max(), rel=1e-12)
    assert bent.match.step == np.argmax(apart) + 1
    assert bent.match.shape in bent.match.shapes
    assert f"{bent.match.departure:.2%}" in bent.warning
    same = export(make(rates, ((200, 8),)), "megatron", sequence_length=LENGTH)
    assert same.match.departure < 1e-12
    assert same.warning == ""
    table = export(make(rates, ((200, 8),)), "pytorch")
    assert (table.match, table.warning) == (None, "")


def test_olmo_rules_read_settings_in_the_documented_form():
    # batch_size_scheduler.py documents batch_sizes "in order" and a schedule of durations from 0.
    text = (
        "callback = BatchSizeSchedulerCallback(batch_sizes=[4, 8, 4], "
        "schedule=[Duration.steps(0), Duration.steps(3), Duration.steps(6)])"
    )
    name, given_ = olmo_settings(text)["callback"]
    assert name == "BatchSizeSchedulerCallback"
    # The increase by 2 after 3 batches waits for an even number of them.
    assert olmo_batches(**given_, steps=8) == [4, 4, 4, 4, 8, 8, 4, 4]


@pytest.mark.parametrize(
    ("rates", "scheduler"),
    [
        (bl.wsd(20, 0.05, warmup=5, stable=12, decay="linear", final=0.1), "WSD"),
        (bl.cosine(20, 0.05, final=0.1, warmup=4), "CosWithWarmup"),
        (bl.linear(20, 0.05, warmup=4), "WSD"),
        (bl.constant(20, 0.05), "ConstantWithWarmup"),
    ],
)
def test_olmo_runs_the_plan(rates, scheduler):
    plan = make(rates, ((8, 8), (12, 16), (16, 32), (20, 8)))
    text = export(plan, "olmo", sequence_length=LENGTH).text
    found = olmo_settings(text)
    name, given_ = found["callback"]
    batches = olmo_batches(**given_, steps=plan.steps)
    np.testing.assert_array_equal(batches, plan.batches * LENGTH)
    assert found["global_batch_size"] == 8 * LENGTH
    assert found["max_duration"] == ("steps", 20)
    assert found["scheduler"][0] == scheduler
    ran = [olmo_rate(found["scheduler"], found["lr"], step, 20) for step in range(1, 21)]
    np.testing.assert_allclose(ran, rates, rtol=1e-12, atol=1e-15)
    # OLMo-core scales rates at a change of batch; the plan's rates must not be.
    assert f"class {name}(BatchSizeSchedulerCallback)" in text
    assert "def _update_batch_size_and_lr(self, batch_size)" in text


@pytest.mark.parametrize(
    ("stages", "got", "hint"),
    [
        (((8, 8), (20, 12)), "8 to 12 after step 8", "plan with stages that divide each other"),
        (((7, 8), (20, 32)), "8 to 32 after step 7, 56 samples", "it would wait 1 updates"),
    ],
)
def test_olmo_refuses_what_its_callback_cannot_do(stages, got, hint):
    with pytest.raises(InputError) as refused:
        export(make(stages=stages), "olmo", sequence_length=LENGTH)
    assert (refused.value.field, refused.value.got) == ("plan", got)
    assert refused.value.hint.startswith(hint)


def test_olmos_wait_is_the_one_that_the_refusal_foretells():
    tokens = [("tokens", 0), ("tokens", 56)]
    assert olmo_batches([8, 32], tokens, 10) == [8] * 8 + [32] * 2


def test_hugging_face_rules_read_the_documented_form():
    # training_args.py: per-device size x devices x accumulation; a step is one update.
    table = [{"last_step": 2, "accumulation": 4}]
    assert hugging_face_batches(table, replicas=8, micro_batch=2) == [64, 64]


def test_accumulation_gives_the_planned_batches():
    plan = make(stages=((8, 8), (12, 16), (16, 32), (20, 8)))
    text = export(plan, "accumulation", data_parallel=2, micro_batch=2).text
    table = accumulation_table(text)
    assert [row["aligned"] for row in table] == ["yes"] * 4
    assert hugging_face_batches(table, 2, 2) == plan.batches.tolist()
    for row, stage in zip(table, plan.stage_table(), strict=True):
        assert (row["first_step"], row["last_step"]) == (stage["first"], stage["last"])
        assert row["micro_batches_before"] * 4 == stage["before"]


def test_a_stage_that_is_not_aligned_starts_with_a_short_update():
    plan = make(stages=((7, 8), (20, 32)))
    table = accumulation_table(export(plan, "accumulation", data_parallel=2, micro_batch=2).text)
    assert [row["aligned"] for row in table] == ["yes", "no"]
    assert hugging_face_batches(table, 2, 2)[7] == 8  # 14 micro-batches before, 16 is the next


@pytest.mark.parametrize("decay", ["linear", "1-sqrt"])
def test_hugging_face_arguments_keep_the_horizon(decay):
    rates = bl.wsd(200, 0.05, warmup=20, stable=120, decay=decay)
    text = export(make(rates, ((200, 8),)), "accumulation", data_parallel=2, micro_batch=2).text
    found = arguments_of(text)
    ran = np.array([hugging_face_rate(found, step) for step in range(1, 201)])
    assert found["max_steps"] == 200
    assert found["per_device_train_batch_size"] == 2
    np.testing.assert_allclose(ran[19:], rates[19:], rtol=1e-12, atol=1e-15)
    # Its warmup starts from the floor: one step late at the start, on time at the end.
    assert np.abs(ran - rates).max() == pytest.approx(rates[0])
    assert f"up to {rates[0] / 0.05:.2%} of the peak away from the plan's (step 1)" in text


def test_lightning_rules_read_the_documented_examples():
    # gradient_accumulation.rst, and the callback's own example
    batches = lightning_batches({0: 8, 4: 4, 8: 1}, epochs=9, epoch_batches=16, size=1)
    assert batches == [8] * 8 + [4] * 16 + [1] * 16
    assert lightning_batches({4: 2}, epochs=5, epoch_batches=4, size=3) == [3] * 16 + [6] * 2


def test_lightning_gets_epochs_where_stages_start_with_one():
    plan = make(stages=((8, 8), (12, 16), (20, 32)))
    options = {"data_parallel": 2, "micro_batch": 2}
    text = export(plan, "accumulation", epoch_samples=64, **options).text
    (line,) = [line for line in text.splitlines() if "(scheduling=" in line]
    scheduling = call_arguments(line.partition("(")[2].rstrip(")"))["scheduling"]
    assert scheduling == {0: 2, 1: 4, 2: 8}
    assert lightning_batches(scheduling, 6, 16, 4) == plan.batches.tolist()
    assert 'and the rate scheduler\n# with interval="step", which counts updates.\n' in text
    refused = export(plan, "accumulation", epoch_samples=96, **options).text
    assert "cannot express these stages" in refused
    assert "keyed by epoch" in export(plan, "accumulation", **options).text


@pytest.mark.parametrize("trainer", ["accumulation", "megatron", "pytorch"])
def test_stages_that_replicas_cannot_share_are_refused(trainer):
    with pytest.raises(InputError) as refused:
        export(make(), trainer, data_parallel=4, micro_batch=4, sequence_length=LENGTH)
    assert refused.value.field == "plan"
    assert refused.value.got == "8 in steps 1 to 8"


def test_the_pytorch_table_gives_index_lists_for_a_batch_sampler():
    plan = make()
    text = export(plan, "pytorch").text
    rows = list(csv.DictReader(line for line in text.splitlines() if line[0] != "#"))
    assert [int(row["step"]) for row in rows] == list(range(1, 21))
    assert [float(row["rate"]) for row in rows] == plan.rates.tolist()
    ends = np.cumsum([int(row["batch"]) for row in rows])
    lists = np.split(np.arange(plan.samples), ends[:-1])
    assert _sizes(lists) == plan.batches.tolist()
    # sampler.py: BatchSampler over ten indices in threes, the last one short.
    assert _sizes([[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]) == [3, 3, 3, 1]


def _sizes(batch_sampler):
    """dataloader.py: a batch_sampler returns the indices of one batch at a time."""
    return [len(indices) for indices in batch_sampler]


@pytest.mark.parametrize(
    ("trainer", "layout", "field"),
    [
        ("deepspeed", {}, "trainer"),
        ("json", {"sequence_length": 128}, "sequence_length"),
        ("json", {"micro_batch": 0}, "micro_batch"),
        ("olmo", {"sequence_length": 2**53}, "sequence_length"),
    ],
)
def test_wrong_options_are_refused(trainer, layout, field):
    plan = make(sequence_length=None if trainer == "olmo" else 64)
    with pytest.raises(InputError) as refused:
        export(plan, trainer, **layout)
    assert refused.value.field == field


@pytest.mark.parametrize("trainer", TRAINERS.values(), ids=lambda trainer: trainer.name)
def test_what_a_trainer_needs_must_be_given(trainer):
    layout = dict.fromkeys(trainer.needs, 2)
    assert export(make(), trainer.name, **layout).text
    for need in trainer.needs:
        with pytest.raises(InputError) as refused:
            export(make(), trainer.name, **layout | {need: None})
        assert refused.value.field == need
