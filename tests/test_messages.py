"""Nothing reads a message: code that decides by an exception looks at its type and its fields."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import batchlaw

SOURCE = Path(batchlaw.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
# The parts of an InputError that are sentences.
SENTENCES = ("needed", "hint", "where", "subject")
# str of an exception, in one of its spellings.
TO_TEXT = ("str", "repr", "format")
NAMES = ("error", "exception")
# Called without arguments these change the white space of a message alone.
LAYOUT = ("split", "splitlines", "strip")


class _Reader(ast.NodeVisitor):
    """Finds the places of one file where the text of an exception, or its name, decides."""

    def __init__(self) -> None:
        self.exceptions = set(NAMES)
        self.texts: set[str] = set()
        self.places: list[tuple[int, str]] = []

    def _is_exception(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id in self.exceptions

    def _is_laid_out(self, node: ast.AST) -> bool:
        """``str(error).split()``."""
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in LAYOUT
            and not node.args
            and self._is_text(node.func.value)
        )

    def _is_text(self, node: ast.AST) -> bool:
        """Whether the value of an expression is a message, or holds one."""
        if self._is_laid_out(node):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return node.func.id in TO_TEXT and any(map(self._is_exception, node.args))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "' '.join":
            return any(map(self._is_text, node.args))
        if isinstance(node, ast.FormattedValue):
            return self._is_exception(node.value) or self._is_text(node.value)
        if isinstance(node, ast.JoinedStr):
            return any(map(self._is_text, node.values))
        if isinstance(node, ast.Attribute):
            return node.attr in SENTENCES and self._is_exception(node.value)
        return isinstance(node, ast.Name) and node.id in self.texts

    def _is_type_name(self, node: ast.AST) -> bool:
        """``type(error).__name__`` or ``error.__class__.__name__``."""
        if not (isinstance(node, ast.Attribute) and node.attr in ("__name__", "__qualname__")):
            return False
        of = node.value
        if isinstance(of, ast.Call) and ast.unparse(of.func) == "type":
            return any(map(self._is_exception, of.args))
        return isinstance(of, ast.Attribute) and of.attr == "__class__"

    def _found(self, node: ast.expr) -> None:
        self.places.append((node.lineno, ast.unparse(node)))

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.exceptions.add(node.name)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if self._is_text(node.value):
            self.texts |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        if any(self._is_text(side) or self._is_type_name(side) for side in sides):
            self._found(node)
        self.generic_visit(node)

    def visit_Match(self, node: ast.Match) -> None:
        if self._is_text(node.subject) or self._is_type_name(node.subject):
            self._found(node.subject)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        # str(error).startswith, str(error).split, ...; error.args
        if self._is_text(node.value) or (node.attr == "args" and self._is_exception(node.value)):
            self._found(node)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        of_args = isinstance(node.value, ast.Attribute) and node.value.attr == "args"
        if of_args or self._is_text(node.value) or self._is_type_name(node.slice):
            self._found(node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if self._is_laid_out(node):
            self.visit(node.func.value)
            return
        if ast.unparse(node.func).startswith("re.") and any(map(self._is_text, node.args)):
            self._found(node)
        self.generic_visit(node)


def _places(text: str) -> Iterator[str]:
    reader = _Reader()
    reader.visit(ast.parse(text))
    yield from (f"line {line}: {code}" for line, code in reader.places)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_message_is_read(path):
    assert list(_places(path.read_text())) == []


@pytest.mark.parametrize(
    "code",
    [
        "'unstable' in str(caught)",
        "str(caught).startswith('x')",
        "str(caught)[0] == 'x'",
        "caught.args[0]",
        "caught.args",
        "type(caught).__name__ == 'KeyError'",
        "caught.__class__.__name__ in ('KeyError', 'OSError')",
        "re.search('x', str(caught))",
        "f'{caught}' == 'x'",
        "caught.needed == 'must be at least 1'",
        "text = repr(caught); text.split(',')",
        "str(caught).split()[0]",
        "' '.join(str(caught).split()) == 'x'",
        "str(caught).split(':')",
        "HANDLERS[type(caught).__name__]",
    ],
)
def test_every_way_to_read_a_message_is_seen(code):
    assert list(_places(f"try:\n    f()\nexcept Exception as caught:\n    {code}\n"))


@pytest.mark.parametrize(
    "code",
    [
        "raise OSError(f'no file: {caught}') from caught",
        "print(str(caught))",
        "log(type(caught).__name__, caught)",
        "print(' '.join(str(caught).split()))",
        "isinstance(caught, KeyError)",
        "caught.field == 'budget'",
        "row = {'reason': str(caught), 'field': caught.field}",
    ],
)
def test_a_message_may_be_passed_on(code):
    assert not list(_places(f"try:\n    f()\nexcept Exception as caught:\n    {code}\n"))
