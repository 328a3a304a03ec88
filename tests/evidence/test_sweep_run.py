"""A sweep gives the same numbers wherever it runs, resumes, and stops when interrupted."""

import csv
import os
import random
import re
import signal
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

from batchlaw.evidence.sweep.cell import solve
from batchlaw.evidence.sweep.design import parse_design
from batchlaw.faces.cli import main
from batchlaw.jobs.execution import TASKS_PER_WORKER, compute_cells, execute
from batchlaw.jobs.store import DONE, FAILED, REFUSED, Store
from batchlaw.jobs.workers import Workers, worker_processes, worker_threads
from sweep_cells import alive, children, cluster, command, finished, root, until

# Sixty directions: enough for BLAS to use several threads if it may.
TEXT = """
[problem]
kind = "power-law"
d = 400
m = [6, 60]
[rates]
steps = [20, 30]
[batches]
kind = ["oracle", "constant"]
[solver]
procedure = "multi-pass"
samples = 64
kind = "simulated"
repetitions = 3
"""
CELLS = list(parse_design(TEXT).cells())


def _results(store):
    return {row.key: (row.status, row.cell, row.result) for row in store.rows()}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    with Store(tmp_path_factory.mktemp("one") / "s") as store, worker_threads(1) as workers:
        assert execute(store, CELLS, solve, workers).done == len(CELLS)
        return _results(store)


@pytest.mark.process
def test_threads_and_processes_in_any_order_give_the_same_bits(tmp_path, expected):
    shuffled = random.Random(1).sample(CELLS, len(CELLS))
    for kind, count in ((worker_threads, 3), (worker_processes, 2)):
        with Store(tmp_path / kind.__name__) as store, kind(count) as workers:
            execute(store, shuffled, solve, workers)
            assert _results(store) == expected


@pytest.mark.process
def test_a_cluster_of_other_processes_gives_the_same_bits(tmp_path, expected):
    pytest.importorskip("distributed")
    from batchlaw.jobs.dask_workers import dask_workers

    with (
        cluster(tmp_path, workers=2) as address,
        Store(tmp_path / "s") as store,
        dask_workers(address, 1) as workers,
    ):
        execute(store, CELLS, solve, workers)
        assert _results(store) == expected


class Counting(ThreadPoolExecutor):
    """Counts the cells that are submitted and not yet stored."""

    def __init__(self, store, count):
        super().__init__(count)
        self.store, self.submitted, self.most_in_flight = store, 0, 0

    def submit(self, *arguments):
        self.submitted += len(arguments[2])
        self.most_in_flight = max(self.most_in_flight, self.submitted - len(self.store))
        return super().submit(*arguments)


def test_a_few_tasks_are_in_flight_and_cells_are_taken_as_they_are_needed(tmp_path):
    taken = 0

    def cells():
        nonlocal taken
        for taken in range(1, 301):
            assert taken <= len(store) + TASKS_PER_WORKER * 2 * 5
            yield {"k": taken}

    with Store(tmp_path / "s") as store, Counting(store, 2) as pool:
        tally = execute(store, cells(), root, Workers(pool, lambda: 2), largest=5)
    assert (tally.done, tally.failed, taken) == (300, 0, 300)
    assert TASKS_PER_WORKER <= pool.most_in_flight <= TASKS_PER_WORKER * 2 * 5


def slow_after_a_while(cell):
    time.sleep(0.0 if cell["k"] < 100 else 0.3)
    return {"k": cell["k"]}


@pytest.mark.slow
def test_a_task_of_cells_that_turn_slow_is_cut_short_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("batchlaw.jobs.execution.TASK_LIMIT_S", 0.5)
    sizes = []
    with Store(tmp_path / "s") as store, worker_threads(1) as workers:
        cells = [{"k": k} for k in range(112)]
        tally = execute(store, cells, slow_after_a_while, workers, advance=sizes.append)
        assert tally.done == len(store) == 112
        assert all(store.get(cell).result == {"k": cell["k"]} for cell in cells)
    # At 0.3 s per cell, no task goes on after half a second.
    assert max(sizes[-3:]) <= 3


def test_a_cell_that_comes_twice_is_computed_once(tmp_path):
    with Store(tmp_path / "s") as store, Counting(store, 2) as pool:
        cells = [{"k": k % 7} for k in range(100)]
        assert execute(store, cells, root, Workers(pool, lambda: 2)).done == 7
    assert pool.submitted == 7


def test_refusals_are_kept_with_their_reason_and_the_rest_goes_on(tmp_path):
    cells = [{"k": k} for k in range(-3, 20)]
    with Store(tmp_path / "s") as store, worker_threads(2) as workers:
        tally = execute(store, cells, root, workers)
        assert (tally.done, tally.refused, tally.failed) == (20, 3, 0)
        assert store.get({"k": -2}).result == {"reason": "k must be at least 0.0, got -2"}
        assert execute(store, cells, root, workers).computed == 0
        assert execute(store, cells, root, workers, retry=(REFUSED,)).refused == 3


