"""What the documents say exists, exists; what they show, runs."""

import ast
import glob
import importlib
import re
import runpy
import sys
from unittest.mock import create_autospec, patch

import numpy as np
import pytest
from dask.distributed import SSHCluster

from batchlaw.evidence.claims.registry import FAMILIES, all_claims
from batchlaw.faces.cli import app, main
from pages import PAGES, inline_commands, inline_options, parts
from paths import DOCS, EXAMPLES, ROOT, TESTS, file_of
from small_laws import small_law

NUMBER = r"-?\d+\.\d+"
COMMANDS = [name for name in app if not name.startswith("-")]
# Commands that take seconds; the others are understood by the command line here, and run elsewhere.
QUICK = {"--help", "check", "design", "estimate", "law", "plan", "risk", "static-batch", "sweep"}
TARGETS = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
# Dask's.
OTHERS_OPTIONS = {"--nthreads"}
# Blocks that don't run with their page: a package that is not installed, as the page says; and the
# training loop, which has a test of its own.
NOT_HERE = ("dask_jobqueue", "sampler.follow(loader)")
each_document = pytest.mark.parametrize("document", PAGES, ids=lambda path: path.name)
MY_TRAINING = """
import torch


def build():
    torch.manual_seed(0)
    inputs = torch.randn(64, 4)
    targets = inputs.sum(1, keepdim=True)
    return torch.nn.Linear(4, 1), lambda f, y: ((f - y) ** 2).mean(), (inputs, targets)
"""


