"""docs/api.md documents the public names, and every parameter is explained."""

import inspect
import re

import pytest

import batchlaw as bl
from paths import DOCS

pytestmark = pytest.mark.torch


SUBMODULES = [getattr(bl, name) for name in dir(bl) if inspect.ismodule(getattr(bl, name))]


def _public():
    """Every public class and function by its name; the page has words for public data."""
    for module in (bl, *SUBMODULES):
        for name in module.__all__:
            if callable(getattr(module, name)):
                yield f"{module.__name__}.{name}", getattr(module, name)


def test_the_api_page_documents_the_public_names_and_no_others():
    page = (DOCS / "api.md").read_text()
    top = page[page.index("## The names at the top") : page.index("## What comes back")]
    documented = re.findall(r"auto(?:function|class|exception):: ([\w.]*\w)", top)
    names = [name for name in bl.__all__ if name != "__version__"]
    assert sorted(documented) == sorted(f"batchlaw.{name}" for name in names)
    assert "`bl.__version__`" in page
    modules = re.findall(r"automodule:: ([\w.]*\w)\n   :members:\n", page)
    assert sorted(modules) == sorted(module.__name__ for module in SUBMODULES)
    for name in bl._SUBMODULES:
        assert f"`bl.{name}`" in page


def _constructors_and_functions():
    for name, found in _public():
        if inspect.isfunction(found):
            yield name, found
        for key, value in vars(found).items() if inspect.isclass(found) else ():
            if isinstance(value, classmethod) and not key.startswith("_"):
                yield f"{name}.{key}", getattr(found, key)


@pytest.mark.parametrize(("name", "function"), list(_constructors_and_functions()))
def test_every_parameter_is_in_its_docstring_or_in_the_words_of_the_api_page(name, function):
    page = (DOCS / "api.md").read_text()
    words = " ".join(re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE))
    known = set(re.findall(r"\w+", words + " " + function.__doc__))
    assert set(inspect.signature(function).parameters) <= known | {"text"}  # Plan.from_json's


@pytest.mark.parametrize(("name", "found"), list(_public()))
def test_every_documented_parameter_exists(name, found):
    section = re.search(
        r"Parameters\n-+\n(.*?)(?:\n\n\w+\n-+|\Z)", inspect.getdoc(found), re.DOTALL
    )
    entries = re.findall(r"^(\w[^:\n]*?)(?: :|$)", section[1], re.MULTILINE) if section else []
    documented = {word for entry in entries for word in re.findall(r"\w+", entry)}
    assert documented <= set(inspect.signature(found).parameters)
