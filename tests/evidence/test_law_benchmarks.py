"""The benchmarks of fitted laws: tables in the docs, and what needs no public data."""

import re
import sys

import numpy as np

import batchlaw as bl
from batchlaw.plans.law_plan import TRAINED
from paths import BENCHMARKS, DOCS

sys.path.insert(0, str(BENCHMARKS))
import fitted_laws as laws
import trained_law_plans as trained

PAGE = DOCS / "training_laws.md"


def rows(name):
    """The rows of a table in the page, as lists of cells."""
    text = PAGE.read_text("utf-8")
    body = text.partition(f"<!-- table: {name} -->")[2].partition("<!-- end")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in body.split("\n")[3:-1]]


def test_the_page_has_the_stored_differences_of_trained_plans():
    found = {(s.block, s.rates): s for s in trained.board.settings()}
    stored = trained.stored()
    shown = {(row[0], row[1]): row for row in rows("trained")}
    assert set(shown) == set(stored)
    for key, (stages, losses) in stored.items():
        change = trained.measured(found[key], losses, trained.batches_of(stages))
        assert shown[key][4] == trained.bold(change)
        assert shown[key][6] == str(len(losses))
        assert shown[key][8] == stages


def test_the_evidence_of_a_plan_by_a_law_is_what_the_page_shows():
    promised, shown = (
        np.array([float(re.search(r"[+-][\d.]+", row[column])[0]) for row in rows("trained")])
        for column in (2, 4)
    )
    assert promised.size == 8
    assert f"within {np.ceil(1000 * np.abs(promised - shown).max()) / 1000:.3f} " in TRAINED


def test_trained_plans_spend_the_constant_batch_s_samples():
    found = {(s.block, s.rates): s for s in trained.board.settings()}
    for key, (stages, _) in trained.stored().items():
        batches = trained.batches_of(stages)
        own = trained.board.first(found[key].runs["constant"])
        assert batches.sum() == own.samples
        assert trained.text(batches) == stages
        assert batches.min() >= 2
        assert batches.max() <= 32


def test_every_table_of_the_page_is_filled():
    for name in ("split", "peak", "peaks", "batches", "trained"):
        assert rows(name), name


def test_a_cut_run_is_what_would_have_been_logged():
    run = bl.Run(bl.cosine(100, 0.1), 4, [10, 50, 90], [3.0, 2.0, 1.0], rule=bl.sgd())
    short = laws.cut(run, 60)
    assert short.updates == 60
    assert short.steps.tolist() == [10, 50]
    np.testing.assert_array_equal(short.rates, run.rates[:60])


def test_a_table_is_written_between_its_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table: one -->\nold\n<!-- end: one -->\nafter\n")
    laws.write(page, "one", laws.table(("a", "b"), [("1", "2")]))
    text = page.read_text()
    assert text.startswith("before\n<!-- table: one -->\n| a | b |")
    assert text.endswith("| 1 | 2 |\n<!-- end: one -->\nafter\n")
