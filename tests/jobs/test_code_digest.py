"""The code of a cell is everything that computes it, and nothing else."""

import shutil
from pathlib import Path

import pytest

import batchlaw
from batchlaw._base.errors import InputError
from batchlaw.evidence.claims.registry import FAMILIES
from batchlaw.evidence.paper import multi_pass_sweep, one_pass_sweep
from batchlaw.jobs.code_digest import SOURCES, code_digest, digest_of, imported_modules

CLAIMS = {tasks.__module__ for tasks in FAMILIES.values()}
PAPER = {one_pass_sweep.__name__, multi_pass_sweep.__name__}
MODULES = sorted(CLAIMS | PAPER)


@pytest.fixture
def changed(tmp_path):
    """Modules whose digest changes with a file of the package: changed(file, old, new)."""

    def modules(file, old, new):
        copy = tmp_path / str(len(list(tmp_path.iterdir())))
        shutil.copytree(Path(batchlaw.__file__).parent, copy / "batchlaw")
        path = copy / "batchlaw" / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))
        return {name for name in MODULES if digest_of(name, copy) != code_digest(name)}

    return modules


@pytest.mark.slow
def test_a_docstring_a_comment_and_formatting_change_nothing(changed):
    assert not changed("_base/kernels/sgd.py", '"""', '"""Of kernels. ')
    assert not changed("_base/kernels/sgd.py", "@njit", "# Compiled.\n@njit")
    assert not changed("risk/simulate.py", "\ndef ", "\n\n\ndef ")
    assert not changed("_base/errors.py", "    def sentence(", "    # As shown.\n    def sentence(")


def test_the_words_of_an_error_change_nothing(changed):
    assert not changed("_base/checks.py", "must be a whole number", "must be whole")


def test_a_number_in_a_kernel_changes_all_that_reach_it(changed):
    after = changed("_base/kernels/sgd.py", "0.0", "0.5")
    reach = {m for m in MODULES if "batchlaw._base.kernels.sgd" in imported_modules(m, SOURCES)}
    assert after == reach
    assert after >= PAPER


@pytest.mark.slow
def test_a_face_a_picture_and_the_store_change_nothing(changed):
    for file in (
        "faces/cli/verify.py",
        "plots/common.py",
        "jobs/store.py",
        "evidence/paper/run.py",
    ):
        assert not changed(file, "from __future__ import annotations", "import this")
    for module in MODULES:
        reached = imported_modules(module, SOURCES)
        assert not [name for name in reached if name.startswith("batchlaw.faces")]


@pytest.mark.slow
@pytest.mark.parametrize("module", sorted(CLAIMS))
def test_a_change_in_one_family_is_no_change_of_the_others(module, changed):
    name = module.removeprefix("batchlaw.").replace(".", "/")
    file = f"{name}/__init__.py" if (SOURCES / "batchlaw" / name).is_dir() else f"{name}.py"
    after = changed(file, "\nfrom ", "\nEXTRA = 1\nfrom ")
    # Only the modules that import it change too.
    assert after == {other for other in MODULES if module in imported_modules(other, SOURCES)}
    assert module in after
    assert len(after) <= 2


def _package(folder, **files):
    for name, text in files.items():
        path = folder / "batchlaw" / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        (path.parent / "__init__.py").touch()


def test_every_form_of_import_is_followed(tmp_path):
    _package(
        tmp_path,
        start="import batchlaw.a\nfrom batchlaw import b\nfrom batchlaw.c import x\n"
        "from . import d\nimport numpy",
        a="def f():\n    from .room.e import y\n",
        b="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import batchlaw.never\n",
        c="try:\n    import batchlaw.room.g as g\nexcept ImportError:\n    g = None\n",
        d="from batchlaw.room import z, h",
        never="",
        other="",
        room__e="from .. import c\nfrom ..room import h as k",
        room__g="",
        room__h="",
    )
    names = {
        name.removeprefix("batchlaw.") for name in imported_modules("batchlaw.start", tmp_path)
    }
    # Importing a package's name counts its __init__.py; importing a module inside it does not.
    assert names == {*"abcd", "start", "room", "room.e", "room.g", "room.h"}


def test_a_digest_depends_on_names_and_code(tmp_path):
    for k, text in enumerate(["x = 1", "x=1  # one", "x = 2", "y = 1"]):
        _package(tmp_path / str(k), start=text)
    first, same, *others = (digest_of("batchlaw.start", tmp_path / str(k)) for k in range(4))
    assert first == same
    assert len({first, *others}) == 3
    assert len(first) == 64


def test_a_module_outside_the_package_counts_with_what_it_takes_from_it(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    seen = set()
    for k in range(2):
        (tmp_path / f"plug_in_{k}.py").write_text(f"from batchlaw.jobs.arrays import pack\nx = {k}")
        name = __import__(f"plug_in_{k}").__name__
        assert imported_modules(name, SOURCES) == {name, "batchlaw.jobs.arrays"}
        seen.add(code_digest(name))
    assert len(seen) == 2
    with pytest.raises(InputError, match="module must be loaded from a file, got 'nowhere'"):
        code_digest("nowhere")
