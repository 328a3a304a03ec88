"""The claims: true laws pass, every planted wrong law is contradicted, and the files."""

import csv
import dataclasses
import json
import math
import re
import signal
from functools import partial

import numpy as np
import pytest

from batchlaw._base.errors import InputError
from batchlaw.evidence.claims import literature, one_pass
from batchlaw.evidence.claims import run as runner
from batchlaw.evidence.claims.check_settings import (
    FULL,
    QUICK,
    CheckSize,
    fewest_samples,
    reuse_rate,
)
from batchlaw.evidence.claims.claim import (
    CONFIRMED,
    CONTRADICTED,
    OPEN,
    OUTSIDE,
    Check,
    Claim,
    Collapse,
    Curve,
    Estimate,
    Exponent,
    Proportional,
    Task,
    Value,
    is_met,
    wrong_exponents,
)
from batchlaw.evidence.claims.finite_size import fit_corrected_slope
from batchlaw.evidence.claims.registry import FAMILIES, all_claims, choose_claims
from batchlaw.evidence.claims.report import by_claim
from batchlaw.faces.cli import main
from batchlaw.jobs.store import Store, cell_key
from batchlaw.jobs.workers import worker_threads
from batchlaw.model.problem import Problem
from batchlaw.theory.bounds.bound import Condition
from resume import rows, run_command

X = np.geomspace(1e2, 1e5, 13)
PLANTED_CLAIMS = [Claim(f"slips/planted-{k}", f"planted {k}", "here") for k in range(2)]
PLANTED_CLAIM = PLANTED_CLAIMS[0]


WRONG = {"half": Exponent(-0.25, "x")}
UNMET = Condition("norm", "norm <= 1/8", 0.5, 0.125)


def curve(y, **options):
    return Curve({"x": X, "x/log x": X / np.log(X)}, y, "y", **options)


def run(families, file, count=1):
    claims = choose_claims(QUICK, families)
    with Store(file) as store, worker_threads(count) as workers:
        return runner.run(runner.task_cells(QUICK, claims), claims, store, workers)[0]


def stored_claims(file):
    """(family, task) -> ids of the claims that the stored checks cover."""
    with Store(file) as store:
        return {
            (row.cell["family"], row.cell["task"]): {
                check["Check"]["claim"]["claim"] for check in row.result["checks"]
            }
            for row in store.rows()
        }


def ids(claims):
    return {claim.id for claim in claims}


@pytest.fixture
def in_threads(monkeypatch):
    """Workers in threads: what a test patches would not be patched in another process."""
    monkeypatch.setattr("batchlaw.faces.cli.verify.worker_processes", worker_threads)


@pytest.mark.parametrize("mass", [1.0, 6.4, 500.0, 1e6])
def test_the_fewest_samples_are_the_least_that_keep_the_hypothesis(mass):
    """gamma L log N <= N/3."""
    N = fewest_samples(mass)
    assert mass * math.log(N) <= N / 3 < mass * math.log(N - 1) + 1 / 3


# Claims that no case settles at the quick size: too few bad sketches, too narrow sketches.
OPEN_AT_QUICK_SIZE = {
    "probability/largest-constant",
    "probability/smallest-constant",
    "outside/thinned-sketch-ratio",
}


@pytest.mark.slow
@pytest.mark.parametrize("family", list(FAMILIES))
def test_no_claim_is_contradicted_and_every_row_inside_has_wrong_laws(family, tmp_path):
    rows = run([family], tmp_path / "verify.sqlite")
    listed = {(family, task.name): ids(task.claims) for task in FAMILIES[family](QUICK)}
    assert stored_claims(tmp_path / "verify.sqlite") == listed
    for row in rows:
        context = (row.claim.id, row.check.case, row.judgement)
        assert row.judgement.verdict != CONTRADICTED, context
        assert not row.failed
        if row.judgement.verdict != OUTSIDE:
            assert row.check.wrong, context
        if row.judgement.verdict == CONFIRMED:
            assert all(row.rejected.values()), context
    # At least one case of every other claim lies inside its hypotheses and settles at this size.
    open_claims = {
        claim.id
        for claim, cases in by_claim(rows).items()
        if CONFIRMED not in {row.judgement.verdict for row in cases}
    }
    assert open_claims == {id_ for id_ in OPEN_AT_QUICK_SIZE if id_.startswith(f"{family}/")}
    assert ids(by_claim(rows)) == set(choose_claims(QUICK, [family]))
    assert len({(row.claim, row.check.case) for row in rows}) == len(rows)


