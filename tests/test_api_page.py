"""docs/api.md documents the public names, and every parameter is explained."""

import inspect
import re

import pytest

import batchlaw as bl
from batchlaw import torch_support
from paths import DOCS

pytestmark = pytest.mark.torch


def _public():
    """Every public class and function by its name; the page has words for public data."""
    for module in (bl, torch_support, bl.trainers):
        for name in module.__all__:
            if callable(getattr(module, name)):
                yield f"{module.__name__}.{name}", getattr(module, name)


def test_the_api_page_documents_the_public_names_and_no_others():
    page = (DOCS / "api.md").read_text()
    documented = re.findall(r"auto(?:function|class):: ([\w.]*\w)", page)
    assert sorted(documented) == sorted(name for name, _ in _public())
    assert "`bl.__version__`" in page


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
