"""bl.read_run: logs of training runs, whole and damaged."""

import csv
import json
import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import batchlaw as bl
from batchlaw.from_data.logs.formats import FORMATS
from event_files import crc32c, event, event_file, message, record, simple, tensor
from paths import EXAMPLES
from refused import refused

RATES = np.linspace(0.5, 0.0, 11)[:10]
LOSSES = 1.0 + 1.0 / np.arange(1, 11)
ROWS = [
    {"step": t, "lr": rate, "loss": loss}
    for t, (rate, loss) in enumerate(zip(RATES, LOSSES, strict=True), start=1)
]


def as_csv(rows, separator=",", end="\n"):
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, *([str(row.get(name, "")) for name in names] for row in rows)]
    return end.join(separator.join(line) for line in lines) + end


def as_json_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def read(tmp_path):
    """Write a log and read it."""

    def write_and_read(content, name="log.csv", **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return bl.read_run(path, **{"batch": 8} | options)

    return write_and_read


def logged(steps, **columns):
    """Rows at these steps, with a rate of 0.1 and a falling loss."""
    falling = {"lr": 0.1, "loss": None} | columns
    return [
        {"step": t}
        | {name: (1.0 + 1.0 / (1 + t) if v is None else v) for name, v in falling.items()}
        for t in steps
    ]


# Formats


def of_format(name):
    """(file name, content) of ROWS in a format."""
    if name == "csv":
        return "log.csv", as_csv(ROWS)
    if name == "jsonl":
        return "log.jsonl", as_json_lines(ROWS)
    if name == "trainer-state":
        history = [
            {"step": row["step"], "epoch": 0.1, "learning_rate": row["lr"], "loss": row["loss"]}
            for row in ROWS
        ]
        last = {"step": 10, "train_loss": 9.0, "train_runtime": 3.0}
        state = {"global_step": 10, "is_hyper_param_search": False, "log_history": [*history, last]}
        return "trainer_state.json", json.dumps(state, indent=2)
    if name == "wandb":
        names = ["Step"]
        for metric in ("train/lr", "train/loss"):
            names += [f"blue-sun-3 - {metric}{end}" for end in ("", "__MIN", "__MAX")]
        lines = [names]
        for row in ROWS:
            lines.append([row["step"], *[row["lr"]] * 3, row["loss"], 0.0, 99.0])
        return "wandb.csv", "\n".join(",".join(f'"{x}"' for x in line) for line in lines)
    return "events.out.tfevents.1.host", event_file(ROWS)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_run(name, read):
    file, content = of_format(name)
    run = read(content, file)
    assert run.facts["format"] == name
    # TensorBoard's numbers are in single precision.
    close = 1e-7 if name == "tensorboard" else 1e-15
    np.testing.assert_allclose(run.rates, RATES, rtol=close)
    np.testing.assert_allclose(run.losses, LOSSES, rtol=close)
    assert run.steps.tolist() == list(range(1, 11))
    assert run.batches.tolist() == [8.0] * 10
    assert read(content, file, format=name).facts == run.facts


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_recognised_by_the_content_of_a_file_of_another_name(name, read):
    assert read(of_format(name)[1], "log.txt").facts["format"] == name


def test_a_csv_file_may_be_written_by_a_spreadsheet(read):
    rows = [{name: f"{x}".replace(".", ",") for name, x in row.items()} for row in ROWS]
    for content in (as_csv(rows, ";"), as_csv(rows, "\t"), as_csv(ROWS, ";", end="\r\n")):
        run = read(b"\xef\xbb\xbf" + content.encode())
        assert run.losses.tolist() == LOSSES.tolist()
        assert run.rates.tolist() == RATES.tolist()


def test_other_columns_come_along_and_texts_do_not(read):
    rows = [row | {"norm": row["step"], "phase": "decay"} for row in ROWS]
    del rows[2]["norm"]
    run = read(as_csv(rows))
    assert list(run.columns) == ["norm"]
    np.testing.assert_equal(run.columns["norm"], [1, 2, np.nan, *range(4, 11)])


def test_the_trainers_evaluations_are_the_losses_where_there_are_three(read):
    history = [{"step": t, "loss": 2.0, "learning_rate": 0.1} for t in range(1, 11)]
    evaluations = [{"step": t, "eval_loss": 1.0 + 1.0 / t} for t in (4, 7, 10)]
    state = {"log_history": sorted(history + evaluations, key=lambda entry: entry["step"])}
    run = read(json.dumps(state), "trainer_state.json")
    assert (run.facts["loss"], run.steps.tolist(), run.updates) == ("eval_loss", [4, 7, 10], 10)
    assert run.columns["loss"].tolist() == [2.0] * 3
    assert run.facts["restarts"] == 0
    assert read(json.dumps(state), "trainer_state.json", loss="loss").steps.size == 10
    state["log_history"].pop()
    assert read(json.dumps(state), "trainer_state.json").facts["loss"] == "loss"


@pytest.mark.parametrize(
    ("name", "first"),
    [("Val/Loss", True), ("validation-loss", True), ("train/loss", False), ("lm loss", False)],
)
def test_a_validation_loss_comes_before_a_training_loss(name, first, read):
    run = read(as_csv([row | {name: 3.0} for row in ROWS]))
    assert run.facts["loss"] == (name if first else "loss")


# TensorBoard


def test_a_file_of_tensorboard_itself_is_read():
    """Written by the package tensorboard 2.21: rates as simple_value; losses as tensors with
    float_val, tensor_content and double_val.
    """
    run = bl.read_run(EXAMPLES / "logs" / "run.tfevents", batch=64)
    assert run.rates.tolist() == [0.5, 0.25, 0.125]
    assert run.losses.tolist() == [2.0, 1.5, 1.25]
    assert run.facts["loss"] == "val/loss"


def test_the_checksum_of_the_tests_is_that_of_the_standard():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4


@pytest.mark.parametrize("dtype", [1, 2])
def test_tensors_of_one_number_are_scalars(dtype, read):
    form = {1: "<f", 2: "<d"}[dtype]
    content = event_file(ROWS, value=lambda number: tensor(number, dtype, form))
    np.testing.assert_allclose(read(content).losses, LOSSES, rtol=1e-7)
    # Neither a tensor of two numbers nor one of integers is a scalar.
    two = message(8, bytes([8, dtype]) + message(4, bytes(2 * struct.calcsize(form))))
    content += event(10, {"two": two, "whole": tensor(1.0, 9)})
    assert read(content).columns == {}


def test_the_files_of_a_folder_are_read_in_the_order_of_their_first_events(tmp_path):
    resumed = [row | {"loss": 1.0} for row in ROWS[3:]]
    (tmp_path / "a.tfevents").write_bytes(event_file(resumed, time=20.0))
    (tmp_path / "b.tfevents").write_bytes(event_file(ROWS[:6], time=10.0)[:-5])
    (tmp_path / "c.tfevents").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("not an event file")
    run = bl.read_run(tmp_path, batch=8)
    np.testing.assert_allclose(run.losses, [*LOSSES[:3], *[1.0] * 7], rtol=1e-7)
    assert (run.facts["restarts"], run.facts["replaced"], run.facts["truncated"]) == (1, 2, 1)


def test_a_record_that_breaks_off_is_left_out_wherever_it_does(read):
    whole = event_file(ROWS[:-1])
    content = event_file(ROWS)
    assert content.startswith(whole)
    for size in range(len(whole) + 1, len(content)):
        run = read(content[:size])
        assert (run.updates, run.facts["truncated"]) == (9, 1)
    assert read(whole).facts["truncated"] == 0


def test_a_changed_byte_of_an_event_file_is_refused_wherever_it_is(read):
    content = event_file(ROWS[:4])
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 4
        with refused("path"):
            read(bytes(changed), "log.tfevents")


@pytest.mark.parametrize(
    "data", [b"\x10", b"\x10" + b"\xff" * 11, b"\x09abc", b"\x2a\x7f", b"\x0b", b"\x2a\x02\x0a\x07"]
)
def test_a_record_that_is_no_event_is_refused(data, read):
    with refused("path"):
        read(event_file(ROWS) + record(data))


def test_a_negative_step_of_an_event_file_is_refused(read):
    with refused("path"):
        read(event_file(ROWS) + event(-1, {"loss": simple(1.0)}))


# Rules


def test_rates_between_logged_steps_lie_on_a_straight_line(read):
    steps = range(1, 102, 5)
    rows = [{"step": t, "lr": t % 2 + 0.1, "loss": 1.0 + 1.0 / t} for t in steps]
    run = read(as_csv(rows))
    at = np.arange(1, 102)
    np.testing.assert_allclose(run.rates, np.interp(at, steps, [t % 2 + 0.1 for t in steps]))
    counts = run.facts["rates_interpolated"], run.facts["rates_extrapolated"]
    assert counts == (80, 0)


def test_a_warmup_before_the_first_logged_step_is_continued_to_it(read):
    """A linear warmup is met exactly; the line does not fall below zero."""
    warmup = np.minimum(np.arange(1, 201) / 40, 1.0)
    steps = range(10, 201, 10)
    rows = [{"step": t, "lr": warmup[t - 1], "loss": 1.0 + 1.0 / t} for t in steps]
    run = read(as_csv(rows))
    np.testing.assert_allclose(run.rates, warmup, rtol=1e-12)
    assert run.facts["rates_extrapolated"] == 9
    for row in rows:
        row["lr"] = max(row["lr"] - 0.2, 0.0)
    assert read(as_csv(rows)).rates[:8].tolist() == [0.0] * 8


def test_a_longer_warmup_that_is_not_in_the_log_is_refused_or_given(read):
    content = as_csv(logged(range(12, 201)))
    with refused("path"):
        read(content)
    rates = bl.cosine(200, 0.1, warmup=50)
    run = read(content, rates=rates)
    assert run.rates.tolist() == rates.tolist()
    assert "rates_interpolated" not in run.facts


@pytest.mark.parametrize(("missing", "fine"), [(10, True), (11, False)])
def test_a_gap_of_rates_is_at_most_a_tenth_of_the_run(missing, fine, read):
    content = as_csv(logged([*range(1, 41), *range(41 + missing, 101)]))
    if fine:
        assert read(content).facts["rates_interpolated"] == 10
    else:
        with refused("path"):
            read(content)
        assert read(content, rates=np.full(100, 0.1)).steps.size == 89


def test_losses_may_have_gaps_of_any_length(read):
    rows = logged(range(1, 101))
    for row in rows:
        if row["step"] not in (2, 50, 100):
            del row["loss"]
    assert read(as_csv(rows)).steps.tolist() == [2, 50, 100]


def test_the_run_may_go_on_after_the_log(read):
    rows = [{"step": t, "lr": 0.5 - t / 250, "loss": 1.0 + 1.0 / t} for t in range(1, 98)]
    run = read(as_csv(rows), steps=100)
    np.testing.assert_allclose(run.rates, 0.5 - np.arange(1, 101) / 250)
    assert (run.updates, run.steps[-1], run.facts["rates_extrapolated"]) == (100, 97, 3)
    with refused("path"):
        read(as_csv(rows), steps=110)
    with refused("steps"):
        read(as_csv(rows), steps=96)


def test_a_loss_before_the_first_update_is_at_step_zero(read):
    run = read(as_csv([{"step": 0, "lr": 0.0, "loss": 9.0}, *ROWS]))
    assert (run.steps[0], run.losses[0], run.updates) == (0, 9.0, 10)
    assert run.rates.tolist() == RATES.tolist()


def test_after_a_restart_the_abandoned_branch_is_left_out(read):
    """It went to step 9; the new branch starts after step 4 and is killed at 7."""
    first = [row | {"branch": 1} for row in ROWS[:9]]
    second = [row | {"loss": 5.0, "branch": 2} for row in ROWS[4:7]]
    for content, name in ((as_csv, "log.csv"), (as_json_lines, "log.jsonl")):
        run = read(content(first + second), name)
        assert run.losses.tolist() == [*LOSSES[:4], 5.0, 5.0, 5.0]
        assert run.columns["branch"].tolist() == [1, 1, 1, 1, 2, 2, 2]
        assert (run.updates, run.facts["restarts"], run.facts["replaced"]) == (7, 1, 5)


def test_a_restart_takes_the_evaluations_of_the_abandoned_branch_too(read):
    first = [*ROWS[:3], {"step": 3, "eval_loss": 8.0}, *ROWS[3:6], {"step": 6, "eval_loss": 7.0}]
    second = [*ROWS[4:9], {"step": 9, "eval_loss": 6.0}, ROWS[9], {"step": 10, "eval_loss": 5.0}]
    run = read(as_json_lines(first + second), "log.jsonl")
    assert run.facts["loss"] == "eval_loss"
    assert (run.steps.tolist(), run.losses.tolist()) == ([3, 9, 10], [8.0, 6.0, 5.0])


def test_the_last_value_of_a_repeated_step_stands(read):
    run = read(as_csv([*ROWS[:5], ROWS[4] | {"loss": 7.0}, *ROWS[5:]]))
    assert run.losses[4] == 7.0
    assert (run.facts["restarts"], run.facts["replaced"]) == (0, 1)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "NaN"])
