import csv
import json

import numpy as np
import pytest

import batchlaw as bl
from batchlaw._base.uncertain import with_error
from batchlaw.faces.cli import main
from refused import refused_command


def _json(capsys, *arguments):
    assert main(["risk", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_papers_one_pass_setting_is_the_default(paper, capsys):
    document = _json(capsys)
    rates = bl.wsd(64, 0.05)
    families = bl.schedule_families(bl.influence(paper, rates), 512)
    for row in document["schedules"]:
        exact = bl.one_pass_risk(paper, rates, families[row["schedule"]])
        assert row["variance"] == exact.variance
        assert row["total"] == exact.total
    assert document["method"] == "exact"
    assert document["relative_error_of_excess"] == 0.0


def test_the_table_shows_the_same_figures(capsys):
    assert main(["risk"]) == 0
    out = capsys.readouterr().out
    assert "0.0038196936" in out
    assert "0.0055343207" in out
    assert "one-pass SGD, 64 steps, peak rate 0.05; exact" in out


def test_schedules_without_a_constant_one_are_not_compared_and_the_table_says_why(capsys):
    missing = "no comparison: constant is not among the batches"
    for options, said in (
        (["--batches", "oracle"], True),
        (["--batches", "constant"], False),
        (["--batches", "greedy,constant"], False),
        (["--procedure", "gd"], False),
    ):
        assert main(["risk", "--steps", "16", *options]) == 0
        assert (missing in capsys.readouterr().out) is said


def test_the_whole_risk_stands_before_its_parts_and_the_summary_last(capsys):
    (row, *_) = _json(capsys)["schedules"]
    first = ["schedule", "total", "excess", "irreducible", "approximation", "bias", "variance"]
    assert list(row)[:7] == first
    assert list(row)[-1] == "b_eff"
    assert row["total"] == pytest.approx(
        row["irreducible"] + row["approximation"] + row["excess"], rel=1e-15
    )


def test_the_change_against_constant_is_given_for_the_whole_then_the_excess_then_the_noise(
    paper, capsys
):
    """At the paper's setting the oracle moves the whole risk by 0.07 %."""
    rates = bl.wsd(64, 0.05)
    families = bl.schedule_families(bl.influence(paper, rates), 512)
    risk = bl.one_pass_risk(paper, rates, families)
    (changes,) = _json(capsys)["percent_against_constant"]
    assert list(changes) == ["schedule", "total", "excess", "variance"]
    for term in ("total", "excess", "variance"):
        values = getattr(risk, term)
        assert changes[term] == pytest.approx(100 * (values[0] / values[1] - 1), rel=1e-9)
    assert changes["total"] == pytest.approx(-0.0698, abs=5e-5)
    assert main(["risk"]) == 0
    out = capsys.readouterr().out
    assert "oracle               -0.0698  -0.150     -31.0" in out


def test_without_a_constant_schedule_there_is_nothing_to_compare_with(capsys):
    assert _json(capsys, "--batches", "oracle,greedy")["percent_against_constant"] == []
    assert _json(capsys, "--batches", "constant")["percent_against_constant"] == []
    assert main(["risk", "--batches", "oracle,greedy"]) == 0
    assert "against constant" not in capsys.readouterr().out


def test_noise_that_the_constant_schedule_does_not_have_is_not_divided_by(capsys):
    options = ["--procedure", "multi-pass", "--samples", "8", "--budget", "512"]
    (changes,) = _json(capsys, *options, "--batches", "greedy,constant")["percent_against_constant"]
    assert list(changes) == ["schedule", "total", "excess"]


def test_simulated_changes_have_their_errors(paper, capsys):
    options = ["--solver", "simulated", "--repetitions", "20"]
    document = _json(capsys, *options)
    (changes,) = document["percent_against_constant"]
    rates = bl.wsd(64, 0.05)
    families = bl.schedule_families(bl.influence(paper, rates), 512)
    two = {name: families[name] for name in ("oracle", "constant")}
    risk = bl.simulate_one_pass(paper, rates, two, repetitions=20, seed=0)
    for term in ("total", "excess", "variance"):
        ratio, error = risk.ratio(term, "oracle", "constant")
        assert changes[term] == pytest.approx(100 * (ratio - 1), rel=1e-9)
        assert changes[f"{term}_se"] == pytest.approx(100 * error, rel=1e-9)
    assert main(["risk", *options]) == 0
    out = capsys.readouterr().out
    assert with_error(changes["excess"], changes["excess_se"]) in out
    assert with_error(float(risk.excess[0]), float(risk.standard_error("excess")[0])) in out


def test_multi_pass_gives_the_mean_field_and_its_error(paper, capsys):
    document = _json(capsys, "--procedure", "multi-pass", "--steps", "512")
    rows = {row["schedule"]: row for row in document["schedules"]}
    ratio = rows["oracle"]["fluctuation"] / rows["constant"]["fluctuation"]
    assert ratio == pytest.approx(0.6204, abs=5e-5)
    assert 0.0 < document["relative_error_of_excess"] < 1e-4
    gd = _json(capsys, "--procedure", "gd", "--steps", "512")["schedules"][0]
    assert gd["bias"] == pytest.approx(rows["oracle"]["bias"], rel=1e-12)


def test_momentum_and_averages_reach_the_solver(paper, capsys):
    options = ["--momentum", "0.9", "--pytorch", "--average", "tail:0.25", "--batches", "constant"]
    (row,) = _json(capsys, *options)["schedules"]
    weights = np.append(np.zeros(48), np.full(16, 1 / 16))
    expected = bl.one_pass_risk(
        paper, bl.wsd(64, 0.05), 8, momentum=0.9, pytorch=True, average=weights
    )
    assert row["total"] == expected.total


def test_momentum_and_averages_reach_the_simulator_and_the_oracle(paper, capsys):
    options = ["--solver", "simulated", "--momentum", "0.9", "--average", "ema:0.99"]
    oracle, constant = _json(capsys, *options, "--repetitions", "5")["schedules"]
    rates, rule = bl.wsd(64, 0.05), bl.sgd(0.9, average="ema:0.99")
    batches = bl.schedule_families(bl.influence(paper, rates, rule=rule), 512)
    schedules = [batches["oracle"], np.full(64, 8)]
    risk = bl.simulate_one_pass(paper, rates, schedules, rule=rule, repetitions=5, seed=0)
    assert [oracle["total"], constant["total"]] == risk.total.tolist()
    assert oracle["variance_se"] == risk.standard_error("variance")[0]
    reuse = ["--procedure", "multi-pass", "--samples", "64", "--repetitions", "5"]
    (row,) = _json(capsys, *options, *reuse, "--batches", "constant")["schedules"]
    risk = bl.simulate_multi_pass(
        paper, rates, np.full((1, 64), 8), samples=64, rule=rule, repetitions=5, seed=0
    )
    assert row["fluctuation"] == risk.fluctuation[0]


def test_files_bring_spectrum_rates_and_batches(tmp_path, capsys):
    spectrum, rates, batches = (tmp_path / f"{name}.csv" for name in ("mu", "rates", "b"))
    spectrum.write_text("eigenvalue,energy,multiplicity\n0.5,1.0,1\n0.1,2.0,3\n")
    rates.write_text("rate\n0.1\n0.2\n0.1\n")
    batches.write_text("2\n4\n8\n")  # a sole column needs no header
    options = ["--problem", spectrum, "--rates", rates, "--batches", batches, "--sigma", "0.5"]
    (row,) = _json(capsys, *map(str, options))["schedules"]
    problem = bl.Problem.from_spectrum([0.5, 0.1], [1.0, 2.0], 0.25, [1, 3])
    expected = bl.one_pass_risk(problem, [0.1, 0.2, 0.1], [2, 4, 8])
    assert row["total"] == expected.total


@pytest.mark.parametrize("kind", ["truncation", "sketch"])
def test_huge_problems_report_the_error_of_their_nodes(kind, capsys):
    options = ["--problem", kind, "--m", "1e9", "--steps", "1000"]
    document = _json(capsys, *options)
    assert 0.0 < document["relative_error_of_excess"] < 1e-5
    assert "M = 1e+09" in document["method"]


@pytest.mark.parametrize("procedure", ["one-pass", "multi-pass", "gd"])
def test_a_trajectory_is_written_and_drawn(tmp_path, capsys, procedure):
    options = ["--procedure", procedure]
    assert main(["risk", *options, "--trajectory", str(tmp_path / "t")]) == 0
    assert capsys.readouterr().out.endswith(
        f"\n\ntrajectory.csv and trajectory.png in {tmp_path}/t\n"
    )
    with (tmp_path / "t" / "trajectory.csv").open() as file:
        rows = list(csv.DictReader(file))
    schedules = _json(capsys, *options)["schedules"]
    assert len(rows) == len(schedules) * 65
    last = [row for row in rows if row["step"] == "64"]
    for ours, theirs in zip(last, schedules, strict=True):
        for part in set(ours) - {"schedule", "step", "rate"}:
            assert float(ours[part]) == pytest.approx(theirs[part], rel=1e-13), part
    assert rows[0]["total"] == rows[-65]["total"]
    assert (tmp_path / "t" / "trajectory.png").stat().st_size > 5000


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ("rate\n0.1\nx\n", "path"),
        ("rate\n0.1\n\n0.2\n", "path"),
        ("step,rate\n1,0.1\n3,0.2\n", "path"),
        ("rate,other\n0.1,2\n,3\n", "path"),
        ("gamma\n0.1\n", "path"),
        ("", "path"),
        ("rate\n0.1\n-0.2\n", "rates"),
    ],
)
def test_a_bad_file_is_named(content, field, tmp_path, capsys):
    path = tmp_path / "rates.csv"
    path.write_text(content)
    refused_command(["risk", "--rates", str(path)], field, capsys)