def test_an_id_names_one_claim_and_its_family_and_a_name_one_task():
    for size in (QUICK, FULL):
        for family, tasks in FAMILIES.items():
            assert len({task.name for task in tasks(size)}) == len(tasks(size))
            for task in tasks(size):
                assert task.claims
                for claim in task.claims:
                    assert claim.family == family
                    assert re.fullmatch(r"[a-z-]+/[a-z0-9]+(-[a-z0-9]+)*", claim.id), claim.id
                    assert all_claims()[claim.id] == claim


@pytest.mark.slow
def test_tasks_that_only_the_full_size_has_check_the_claims_that_they_list():
    small = CheckSize(False, longest=30_000, longest_reuse=0, dim=0, rows=0, draws=0, datasets=0)
    quick = {task.name for task in literature.tasks(QUICK)}
    tasks = [task for task in literature.tasks(small) if task.name not in quick]
    # One of each kind.
    for task in {task.claims: task for task in tasks}.values():
        assert ids(check.claim for check in task.run()) == ids(task.claims)


def test_claims_are_chosen_by_family_and_by_id():
    everything = choose_claims(QUICK)
    assert set(everything) <= set(all_claims())
    chosen = choose_claims(QUICK, ["slips"], ["one-pass/variance"])
    families = [claim.family for claim in chosen.values()]
    assert families == ["one-pass", *["slips"] * (len(chosen) - 1)]
    cells = runner.task_cells(QUICK, choose_claims(QUICK, ids=["one-pass/variance"]))
    assert [cell["task"] for cell in cells] == [f"terms a={a:g} b={b:g}" for a, b in one_pass.PAIRS]


@pytest.mark.parametrize(
    ("size", "id_", "says"),
    [
        (FULL, "one-pass/varianse", "one-pass/variance"),
        (FULL, "one-pass", "one-pass/variance"),
        (FULL, "two-pass/variance", "multi-pass, sketches"),
        (QUICK, "literature/lin-risk-in-m", "at this size"),
    ],
)
def test_an_unknown_claim_is_refused_with_the_known_ones(size, id_, says):
    with pytest.raises(InputError) as refused:
        choose_claims(size, ids=[id_])
    assert refused.value.field == "claim"
    assert refused.value.got == repr(id_)
    assert says in refused.value.needed


def test_what_is_outside_the_regime_is_named_with_what_was_measured():
    tasks = [task for task in one_pass.tasks(QUICK) if task.name.startswith("outside")]
    rows = [check for task in tasks for check in task.run()]
    assert [row.judge().verdict for row in rows] == [OUTSIDE] * 4
    unmet = [{condition.id for condition in row.unmet} for row in rows]
    assert unmet == [{"source-exponent"}, {"bias-lower-bound"}, {"bias-lower-bound"}, {"rate"}]
    assert "b < a + 1 fails: 3 against 2.5" in rows[0].judge().detail
    assert [row.rejected() for row in rows] == [{}] * 4


def planted_check(y, value=-0.5, wrong=WRONG, hypotheses=()):
    law = Exponent(value, "x")
    return Check(PLANTED_CLAIM, "case", curve(y), law, wrong, hypotheses)


def test_a_wrong_exponent_is_contradicted_and_nothing_can_withhold_the_verdict():
    check = planted_check(X**-0.6)
    assert check.judge().verdict == CONTRADICTED
    assert runner.Row(check, check.judge(), check.rejected()).failed
    assert "withheld" not in {field.name for field in dataclasses.fields(Curve)}


def test_a_hypothesis_that_does_not_hold_decides_whatever_the_slope():
    """The verdict is the same for the law's own slope, another, and one that drifts."""
    for y in (X**-0.5, X**0.7, X**-0.5 * (1.0 + 3.0 * X**-0.3)):
        check = planted_check(y, hypotheses=(UNMET,))
        judgement = check.judge()
        assert judgement.verdict == OUTSIDE
        assert "norm <= 1/8 fails: 0.5 against 0.125" in judgement.detail
        assert judgement.measured == check.evidence.judge(check.law).measured