def test_losses_that_are_no_numbers_are_dropped_and_counted(value, read):
    rows = logged(range(1, 31))
    for k in (3, 4, 20):
        rows[k]["loss"] = value
    run = read(as_csv(rows))
    assert (run.steps.size, run.facts["dropped"], run.updates) == (27, 3, 30)
    rows[5]["loss"] = value
    with refused("path"):
        read(as_csv(rows))


def test_a_log_that_ends_with_nan_is_refused(read):
    with refused("path"):
        read(as_json_lines([*ROWS, {"step": 11, "lr": 0.1, "loss": math.nan}]), "log.jsonl")


def test_a_rate_that_is_nan_counts_as_not_logged(read):
    rows = logged(range(1, 31))
    rows[7]["lr"] = "nan"
    run = read(as_csv(rows))
    assert (run.rates[7], run.facts["rates_interpolated"]) == (pytest.approx(0.1), 1)


def test_spikes_are_kept_and_counted(read):
    t = np.arange(1, 201)
    smooth = 2.0 + 3.0 / t + 0.01 * np.random.default_rng(1).standard_normal(200)
    assert counted(smooth, read) == 0
    spiked = smooth + 0.8 * np.isin(t, (60, 61, 150))
    assert counted(spiked, read) == 3
    assert counted(2.0 + 3.0 / t, read) == 0


