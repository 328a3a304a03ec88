"""Every test that starts a process, needs PyTorch or opens a browser has the mark that says so."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from marks import file_marks, marks_in, names_in, parsed
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


def _reached(function: ast.FunctionDef, tree: ast.Module) -> set[str]:
    """The names a test uses itself, or through functions and constants of its own file."""
    defined: dict[str, ast.AST] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined[node.name] = node
        elif isinstance(node, ast.Assign):
            defined |= {target: node.value for part in node.targets for target in names_in(part)}
    reached: set[str] = set()
    to_see = names_in(function)
    while to_see:
        name = to_see.pop()
        reached.add(name)
        if name in defined and name != "pytestmark":
            to_see |= names_in(defined[name]) - reached
    return reached


def _needed(path: Path) -> Iterator[tuple[str, str]]:
    """(test, mark) for every mark that a test of this file needs and does not have."""
    tree = parsed(path)
    imported = _imported(tree)
    tests = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for test in (node for node in tests if node.name.startswith("test_")):
        used = {imported[name] for name in _reached(test, tree) & imported.keys()}
        marks = file_marks(tree).union(*map(marks_in, test.decorator_list))
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
    tree = parsed(path)
    top = ast.Module([node for node in tree.body if not isinstance(node, ast.FunctionDef)], [])
    loaded = {name.partition(".")[0] for name in _imported(top).values()} & {"torch"}
    loaded |= {name for name in _imported(top).values() if name == "batchlaw.torch_support"}
    assert not loaded or "torch" in file_marks(tree)


def test_every_test_of_torch_support_is_marked_torch():
    files = [path for path in FILES if path.parent.name == "torch_support"]
    assert files
    assert [path.name for path in files if "torch" not in file_marks(parsed(path))] == []


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