@pytest.mark.parametrize(
    ("kind", "measured", "met"),
    [
        ("explicit", 1.0, True),
        ("explicit", 1.01, False),
        ("small", 0.33, True),
        ("small", 0.34, False),
        ("order", 8.9, True),
        ("order", 9.1, False),
        ("sharp", 1.01, False),
    ],
)
def test_a_borderline_hypothesis_holds_only_where_any_constant_will_do(kind, measured, met):
    assert is_met(Condition("id", "name", measured, 1.0, kind=kind)) == met


def test_a_row_that_leaves_a_wrong_law_standing_is_not_settled():
    standing = {"the same": Exponent(-0.5, "x"), **WRONG}
    judgement = planted_check(X**-0.5, wrong=standing).judge()
    assert judgement.verdict == OPEN
    assert "does not reject the same" in judgement.detail
    assert planted_check(X**-0.5).judge().verdict == CONFIRMED


def test_a_row_without_wrong_laws_is_not_settled():
    judgement = planted_check(X**-0.5, wrong={}).judge()
    assert judgement.verdict == OPEN
    assert "no wrong law to reject" in judgement.detail


def test_no_family_skips_a_hypothesis_of_its_law():
    """The rows of a theorem carry every condition of the law, in its order."""
    (task,) = (task for task in one_pass.tasks(QUICK) if task.name == "terms a=2 b=2")
    law = one_pass._law(QUICK, 2.0, 2.0, one_pass.WIDE, one_pass.RATE)
    every = [condition.id for condition in law.conditions]
    for check in task.run():
        assert [condition.id for condition in check.hypotheses][: len(every)] == every


def test_the_rate_of_data_reuse_meets_the_largest_norm():
    """Drawn: gamma max ||z_i||^2 exceeds 1/8 in at most 1 % of the datasets."""
    problem = Problem.power_law(2.0, 2.0, 16, dim=500, seed=0)
    gamma, N = reuse_rate(problem, 300), 300
    largest = [(problem.sample(N, seed)[0] ** 2).sum(axis=1).max() for seed in range(300)]
    assert np.mean(gamma * np.array(largest) > 0.125) <= 0.01
    # Not far below what is needed: four times the rate exceeds it in most datasets.
    assert np.mean(4.0 * gamma * np.array(largest) > 0.125) > 0.5


def test_no_family_and_a_family_named_twice():
    with pytest.raises(InputError) as refused:
        choose_claims(QUICK, [])
    assert refused.value.field == "family"
    assert choose_claims(QUICK, ["slips", "slips"]) == choose_claims(QUICK, ["slips"])


def test_a_settled_slope_confirms_its_law_and_contradicts_the_others():
    evidence = curve(X**-0.5)
    law = Exponent(-0.5, "x", 0.02, "x/log x")
    check = Check(PLANTED_CLAIM, "case", evidence, law, wrong_exponents(law))
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


def test_a_finite_size_correction_is_part_of_the_fit():
    """Against M itself, (M + 1/2)^2 has the slope 2 only with the correction, not without."""
    M = np.arange(8.0, 40.0, 3.0)
    law = Exponent(2.0, "M", 0.01)
    plain = Curve({"M": M}, (M + 0.5) ** 2, "y")
    corrected = dataclasses.replace(plain, corrections=(1.0 / M,))
    assert plain.judge(law).verdict != CONFIRMED
    assert corrected.judge(law).verdict == CONFIRMED
    for wrong in wrong_exponents(law).values():
        assert corrected.judge(wrong).verdict == CONTRADICTED


def test_the_interval_of_a_corrected_slope_covers_the_truth_over_draws():
    """Ten noisy draws: the exponent lies within two standard errors in most of 100 cases."""
    rng = np.random.default_rng(9)
    M = np.geomspace(6.0, 60.0, 12)
    inside = 0
    for _ in range(100):
        y = M**-0.5 * (1.0 + 0.7 / M) * np.exp(0.02 * rng.standard_normal((10, M.size)))
        slope = fit_corrected_slope(M, y, (1.0 / M,))
        inside += abs(slope.value + 0.5) <= slope.slack
    assert inside >= 88


def test_a_collapse_is_judged_by_its_largest_deviation():
    summary = np.array([1.0, 2.0, 4.0])
    evidence = Collapse(3.0 * summary * [1.0, 1.1, 1.0], {"good": summary, "bad": summary**2}, "y")
    judgement = evidence.judge(Proportional("good", 0.1))
    assert judgement.verdict == CONFIRMED
    assert judgement.measured == pytest.approx(1.1 ** (2 / 3) - 1.0)
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