def planted(cell):
    """Bugs of three kinds, bad input, and a result."""
    if cell["k"] == 1:
        return {"entry": [][cell["k"]]}
    if cell["k"] == 2:
        return {"product": np.ones(3) @ np.ones(4)}
    if cell["k"] == 3:
        raise MemoryError
    return root(cell)


@pytest.mark.process
def test_a_bug_is_stored_apart_from_refused_settings_with_its_traceback(tmp_path):
    cells = [{"k": k} for k in range(-1, 5)]
    with Store(tmp_path / "s") as store, worker_processes(1) as workers:
        tally = execute(store, cells, planted, workers)
        assert (tally.done, tally.refused, tally.failed) == (2, 1, 3)
        rows = {row.cell["k"]: row for row in store.rows()}
        assert [rows[k].status for k in range(-1, 5)] == [REFUSED, DONE, *[FAILED] * 3, DONE]
        assert rows[1].result["reason"] == "IndexError: list index out of range"
        assert rows[2].result["reason"].startswith("ValueError: matmul: ")
        assert rows[3].result["reason"] == "MemoryError"
        for k in (1, 2, 3):
            assert "in planted\n" in rows[k].result["traceback"]
            assert store.first_failure(rows[k].result["reason"]) == rows[k]
        assert rows[-1].result.keys() == {"reason"}
        assert [count for _, count in store.reasons(FAILED)] == [1, 1, 1]
        assert execute(store, cells, planted, workers).computed == 0
        assert execute(store, cells, planted, workers, retry=(FAILED,)).failed == 3


class WorkerLostError(Exception):
    """Stands for the exception of a cluster."""


def takes_the_worker_down(compute, cells):
    if any(cell["k"] == 5 for cell in cells):
        raise WorkerLostError("three workers")
    return compute_cells(compute, cells)


class Deadly(ThreadPoolExecutor):
    """Workers that do not survive a task that holds one particular cell."""

    def submit(self, _, *arguments):
        return super().submit(takes_the_worker_down, *arguments)


def test_a_cell_that_takes_its_workers_down_has_failed_alone(tmp_path):
    cells = [{"k": k} for k in range(20)]
    with Store(tmp_path / "s") as store, Deadly(1) as pool:
        workers = Workers(pool, lambda: 1, killed=(WorkerLostError,))
        assert execute(store, cells, root, workers).done == 19
        assert store.get({"k": 5}).status == FAILED
        assert store.get({"k": 5}).result["reason"] == "its workers died: three workers"
    with (
        Store(tmp_path / "other") as store,
        Deadly(1) as pool,
        pytest.raises(WorkerLostError),
    ):
        execute(store, cells, root, Workers(pool, lambda: 1))


class Lost(ThreadPoolExecutor):
    """A cluster that is lost: its tasks are cancelled."""

    def submit(self, *arguments):
        future = Future()
        future.cancel()
        future.set_running_or_notify_cancel()
        return future


def test_a_lost_cluster_is_reported(tmp_path):
    with (
        Store(tmp_path / "s") as store,
        Lost(1) as pool,
        pytest.raises(OSError, match="lost the cluster; run the same command again"),
    ):
        execute(store, [{"k": 1}], root, Workers(pool, lambda: 1))


# 40 cells: more than are timed first. Every cell of the second rate is refused.
UNSTABLE = """
[problem]
kind = "power-law"
d = 50
m = 4
[rates]
steps = {from = 20, to = 39, count = 20}
gamma = [0.05, 90.0]
"""


def test_the_command_goes_on_past_failures_and_resumes(tmp_path, capsys):
    grid, store = tmp_path / "grid.toml", tmp_path / "s.sqlite"
    grid.write_text(UNSTABLE)
    run = ["sweep", str(grid), "--store", str(store), "--workers", "1", "--pool", "threads"]
    assert main([*run, "--estimate"]) == 1
    captured = capsys.readouterr()
    assert "for the other 24 with 1 workers: 15 cells took" in captured.err
    # The timed cells are of both rates.
    assert re.search(
        r"[1-9] of 40 cells done, 1?[1-9] refused, 0 failed, 24 missing; 16", captured.out
    )
    assert main(run) == 1
    captured = capsys.readouterr()
    assert "40 cells, 16 of them stored" in captured.err
    assert "20 of 40 cells done, 20 refused, 0 failed, 0 missing; 24 computed now" in captured.out
    assert "refused, 20 cells: peak rate 90 is unstable" in captured.out
    assert main(run) == 1
    assert "0 missing; 0 computed now" in capsys.readouterr().out
    assert main([*run, "--retry-failed"]) == 1
    assert "20 refused, 0 failed, 0 missing; 20 computed now" in capsys.readouterr().out
    # Refusals of another design in the same file are not this one's.
    grid.write_text(UNSTABLE.replace("[0.05, 90.0]", "0.05"))
    assert main(run) == 0
    assert "refused, " not in capsys.readouterr().out.replace("0 refused, ", "")


