import io
import itertools
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

import batchlaw as bl
from batchlaw.faces.cli import app, main
from paths import ROOT
from resume import rows, run_command

SCRIPT = ROOT / "experiments" / "experiments_dynamic.py"
SMALL = "--d 300 --m 8 --n 64 --t 16 --l 32 --reps 20 --one-pass-n-values 16,64 --grad-budget 96"
SMALL = [*SMALL.split(), "--multipass-grad-budget-values", "32,64"]


def results_in(folder):
    """All files but the store, which exists as soon as a cell is stored."""
    return [path for path in folder.iterdir() if not path.name.startswith("paper.sqlite")]


@pytest.mark.slow
def test_reproduce_writes_its_files_and_prints_a_table(tmp_path, capsys):
    assert main(["reproduce", "--output-dir", str(tmp_path / "new"), *SMALL]) == 0
    out = capsys.readouterr().out
    assert "measured one_pass oracle / constant" in out
    assert "not the paper's setting" in out
    assert f"figure: {tmp_path / 'new' / 'dynamic_experiments.png'}" in out
    assert len(results_in(tmp_path / "new")) == 9


def test_an_output_directory_that_cannot_be_written_is_named(tmp_path, capsys):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert main(["reproduce", "--output-dir", str(blocked), *SMALL]) == 2
    assert "output directory must be writable" in capsys.readouterr().err
    assert blocked.read_text() == ""


@pytest.mark.slow
def test_a_failure_while_writing_leaves_no_file_behind(tmp_path, monkeypatch, capsys):
    def broken(*_):
        raise OSError("disk full")

    monkeypatch.setattr("batchlaw.evidence.paper.run.save", broken)
    assert main(["reproduce", "--output-dir", str(tmp_path), *SMALL]) == 1
    assert capsys.readouterr().err == "batchlaw: disk full\n"
    assert results_in(tmp_path) == []