@pytest.mark.slow
def test_the_command_writes_the_table_the_report_and_figures(tmp_path, capsys):
    assert main(["verify", "--quick", "--family", "slips", "--output-dir", str(tmp_path)]) == 0
    with (tmp_path / "claims.csv").open() as file:
        rows = list(csv.DictReader(file))
    document = json.loads((tmp_path / "claims.json").read_text())
    assert len(rows) == len(document["claims"]) == 21
    needed = {"claim", "where", "case", "measured", "low", "high", "verdict"}
    assert needed <= rows[0].keys()
    assert next(iter(rows[0])) == "id"
    for row in rows:
        claim = all_claims()[row["id"]]
        assert (row["family"], row["claim"], row["where"]) == (
            claim.family,
            claim.sentence,
            claim.where,
        )
        assert float(row["low"]) <= float(row["measured"]) <= float(row["high"])
        assert row["verdict"] in (CONFIRMED, OPEN)
        assert row["wrong_laws"] != "0"
    report = (tmp_path / "report.md").read_text()
    pictures = sorted(path.name for path in tmp_path.glob("*.png"))
    drawn = ("approximation-beyond", "geometric-schedule", "head-concentration-in-k")
    drawn += ("head-concentration-in-m", "largest-norm-tail")
    claims = [f"claim_slips-{name}.png" for name in drawn]
    assert pictures == [*claims, "family_slips.png"]
    assert all(f"`{row['id']}`: {row['claim']}" in report for row in rows)
    assert all(f"({name})" in report for name in pictures)
    assert "slips" in capsys.readouterr().out


def test_the_command_measures_the_named_claims_alone(tmp_path, capsys):
    id_ = "slips/multi-pass-schedule"
    assert main(["verify", "--quick", "--claim", id_, "--output-dir", str(tmp_path)]) == 0
    assert stored_claims(tmp_path / "verify.sqlite") == {("slips", "schedule of multi-pass"): {id_}}
    document = json.loads((tmp_path / "claims.json").read_text())
    assert [row["id"] for row in document["claims"]] == [id_]


def test_a_task_of_two_claims_reports_the_one_that_was_asked_for(tmp_path, monkeypatch, in_threads):
    task = Task("both", tuple(PLANTED_CLAIMS), lambda: [*planted(0), *planted(1)])
    monkeypatch.setitem(FAMILIES, "slips", lambda size: [task])
    command = ["verify", "--claim", PLANTED_CLAIM.id, "--output-dir", str(tmp_path)]
    assert main(command) == 0
    document = json.loads((tmp_path / "claims.json").read_text())
    assert [row["id"] for row in document["claims"]] == [PLANTED_CLAIM.id]
    assert stored_claims(tmp_path / "verify.sqlite") == {("slips", "both"): ids(PLANTED_CLAIMS)}


