"""The shape of the house: rooms, the direction of imports, what loads with what, public names."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import batchlaw as bl

SOURCE = Path(bl.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

# A file imports only from its own room and from rooms above it.
ROOMS = [
    "_base",
    "model",
    "schedule",
    "influences",
    "batches",
    "risk",
    "theory",
    "from_data",
    "datasets",
    "design",
    "plans",
    "torch_support",
    "jobs",
    "plots",
    "evidence",
    "faces",
]
# Packages that load slowly or that only some users have, and the files that may import them.
ONLY_IN = {
    "cyclopts": ("faces/cli/*.py",),
    "dask": ("jobs/dask_workers.py",),
    "distributed": ("jobs/dask_workers.py",),
    "fastapi": ("faces/app/*.py",),
    "matplotlib": ("plots/*.py", "evidence/*/figure.py", "evidence/*/figures.py"),
    "numba": ("_base/kernels/*.py",),
    "pydantic": ("faces/app/*.py",),
    "rich": ("faces/cli/*.py",),
    "starlette": ("faces/app/*.py",),
    "torch": ("torch_support/*.py",),
    "uvicorn": ("faces/app/*.py", "faces/cli/explore.py"),
}
# SciPy is imported inside the functions that use it; its bare name is loaded by Numba.
SCIPY = [f"scipy.{part}" for part in ("linalg", "optimize", "sparse", "special", "stats")]


def _module(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_module(path): path for path in FILES}
IN_ROOMS = MODULES.keys() - {"batchlaw"}


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _absolute(node: ast.ImportFrom, path: Path) -> str:
    """The module that ``from ... import`` names, with its leading dots resolved."""
    if not node.level:
        return node.module or ""
    package = path.relative_to(SOURCE.parent).parent.parts
    base = package[: len(package) - node.level + 1]
    return ".".join([*base, *(node.module.split(".") if node.module else [])])


def _nodes(tree: ast.AST, types: bool) -> Iterator[ast.AST]:
    """Every node of the code, with or without what is for types alone."""
    for node in ast.iter_child_nodes(tree):
        if types or not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from _nodes(node, types)


@cache
def imports(path: Path, types: bool = True) -> tuple[str, ...]:
    """Every module a file imports: at its top, inside functions, for types alone, or by name."""
    return tuple(_imports(_tree(path), path, types))


def _imports(tree: ast.Module, path: Path, types: bool = True) -> Iterator[str]:
    """A text that is the name of a module in a room counts: it is imported by that name."""
    for node in _nodes(tree, types):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node, path)
            names = [f"{module}.{alias.name}" for alias in node.names]
            yield from (name if name in MODULES else module for name in names)
        elif isinstance(node, ast.Constant) and node.value in IN_ROOMS:
            yield node.value
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant))


def _room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def _within(module: str) -> bool:
    return module.partition(".")[0] == "batchlaw"


def test_the_rooms_are_those_of_the_design():
    entries = {path.name for path in SOURCE.iterdir()} - {"__pycache__"}
    assert entries == {*ROOMS, "__init__.py", "__main__.py", "py.typed"}


@pytest.mark.parametrize("path", FILES, ids=_module)
def test_imports_go_one_way(path):
    module = _module(path)
    if path.parent == SOURCE:  # the package itself and its command
        return
    allowed = ROOMS[: ROOMS.index(_room(module)) + 1]
    wrong = [name for name in imports(path) if _within(name) and _room(name) not in allowed]
    assert wrong == []


@pytest.mark.parametrize("room", ROOMS)
def test_modules_of_a_room_have_no_cycle(room):
    graph = {
        module: {name for name in imports(path) if _room(name) == room and name != module}
        for module, path in MODULES.items()
        if _room(module) == room
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize("package", sorted(ONLY_IN))
def test_a_heavy_package_is_imported_in_its_place_alone(package):
    users = {
        path.relative_to(SOURCE)
        for path in FILES
        if any(name.partition(".")[0] == package for name in imports(path, types=False))
    }
    allowed = [path for path in users if any(path.match(place) for place in ONLY_IN[package])]
    assert users == set(allowed)


def test_every_form_of_import_is_seen():
    text = (
        "import batchlaw.faces.cli\n"
        "from batchlaw import plots\n"
        "from . import result\n"
        "from ..theory import laws\n"
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from batchlaw.plans.plan import Plan\n"
        "def f():\n    from batchlaw.evidence.sweep import tidy\n"
        "import importlib\n"
        "importlib.import_module('batchlaw.jobs.store')\n"
        "importlib.import_module('torch.nn')\n"
        "LATER = {'x': 'batchlaw.design.optimum'}\n"
    )
    assert {
        "batchlaw.faces.cli",
        "batchlaw.plots",
        "batchlaw.risk.result",
        "batchlaw.theory.laws",
        "batchlaw.plans.plan",
        "batchlaw.evidence.sweep.tidy",
        "batchlaw.jobs.store",
        "torch.nn",
        "batchlaw.design.optimum",
    } <= set(_imports(ast.parse(text), SOURCE / "risk" / "planted.py"))


@pytest.mark.process
def test_importing_the_package_loads_nothing_heavy():
    heavy = ["matplotlib", "cyclopts", "rich", "torch", "fastapi", "distributed"]
    assert _loaded_by("import batchlaw", heavy + SCIPY) == []


@pytest.mark.process
def test_help_loads_no_scipy():
    assert _loaded_by("from batchlaw.faces.cli import main; main(['--help'])", SCIPY) == []


def _loaded_by(code, modules):
    """Those of the modules that are loaded once a fresh interpreter has run the code."""
    code += f"; import sys; print([m for m in {modules} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return ast.literal_eval(done.stdout.splitlines()[-1])


def test_every_kernel_frees_the_gil():
    decorators = [
        ast.unparse(decorator)
        for path in FILES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        if "njit" in ast.unparse(decorator)
    ]
    assert decorators
    assert [text for text in decorators if "nogil=True" not in text] == []
