"""Kills, full disks and second writers: acknowledged results stay, and the sweep resumes."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from batchlaw.evidence.sweep.cell import solve
from batchlaw.evidence.sweep.tidy import export
from batchlaw.faces.cli import main
from batchlaw.jobs.execution import execute
from batchlaw.jobs.store import Store
from sweep_cells import (
    DRIVER,
    LOGGED,
    SOURCE,
    TIMEOUT_S,
    cluster,
    command,
    dies_once,
    environment,
    finished,
)

pytestmark = pytest.mark.process

COUNT = 8000
KILLS = 20


def _cells():
    return ({"k": k, "rate": k / 7} for k in range(COUNT))


def _driver(folder, path):
    """The fast driver, which logs the computed cells in ``folder``."""
    (folder / "logged_cells.py").write_text(LOGGED)
    variables = environment(CELL_LOG=str(folder / "log"), PYTHONPATH=str(folder))
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(SOURCE / "batchlaw"), str(path), str(COUNT)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=variables,
    )


def _assert_intact(path):
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)


def _killed(process, rng):
    """Kill it shortly after some acknowledgements; returns the number of acknowledged cells."""
    first_lines = [process.stdout.readline() for _ in range(1 + rng.randrange(4))]
    assert first_lines[0] == "start\n", process.stderr.read()
    try:
        process.wait(timeout=rng.uniform(0.0, 0.02))
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
    rest, error = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == -signal.SIGKILL, error
    # The kill may have cut the last line.
    lines = ("".join(first_lines[1:]) + rest).split("\n")[:-1]
    return sum(int(line) for line in lines)


def _computed(folder):
    log = folder / "log"
    return [int(line) for line in log.read_text().split()] if log.exists() else []


def test_twenty_kills_lose_nothing_and_repeat_only_what_was_in_flight(tmp_path):
    rng = random.Random(20)
    path = tmp_path / "s.sqlite"
    known = {}
    for _ in range(KILLS):
        before = len(_computed(tmp_path))
        acknowledged = _killed(_driver(tmp_path, path), rng)
        computed = set(_computed(tmp_path)[before:])
        assert not computed & known.keys()
        with Store(path) as store:
            rows = {row.cell["k"]: row for row in store.rows()}
        _assert_intact(path)
        assert len(rows) >= len(known) + acknowledged
        assert all(rows[k] == row for k, row in known.items())
        known = rows
    assert 0 < len(known) < COUNT
    before = len(_computed(tmp_path))
    _, error, code = finished(_driver(tmp_path, path))
    assert code == 0, error
    assert sorted(_computed(tmp_path)[before:]) == sorted(set(range(COUNT)) - known.keys())
    undisturbed = tmp_path / "undisturbed"
    undisturbed.mkdir()
    _, error, code = finished(_driver(undisturbed, undisturbed / "s.sqlite"))
    assert code == 0, error
    for folder in (tmp_path, undisturbed):
        with Store(folder / "s.sqlite", read_only=True) as store:
            assert export(store, _cells, folder / "t.csv", "") == COUNT
    for name in ("t.csv", "t.csv.json"):
        assert (tmp_path / name).read_bytes() == (undisturbed / name).read_bytes()


def test_a_worker_of_a_cluster_that_is_killed_costs_nothing(tmp_path):
    pytest.importorskip("distributed")
    from batchlaw.jobs.dask_workers import dask_workers

    marker = tmp_path / "marker"
    cells = [{"k": k} for k in range(30)]
    cells[11]["marker"] = str(marker)
    with (
        cluster(tmp_path, workers=2) as address,
        Store(tmp_path / "s") as store,
        dask_workers(address, 1) as workers,
    ):
        assert execute(store, cells, dies_once, workers).done == 30
        assert all(store.get(cell).result == {"root": cell["k"] ** 0.5} for cell in cells)
    assert marker.exists()


GRID = """
[problem]
kind = "power-law"
d = 50
m = 4
[rates]
steps = 20
gamma = {from = 0.01, to = 0.1, count = 400}
"""


@pytest.fixture
def grid(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(GRID)
    # Compile and cache first, so that only results are left to write.
    solve({"problem": "power-law", "d": 50, "m": 4, "steps": 20, "gamma": 0.01})
    return path


def test_a_file_that_may_not_grow_is_one_line_and_goes_on_when_there_is_room(tmp_path, grid):
    path = tmp_path / "s.sqlite"
    options = (grid, "--store", path, "--workers", 1, "--pool", "threads")
    # Too little room for an empty file of results, then for all of them.
    for room in (3_000, 100_000):
        limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room}))"
        out, error, code = finished(command(*options, before=limit))
        _assert_refused_in_one_line(out, error, code)
    _assert_intact(path)
    with Store(path, read_only=True) as store:
        before = {row.key: row for row in store.rows()}
    assert 0 < len(before) < 400
    assert main(["sweep", *map(str, options)]) == 0
    with Store(path, read_only=True) as store:
        after = {row.key: row for row in store.rows()}
    assert len(after) == 400
    assert all(after[key] == row for key, row in before.items())


def _assert_refused_in_one_line(out, error, code):
    assert code == 1, error
    assert out == ""
    assert "Traceback" not in error
    line = error.splitlines()[-1]
    assert line.startswith("batchlaw: ")
    assert "s.sqlite can't take more results: " in line


# Runs in its own mount namespace, which ends with the script.
DISKS = """
set -u
mount -t tmpfs -o size=200k none "$1" || exit 77
shift
run() { "$@" >"$FOLDER/out" 2>"$FOLDER/err"; echo $? >"$FOLDER/code"; }
keep() { mkdir "$FOLDER/$1"; mv "$FOLDER/out" "$FOLDER/err" "$FOLDER/code" "$FOLDER/$1"; }
run "$@"; keep full
mount -o remount,size=64m none "$DISK"
run "$@"; keep room
mount -o remount,ro none "$DISK"
run "$@"; keep read-only
"""


@pytest.mark.skipif(
    os.getuid() != 0 or shutil.which("unshare") is None, reason="only root mounts a small disk"
)
def test_a_full_disk_is_one_line_and_so_is_a_read_only_one(tmp_path, grid):
    disk = tmp_path / "disk"
    disk.mkdir()
    code = "import sys; from batchlaw.faces.cli import main; sys.exit(main(sys.argv[1:]))"
    options = ("sweep", grid, "--store", disk / "s.sqlite", "--workers", 1, "--pool", "threads")
    run = subprocess.run(
        ["unshare", "--mount", "sh", "-c", DISKS, "sh", disk, sys.executable, "-c", code]
        + [str(option) for option in options],
        env=environment(FOLDER=str(tmp_path), DISK=str(disk)),
        timeout=3 * TIMEOUT_S,
        check=False,
        capture_output=True,
        text=True,
    )
    if run.returncode == 77 or "unshare" in run.stderr:
        pytest.skip(f"this system does not let a test mount a disk: {run.stderr.strip()}")
    assert run.returncode == 0, run.stderr
    full, room, read_only = (
        [(tmp_path / name / part).read_text() for part in ("out", "err", "code")]
        for name in ("full", "room", "read-only")
    )
    _assert_refused_in_one_line(full[0], full[1], int(full[2]))
    assert room[2] == "0\n", room[1]
    assert "400 of 400 cells done, 0 refused, 0 failed, 0 missing; " in room[0]
    assert "; 400 computed now" not in room[0]
    assert read_only[2] == "2\n"
    assert read_only[1].count("\n") == 1
    assert "s.sqlite must be writable: Read-only file system" in read_only[1]


def test_a_folder_that_cannot_be_written_to_is_one_line(grid, capsys):
    assert main(["sweep", str(grid), "--store", "/proc/sweeps/s.sqlite"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "/proc/sweeps/s.sqlite must be writable: " in error


def test_a_second_driver_is_refused_and_the_first_goes_on(tmp_path, grid, capsys):
    path = tmp_path / "s.sqlite"
    first = _driver(tmp_path, path)
    try:
        assert first.stdout.readline() == "start\n"
        assert int(first.stdout.readline()) > 0
        # Stopped, so that it certainly still holds the store.
        os.kill(first.pid, signal.SIGSTOP)
        assert main(["sweep", str(grid), "--store", str(path)]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "must have one writer: another run is using it" in error
    finally:
        os.kill(first.pid, signal.SIGCONT)
        _, error, code = finished(first)
    assert code == 0, error
    assert sorted(_computed(tmp_path)) == list(range(COUNT))
    with Store(path) as store:
        assert len(store) == COUNT
        assert store.facts() == {}
    assert not Path(f"{path}-wal").exists()
