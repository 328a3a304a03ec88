"""Every example runs, at a size of seconds."""

import re
import subprocess
import sys

import pytest

from batchlaw.faces.cli import main
from batchlaw.jobs.store import Store
from browser import needs_chromium
from paths import DOCS, EXAMPLES

NUMBER = r"\d+(?:\.\d+)?"
# The arguments that make an example small, and the pictures that it leaves.
SCRIPTS = {
    "adam_figures.py": [(["."], {"adam_batches", "adam_worth"})],
    "benchmark_figures.py": [
        (
            ["."],
            {
                "benchmark_curves",
                "benchmark_noise",
                "benchmark_small_adamw",
                "benchmark_small_adamw_095",
            },
        ),
    ],
    "benchmark_logs.py": [(["logs"], set())],
    "concept_figures.py": [
        (["."], {"concept_collapse", "concept_horizons", "concept_influence"}),
    ],
    "explorer_pictures.py": [([".", "--only", "explorer"], {"explorer"})],
    "own_procedure.py": [(["--quick"], set())],
    "run_length_choices.py": [(["."], {"frontier", "schedules"})],
    "pilot_regret.py": [([".", "--pilots", "2"], {"pilot_regret"})],
    "pilot_to_plan.py": [(["--quick"], set())],
    "sensitivity.py": [
        (["regression", "--draws", "2"], set()),
        (["quadratic", "--draws", "2"], set()),
    ],
    "static_batch.py": [([".", "--quick"], {"static_batch"})],
}
# Pages all of whose tables an example prints.
TABLES = {"run_length_choices.py": "plan.md"}
# sweep.toml is run with docs/sweeps.md, which shows it.
SWEEPS = {"paper_sweep.toml", "sweep.toml"}


def test_every_example_is_run_here():
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} == SCRIPTS.keys() | SWEEPS


@pytest.mark.process
@pytest.mark.parametrize(
    ("script", "arguments", "pictures"),
    [
        pytest.param(name, *case, marks=needs_chromium if name.startswith("explorer") else ())
        for name, cases in SCRIPTS.items()
        for case in cases
    ],
)
def test_a_script_runs_and_leaves_its_pictures(script, arguments, pictures, tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLES / script, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout or pictures
    assert {path.stem for path in tmp_path.glob("*.png")} == pictures
    if script in TABLES:
        page = (DOCS / TABLES[script]).read_text()
        printed = [re.findall(NUMBER, line) for line in done.stdout.splitlines()]
        rows = re.findall(r"^\|.*\d\.\d.*\|$", page, re.MULTILINE)
        assert rows
        assert all(re.findall(NUMBER, row) in printed for row in rows)


@pytest.mark.slow
def test_the_papers_sweep_has_the_variance_of_experiment_1(tmp_path):
    """0.679 of the constant schedule's with 512 samples; a standard error is 0.03."""
    store = tmp_path / "paper.sqlite"
    assert main(["sweep", str(EXAMPLES / "paper_sweep.toml"), "--store", str(store)]) == 0
    with Store(store, read_only=True) as opened:
        rows = [row for row in opened.rows() if row.status == "done"]
    assert len(rows) == 56
    variance = {
        row.cell["batches"]: row.result["variance"] for row in rows if row.cell["budget"] == 512
    }
    assert variance["oracle"] / variance["constant"] == pytest.approx(0.679, abs=0.1)