def _theory_rows():
    lines = (DOCS / "theory.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("|") and "::" in line]
    # The row of a claim begins with its id.
    return [re.findall(r"`([^`]+)`", row)[-2:] for row in rows]


@pytest.mark.parametrize(("function", "test"), _theory_rows())
def test_every_row_of_the_theory_table_names_a_function_and_a_test(function, test):
    parts = function.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
            break
        except ModuleNotFoundError:
            continue
    for name in parts[cut:]:
        found = getattr(found, name)
    assert callable(found)
    file, name = test.split("::")
    assert f"def {name}(" in file_of(file).read_text()


def test_every_claim_has_one_row_in_the_pages_and_every_row_is_a_claim():
    pages = [
        (DOCS / f"{name}.md").read_text()
        for name in ("theory", "reuse", "outside", "literature", "adam")
    ]
    rows = re.findall(r"^\| `([a-z-]+/[a-z0-9-]+)` \| (.*?) \|", "\n".join(pages), re.MULTILINE)
    claims = all_claims()
    assert sorted(id_ for id_, _ in rows) == sorted(claims)
    for id_, statement in rows:
        assert statement.startswith(claims[id_].sentence), id_


@each_document
def test_every_test_that_a_page_names_exists(document):
    tests = "\n".join(path.read_text() for path in TESTS.rglob("test_*.py"))
    for name in re.findall(r"`(?:tests/)?(?:test_\w+\.py::)?(test_\w+)`", document.read_text()):
        assert f"def {name}(" in tests, name


@each_document
def test_every_file_that_a_page_names_exists(document):
    text = document.read_text()
    named = re.findall(r"`((?:benchmarks|examples|experiments|tests)/[\w/]+\.\w+)", text)
    named += re.findall(r"(?<!!)\]\(((?!https?:)[^)#]+)", text) if document.parent == ROOT else []
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_function_of_the_bounds_table_exists():
    from batchlaw import bounds

    lines = (DOCS / "bounds.md").read_text().splitlines()
    rows = [line.split("|")[2] for line in lines if line.startswith("|") and "`test_" in line]
    assert len(rows) > 30
    for name in re.findall(r"`((?!test_)\w+)`", " ".join(rows)):
        assert callable(getattr(bounds, name)), name


def _options(words):
    """The options of a command of batchlaw, and of its subcommand where one is named."""
    _, apps, _ = app.parse_commands([word for word in words if not word.startswith("-")])
    if len(apps) < 2:
        return set()
    found = {
        name for argument in apps[-1].assemble_argument_collection() for name in argument.names
    }
    return found | {"--help"}


@each_document
def test_every_command_line_of_a_page_is_understood(document):
    for words in (words for part in parts(document) for words in part.commands):
        if words[0] == "make":
            assert words[1] in TARGETS, words
        elif words[0].endswith("batchlaw"):
            app.parse_args(words[1:], print_error=False, exit_on_error=False)
            if "--family" in words:
                assert words[words.index("--family") + 1] in FAMILIES
            if "--claim" in words:
                assert words[words.index("--claim") + 1] in all_claims()
        elif words[1] == "experiments/experiments_dynamic.py":
            app.parse_args(["reproduce", *words[2:]], print_error=False, exit_on_error=False)
        else:
            source = (ROOT / words[1]).read_text()
            assert all(f'"{word}"' in source for word in words if word.startswith("--")), words


@each_document
def test_every_command_in_the_text_of_a_page_exists(document):
    for words in inline_commands(document):
        options = {word for word in words if word.startswith("--")}
        if words[0] == "make":
            assert words[1] in TARGETS, words
        elif words[0].endswith("batchlaw"):
            assert words[1] in COMMANDS, words
            assert options <= _options(words[1:]), words
        elif words[1] != "train.py":  # the reader's
            source = (ROOT / words[1]).read_text()
            assert all(f'"{option}"' in source for option in options), words


@each_document
def test_every_option_in_the_text_of_a_page_is_one_of_a_command(document):
    known = OTHERS_OPTIONS.union(*(_options([name]) for name in COMMANDS))
    assert inline_options(document) <= known


def _run_python(part, names, capsys):
    """Run a block statement by statement; a number in a comment must be what that line prints."""
    lines = part.text.splitlines()
    for statement in ast.parse(part.text).body:
        code = compile(ast.Module([statement], []), f"line {part.line}", "exec")
        exec(code, names)
        printed = capsys.readouterr().out
        comment = lines[statement.end_lineno - 1].partition("  #")[2]
        for number in re.findall(NUMBER, comment) if printed else ():
            digits = len(number.partition(".")[2])
            found = [f"{float(word):.{digits}f}" for word in re.findall(NUMBER, printed)]
            assert number in found, printed


def _run_command(words, shown, capsys):
    if words == ["make", "reproduce"]:
        words = ["batchlaw", "reproduce", "--output-dir", "results/paper"]  # as the Makefile
    if words[1].startswith("examples/"):
        with patch.object(sys, "argv", words[1:]):
            runpy.run_path(words[1], run_name="__main__")
    else:
        # Names with a star as a shell gives them.
        given = [name for word in words[1:] for name in sorted(glob.glob(word)) or [word]]
        assert main(given) == any(line.startswith("error: ") for line in shown)
    output = iter(line.rstrip() for line in capsys.readouterr().out.splitlines())
    for line in shown:
        assert line in output, line  # in this order: "in" moves the iterator on


@pytest.mark.slow
@pytest.mark.torch
# torch warns of itself: its first forward derivative compiles helpers with torch.jit.
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@each_document
def test_the_code_and_the_quick_commands_of_a_page_run(document, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "examples").symlink_to(EXAMPLES)
    # What pages take for granted: a file of features, a fitted law, a function that builds a model.
    np.savez("features.npz", np.random.default_rng(0).standard_normal((64, 8)))
    (tmp_path / "law.json").write_text(small_law().to_json())
    (tmp_path / "my_training.py").write_text(MY_TRAINING)
    monkeypatch.setattr("dask.distributed.SSHCluster", create_autospec(SSHCluster))
    monkeypatch.setattr("builtins.input", str)
    names = {}
    for part in parts(document):
        if part.language == "python" and not any(word in part.text for word in NOT_HERE):
            _run_python(part, names, capsys)
        if part.language == "toml":  # a design of a sweep
            (tmp_path / "design.toml").write_text(part.text)
            assert main(["sweep", "design.toml", "--estimate"]) == 0
        for words in part.commands:
            quick = words[0].endswith("batchlaw") and words[1] in QUICK and "--dask" not in words
            if quick or part.shown:
                _run_command(words, part.shown, capsys)


@pytest.mark.torch
def test_the_training_loop_runs_and_resumes_to_the_same_weights(tmp_path, monkeypatch):
    import torch

    page = (DOCS / "training.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    runs = [{}, {}]
    for run in runs:  # the second starts from the first one's last checkpoint
        exec(compile(block, "training.md", "exec"), run)
        assert run["sampler"].updates == 60
        saved = torch.load("checkpoint.pt", weights_only=True)
        assert saved["sampler"]["updates"] == saved["rates"]["updates"] == 50
    first, second = (run["model"].state_dict() for run in runs)
    assert all(torch.equal(first[name], second[name]) for name in first)
