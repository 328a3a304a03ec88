"""A word in a result means the same in commands, on the page and in the documentation."""

import ast
import json
import re
from pathlib import Path

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.batches.allocation import allocate
from batchlaw.design.glossary import EXCESS, GLOSSARY
from batchlaw.faces.app.collapse import families
from batchlaw.faces.app.setting_fields import page_setting
from batchlaw.faces.app.solution import solve
from batchlaw.faces.app.view import view
from batchlaw.faces.cli import main
from paths import DOCS

PACKAGE = Path(bl.__file__).parent
RATES = bl.wsd(64, 0.05)
# Interfaces that say what the excess is, in the same words.
DEFINITIONS = (
    "risk/result.py",
    "faces/cli/risk.py",
    "faces/cli/worth.py",
    "faces/app/static/index.html",
    "design/schedule_worth.py",
)
# Rooms of what commands and the page show, and their files in which a schedule may be called
# oracle: the paper's four, their reproduction, and the default of commands.
ROOMS = ("batches", "design", "evidence/paper", "faces", "plans", "plots")
ORACLES = {
    "batches/allocation.py",
    "design/by_words.py",
    "design/glossary.py",
    "design/noise_level.py",
    "design/vocabulary.py",
    "evidence/paper/figure.py",
    "evidence/paper/profile.py",
    "evidence/paper/reported.py",
    "evidence/paper/run.py",
    "faces/app/static/charts.js",
    "faces/app/static/index.html",
    "plots/common.py",
    "plots/schedules.py",
}


@pytest.fixture(scope="module")
def kappa(paper):
    return bl.influence(paper, RATES)


def test_the_glossary_is_pinned():
    assert GLOSSARY.keys() == {
        *("risk (total)", "excess", "reducible risk", "noise", "influence"),
        *("square-root rule", "oracle", "greedy", "optimum", "planned", "constant"),
    }
    assert EXCESS in GLOSSARY["excess"]
    assert GLOSSARY["oracle"] == (
        "The square-root rule from the exact influence, with the paper's rounding."
    )


@pytest.mark.parametrize("file", DEFINITIONS)
def test_the_excess_is_defined_in_the_same_words(file):
    assert EXCESS in " ".join((PACKAGE / file).read_text().split()).lower()


def test_the_excess_is_the_same_number_everywhere(paper, capsys):
    """The risk above that of u*: bias + variance, by the definition of the moments."""
    risk = bl.one_pass_risk(paper, RATES, 8)
    assert main(["risk", "--batches", "constant", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["schedules"]
    shown = view(page_setting()()).schedules[-1].risk
    best = paper.irreducible + paper.approximation
    for excess in (risk.excess, row["excess"], shown.excess):
        assert excess == pytest.approx(risk.total - best, rel=1e-12)
    assert shown.reducible == pytest.approx(shown.excess + paper.approximation, rel=1e-12)
    parts = bl.design.exact(paper, 0.05)(64, 8.0)
    assert parts.reducible == pytest.approx(shown.reducible, rel=1e-12)


def test_the_oracle_is_the_papers_rounding_of_the_square_root_rule_everywhere(kappa, capsys):
    oracle = allocate(kappa, 512, method="paper")
    shares = np.sqrt(kappa) / np.sqrt(kappa).sum()
    np.testing.assert_allclose(oracle - 1, 448 * shares, atol=1.0)  # one each, then in proportion
    expected = bl.effective_batch(kappa, oracle)
    assert main(["risk", "--batches", "oracle", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["schedules"]
    assert row["b_eff"] == pytest.approx(expected, rel=1e-12)
    rows, sizes = families(solve(page_setting()()))
    found = [size for row, size in zip(rows, sizes, strict=True) if row["family"] == "oracle"]
    assert any(np.array_equal(size, oracle) for size in found)


def test_greedy_is_the_best_by_influence_on_the_page_and_in_commands(kappa, capsys):
    greedy = bl.allocate(kappa, 512)
    assert view(page_setting()()).schedules[0].name == "greedy"
    assert view(page_setting()()).schedules[0].batches == greedy.tolist()
    assert main(["risk", "--batches", "greedy", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["schedules"]
    assert row["b_eff"] == pytest.approx(bl.effective_batch(kappa, greedy), rel=1e-12)
    compared = bl.design.compare(bl.Problem.paper(), RATES, 512)[0]
    assert (compared.name, compared.batches.tolist()) == ("greedy", greedy.tolist())


def test_nothing_else_is_called_oracle():
    files = [path for room in ROOMS for path in (PACKAGE / room).rglob("*.*")]
    named = {
        str(path.relative_to(PACKAGE))
        for path in files
        if path.suffix in (".py", ".js", ".html", ".css")
        and re.search("oracle", path.read_text(), re.IGNORECASE)
    }
    assert named == ORACLES


def test_the_page_of_words_has_the_glossary():
    assert "_generated/glossary.md" in (DOCS / "words.md").read_text()


def test_no_excess_holds_the_approximation():
    """Parts of a constant batch's risk that include it are called reducible."""
    tree = ast.parse((PACKAGE / "design" / "constant_batch.py").read_text())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not {name for name in names if "excess" in name}
