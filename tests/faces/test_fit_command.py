"""batchlaw fit and batchlaw predict, on logs that the tests write."""

import csv
import json

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.faces.cli import main
from batchlaw.from_data.laws import fit_law as fitting
from batchlaw.from_data.laws.published.momentum import MomentumLaw
from refused import refused_command

UPDATES = 200
SCHEDULES = {
    "cosine": bl.cosine(UPDATES, 0.01, warmup=10),
    "wsd": bl.wsd(UPDATES, 0.01, decay="linear", warmup=10),
    "constant": bl.constant(UPDATES, 0.01, warmup=10),
}
OPTIMIZER = ["--optimizer", "adamw", "--beta2", "0.95"]


def losses_of(rates, batch):
    """A clock of progress, and noise that follows the rate."""
    clock = np.cumsum(rates) / 0.01
    return 2.0 + 1.5 * (1.0 + clock / 20.0) ** -0.7 + 0.8 * rates / 0.01 / batch


def write_log(path, name, batch=16, columns=("step", "lr", "batch_size", "loss")):
    rates = SCHEDULES[name]
    losses = losses_of(rates, batch)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for t in range(5, UPDATES + 1, 5):
            row = {"step": t, "lr": rates[t - 1], "batch_size": batch, "loss": losses[t - 1]}
            writer.writerow([row[column] for column in columns])
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three logs, and law.json fitted to them."""
    where = tmp_path_factory.mktemp("logs")
    logs = [write_log(where / f"{name}.csv", name) for name in SCHEDULES]
    assert main(["fit", *logs, *OPTIMIZER, "--output", str(where / "law.json")]) == 0
    return where


@pytest.fixture
def logs(folder):
    return [str(folder / f"{name}.csv") for name in SCHEDULES]


def test_profiles_take_the_place_of_intervals_from_the_curvature(logs, capsys):
    assert main(["fit", *logs, *OPTIMIZER, "--json"]) == 0
    curved = json.loads(capsys.readouterr().out)
    assert main(["fit", *logs, *OPTIMIZER, "--profile", "--json"]) == 0
    profiled = json.loads(capsys.readouterr().out)
    assert profiled["parameters"] == curved["parameters"]
    changed = {n for n, v in profiled["intervals"].items() if v != curved["intervals"][n]}
    assert changed
    assert not changed & {"floor", "progress", "hill"}
    assert profiled["seconds"]["profiles"] > 0.0


def test_fit_says_first_how_well_it_predicts_and_writes_the_law(logs, tmp_path, capsys):
    output = tmp_path / "law.json"
    assert main(["fit", *logs, *OPTIMIZER, "--output", str(output)]) == 0
    out = capsys.readouterr().out
    law = bl.TrainingLaw.from_json(output.read_text())
    first, form, seen, *_ = out.splitlines()
    error = law.held_out[law.member.name]
    assert first.startswith(f"predicts schedules that were left out to {error:.4f} in the loss")
    assert form == f"form: {law.member.name}"
    assert "3 runs with 3 schedules of adamw" in seen
    assert "not identified: what a batch does" in out
    assert "batch^-" not in out
    assert "power: p, exponent of the progress" in out
    assert str(output) in out.splitlines()[-1]
    assert list(tmp_path.iterdir()) == [output]


def test_the_law_is_that_of_the_library(folder, logs):
    rule = bl.adam(beta2=0.95, weight_decay=0.01)
    law = bl.fit_law([bl.read_run(path, rule=rule) for path in logs])
    assert (folder / "law.json").read_text() == law.to_json()


def test_json_has_the_law_its_intervals_and_what_is_not_identified(logs, capsys):
    assert main(["fit", *logs, *OPTIMIZER, "--json", "--level", "0.5"]) == 0
    document = json.loads(capsys.readouterr().out)
    law = bl.TrainingLaw.from_json(json.dumps(document["law"]))
    assert document["form"] == law.member.name
    assert document["error_left_out"] == law.held_out[law.member.name]
    assert document["batch_exponent"] is None
    assert document["intervals"] == {n: list(ends) for n, ends in law.intervals(0.5).items()}
    assert document["unidentified"] == list(law.unidentified)


LIST = """
batch = 16
optimizer = "adamw"
beta2 = 0.95
steps = 200
gamma = 0.01
warmup = 10