def test_the_command_shows_bugs_apart_and_where_their_traceback_is(tmp_path, capsys, monkeypatch):
    grid, store = tmp_path / "grid.toml", tmp_path / "s.sqlite"
    grid.write_text(UNSTABLE)
    run = ["sweep", str(grid), "--store", str(store), "--workers", "1", "--pool", "threads"]

    def broken(cell):
        if cell["steps"] == 20:
            np.ones(3) @ np.ones(4)
        return solve(cell)

    monkeypatch.setattr("batchlaw.faces.cli.sweep.solve", broken)
    target = str(tmp_path / "t.csv")
    assert main([*run, "--export", target]) == 1
    output = capsys.readouterr().out
    assert "19 of 40 cells done, 19 refused, 2 failed, 0 missing" in output
    assert "refused, 19 cells: peak rate 90 is unstable" in output
    assert "failed, 2 cells: ValueError: matmul: " in output
    assert f"batchlaw sweep status --store {store} --traceback shows where" in output
    with open(target, newline="") as file:
        rows = list(csv.DictReader(file))
    assert Counter(row["status"] for row in rows) == {DONE: 19, REFUSED: 19, FAILED: 2}
    assert "traceback" not in rows[0]
    for options in ([], ["--traceback"]):
        assert main(["sweep", "status", "--store", str(store), *options]) == 0
        output = capsys.readouterr().out
        assert "failed, 2 cells: ValueError: matmul: " in output
        assert ("--traceback shows where" in output) == (not options)
        assert ("in broken\n" in output) == bool(options)
    monkeypatch.undo()
    assert main([*run, "--retry-failed"]) == 1
    assert "20 of 40 cells done, 20 refused, 0 failed, 0 missing" in capsys.readouterr().out


LONG = """
[problem]
kind = "power-law"
d = 100
m = 16
[rates]
steps = 1000
[solver]
kind = "simulated"
repetitions = 20
data_seed = {from = 1, to = 3000, count = 3000}
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("kind", "where"),
    [
        (signal.SIGINT, ("--pool", "processes")),
        (signal.SIGTERM, ("--pool", "threads")),
        (signal.SIGINT, ("--dask", "local")),
    ],
)
def test_an_interrupt_stores_what_runs_and_ends_the_workers(tmp_path, kind, where):
    pytest.importorskip("distributed")
    grid, path = tmp_path / "grid.toml", tmp_path / "s.sqlite"
    grid.write_text(LONG)
    options = ("--store", path, "--workers", 2, *where)
    process = command(grid, *options, start_new_session=True, cwd=tmp_path)

    def stored():
        # Past the cells that are timed first. A store that is still being created cannot be read.
        with suppress(ValueError), Store(path, read_only=True) as store:
            return len(store) > 20
        return process.poll() is not None

    with process:
        try:
            until(stored, "results")
            workers = children(process.pid)
            # As in a terminal, where an interrupt goes to all processes of the command.
            (os.killpg if kind == signal.SIGINT else os.kill)(process.pid, kind)
        except BaseException:
            process.kill()
            raise
        out, error, code = finished(process)
    assert code == 130, error
    assert out == ""
    with Store(path, read_only=True) as store:
        rows = list(store.rows())
    assert 20 < len(rows) < 3000
    assert {row.status for row in rows} == {DONE}
    message = f"interrupted: {len(rows)} cells are stored; run the same command to resume"
    assert message in error.splitlines()
    assert "Traceback" not in error
    assert len(workers) >= (2 if kind == signal.SIGINT else 0)
    until(lambda: not any(map(alive, workers)), "the end of the workers")
    assert rows[0].result == solve(rows[0].cell)


@pytest.mark.process
def test_a_cluster_of_this_machine(tmp_path):
    pytest.importorskip("distributed")
    grid, path = tmp_path / "grid.toml", tmp_path / "s.sqlite"
    grid.write_text(UNSTABLE)
    process = command(grid, "--store", path, "--dask", "local", "--workers", "1", cwd=tmp_path)
    out, error, code = finished(process)
    assert code == 1, error
    assert "20 of 40 cells done, 20 refused, 0 failed, 0 missing; 40 computed now" in out
    assert "Traceback" not in error
    with Store(path, read_only=True) as store:
        assert {row.status for row in store.rows()} == {DONE, REFUSED}


@pytest.mark.process
def test_a_missing_scheduler_is_refused_in_one_line(tmp_path, capsys):
    pytest.importorskip("distributed")
    grid = tmp_path / "grid.toml"
    grid.write_text(UNSTABLE)
    options = ("--store", tmp_path / "s.sqlite", "--dask")
    outcomes = []
    for address in ("nowhere", "xyz://127.0.0.1:1"):
        code = main(["sweep", *map(str, (grid, *options, address))])
        outcomes.append((address, capsys.readouterr().err, code))
    short = "import batchlaw.jobs.dask_workers as d; d.CONNECT_TIMEOUT_S = 0.5"
    address = "tcp://127.0.0.1:1"
    _, error, code = finished(command(grid, *options, address, before=short))
    outcomes.append((address, error, code))
    for address, error, code in outcomes:
        assert code == 2
        assert error.count("\n") == 1, error
        assert f"--dask must be a scheduler's address, got '{address}'" in error