@pytest.mark.parametrize(("text", "steps"), [("1e3", 1000), ("2k", 2000), ("0.5K", 500)])
def test_whole_numbers_may_be_written_as_people_do(text, steps, capsys):
    (row,) = _json(capsys, "--batches", "constant", "--steps", text)["schedules"]
    assert row["b_eff"] == pytest.approx(8)
    (same,) = _json(capsys, "--batches", "constant", "--steps", str(steps))["schedules"]
    assert row["total"] == same["total"]


def test_a_trajectory_of_an_average_ends_where_the_table_does(tmp_path, capsys):
    options = ["--average", "ema:0.9", "--batches", "constant"]
    assert main(["risk", *options, "--json", "--trajectory", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    (row,) = json.loads(captured.out)["schedules"]
    assert captured.err == f"trajectory.csv and trajectory.png in {tmp_path}\n"
    with (tmp_path / "trajectory.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    assert float(last["total"]) == row["total"]


@pytest.mark.parametrize("option", ["--warmup", "--seed", "--sigma", "--stable"])
def test_a_zero_is_given_and_not_left_out(option, capsys):
    outputs = []
    for more in ([], [option, "0"]):
        main(["risk", *more])
        captured = capsys.readouterr()
        outputs.append(captured.out + captured.err)
    assert outputs[0] != outputs[1]
