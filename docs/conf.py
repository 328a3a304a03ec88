"""Sphinx: `make docs` builds docs/_build/html without a network, and any warning fails it."""

from sphinx.util.inspect import TypeAliasForwardRef

from batchlaw._version import __version__

project = "batchlaw"
author = "the batchlaw developers"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx-mathjax-offline"]
html_theme = "furo"
html_title = f"batchlaw {release}"
html_show_copyright = False
exclude_patterns = ["_build"]
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
napoleon_use_ivar = True
nitpicky = False
html_static_path = ["_static"]
html_css_files = ["tables.css"]
