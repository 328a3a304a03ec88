"""The claims: that true laws pass, that every planted wrong one is contradicted, and the files."""

import csv
import dataclasses
import json
import math
import signal
from functools import partial

import numpy as np
import pytest
from batchlaw.evidence.claims.settings import QUICK

from batchlaw.evidence.claims import run as runner
from batchlaw.evidence.claims.claim import (
    CONFIRMED,
    CONTRADICTED,
    OPEN,
    OUTSIDE,
    Check,
    Collapse,
    Curve,
    Estimate,
    Exponent,
    NoLaw,
    OutsideRegime,
    Proportional,
    Value,
    wrong_exponents,
)
from batchlaw.evidence.claims.report import by_claim
from batchlaw.faces.cli import main
from batchlaw.jobs.store import Store, cell_key
from batchlaw.jobs.workers import worker_threads
from resume import rows, run_command

X = np.geomspace(1e2, 1e5, 13)
# How many claims a family makes at quick size: none may silently leave the table.
CLAIMS = {
    "one-pass": 7,
    "influence": 8,
    "collapse": 3,
    "multi-pass": 9,
    "sketches": 7,
    "slips": 3,
    "outside": 72,
    "literature": 10,
}


def curve(y, **more):
    return Curve({"x": X, "x/log x": X / np.log(X)}, y, "y", **more)


def run(families, file, count=1):
    with Store(file) as store, worker_threads(count) as workers:
        return runner.run(runner.task_cells(QUICK, families), store, workers)[0]


@pytest.fixture
def in_threads(monkeypatch):
    """What a test changes here is not changed in another process."""
    monkeypatch.setattr("batchlaw.faces.cli.verify.worker_processes", worker_threads)


@pytest.mark.parametrize("family", list(runner.FAMILIES))
def test_no_claim_is_contradicted_and_every_planted_wrong_law_is(family, tmp_path):
    rows = run([family], tmp_path / "verify.sqlite")
    for row in rows:
        said = (row.check.claim, row.check.case, row.judgement)
        assert row.judgement.verdict != CONTRADICTED, said
        for name, law in row.check.wrong.items():
            assert row.check.evidence.judge(law).verdict == CONTRADICTED, (name, *said)
        assert not row.failed
    for claim, cases in by_claim(rows).items():
        verdicts = {row.judgement.verdict for row in cases}
        # Of every claim at least one case settles at this size, and can tell a wrong law.
        if "not fitted" in claim:
            assert verdicts == {OUTSIDE}
        else:
            assert CONFIRMED in verdicts, claim
            assert OUTSIDE not in verdicts, claim
            assert any(row.check.wrong for row in cases), claim
    assert len(by_claim(rows)) == CLAIMS[family]
    assert len({(row.check.claim, row.check.case) for row in rows}) == len(rows)


def test_what_is_outside_the_regime_is_named_and_not_fitted():
    rows = [check for task in runner.FAMILIES["one-pass"](QUICK)[-4:] for check in task()]
    details = [row.judge().detail for row in rows]
    assert [row.judge().verdict for row in rows] == [OUTSIDE] * 4
    assert "b < a + 1 fails" in details[0]
    assert "saturated" in details[1]
    assert "saturated" in details[2]
    assert "borderline" in details[2]
    assert "gamma <= c" in details[3]


def test_a_case_that_leaves_the_regime_unexpectedly_is_a_failure():
    check = Check("c", "w", "case", OutsideRegime(("b is large",), "y"), NoLaw(expected=False))
    assert runner.Row("f", check, check.judge(), {}).failed
    expected = dataclasses.replace(check, law=NoLaw(expected=True))
    assert not runner.Row("f", expected, expected.judge(), {}).failed


def test_no_family_and_a_family_named_twice():
    with pytest.raises(ValueError, match="at least one family"):
        runner.task_cells(QUICK, [])
    assert runner.task_cells(QUICK, ["slips", "slips"]) == runner.task_cells(QUICK, ["slips"])


def test_a_settled_slope_confirms_its_law_and_contradicts_the_others():
    evidence = curve(X**-0.5)
    law = Exponent(-0.5, "x", 0.02, "x/log x")
    check = Check("c", "w", "case", evidence, law, wrong_exponents(law))
    assert check.judge().verdict == CONFIRMED
    assert check.rejected() == {
        "exponent +0.1": True,
        "exponent -0.1": True,
        "horizons swapped": True,
    }


