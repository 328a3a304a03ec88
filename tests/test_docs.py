"""What the documents say exists, exists; what they show, runs."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def _theory_rows():
    lines = (ROOT / "docs" / "theory.md").read_text().splitlines()
    return [
        re.findall(r"`([^`]+)`", line) for line in lines if line.startswith("|") and "::" in line
    ]


@pytest.mark.parametrize(("function", "test"), _theory_rows())
def test_every_row_of_the_theory_table_names_a_function_and_a_test(function, test):
    parts = function.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
            break
        except ModuleNotFoundError:
            continue
    for name in parts[cut:]:
        found = getattr(found, name)
    assert callable(found)
    file, name = test.split("::")
    assert f"def {name}(" in (ROOT / "tests" / file).read_text()


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_every_test_that_a_page_names_exists(page):
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").glob("test_*.py"))
    for name in re.findall(r"`(?:tests/)?(?:test_\w+\.py::)?(test_\w+)`", page.read_text()):
        assert f"def {name}(" in tests, name


def test_every_function_of_the_bounds_table_exists():
    from batchlaw import bounds

    lines = (ROOT / "docs" / "bounds.md").read_text().splitlines()
    rows = [line.split("|")[2] for line in lines if line.startswith("|") and "`test_" in line]
    assert len(rows) > 30
    for name in re.findall(r"`(\w+)`", " ".join(rows)):
        assert callable(getattr(bounds, name)), name


def test_the_python_of_the_readme_runs(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(compile(block, "README.md", "exec"), {})
    printed = capsys.readouterr().out.split()
    shown = re.findall(r"#.*?(\d+\.\d+)", block)
    assert shown
    for number in shown:
        digits = len(number.partition(".")[2])
        assert any(f"{float(word):.{digits}f}" == number for word in printed), number


def test_the_training_loop_runs_and_resumes_to_the_same_weights(tmp_path, monkeypatch):
    import torch

    page = (ROOT / "docs" / "training.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    runs = [{}, {}]
    for run in runs:  # the second starts from the first one's last checkpoint
        exec(compile(block, "training.md", "exec"), run)
        assert run["sampler"].updates == 60
        saved = torch.load("checkpoint.pt", weights_only=True)
        assert saved["sampler"]["updates"] == saved["rates"]["updates"] == 50
    first, second = (run["model"].state_dict() for run in runs)
    assert all(torch.equal(first[name], second[name]) for name in first)