def counted(losses, read):
    rows = [{"step": k, "lr": 0.1, "loss": loss} for k, loss in enumerate(losses, start=1)]
    run = read(as_csv(rows))
    assert run.losses.tolist() == losses.tolist()
    return run.facts["spikes"]


def test_batches_come_as_a_number_an_array_or_a_column(read):
    sizes = np.arange(1, 11)
    rows = [row | {"batch_size": row["step"], "other": 3} for row in ROWS]
    assert read(as_csv(rows), batch=None).batches.tolist() == sizes.tolist()
    assert read(as_csv(rows), batch="other").batches.tolist() == [3.0] * 10
    assert read(as_csv(rows), batch=sizes * 2).batches.tolist() == (2 * sizes).tolist()
    assert read(as_csv(rows), batch=2.5).batches.tolist() == [2.5] * 10


def test_a_logged_batch_stands_until_the_next(read):
    rows = [row | {"batch": 4 * (1 + (row["step"] > 20))} for row in logged(range(2, 61, 2))]
    assert read(as_csv(rows), batch=None).batches.tolist() == [4.0] * 21 + [8.0] * 39


def test_batches_may_be_in_tokens(read):
    run = read(as_csv(ROWS), batch=4096, unit="tokens", sequence_length=1024)
    assert run.batches.tolist() == [4.0] * 10


