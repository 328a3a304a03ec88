"""Hash of the code that a cell depends on: a module and all of this package that it imports.

Computed from the sources, without running them. Docstrings, comments, formatting, the text of
errors and code that no import reaches do not count: editing them does not invalidate results.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from batchlaw._base.errors import InputError

# This package's name, and the folder that contains the package.
PACKAGE = __name__.partition(".")[0]
SOURCES = Path(__file__).parents[2]


@lru_cache(maxsize=64)
def code_digest(module: str) -> str:
    """Digest of a module, given by its full name, and of all its imports from this package."""
    return digest_of(module, SOURCES)


def digest_of(module: str, sources: Path) -> str:
    """The same, with the package's sources in another folder."""
    total = hashlib.sha256()
    for name in sorted(imported_modules(module, sources)):
        total.update(f"{name}\n{_read(name, sources).code}\n".encode())
    return total.hexdigest()


def imported_modules(module: str, sources: Path) -> set[str]:
    """The module and all modules of this package that it imports, directly or not.

    ``from package import name`` counts the module of that name, or the package's __init__.py if
    there is none; importing a module does not count the __init__.py of its package.
    """
    modules, todo = set(), [module]
    while todo:
        name = todo.pop()
        if name not in modules:
            modules.add(name)
            todo += _read(name, sources).imports
    return modules


@dataclass(frozen=True)
class _Source:
    """A module's imports from this package, and its code as text."""

    imports: tuple[str, ...]
    code: str


@lru_cache(maxsize=1024)
def _read(module: str, sources: Path) -> _Source:
    path = _file_of(module, sources) if _is_ours(module) else _loaded_file(module)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    tree = ast.parse(path.read_text("utf-8"))
    imports = [
        name
        for node in _import_statements(tree)
        for name in _imported_names(node, package, sources)
    ]
    return _Source(tuple(dict.fromkeys(imports)), _code(tree))


def _import_statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Import statements at any depth, except those under ``if TYPE_CHECKING``."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node
    elif isinstance(node, ast.If) and _is_type_checking(node.test):
        for other in node.orelse:
            yield from _import_statements(other)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _import_statements(child)


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"


def _imported_names(
    node: ast.Import | ast.ImportFrom, package: str, sources: Path
) -> Iterator[str]:
    """Modules of this package that an import statement in ``package`` loads."""
    if isinstance(node, ast.Import):
        candidates = [(alias.name, "") for alias in node.names]
    else:
        base = node.module or ""
        if node.level:
            parts = package.split(".")
            above = parts[: len(parts) - node.level + 1]
            base = ".".join([*above, base] if base else above)
        candidates = [(base, alias.name) for alias in node.names]
    for base, name in candidates:
        if _is_ours(base):
            inner = f"{base}.{name}" if name else base
            yield inner if _file_of(inner, sources).exists() else base


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == PACKAGE


def _loaded_file(module: str) -> Path:
    """The file of a module outside this package: a user's script or plug-in."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        raise InputError("module", "must be loaded from a file", repr(module))
    return Path(file)


def _file_of(module: str, sources: Path) -> Path:
    path = sources.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _code(tree: ast.Module) -> str:
    """The code as text, without docstrings and the text of errors (removed from ``tree``)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if ast.get_docstring(node, clean=False) is not None:
                del node.body[0]
        elif isinstance(node, ast.Raise):
            _drop_texts(node)
    return ast.dump(tree)


def _drop_texts(raised: ast.Raise) -> None:
    for node in ast.walk(raised):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