def test_a_law_within_tolerance_but_closer_to_the_rival_is_not_confirmed():
    evidence = curve((X / np.log(X)) ** -0.2)
    law = Exponent(-0.2, "x", 0.05, "x/log x")
    assert evidence.judge(dataclasses.replace(law, rival=None)).verdict == CONFIRMED
    assert evidence.judge(law).verdict == CONTRADICTED


def test_a_drifting_slope_neither_confirms_nor_contradicts_what_it_may_reach():
    evidence = curve(X**-0.5 * (1.0 + 3.0 * X**-0.3))
    assert evidence.judge(Exponent(-0.5, "x", 0.02)).verdict == OPEN
    assert evidence.judge(Exponent(0.5, "x", 0.02)).verdict == CONTRADICTED


def test_a_withheld_curve_gives_no_verdict():
    evidence = curve(X**-0.5, withheld="bias is large")
    found = evidence.judge(Exponent(-0.5, "x"))
    assert found.verdict == OPEN
    assert "bias is large" in found.detail


def test_a_collapse_is_judged_by_its_largest_deviation():
    summary = np.array([1.0, 2.0, 4.0])
    evidence = Collapse(3.0 * summary * [1.0, 1.1, 1.0], {"good": summary, "bad": summary**2}, "y")
    found = evidence.judge(Proportional("good", 0.1))
    assert found.verdict == CONFIRMED
    assert found.measured == pytest.approx(1.1 ** (2 / 3) - 1.0)
    assert evidence.judge(Proportional("bad", 0.1)).verdict == CONTRADICTED
    noisy = dataclasses.replace(evidence, error=0.2)
    assert noisy.judge(Proportional("good", 0.1)).verdict == OPEN


@pytest.mark.parametrize(
    ("law", "verdict"),
    [
        (Value(1.0, 0.05), CONFIRMED),
        (Value(1.03, 0.01), OPEN),
        (Value(1.2, 0.05), CONTRADICTED),
        (Value(0.9, side="at_least"), CONFIRMED),
        (Value(1.0, side="at_least"), OPEN),
        (Value(1.2, side="at_least"), CONTRADICTED),
        (Value(1.2, side="at_most"), CONFIRMED),
        (Value(0.9, side="at_most"), CONTRADICTED),
    ],
)
def test_an_estimate_is_judged_with_its_error(law, verdict):
    assert Estimate(1.0, "x", error=0.02).judge(law).verdict == verdict


def test_the_command_writes_the_table_the_report_and_figures(tmp_path, capsys):
    assert main(["verify", "--quick", "--family", "slips", "--output-dir", str(tmp_path)]) == 0
    with (tmp_path / "claims.csv").open() as file:
        rows = list(csv.DictReader(file))
    document = json.loads((tmp_path / "claims.json").read_text())
    assert len(rows) == len(document["claims"]) == 4
    needed = {"claim", "where", "case", "measured", "low", "high", "verdict"}
    assert needed <= rows[0].keys()
    for row in rows:
        assert float(row["low"]) <= float(row["measured"]) <= float(row["high"])
        assert row["verdict"] in (CONFIRMED, OPEN)
        assert row["wrong_laws_rejected"] == row["wrong_laws"] != "0"
    report = (tmp_path / "report.md").read_text()
    pictures = sorted(path.name for path in tmp_path.glob("*.png"))
    assert "family_slips.png" in pictures
    assert all(f"({name})" in report for name in pictures)
    assert "slips" in capsys.readouterr().out


def test_figures_of_an_earlier_report_go(tmp_path):
    (tmp_path / "claim_99.png").write_bytes(b"old")
    (tmp_path / "mine.png").write_bytes(b"kept")
    assert main(["verify", "--quick", "--family", "slips", "--output-dir", str(tmp_path)]) == 0
    assert not (tmp_path / "claim_99.png").exists()
    assert (tmp_path / "mine.png").exists()


def test_results_do_not_depend_on_the_workers(tmp_path):
    one, two = (run(["slips"], tmp_path / f"{n}.sqlite", n) for n in (1, 2))
    assert [row.judgement for row in one] == [row.judgement for row in two]


def planted(k, fails=False):
    if fails:
        raise ArithmeticError("no\nnumber")
    law = Exponent(-0.1 * (k + 1), "x")
    return [Check(f"claim {k % 2}", "here", f"case {k}", curve(X**law.value), law)]


