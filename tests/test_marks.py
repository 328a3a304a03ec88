"""Every test that starts a process, needs PyTorch or opens a browser has the mark that says so."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from paths import TESTS

FILES = sorted(TESTS.rglob("test_*.py"))
# What a test uses, by the name that it imports, and the mark that it then needs.
NEEDS = {
    "process": (
        "subprocess",
        "multiprocessing",
        "resume.run_command",
        "sweep_cells.cluster",
        "sweep_cells.command",
        "concurrent.futures.ProcessPoolExecutor",
        "batchlaw.jobs.workers.worker_processes",
    ),
    "torch": ("torch", "batchlaw.torch_support"),
    "browser": ("playwright",),
}
# needs_chromium holds the mark itself.
HOLDS_MARK = {"needs_chromium": "browser"}


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _imported(tree: ast.AST) -> dict[str, str]:
    """Local name -> the dotted name it was imported as."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {
                (alias.asname or alias.name.partition(".")[0]): alias.name for alias in node.names
            }
        elif isinstance(node, ast.ImportFrom):
            names |= {
                (alias.asname or alias.name): f"{node.module}.{alias.name}" for alias in node.names
            }
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.importorskip":
            name = ast.literal_eval(node.args[0])
            names[name] = name
    return names


def _names(node: ast.AST) -> set[str]:
    """Every name in a piece of code, with the arguments of its functions (they name fixtures)."""
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return names | {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}


def _reached(function: ast.FunctionDef, tree: ast.Module) -> set[str]:
    """The names a test uses itself, or through functions and constants of its own file."""
    defined: dict[str, ast.AST] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined[node.name] = node
        elif isinstance(node, ast.Assign):
            defined |= {target: node.value for part in node.targets for target in _names(part)}
    reached: set[str] = set()
    to_see = _names(function)
    while to_see:
        name = to_see.pop()
        reached.add(name)
        if name in defined and name != "pytestmark":
            to_see |= _names(defined[name]) - reached
    return reached


def _marks(node: ast.AST) -> set[str]:
    """The marks in a decorator, a parameter or ``pytestmark``."""
    marks = {HOLDS_MARK[name] for name in _names(node) & HOLDS_MARK.keys()}
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and ast.unparse(part.value) == "pytest.mark":
            marks.add(part.attr)
    return marks


def _file_marks(tree: ast.Module) -> set[str]:
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    return {
        mark
        for node in assigned
        if "pytestmark" in [ast.unparse(target) for target in node.targets]
        for mark in _marks(node.value)
    }


def _needed(path: Path) -> Iterator[tuple[str, str]]:
    """(test, mark) for every mark that a test of this file needs and does not have."""
    tree = _parsed(path)
    imported = _imported(tree)
    tests = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for test in (node for node in tests if node.name.startswith("test_")):
        used = {imported[name] for name in _reached(test, tree) & imported.keys()}
        marks = _file_marks(tree).union(*map(_marks, test.decorator_list))
        for mark, sources in NEEDS.items():
            if mark not in marks and any(
                f"{name}.".startswith(f"{source}.") for name in used for source in sources
            ):
                yield test.name, mark


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_test_has_the_marks_that_it_needs(path):
    assert list(_needed(path)) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_only_a_file_marked_torch_imports_it_at_its_top(path):
    """Otherwise `make check` would load PyTorch to leave its tests out."""
    tree = _parsed(path)
    top = ast.Module([node for node in tree.body if not isinstance(node, ast.FunctionDef)], [])
    loaded = {name.partition(".")[0] for name in _imported(top).values()} & {"torch"}
    loaded |= {name for name in _imported(top).values() if name == "batchlaw.torch_support"}
    assert not loaded or "torch" in _file_marks(tree)


def test_every_test_of_torch_support_is_marked_torch():
    files = [path for path in FILES if path.parent.name == "torch_support"]
    assert files
    assert [path.name for path in files if "torch" not in _file_marks(_parsed(path))] == []


def test_names_of_test_files_are_unique():
    """Rooms are folders without ``__init__.py``: pytest imports a file by its base name."""
    names = [path.name for path in FILES]
    assert len(names) == len(set(names))


def test_the_check_sees_what_a_test_reaches(tmp_path):
    path = tmp_path / "test_planted.py"
    path.write_text(
        "import subprocess\nimport pytest\n"
        "def helper():\n    return subprocess.run([])\n"
        "@pytest.fixture\ndef server():\n    return helper()\n"
        "def test_a(server): ...\n"
        "@pytest.mark.process\ndef test_b(): helper()\n"
        "def test_c(): ...\n"
        "def test_d():\n    from torch import nn\n    nn.Linear\n"
    )
    assert list(_needed(path)) == [("test_a", "process"), ("test_d", "torch")]
