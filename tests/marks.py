"""The marks of tests, read from their files without importing them."""

import ast
from functools import cache
from pathlib import Path

# needs_chromium of browser.py holds the mark itself.
HOLDS_MARK = {"needs_chromium": "browser"}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def names_in(node: ast.AST) -> set[str]:
    """Every name in a piece of code, with the arguments of its functions (they name fixtures)."""
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return names | {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}


def marks_in(node: ast.AST) -> set[str]:
    """The marks in a decorator, a parameter or ``pytestmark``."""
    marks = {HOLDS_MARK[name] for name in names_in(node) & HOLDS_MARK.keys()}
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and ast.unparse(part.value) == "pytest.mark":
            marks.add(part.attr)
    return marks


def file_marks(tree: ast.Module) -> set[str]:
    """The marks of every test of a file, its ``pytestmark``."""
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    return {
        mark
        for node in assigned
        if "pytestmark" in [ast.unparse(target) for target in node.targets]
        for mark in marks_in(node.value)
    }
