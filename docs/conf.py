"""Sphinx: `make docs` builds docs/_build/html without a network, and any warning fails it."""

import re
from pathlib import Path

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.inspect import TypeAliasForwardRef

from batchlaw._base.version import __version__
from batchlaw.faces.reference import TABLES

project = "batchlaw"
author = "the batchlaw developers"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx-mathjax-offline"]
html_theme = "furo"
html_title = f"batchlaw {release}"
html_show_copyright = False
exclude_patterns = ["_build", "_generated"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_typehints_format = "short"
# Names as the code writes them, in place of what they stand for.
autodoc_type_aliases = {
    name: name
    for name in ("ArrayLike", "Batches", "Dataset", "Draw", "FloatArray", "IntArray", "Progress")
}
# Within a union Sphinx writes the alias' repr, "TypeAliasForwardRef('ArrayLike')".
TypeAliasForwardRef.__repr__ = lambda self: self.name
autodoc_member_order = "bysource"
napoleon_google_docstring = False
# As fields of plain names: as variables Sphinx would link each to every attribute of that name.
napoleon_custom_sections = [("Attributes", "params_style")]
nitpicky = False
highlight_language = "text"
html_static_path = ["_static"]
html_css_files = ["tables.css"]


# From here on tables and blocks are set small, or their lines wrapped.
WIDE_TABLE, WIDE_BLOCK, WRAPPED_BLOCK = 7, 103, 120


class LineBreaks(SphinxPostTransform):
    """Names in tables may break after _ . and /, formulas not before the comma that follows."""

    default_priority = 500
    formats = ("html",)

    def run(self):
        for table in self.document.findall(nodes.tgroup):
            if table["cols"] >= WIDE_TABLE:
                table.parent["classes"].append("wide")
        for block in self.document.findall(nodes.literal_block):
            longest = max(map(len, block.astext().splitlines()), default=0)
            if longest > WIDE_BLOCK:
                block["classes"].append("wrapped" if longest > WRAPPED_BLOCK else "wide")
        for literal in self.document.findall(nodes.literal):
            if _inside(literal, nodes.table):
                _break_name(literal)
        for text in list(self.document.findall(nodes.Text)):
            if not _inside(text, nodes.literal, nodes.math, nodes.FixedTextElement, nodes.raw):
                _join_numbers(text)
        for formula in list(self.document.findall(nodes.math)):
            _join_punctuation(formula)


def _inside(node, *kinds):
    while node is not None and not isinstance(node, kinds):
        node = node.parent
    return node is not None


def _break_name(literal):
    pieces = re.split(r"(?<=[_./])(?=[A-Za-z])", literal.astext())
    literal.clear()
    for piece in pieces:
        literal += [nodes.Text(piece), nodes.raw("", "<wbr>", format="html")]
    literal.pop()


def _join_numbers(text):
    joined = re.sub(r"(?<=\d)\s(?=%)|\s(?=± )|(?<=±)\s", "\N{NO-BREAK SPACE}", text)
    if joined != text:
        text.parent.replace(text, nodes.Text(joined))


def _join_punctuation(formula):
    """A formula and the signs that touch it in one span, which the style keeps on one line."""
    parent = formula.parent
    at = parent.index(formula)
    span = nodes.inline(classes=["together"])
    parent[at] = span
    span += formula
    if at and isinstance(parent[at - 1], nodes.Text):
        text, sign = re.fullmatch(r"(.*?)([(\[]*)", parent[at - 1], re.DOTALL).groups()
        parent[at - 1] = nodes.Text(text)
        span.insert(0, nodes.Text(sign))
    if at + 1 < len(parent) and isinstance(parent[at + 1], nodes.Text):
        sign, text = re.fullmatch(r"(\S*)(.*)", parent[at + 1], re.DOTALL).groups()
        parent[at + 1] = nodes.Text(text)
        span += nodes.Text(sign)


def write_tables(app):
    """The tables that words.md includes, from the registries."""
    folder = Path(app.srcdir) / "_generated"
    folder.mkdir(exist_ok=True)
    for name, table in TABLES.items():
        (folder / f"{name}.md").write_text(table() + "\n")


def setup(app):
    app.connect("builder-inited", write_tables)
    app.add_post_transform(LineBreaks)