def test_a_failed_task_ends_the_command_and_is_tried_again(
    tmp_path, monkeypatch, capsys, in_threads
):
    tasks = [partial(planted, 0), partial(planted, 1, fails=True)]
    monkeypatch.setitem(runner.FAMILIES, "slips", lambda size: tasks)
    command = ["verify", "--family", "slips", "--output-dir", str(tmp_path)]
    assert main(command) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "1 of 2 tasks failed" in said
    assert "slips, task 1: no number" in said
    assert not (tmp_path / "claims.csv").exists()
    tasks[1] = partial(planted, 1)
    assert main(command) == 0
    assert "1 of 2 tasks are stored; remove verify.sqlite" in capsys.readouterr().err


def test_other_code_finds_nothing_stored(monkeypatch):
    (ours,) = runner.task_cells(QUICK, ["slips"])[:1]
    monkeypatch.setattr(runner, "code_digest", lambda: "other")
    assert cell_key(runner.task_cells(QUICK, ["slips"])[0]) != cell_key(ours)


PLANTED = """
from functools import partial

import numpy as np

from batchlaw.evidence.claims import run as runner
from batchlaw.evidence.claims.claim import Check, Curve, Exponent

X = np.geomspace(1e2, 1e5, 13)


def planted(k):
    law = Exponent(-0.1 * (k + 1), "x")
    curve = Curve({"x": X}, X**law.value, "y")
    return [Check(f"claim {k % 2}", "here", f"case {k}", curve, law)]


runner.FAMILIES["slips"] = lambda size: [partial(planted, k) for k in range(9)]
"""


@pytest.mark.process
def test_a_killed_command_goes_on_where_it_was(tmp_path):
    command = ["verify", "--quick", "--family", "slips", "--workers", "1"]
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    killed = run_command(cut, command, last_row=3, prelude=PLANTED)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    before = rows(cut / "verify.sqlite")
    assert len(before) == 3
    again = run_command(cut, command, prelude=PLANTED)
    assert again.returncode == 0, again.stderr
    assert "3 of 9 tasks are stored" in again.stderr
    after = rows(cut / "verify.sqlite")
    assert len(after) == 9
    assert all(after[key] == row for key, row in before.items())
    assert run_command(whole, command, prelude=PLANTED).returncode == 0
    names = {path.name for path in whole.iterdir()}
    assert names == {path.name for path in cut.iterdir()}
    for name in names:
        if name.endswith((".csv", ".png")):
            assert (cut / name).read_bytes() == (whole / name).read_bytes()
    documents = [json.loads((folder / "claims.json").read_text()) for folder in (cut, whole)]
    assert documents[0]["claims"] == documents[1]["claims"]


def test_a_contradicted_claim_is_told_by_the_exit_code(tmp_path, monkeypatch, capsys, in_threads):
    law = Exponent(-0.4, "x")
    check = Check("planted", "nowhere", "case", curve(X**-0.5), law, {})
    monkeypatch.setitem(runner.FAMILIES, "slips", lambda size: [lambda: [check]])
    assert main(["verify", "--family", "slips", "--output-dir", str(tmp_path)]) == 1
    assert "contradicted: planted (case)" in capsys.readouterr().out


def test_evidence_that_rejects_nothing_is_told_by_the_exit_code(
    tmp_path, monkeypatch, capsys, in_threads
):
    law = Exponent(-0.5, "x")
    check = Check("planted", "nowhere", "case", curve(X**-0.5), law, {"the same": law})
    monkeypatch.setitem(runner.FAMILIES, "slips", lambda size: [lambda: [check]])
    assert main(["verify", "--family", "slips", "--output-dir", str(tmp_path)]) == 1
    assert "not rejected: the same" in capsys.readouterr().out


def test_an_unknown_family_is_refused_before_any_work(tmp_path, capsys):
    assert main(["verify", "--family", "nothing", "--output-dir", str(tmp_path / "out")]) == 2
    assert "family must be one of" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_number_that_is_not_there_is_empty_in_the_files(tmp_path, monkeypatch, in_threads):
    (outside,) = runner.FAMILIES["one-pass"](QUICK)[-1]()
    monkeypatch.setitem(runner.FAMILIES, "slips", lambda size: [lambda: [outside]])
    assert main(["verify", "--family", "slips", "--output-dir", str(tmp_path)]) == 0
    (row,) = json.loads((tmp_path / "claims.json").read_text())["claims"]
    assert row["measured"] is None
    assert math.isnan(outside.judge().measured)