[[run]]
path = "cosine.csv"
rates = "cosine"

[[run]]
path = "wsd.csv"
rates = "wsd"
decay = "linear"

[[run]]
path = "constant.csv"
rates = "constant"
"""
ROWS = """path,rates,steps,gamma,warmup,decay,batch
cosine.csv,cosine,200,0.01,10,,16
wsd.csv,wsd,200,0.01,10,linear,sizes.csv
constant.csv,given.csv,,,,,1.6e1
"""


@pytest.mark.parametrize("kind", ["toml", "csv"])
def test_a_list_has_what_logs_do_not_say(folder, tmp_path, kind, capsys):
    for name in SCHEDULES:
        write_log(tmp_path / f"{name}.csv", name, columns=("step", "loss"))
    (tmp_path / "sizes.csv").write_text("batch\n" + "16\n" * UPDATES)
    given = "\n".join(repr(float(rate)) for rate in SCHEDULES["constant"])
    (tmp_path / "given.csv").write_text(f"rate\n{given}\n")
    runs = tmp_path / f"runs.{kind}"
    runs.write_text(LIST if kind == "toml" else ROWS)
    options = [] if kind == "toml" else OPTIMIZER
    output = tmp_path / "law.json"
    assert main(["fit", "--run-list", str(runs), *options, "--output", str(output)]) == 0
    law, expected = (json.loads(path.read_text()) for path in (output, folder / "law.json"))
    assert law["rule"] == expected["rule"]
    # Rates of logs are read at every fifth step, and lie on lines between.
    assert law["parameters"]["floor"] == pytest.approx(expected["parameters"]["floor"], rel=0.02)
    assert law["held_out"].keys() == expected["held_out"].keys()


def test_options_hold_for_all_logs(tmp_path, capsys):
    logs = [
        write_log(tmp_path / f"{batch}.csv", "cosine", batch, columns=("step", "loss"))
        for batch in (8, 32)
    ]
    given = ["--rates", "cosine", "--steps", "200", "--gamma", "0.01", "--warmup", "10"]
    words = ["fit", *logs, *OPTIMIZER, *given, "--batch", "16"]
    refused_command(words, "runs", capsys)  # one schedule, two seeds


def test_batches_in_tokens_are_those_in_samples(folder, tmp_path):
    logs = []
    for name in SCHEDULES:
        path = tmp_path / f"{name}.csv"
        write_log(path, name, columns=("step", "lr", "loss"))
        logs.append(str(path))
    given = ["--batch", "4096", "--unit", "tokens", "--sequence-length", "256"]
    output = tmp_path / "law.json"
    assert main(["fit", *logs, *OPTIMIZER, *given, "--output", str(output)]) == 0
    assert output.read_text() == (folder / "law.json").read_text()


def test_baselines_stand_in_the_same_table_and_in_the_law(logs, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(fitting, "PUBLISHED", (MomentumLaw(),))
    output = tmp_path / "law.json"
    words = ["fit", *logs, "--optimizer", "adam", "--average", "tail:0.1", "--baselines"]
    assert main([*words, "--output", str(output)]) == 0
    out = capsys.readouterr().out
    law = bl.TrainingLaw.from_json(output.read_text())
    assert f"{law.held_out['momentum law']:.4f}" in out
    assert "momentum law (published)" in out
    assert "mechanistic law: not fitted, rule must give the last iterate" in out
    assert "baselines" in out.splitlines()[-1]


@pytest.mark.slow
def test_the_projects_own_runs_can_be_tried(monkeypatch, capsys):
    runs = [
        run
        for run in bl.datasets.batch_schedules("small-adamw-0.95")
        if run.facts["schedule"] in ("constant", "constant x4", "late-large")
        and run.facts["rates"] == "cosine"
        and run.facts["seed"] == 0
    ]
    monkeypatch.setattr("batchlaw.faces.cli.fit.batch_schedules", lambda name: runs)
    assert main(["fit", "--dataset", "small-adamw-0.95"]) == 0
    out = capsys.readouterr().out
    assert "2 runs with 2 schedules of adamw" in out
    assert "noise that is left ~ batch^-" in out


# Refusals: one line, exit code 2, nothing written


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (["cosine.csv"], "rule"),
        (["cosine.csv", *OPTIMIZER], "runs"),
        (["cosine.csv", "cosine.csv", *OPTIMIZER], "path"),
        (["cosine.csv", "missing.csv", *OPTIMIZER], "path"),
        (["cosine.csv", "wsd.csv", *OPTIMIZER, "--batch", "32"], "batch"),
        (["cosine.csv", "wsd.csv", *OPTIMIZER, "--batch", "size"], "batch"),
        (["cosine.csv", "wsd.csv", *OPTIMIZER, "--batch", "0"], "batch"),
        (["cosine.csv", "wsd.csv", *OPTIMIZER, "--rates", "wds"], "rates"),
        (["cosine.csv", "wsd.csv", *OPTIMIZER, "--rates", "cosine", "--steps", "200"], "peak"),
        (["cosine.csv", "wsd.csv", *OPTIMIZER, "--rates", "cosine", "--gamma", "1"], "steps"),
        (["cosine.csv", "wsd.csv", *OPTIMIZER, "--gamma", "1"], "gamma"),
        (["cosine.csv", "wsd.csv", *OPTIMIZER, "--steps", "100"], "steps"),
        (["cosine.csv", "wsd.csv", *OPTIMIZER, "--level", "1"], "level"),
        (["cosine.csv", "wsd.csv", *OPTIMIZER, "--unit", "tokens"], "sequence_length"),
        (["cosine.csv", "wsd.csv", "--optimizer", "sgd", "--beta2", "0.9"], "beta2"),
        ([], "logs"),
        (["cosine.csv", "--dataset", "small-flat"], "logs"),
        (["--dataset", "none"], "block"),
        (["--dataset", "small-flat", "--optimizer", "sgd"], "optimizer"),
        (["--run-list", "missing.toml"], "run_list"),
        (["--run-list", "law.json"], "run_list"),
    ],
)
def test_what_cannot_be_fitted_is_one_line(folder, options, field, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    output = tmp_path / "law.json"
    refused_command(["fit", *options, "--output", str(output)], field, capsys)
    assert not output.exists()


def test_a_directory_is_no_law(logs, tmp_path, capsys):
    refused_command(["fit", *logs, *OPTIMIZER, "--output", str(tmp_path)], "output", capsys)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("", "run_list"),
        ("path\n", "run_list"),
        ("path,path\na,b\n", "run_list"),
        ("path,batch\ncosine.csv\n", "run_list"),
        ("path,colour\ncosine.csv,red\n", "run_list"),
        ("batch\n16\n", "run_list"),
        ("path,steps\ncosine.csv,2.5\n", "steps"),
        ("path,gamma\ncosine.csv,high\n", "gamma"),
        ("path,unit\ncosine.csv,bytes\n", "unit"),
        ("path,nesterov\ncosine.csv,maybe\n", "nesterov"),
        ("path,warmup\ncosine.csv,soon\n", "warmup"),
        ("path,batch\ncosine.csv,none.csv\n", "path"),
        ("path,batch\ncosine.csv,8\nwsd.csv,16\n", "batch"),
        ("path\nmissing.csv\n", "path"),
    ],
)
def test_a_list_that_is_none_is_one_line(folder, text, field, capsys):
    path = folder / "bad.csv"
    path.write_text(text)
    refused_command(["fit", "--run-list", str(path), *OPTIMIZER], field, capsys)


@pytest.mark.parametrize(
    "text", ["", "run = 3", "[run]\npath = 'a'", "[[run]]\npath = 3", "[[run]]\nbatch = [1]", "["]
)
def test_toml_that_is_no_list_of_runs_is_one_line(folder, text, capsys):
    path = folder / "bad.toml"
    path.write_text(text)
    refused_command(["fit", "--run-list", str(path), *OPTIMIZER], "run_list", capsys)


# predict

RATES = ["--rates", "cosine", "--steps", "300", "--gamma", "0.01"]


def test_predict_gives_the_final_loss_with_its_band_and_says_what_is_beyond_the_runs(
    folder, capsys
):
    assert main(["predict", str(folder / "law.json"), *RATES, "--batch", "16"]) == 0
    first, *notes = capsys.readouterr().out.splitlines()
    law = bl.TrainingLaw.from_json((folder / "law.json").read_text())
    loss, low, high = law.predict(bl.cosine(300, 0.01), 16.0).final
    assert first == f"final loss {loss:.4f} ({low:.4f} to {high:.4f}, 90%)"
    assert "note: updates beyond the runs by a factor of 1.5" in notes
    assert any(note.startswith("note: not identified: what a batch does") for note in notes)


def test_predict_writes_the_curve_and_compares_with_other_batches(folder, tmp_path, capsys):
    (tmp_path / "sizes.csv").write_text("batch\n" + "8\n" * 150 + "24\n" * 150)
    sizes, curve = ["--batches", str(tmp_path / "sizes.csv")], tmp_path / "curve.csv"
    words = ["predict", str(folder / "law.json"), *RATES, *sizes, "--against", "constant"]
    assert main([*words, "--json", "--level", "0.8", "--output", str(curve)]) == 0
    document = json.loads(capsys.readouterr().out)
    law = bl.TrainingLaw.from_json((folder / "law.json").read_text())
    rates, batches = bl.cosine(300, 0.01), np.repeat([8.0, 24.0], 150)
    expected = law.predict(rates, batches, level=0.8)
    assert document["final"] == list(expected.final)
    assert document["notes"] == list(expected.notes)
    change = law.difference((rates, batches), (rates, 16.0), level=0.8)
    assert document["against"] == {"batches": "constant", "difference": list(change)}
    with curve.open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == expected.steps.tolist()
    for name, values in (("loss", "losses"), ("low", "low"), ("high", "high")):
        assert [float(row[name]) for row in rows] == getattr(expected, values).tolist()


@pytest.mark.parametrize(
    ("against", "said"),
    [("constant", "the same batches"), ("16", "the same batches"), ("8", "in the final loss")],
)
def test_a_difference_is_said_in_the_loss(folder, against, said, capsys):
    words = ["predict", str(folder / "law.json"), *RATES, "--batch", "16", "--against", against]
    assert main(words) == 0
    assert f"against {against}: " in (out := capsys.readouterr().out)
    assert said in out


def test_a_plan_brings_rates_and_batches(folder, tmp_path, capsys):
    plan = bl.Plan(bl.cosine(300, 0.01), ((150, 8), (300, 24)), 4800)
    (tmp_path / "plan.json").write_text(plan.to_json())
    words = ["predict", str(folder / "law.json"), "--plan", str(tmp_path / "plan.json"), "--json"]
    assert main(words) == 0
    law = bl.TrainingLaw.from_json((folder / "law.json").read_text())
    expected = law.predict(plan.rates, np.repeat([8.0, 24.0], 150)).final
    assert json.loads(capsys.readouterr().out)["final"] == list(expected)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ([], "rates"),
        (["--rates", "cosine"], "steps"),
        (["--rates", "cosine", "--steps", "9"], "peak"),
        (["--rates", "wds", "--steps", "9"], "steps"),
        (["--rates", "wds"], "rates"),
        (["--rates", "none.csv"], "path"),
        (RATES, "batch"),
        ([*RATES, "--batch", "0"], "batch"),
        ([*RATES, "--batch", "8", "--batches", "cosine.csv"], "batch"),
        ([*RATES, "--batches", "cosine.csv"], "path"),
        ([*RATES, "--batch", "8", "--against", "oracle"], "against"),
        ([*RATES, "--batch", "8", "--against", "-1"], "against"),
        ([*RATES, "--batch", "8", "--level", "0"], "level"),
        ([*RATES, "--power", "3", "--batch", "8"], "power"),
        (["--plan", "cosine.csv"], "plan"),
        (["--plan", "missing.json"], "plan"),
        (["--plan", "law.json", "--batch", "8"], "batch"),
    ],
)
def test_what_cannot_be_predicted_is_one_line(
    folder, options, field, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(folder)
    output = tmp_path / "curve.csv"
    refused_command(["predict", "law.json", *options, "--output", str(output)], field, capsys)
    assert not output.exists()


@pytest.mark.parametrize("name", ["missing.json", "cosine.csv", "."])
def test_what_is_no_law_is_one_line(folder, name, capsys):
    words = ["predict", str(folder / name), *RATES, "--batch", "8"]
    refused_command(words, "law", capsys)
