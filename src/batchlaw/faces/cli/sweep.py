"""``batchlaw sweep``: many settings, computed locally or on a cluster, into one file."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from batchlaw._base import checks
from batchlaw._base.errors import InputError
from batchlaw._base.machine import cores
from batchlaw._base.version import __version__
from batchlaw.evidence.sweep import tidy
from batchlaw.evidence.sweep.cell import solve
from batchlaw.evidence.sweep.design import Design, parse_design, read_design
from batchlaw.evidence.sweep.timing import described, probes
from batchlaw.faces.cli.inputs import Flag, Whole
from batchlaw.faces.cli.progress import progress_bars
from batchlaw.faces.cli.table import text_table
from batchlaw.jobs.execution import Interrupted, Tally, execute
from batchlaw.jobs.store import DONE, FAILED, NUMERICS, REFUSED, Store, cell_key
from batchlaw.jobs.workers import Workers, worker_processes, worker_threads

FOLDER = Path("results/sweep")
SUFFIX = ".sqlite"
# Reasons shown for refused cells, and for failed ones.
MAX_REASONS = 5

app = App(name="sweep", help="Compute many settings: a grid or a random design, resumable.")
StoreFile = Annotated[Path | None, Parameter(name=["--store"])]


@app.default
def sweep(
    grid: Path,
    *,
    store: StoreFile = None,
    workers: Whole | None = None,
    pool: Literal["processes", "threads"] = "processes",
    dask: str | None = None,
    estimate: Flag = False,
    retry_failed: Flag = False,
    export: Path | None = None,
) -> int:
    """Compute every cell of a design, storing each in one SQLite file as it finishes.

    Run it again to resume, with more cells or different workers: only missing cells are computed.
    A cell whose setting can't be computed is stored as refused, one that crashed as failed; the
    exit code is 1 if there are any, 130 after an interrupt.

    Parameters
    ----------
    grid
        A TOML file with the sections problem, rates, batches, solver and design; see
        docs/sweeps.md.
    store
        File for the results; results/sweep/NAME.sqlite by default, with the grid's name.
    workers
        Cells computed at a time; one per core by default. Results do not depend on it.
    pool
        Run workers as processes, or as threads of one process.
    dask
        Address of a Dask scheduler (tcp://HOST:PORT), or "local" to start one here.
    estimate
        Compute a few cells spread over the design, print how long all would take, and stop.
    retry_failed
        Also recompute the cells that were refused or failed before.
    export
        Write all results of this design to a .csv or .parquet file, with the columns' units and
        the provenance in a .json file next to it.
    """
    design = read_design(grid)
    count = cores() if workers is None else checks.count("workers", workers)
    path = FOLDER / f"{grid.stem}{SUFFIX}" if store is None else store
    if export is not None:
        tidy.check_target(export)
        if path.resolve() in (export.resolve(), tidy.about_file(export).resolve()):
            raise InputError("export", "must be another file than the store", str(export))
    with Store(path) as results:
        results.note(_facts(design))
        try:
            with _workers(count, pool, dask) as pool_workers:
                retry = (REFUSED, FAILED) if retry_failed else ()
                tally = _run(design, results, pool_workers, estimate, retry)
        except Interrupted:
            stored = sum(rows for rows, _ in results.counts().values())
            _say(f"interrupted: {stored} cells are stored; run the same command to resume")
            return 130
        complete = _report(design, results, tally)
        if export is not None:
            rows = tidy.export(results, design.cells, export, design.text)
            print(f"{rows} rows in {export}; units and provenance in {export.name}.json")
    return 0 if complete else 1


@app.command
def status(*, store: StoreFile = None, traceback: Flag = False) -> int:
    """Count the cells done, refused, failed and missing in a file of results, with reasons.

    Parameters
    ----------
    store
        File of results; by default the only one in results/sweep. A sweep may be writing it.
    traceback
        Also print a failed cell's traceback, one per reason.
    """
    path = _store_path(store)
    with Store(path, read_only=True) as results:
        facts, counts = results.facts(), results.counts()
        lines = [(name, str(rows), described(seconds)) for name, (rows, seconds) in counts.items()]
        if "design" in facts:
            design = parse_design(facts["design"])
            missing = sum(1 for _ in results.missing(design.cells()))
            lines.append(("missing", str(missing), ""))
        print(text_table((str(path), "cells", "time of one core"), lines))
        _say_why(REFUSED, results.reasons(REFUSED))
        failures = list(results.reasons(FAILED))
        _say_why(FAILED, failures)
        if traceback:
            _print_tracebacks(results, [reason for reason, _ in failures])
        elif failures:
            _say_how_to_debug(path)
    return 0


@app.command
def plot(
    x: str,
    y: str,
    *,
    by: str | None = None,
    where: Annotated[list[str] | None, Parameter(negative=())] = None,
    store: StoreFile = None,
    output: Path = Path("sweep.png"),
) -> int:
    """Plot one column of the results against another, coloured by the values of a third.

    One line per combination of the other parameters, with standard errors if there are any.

    Parameters
    ----------
    x
        Parameter or result, such as steps, m, gamma, b_eff.
    y
        Result, such as total, variance, fluctuation.
    by
        Parameter to colour by.
    where
        NAME=VALUE: only cells with this value in a column; may be repeated for other columns.
    store
        File of results; by default the only one in results/sweep.
    output
        A .png, .pdf or .svg file.
    """
    from batchlaw.evidence.sweep.curves import curves
    from batchlaw.evidence.sweep.figure import sweep_figure
    from batchlaw.plots.common import save

    path = _store_path(store)
    with Store(path, read_only=True) as results:
        facts = results.facts()
        if "design" not in facts:
            raise InputError("store", "must be a file of batchlaw sweep", subject=str(path))
        lines = curves(results, parse_design(facts["design"]), x, y, by, _conditions(where))
    save(sweep_figure(lines), output)
    print(f"{len(lines.lines)} lines in {output}")
    return 0


def _conditions(where: list[str] | None) -> dict[str, str]:
    """Values by name, from texts NAME=VALUE."""
    conditions: dict[str, str] = {}
    for text in where or []:
        name, sign, value = text.partition("=")
        if not sign or name in conditions:
            raise InputError("where", "must be NAME=VALUE, each name once", repr(text))
        conditions[name] = value
    return conditions


def _workers(count: int, pool: str, dask: str | None) -> AbstractContextManager[Workers]:
    if dask is not None:
        from batchlaw.jobs.dask_workers import dask_workers

        return dask_workers(dask, count)
    return worker_threads(count) if pool == "threads" else worker_processes(count)


def _run(
    design: Design, results: Store, workers: Workers, estimate: bool, retry: Collection[str]
) -> Tally:
    """Compute a few cells to estimate the time, then all of them."""
    todo = sum(1 for _ in results.missing(design.cells(), retry=retry))
    _say(f"{len(design)} cells, {len(design) - todo} of them stored")
    few = list(results.missing(probes(design), retry=retry))
    # A worker's first cell includes loading its libraries: not timed.
    warm = execute(results, few[: workers.capacity()], solve, workers, retry=retry)
    others = few[workers.capacity() :]
    first = execute(results, others, solve, workers, retry=retry)
    left = todo - len(few)
    if first.computed:
        cell_seconds = first.seconds / first.computed
        capacity = workers.capacity()
        _say(
            f"about {described(left * cell_seconds / capacity)} for the other {left} with "
            f"{capacity} workers: {len(others)} cells took {1e3 * cell_seconds:.3g} ms each"
        )
    first.join(warm)
    if estimate:
        return first
    start = time.perf_counter()
    with progress_bars(plain=True) as stage:
        advance = stage("cells", left) if stage else None
        # Do not retry what was refused or failed a moment ago.
        tried = {cell_key(cell) for cell in few}
        more = (cell for cell in design.cells() if cell_key(cell) not in tried)
        rest = execute(results, more, solve, workers, advance=advance, retry=retry)
    if rest.computed:
        rate = rest.computed / (time.perf_counter() - start)
        _say(f"{rest.computed} cells at {rate:.3g}/s")
    first.join(rest)
    return first


def _report(design: Design, results: Store, tally: Tally) -> bool:
    """Print what the store holds; return whether no cell was refused or failed."""
    statuses: Counter[str | None] = Counter()
    reasons: dict[str, Counter[str]] = {REFUSED: Counter(), FAILED: Counter()}
    for cell in design.cells():
        status = results.status(cell)
        statuses[status] += 1
        if status in reasons and (row := results.get(cell)) is not None:
            reasons[status][row.result["reason"]] += 1
    print(
        f"{statuses[DONE]} of {len(design)} cells done, {statuses[REFUSED]} refused, "
        f"{statuses[FAILED]} failed, {statuses[None]} missing; {tally.computed} computed now: "
        f"{results.path}"
    )
    for status, counted in reasons.items():
        _say_why(status, counted.most_common())
    if reasons[FAILED]:
        _say_how_to_debug(results.path)
    return not any(reasons.values())


def _say_why(status: str, reasons: Iterable[tuple[str, int]]) -> None:
    """Print the commonest reasons with their numbers of cells."""
    for reason, rows in islice(reasons, MAX_REASONS):
        print(f"{status}, {rows} cells: {reason}")


def _say_how_to_debug(path: Path) -> None:
    print(
        "failed cells are a fault of the program or the machine; "
        f"batchlaw sweep status --store {path} --traceback shows where"
    )


def _print_tracebacks(results: Store, reasons: Iterable[str]) -> None:
    for reason in reasons:
        row = results.first_failure(reason)
        if row is not None:
            print(f"\n{row.cell}\n{row.result['traceback'].rstrip()}")


def _facts(design: Design) -> dict[str, str]:
    return {"design": design.text, "batchlaw": __version__, "numerics": str(NUMERICS)}


def _store_path(store: Path | None) -> Path:
    if store is not None:
        return store
    stores = sorted(FOLDER.glob(f"*{SUFFIX}")) if FOLDER.is_dir() else []
    if len(stores) != 1:
        names = ", ".join(path.name for path in stores) or "none"
        raise InputError("store", f"must be given unless {FOLDER} has one sweep, it has {names}")
    return stores[0]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
