"""The shape of the house: public names, the direction of imports, what loads with what."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import batchlaw as bl

SOURCE = Path(bl.__file__).parent

# A module imports only from modules above it.
ORDER = [
    "_version",
    "_check",
    "_files",
    "feature_file",
    "_kernels",
    "spectrum",
    "nodes",
    "sketch_equivalent",
    "problem",
    "rates",
    "update_rules",
    "influence_weights",
    "model_influence",
    "stages",
    "allocation",
    "risk",
    "procedures",
    "exact",
    "optimize",
    "bounds",
    "laws",
    "robust",
    "joint",
    "baselines",
    "static_batch",
    "plan_file",
    "ladder",
    "planner",
    "horizon",
    "export",
    "preflight",
    "torch_support",
    "simulate",
    "fit",
    "estimate",
    "choices",
    "plots",
    "sweep",
    "paper",
    "verify",
    "study",
    "app",
    "cli",
]


def _imports(path):
    """Modules of this package that a file imports when it runs (not for types alone)."""
    tree = ast.parse(path.read_text())
    hints = [n for n in tree.body if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)]
    skipped = {id(node) for hint in hints for node in ast.walk(hint)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in skipped:
            parts = (node.module or "").split(".")
            if parts == ["batchlaw"]:
                yield from (alias.name for alias in node.names)
            elif parts[0] == "batchlaw":
                yield parts[1]


def test_imports_go_one_way():
    for path in SOURCE.rglob("*.py"):
        module = path.relative_to(SOURCE).with_suffix("").parts[0]
        if module in ("__init__", "__main__"):
            continue
        for imported in _imports(path):
            allowed = ORDER[: ORDER.index(module) + (path.parent != SOURCE)]
            assert imported in allowed, f"{path.name} must not import {imported}"


def test_only_plots_imports_matplotlib():
    users = [p for p in SOURCE.rglob("*.py") if "import matplotlib" in p.read_text()]
    assert {path.parent.name for path in users} == {"plots"}


def test_only_torch_support_imports_torch():
    pattern = re.compile(r"^\s*(import|from) torch\b", re.MULTILINE)
    users = [p for p in SOURCE.rglob("*.py") if pattern.search(p.read_text())]
    assert {path.parent.name for path in users} == {"torch_support"}


def test_public_names_are_pinned():
    assert sorted(bl.__all__) == sorted(
        [
            "Plan",
            "Problem",
            "Risk",
            "__version__",
            "allocate",
            "constant",
            "cosine",
            "effective_batch",
            "effective_fluctuation",
            "gradient_descent_risk",
            "influence",
            "influence_proxy",
            "linear",
            "multi_pass_law",
            "multi_pass_risk",
            "one_pass_law",
            "one_pass_risk",
            "optimal_batches",
            "plan",
            "polynomial",
            "schedule_families",
            "simulate_gradient_descent",
            "simulate_multi_pass",
            "simulate_one_pass",
            "step",
            "wsd",
        ]
    )
    modules = {path.stem for path in SOURCE.glob("*.py")}
    assert not modules & set(bl.__all__)


@pytest.mark.process
def test_importing_the_package_loads_no_pictures_no_torch_and_no_command_line():
    code = (
        "import sys, batchlaw; "
        "print([m for m in ('matplotlib', 'cyclopts', 'rich', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_kernel_frees_the_gil():
    text = "\n".join(path.read_text() for path in (SOURCE / "_kernels").glob("*.py"))
    decorators = [line for line in text.splitlines() if line.startswith("@njit")]
    assert decorators
    assert all("nogil=True" in line for line in decorators)