def test_an_unknown_command_is_one_line(capsys):
    assert main(["reprdouce"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "default", "file"),
    [
        ("risk", "paper", True),
        ("plan", "an unknown power law", True),
        ("law", "sketch", False),
        ("static-batch", "sketch", False),
    ],
)
def test_help_states_the_problem_that_a_command_takes_by_default(command, default, file, capsys):
    assert main([command, "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    entry = text.partition("--problem ")[2].partition(" --d ")[0]
    assert entry.endswith(f"; {default} by default.")
    assert ("CSV file" in entry) is file


def test_the_laws_list_the_defaults_of_their_own_rates(capsys):
    assert main(["law", "--help"]) == 0
    entry = capsys.readouterr().out.partition("--warmup ")[2].partition("--stable ")[0]
    assert " ".join(entry.split()).endswith("Default: 0.1.")


def test_version_and_help_answer(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == bl.__version__
    assert main(["reproduce", "--help"]) == 0
    text = capsys.readouterr().out
    for option in ("--output-dir", "--d", "--l", "--multipass-grad-budget-values", "--grad-budget"):
        assert re.search(rf"{option}\b", text)


@pytest.mark.parametrize("command", ["", "plan", "sweep", "sweep plot", "study"])
@pytest.mark.parametrize("width", [60, 80])
def test_help_is_wrapped_once_and_its_other_lines_are_indented(command, width):
    console = Console(file=io.StringIO(), width=width)
    app.help_print(command.split(), console=console)
    text = console.file.getvalue()
    lines = text.splitlines()
    assert lines[0].startswith(f"Usage: batchlaw {command}".rstrip())
    assert all(len(line) <= width and line == line.rstrip() for line in lines)
    entries = text.partition(":\n")[2].splitlines()
    assert {len(line) - len(line.lstrip()) for line in entries} == {0, 2, 6}
    for first, second in itertools.pairwise(entries):
        if second.startswith(6 * " "):
            assert len(first) + 1 + len(second.split()[0]) > width


@pytest.mark.process
def test_the_papers_command_runs_word_for_word_from_the_root(tmp_path):
    """Outside the environment the script finds .venv by itself."""
    root = tmp_path / "project"
    (root / "experiments").mkdir(parents=True)
    shutil.copy(SCRIPT, root / "experiments")
    (root / ".venv").symlink_to(Path(sys.prefix))
    command = (
        "experiments/experiments_dynamic.py --output-dir experiments --d 10000 --m 64 --n 512 "
        "--t 64 --l 512 --reps 300 --seed 123 --one-pass-n-values "
        "96,128,160,192,224,256,288,320,352,384,416,448,480,512 --multipass-grad-budget-values "
        "512,640,768,1024,1280,1536,2048,2560,3072,3584,4096"
    )
    outside = _outside_python()
    done = subprocess.run(
        [outside, *command.split()], cwd=root, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no progress in a pipe
    assert "21 of 21 figures agree" in done.stdout
    assert (root / "experiments" / "dynamic_experiments.pdf").exists()


@pytest.mark.process
def test_without_an_environment_the_script_says_how_to_make_one(tmp_path):
    (tmp_path / "experiments").mkdir()
    script = shutil.copy(SCRIPT, tmp_path / "experiments")
    done = subprocess.run([_outside_python(), script], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "run 'make setup'" in done.stderr


def _outside_python():
    """The interpreter this environment was created from: it has no batchlaw."""
    return str(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")


@pytest.mark.process
def test_progress_is_shown_on_a_terminal(tmp_path):
    parent, child = pty.openpty()
    command = [sys.executable, "-m", "batchlaw", "reproduce", "--output-dir", str(tmp_path), *SMALL]
    process = subprocess.Popen(command, stderr=child, stdout=subprocess.DEVNULL)
    os.close(child)
    shown = b""
    try:
        while chunk := os.read(parent, 4096):
            shown += chunk
    except OSError:  # the terminal closes with the process
        pass
    os.close(parent)
    assert process.wait(timeout=120) == 0
    assert b"cells" in shown
    assert b"3/3" in shown


@pytest.mark.slow
def test_schedules_that_round_alike_have_ratio_one_without_error(tmp_path, capsys):
    """At n = 96 the early-large schedule is the constant one, and its standard error is 0."""
    options = [
        "--n",
        "96",
        "--d",
        "300",
        "--m",
        "8",
        "--reps",
        "40",
        "--one-pass-n-values",
        "96",
        "--l",
        "64",
    ]
    budgets = ["--multipass-grad-budget-values", "128"]
    code = main(["reproduce", "--output-dir", str(tmp_path), *options, *budgets])
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if "one_pass early_large" in line]
    assert "1.00000  0.000  0.0 s.e.     yes" in line
    assert code in (0, 1)


@pytest.mark.slow
def test_too_few_repetitions_give_no_verdict(tmp_path, capsys):
    assert main(["reproduce", "--output-dir", str(tmp_path), *SMALL]) == 0
    out = capsys.readouterr().out
    assert "0 of 0 figures agree" in out
    assert "measured figures need 30 repetitions or more" in out


@pytest.mark.slow
def test_a_figure_that_does_not_agree_gives_exit_code_1(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("batchlaw.evidence.paper.reported.LIMIT", 1e-9)
    options = ["40" if option == "20" else option for option in SMALL]
    assert main(["reproduce", "--output-dir", str(tmp_path), *options]) == 1
    assert "  NO" in capsys.readouterr().out


@pytest.mark.slow
def test_a_target_that_is_a_directory_leaves_everything_as_it_was(tmp_path, capsys):
    (tmp_path / "summary.json").mkdir()
    assert main(["reproduce", "--output-dir", str(tmp_path), *SMALL]) == 2
    assert "must be a file or absent, but is a directory" in capsys.readouterr().err
    assert [path.name for path in results_in(tmp_path)] == ["summary.json"]


@pytest.mark.slow
def test_files_are_renamed_into_place_not_rewritten(tmp_path):
    """A reader with the old file open keeps the old content: the new file has another inode."""
    assert main(["reproduce", "--output-dir", str(tmp_path), *SMALL]) == 0
    before = {path.name: path.stat().st_ino for path in results_in(tmp_path)}
    with (tmp_path / "summary.json").open() as old:
        assert main(["reproduce", "--output-dir", str(tmp_path), *SMALL]) == 0
        assert old.read().endswith("}\n")
    after = {path.name: path.stat().st_ino for path in results_in(tmp_path)}
    assert before.keys() == after.keys()
    assert all(before[name] != after[name] for name in before)


def test_a_refused_setting_makes_no_directory(tmp_path, capsys):
    assert main(["reproduce", "--output-dir", str(tmp_path / "new"), "--workers", "0"]) == 2
    assert main(["reproduce", "--output-dir", str(tmp_path / "new"), "--gamma", "3.1"]) == 2
    assert list(tmp_path.iterdir()) == []
    capsys.readouterr()


@pytest.mark.process
def test_a_reader_that_leaves_is_no_traceback(tmp_path):
    command = f"{sys.executable} -m batchlaw reproduce --help | true"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr


@pytest.mark.process
def test_a_killed_reproduction_goes_on_where_it_was(tmp_path):
    more = ["16,24,32,40,48,56" if option == "16,64" else option for option in SMALL]
    command = ["reproduce", *more, "--workers", "1"]
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    killed = run_command(cut, command, last_row=3)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    before = rows(cut / "paper.sqlite")
    assert len(before) == 3
    assert results_in(cut) == []
    again = run_command(cut, command)
    assert again.returncode == 0, again.stderr
    assert "3 of 8 cells are stored; remove paper.sqlite" in again.stderr
    after = rows(cut / "paper.sqlite")
    assert len(after) == 8
    assert all(after[key] == row for key, row in before.items())
    assert run_command(whole, command).returncode == 0
    assert len(results_in(whole)) == 9
    for path in results_in(whole):
        assert (cut / path.name).read_bytes() == path.read_bytes()