def test_steps_and_rates_may_have_any_name(read):
    rows = [{"n": row["step"], "speed": row["lr"], "cost": row["loss"]} for row in ROWS]
    run = read(as_csv(rows), step="n", rates="speed", loss="cost", rule=bl.sgd())
    assert run.losses.tolist() == LOSSES.tolist()
    assert run.rule is not None


def test_rows_without_a_step_are_left_out(read):
    rows = [{"config": "small", "lr": 3.0}, *ROWS, {"loss": 4.0}]
    assert read(as_json_lines(rows), "log.jsonl").losses.tolist() == LOSSES.tolist()


@pytest.mark.parametrize("cut", [3, 20])
def test_a_last_row_that_breaks_off_is_left_out(cut, read):
    for content, name in ((as_csv(ROWS), "log.csv"), (as_json_lines(ROWS), "log.jsonl")):
        last = content.splitlines()[-1]
        broken = content[: -len(last) - 1] + last[: min(cut, last.rindex(",") - 1)]
        run = read(broken, name)
        assert (run.updates, run.facts["truncated"]) == (9, 1)


finite = st.floats(-1e300, 1e300)


@st.composite
def runs(draw):
    updates = draw(st.integers(3, 12))
    at = sorted(draw(st.sets(st.integers(1, updates), min_size=3)))
    series = {
        name: draw(st.lists(numbers, min_size=size, max_size=size))
        for name, size, numbers in (
            ("rates", updates, st.floats(0.0, 1e300)),
            ("batches", updates, st.floats(1e-3, 1e12)),
            ("losses", len(at), finite),
            ("norm", len(at), finite | st.just(math.nan)),
        )
    }
    columns = {} if np.isnan(series["norm"]).all() else {"norm": series["norm"]}
    return bl.Run(series["rates"], series["batches"], at, series["losses"], columns=columns)


