"""The documentation builds without a network, and its pages need none."""

import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from pages import PAGES, parts
from paths import DOCS, ROOT

# Sphinx as `make docs` calls it, in a process whose sockets reach nothing.
BUILD = """
import socket, sys

def refuse(*_, **__):
    raise OSError("the documentation must build without a network")

socket.socket.connect = socket.socket.connect_ex = refuse
socket.getaddrinfo = socket.create_connection = refuse
from sphinx.cmd.build import main
sys.exit(main(["-W", "--keep-going", "-q", "-b", "html", "-d", sys.argv[3], *sys.argv[1:3]]))
"""


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-c", BUILD, DOCS, folder / "html", folder / "doctrees"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "html"


class Loaded(HTMLParser):
    """What a browser loads with a page, and the text of its scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.files, self.inline, self.inside = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video", "audio", "embed"):
            self.files.append(found.get("src", ""))
        if tag == "link" and found.get("rel") in ("stylesheet", "preload", "icon", "shortcut icon"):
            self.files.append(found.get("href", ""))
        if tag == "object":
            self.files.append(found.get("data", ""))
        self.inside = tag

    def handle_endtag(self, _):
        self.inside = ""

    def handle_data(self, data):
        if self.inside in ("script", "style"):
            self.inline.append(data)


def _outside(text):
    """Addresses on other machines that a style or an inline script would load."""
    return re.findall(r"""(?:url\(|@import|src\s*=)\s*["']?((?:https?:)?//[^"')\s]+)""", text)


@pytest.mark.process
def test_no_page_loads_anything_from_outside_and_all_that_it_loads_is_there(html):
    pages = sorted(html.rglob("*.html"))
    assert len(pages) > len(list(DOCS.glob("*.md")))
    for page in pages:
        loaded = Loaded(page.read_text())
        for name in filter(None, loaded.files):
            if not name.startswith("data:"):
                assert not re.match(r"[a-z]+:|//", name), (page.name, name)
                assert (page.parent / name.partition("?")[0]).is_file(), (page.name, name)
        assert not _outside("\n".join(loaded.inline)), page.name
    for style in html.rglob("*.css"):
        assert not _outside(style.read_text()), style.name


@pytest.mark.process
def test_formulas_are_set_by_the_copy_of_mathjax_beside_them(html):
    with_formulas = [p for p in html.glob("*.html") if 'class="math' in p.read_text()]
    assert {"concepts.html", "sweeps.html"} <= {page.name for page in with_formulas}
    for page in with_formulas:
        (script,) = [name for name in Loaded(page.read_text()).files if "mathjax" in name]
        assert script.startswith("_static/mathjax/")
    assert list((html / "_static" / "mathjax").rglob("*.woff"))


def _shown():
    """Figures that a page shows, with the pages."""
    for page in PAGES:
        for name in re.findall(r"!\[[^\]]*\]\((?:docs/)?figures/([^)]+)\)", page.read_text()):
            yield name, page


def test_every_figure_is_shown_and_every_figure_shown_is_there():
    assert {name for name, _ in _shown()} == {path.name for path in (DOCS / "figures").iterdir()}


# Figures that a command of the package writes: the page that shows the command, and how it begins.
COMMANDS = {
    "dynamic_experiments.png": ("reproduce.md", "make reproduce"),
    "plan.png": ("plan.md", "batchlaw plan"),
    "worth.png": ("worth.md", ".venv/bin/batchlaw worth"),
    "study_noise.png": ("small_study.md", ".venv/bin/batchlaw study"),
    "study_transformer.png": ("small_study.md", ".venv/bin/batchlaw study"),
}


@pytest.mark.parametrize("figure", sorted(path.name for path in (DOCS / "figures").iterdir()))
def test_every_figure_is_made_by_a_script_or_by_a_command_that_its_page_shows(figure):
    if figure in COMMANDS:
        name, start = COMMANDS[figure]
        commands = [" ".join(words) for part in parts(DOCS / name) for words in part.commands]
        assert any(command.startswith(start) for command in commands)
        return
    # One of the pages that show it names its script.
    sources = [page.read_text() for name, page in _shown() if name == figure]
    named = {
        name for text in sources for name in re.findall(r"(?:examples|benchmarks)/\w+\.py", text)
    }
    sources += [(ROOT / name).read_text() for name in named]
    assert any(f'"{figure}"' in s or f"docs/figures/{figure}" in s for s in sources)
