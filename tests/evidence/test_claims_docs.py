"""docs/theory.md says what the committed table of verdicts says."""

import importlib.util
import re
from collections import defaultdict

import pytest

from batchlaw.evidence.claims.registry import all_claims
from paths import BENCHMARKS, DOCS

spec = importlib.util.spec_from_file_location("claims_table", BENCHMARKS / "claims_table.py")
claims_table = importlib.util.module_from_spec(spec)
spec.loader.exec_module(claims_table)

ROWS = claims_table.read_table()
PAGE = (DOCS / "theory.md").read_text()
INSIDE = [row for row in ROWS if row["verdict"] != "outside"]


def cases(*ids, inside=True):
    return [row for row in (INSIDE if inside else ROWS) if row["id"] in ids]


def numbers(pattern, rows):
    return [float(re.search(pattern, row["case"])[1]) for row in rows]


def test_theory_says_what_the_committed_table_says():
    assert claims_table.filled(PAGE, ROWS) == PAGE
    assert set(claims_table.blocks(ROWS)) == set(re.findall(r"<!-- claims: (\w+) -->", PAGE))


def test_the_table_has_every_claim():
    assert {row["id"] for row in ROWS} == set(all_claims())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['id']} {row['case']}")
def test_a_row_inside_has_wrong_laws_and_a_confirmed_one_rejects_them_all(row):
    assert row["verdict"] in claims_table.SHORT.values()
    assert row["verdict"] != "contradicted"
    assert (row["verdict"] == "outside") == bool(row["unmet"])
    if row["verdict"] != "outside":
        assert int(row["planted"]) > 0
    if row["verdict"] == "confirmed":
        assert not row["not_rejected"]


def test_every_statement_with_hypotheses_keeps_two_settings_inside_them():
    settings = defaultdict(list)
    for row in ROWS:
        if int(row["conditions"]):
            settings[row["id"]].append(row["verdict"] != "outside")
    assert {id_: sum(inside) for id_, inside in settings.items() if sum(inside) < 2} == {}


def test_the_rows_that_were_not_settled_are_all_accounted_for():
    for id_, pair, *_ in claims_table.NOT_SETTLED_BEFORE:
        assert [row for row in cases(id_, inside=False) if row["case"].startswith(f"{pair},")]
    rules = [rule for *_, rule in claims_table.NOT_SETTLED_BEFORE]
    assert sum(rule.startswith("contradicted") for rule in rules) == 5
    assert rules.count(claims_table.SWAPPED) == 3
    assert "five of these the rule contradicts, and for three it\nconfirms" in PAGE


def test_what_the_page_says_about_the_rates_of_theorem_2():
    reused = cases("multi-pass/gd-bias", "multi-pass/gd-variance", *FLUCTUATIONS)
    rates = numbers(r"gamma = ([\d.e-]+)", reused)
    assert min(rates) >= 0.002
    assert max(rates) <= 0.003
    assert "(0.002 to 0.003)" in PAGE
    passes = numbers(r"(\d+) passes", cases(*FLUCTUATIONS))
    assert min(passes) >= 100
    assert "every sample is used hundreds of times" in PAGE
    norms = [
        float(re.search(r"max \|\|z_i\|\|\^2 <= 1/8, in the mean: ([\d.]+)", row["unmet"])[1])
        for row in ROWS
        if "in the mean" in row["unmet"]
        and row["id"].startswith("multi-pass/")
        and "no-log" not in row["id"]
    ]
    assert norms
    assert min(norms) >= 0.6
    assert max(norms) <= 2.0


FLUCTUATIONS = ("multi-pass/fluctuation", "multi-pass/fluctuation-simple")


def test_what_the_page_says_about_approximation_and_bias():
    rows = cases("one-pass/approximation-and-bias")
    crossing = [row for row in rows if row["law"] == "Proportional"]
    slopes = [row for row in rows if row["law"] == "Exponent"]
    assert max(float(row["measured"]) for row in crossing) <= 1.0 / 3.0
    assert all(row["verdict"] == "confirmed" for row in slopes)
    assert "exponents off by 0.1 in either variable are contradicted" in PAGE


def test_what_the_page_says_about_the_spread_over_sketches():
    slopes = [float(row["measured"]) for row in cases("sketches/spread")]
    assert f"exponents from {max(slopes):.2f} to {min(slopes):.2f}" in PAGE