@given(runs())
def test_a_run_written_as_csv_is_read_as_the_same_run(tmp_path_factory, run):
    path = tmp_path_factory.getbasetemp() / "run.csv"
    measured = dict(zip(run.steps.tolist(), range(run.steps.size), strict=True))
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["step", "rate", "batch", "loss", *run.columns])
        for t in range(1, run.updates + 1):
            losses = [run.losses, *run.columns.values()]
            cells = [x[measured[t]].item() if t in measured else "" for x in losses]
            rows.writerow([t, run.rates[t - 1].item(), run.batches[t - 1].item(), *cells])
    again = bl.read_run(path)
    for name in ("rates", "batches", "steps", "losses"):
        assert getattr(again, name).tolist() == getattr(run, name).tolist()
    assert list(again.columns) == list(run.columns)
    for name, values in run.columns.items():
        np.testing.assert_array_equal(again.columns[name], values)


# Refusals

HEAD = "step,lr,loss\n"
FINE = as_csv(ROWS)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"", "log.csv"),
        (b"\n\n", "log.csv"),
        (bytes(range(256)) * 4, "log.csv"),
        (b"\x00" * 64, "log.csv"),
        (b"\x00" * 64, "log.jsonl"),
        (b"\x89PNG\r\n\x1a\n", "trainer_state.json"),
        (b"junk that is longer than a header", "x.tfevents.1"),
        (b"abc", "x.tfevents.1"),
        (FINE.encode("utf-16"), "log.csv"),
        (HEAD, "log.csv"),
        (HEAD + "1,0.1,2.0,7\n2,0.1,1.5\n3,0.1,1.2\n", "log.csv"),
        (HEAD + "1,0.1,2.0\n2,0.1\n3,0.1,1.2\n", "log.csv"),
        (HEAD + "1,0.1,2.0\n2,0.1,1.5\n", "log.csv"),
        (HEAD + "1,0.1,2.0\n2,0.1,high\n3,0.1,1.2\n", "log.csv"),
        (HEAD + "1,fast,2.0\n2,0.1,1.5\n3,0.1,1.2\n", "log.csv"),
        (HEAD + "1,-0.1,2.0\n2,0.1,1.5\n3,0.1,1.2\n", "log.csv"),
        (HEAD + "1,inf,2.0\n2,0.1,1.5\n3,0.1,1.2\n", "log.csv"),
        (HEAD + "1,,2.0\n2,0.1,1.5\n3,,1.2\n", "log.csv"),
        (HEAD + "1.5,0.1,2.0\n2,0.1,1.5\n3,0.1,1.2\n", "log.csv"),
        (HEAD + "-1,0.1,2.0\n2,0.1,1.5\n3,0.1,1.2\n", "log.csv"),
        (HEAD + "one,0.1,2.0\n2,0.1,1.5\n3,0.1,1.2\n", "log.csv"),
        (HEAD + "1,0.1,2.0\n2,0.1,1.5\n1e18,0.1,1.2\n", "log.csv"),
        ("step,lr,loss,loss\n1,0.1,2.0,3\n", "log.csv"),
        ("a,b\n1,2\n", "log.csv"),
        ("step,b\n1,2\n", "log.csv"),
        ('step,"lr\n1,2\n', "log.csv"),
        ("step,loss\n" + "9" * 200_000 + ",1\n", "log.csv"),
        ("Step,a - loss,b - loss\n1,2,3\n", "log.csv"),
        ("[1, 2]\n", "log.json"),
        ("3\n", "log.json"),
        ('{"step": 1}\nhalf\n{"step": 2}\n', "log.jsonl"),
        ('{"step": 1}\n[1]\n', "log.jsonl"),
        ("[" * 100_000, "log.jsonl"),
        ("{", "log.jsonl"),
        ('{"step": 1' + "0" * 5000 + ', "loss": 2}\n' * 3, "log.jsonl"),
        ('{"step": 1' + "0" * 400 + ', "loss": 2, "lr": 1}\n', "log.jsonl"),
        ("[]", "trainer_state.json"),
        ("{}", "trainer_state.json"),
        ('{"log_history": 3}', "trainer_state.json"),
        ('{"log_history": [3]}', "trainer_state.json"),
        ('{"log_history": []}', "trainer_state.json"),
        ('{"log_history": [{"step": 1}', "trainer_state.json"),
        ('{"log_history": [{"loss": 1}]}', "trainer_state.json"),
        (event_file([]), "log"),
        (event_file(ROWS[:1])[:9], "events.out.tfevents"),
    ],
)
def test_a_log_that_cannot_be_used_is_refused_in_one_line(content, name, read):
    with pytest.raises(bl.InputError) as caught:
        read(content, name)
    assert caught.value.field in ("path", "step")
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"format": "yaml"}, "format"),
        ({"format": "jsonl"}, "path"),
        ({"format": "tensorboard"}, "path"),
        ({"step": "t"}, "step"),
        ({"loss": "cost"}, "loss"),
        ({"loss": "step"}, "step"),
        ({"loss": "lr"}, "loss"),
        ({"rates": "speed"}, "rates"),
        ({"rates": None}, "rates"),
        ({"rates": 0.1}, "rates"),
        ({"rates": [0.1] * 9}, "rates"),
        ({"rates": [0.1] * 11, "steps": 10}, "rates"),
        ({"rates": [-0.1] * 10}, "rates"),
        ({"rates": object()}, "rates"),
        ({"batch": None}, "batch"),
        ({"batch": "size"}, "batch"),
        ({"batch": 0}, "batch"),
        ({"batch": math.nan}, "batch"),
        ({"batch": [8] * 9}, "batch"),
        ({"batch": [8] * 11, "rates": [0.1] * 10}, "batch"),
        ({"batch": [[8] * 10]}, "batch"),
        ({"batch": [[8], [8, 8]]}, "batch"),
        ({"batch": {}}, "batch"),
        ({"unit": "words"}, "unit"),
        ({"unit": "tokens"}, "sequence_length"),
        ({"sequence_length": 8}, "sequence_length"),
        ({"unit": "tokens", "sequence_length": 3}, "batch"),
        ({"unit": "tokens", "sequence_length": 0}, "sequence_length"),
        ({"steps": 9}, "steps"),
        ({"steps": 10.5}, "steps"),
        ({"steps": 10**9}, "steps"),
        ({"rule": "adamw"}, "rule"),
    ],
)
def test_an_argument_that_contradicts_the_log_is_refused(options, field, read):
    with refused(field):
        read(FINE, **options)