def test_the_list_has_every_claim_and_measures_nothing(tmp_path, capsys):
    folder = tmp_path / "out"
    assert main(["verify", "--list", "--output-dir", str(folder)]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert lines == [[id_, claim.sentence] for id_, claim in all_claims().items()]
    assert not folder.exists()


def test_the_help_names_every_family(capsys):
    main(["verify", "--help"])
    assert ", ".join(FAMILIES) in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_figures_of_an_earlier_report_are_removed(tmp_path):
    (tmp_path / "claim_99.png").write_bytes(b"old")
    (tmp_path / "mine.png").write_bytes(b"kept")
    assert main(["verify", "--quick", "--family", "slips", "--output-dir", str(tmp_path)]) == 0
    assert not (tmp_path / "claim_99.png").exists()
    assert (tmp_path / "mine.png").exists()


@pytest.mark.slow
def test_results_do_not_depend_on_the_workers(tmp_path):
    one, two = (run(["slips"], tmp_path / f"{n}.sqlite", n) for n in (1, 2))
    assert [row.judgement for row in one] == [row.judgement for row in two]


def planted(k, fails=False):
    if fails:
        raise ArithmeticError("no\nnumber")
    law = Exponent(-0.1 * (k + 1), "x")
    check = Check(PLANTED_CLAIMS[k % 2], f"case {k}", curve(X**law.value), law, WRONG)
    return [check]


def planted_task(k, **options):
    return Task(f"planted {k}", (PLANTED_CLAIMS[k % 2],), partial(planted, k, **options))


def family_of(check):
    """A family with one task, which returns this check."""
    return lambda size: [Task("planted", (check.claim,), lambda: [check])]


def test_a_failed_task_ends_the_command_and_is_retried(tmp_path, monkeypatch, capsys, in_threads):
    tasks = [planted_task(0), planted_task(1, fails=True)]
    monkeypatch.setitem(FAMILIES, "slips", lambda size: tasks)
    command = ["verify", "--family", "slips", "--output-dir", str(tmp_path)]
    assert main(command) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "1 of 2 tasks failed" in error
    assert "slips, task planted 1: ArithmeticError: no number" in error
    assert not (tmp_path / "claims.csv").exists()
    tasks[1] = planted_task(1)
    assert main(command) == 0
    assert "1 of 2 tasks are stored; remove verify.sqlite" in capsys.readouterr().err


def test_other_code_finds_nothing_stored(monkeypatch):
    claims = choose_claims(QUICK, ["slips"])
    ours = runner.task_cells(QUICK, claims)[0]
    monkeypatch.setattr(runner, "code_digest", lambda *_: "other")
    assert cell_key(runner.task_cells(QUICK, claims)[0]) != cell_key(ours)


PLANTED = """
from functools import partial

import numpy as np

from batchlaw.evidence.claims.claim import Check, Claim, Curve, Exponent, Task
from batchlaw.evidence.claims.registry import FAMILIES

CLAIMS = [Claim(f"slips/planted-{k}", f"planted {k}", "here") for k in range(2)]
X = np.geomspace(1e2, 1e5, 13)


def planted(k):
    law = Exponent(-0.1 * (k + 1), "x")
    curve = Curve({"x": X}, X**law.value, "y")
    wrong = {"another": Exponent(1.0, "x")}
    return [Check(CLAIMS[k % 2], f"case {k}", curve, law, wrong)]


FAMILIES["slips"] = lambda size: [
    Task(f"planted {k}", (CLAIMS[k % 2],), partial(planted, k)) for k in range(9)
]
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


def test_a_contradicted_claim_sets_the_exit_code(tmp_path, monkeypatch, capsys, in_threads):
    law = Exponent(-0.4, "x")
    check = Check(PLANTED_CLAIM, "case", curve(X**-0.5), law, {})
    monkeypatch.setitem(FAMILIES, "slips", family_of(check))
    assert main(["verify", "--family", "slips", "--output-dir", str(tmp_path)]) == 1
    assert "contradicted: slips/planted-0, planted 0 (case)" in capsys.readouterr().out


def test_evidence_that_rejects_nothing_settles_nothing(tmp_path, monkeypatch, capsys, in_threads):
    law = Exponent(-0.5, "x")
    check = Check(PLANTED_CLAIM, "case", curve(X**-0.5), law, {"the same": law})
    monkeypatch.setitem(FAMILIES, "slips", family_of(check))
    assert main(["verify", "--family", "slips", "--output-dir", str(tmp_path)]) == 0
    assert "not settled at this size: slips/planted-0" in capsys.readouterr().out
    (row,) = json.loads((tmp_path / "claims.json").read_text())["claims"]
    assert row["verdict"] == OPEN
    assert row["rejected"] == {"the same": False}


def test_an_unknown_family_is_refused_before_any_work(tmp_path, capsys):
    assert main(["verify", "--family", "nothing", "--output-dir", str(tmp_path / "out")]) == 2
    assert "family must be one of" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_hypotheses_are_data_in_the_files(tmp_path, monkeypatch, capsys, in_threads):
    check = planted_check(X**-0.5, hypotheses=(UNMET,))
    monkeypatch.setitem(FAMILIES, "slips", family_of(check))
    assert main(["verify", "--family", "slips", "--output-dir", str(tmp_path)]) == 0
    (row,) = json.loads((tmp_path / "claims.json").read_text())["claims"]
    assert row["verdict"] == OUTSIDE
    (condition,) = row["conditions"]
    assert (condition["measured"], condition["limit"], condition["unmet"]) == (0.5, 0.125, True)
    assert "outside the law's regime: slips/planted-0" in capsys.readouterr().out