def test_a_batch_that_varies_must_be_logged_as_often_as_rates(read):
    rows = logged(range(1, 101))
    for row in rows:
        if row["step"] % 20 == 1:
            row["batch"] = 8
    assert read(as_csv(rows), batch=None).batches.tolist() == [8.0] * 100
    rows[40]["batch"] = 16
    with refused("path"):
        read(as_csv(rows), batch=None)
    rows[40]["batch"] = -16
    with refused("path"):
        read(as_csv(rows), batch=None)


@pytest.mark.parametrize("path", ["missing.csv", "\0", "x" * 5000, 3, None])
def test_a_path_that_is_none_is_refused(path):
    with refused("path"):
        bl.read_run(path, batch=8)


def test_a_folder_without_event_files_is_refused(tmp_path):
    for files in ([], ["a.tfevents"]):
        for name in files:
            (tmp_path / name).write_bytes(b"")
        with refused("path"):
            bl.read_run(tmp_path, batch=8)


@given(st.binary(max_size=200), st.sampled_from(list(FORMATS)))
def test_no_bytes_end_in_a_traceback(tmp_path_factory, content, name):
    path = tmp_path_factory.getbasetemp() / "junk"
    path.write_bytes(content)
    with pytest.raises(bl.InputError):
        bl.read_run(path, batch=8, format=name)
