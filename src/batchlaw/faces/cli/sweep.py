"""``batchlaw sweep``: many settings, in processes or on a cluster, into one file."""

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
# Reasons of refused and of failed cells that are shown.
SHOWN = 5

app = App(name="sweep", help="Many settings at once: a grid or a random design, resumable.")
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
    """Compute every cell of a design, and keep each in one SQLite file as it is done.

    Run it again to go on where it was, with more cells or with other workers: only what is
    missing is computed. A cell whose setting can't be computed is stored as refused, one in
    which the program broke as failed; the exit code is 1 where there are any, 130 after an
    interrupt.

    Parameters
    ----------
    grid
        A TOML file with the sections problem, rates, batches, solver and design; see
        docs/sweeps.md.
    store
        The file of results; results/sweep/ and the grid's name by default.
    workers
        Cells at a time; all cores by default. Results do not depend on it.
    pool
        Processes, or threads of one process.
    dask
        Address of a Dask scheduler (tcp://HOST:PORT), or "local" for a cluster of this machine.
    estimate
        Compute a few cells spread over the design, say how long all take, and stop.
    retry_failed
        Also compute the cells that were refused or failed before.
    export
        A .csv or .parquet file for all results of this design, with its columns' units and
        provenance beside it in a .json file.
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
            with _workers(count, pool, dask) as found:
                retry = (REFUSED, FAILED) if retry_failed else ()
                tally = _run(design, results, found, estimate, retry)
        except Interrupted:
            stored = sum(rows for rows, _ in results.counts().values())
            _say(f"interrupted: {stored} cells are stored; run the same command to go on")
            return 130
        complete = _report(design, results, tally)
        if export is not None:
            rows = tidy.export(results, design.cells, export, design.text)
            print(f"{rows} rows in {export}; units and provenance in {export.name}.json")
    return 0 if complete else 1


@app.command
def status(*, store: StoreFile = None, traceback: Flag = False) -> int:
    """What a file of results holds: cells done, refused, failed and missing, and why.

    Parameters
    ----------
    store
        The file; the only one of results/sweep by default. It may be in use.
    traceback
        Also print the traceback of a failed cell, one for each reason.
    """
    path = _found(store)
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
            _say_how_to_see(path)
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
    """Draw one column of the results against another, a colour for each value of a third.

    A line for each combination of the other parameters; standard errors where there are any.

    Parameters
    ----------
    x
        A parameter or a result, such as steps, m, gamma, b_eff.
    y
        A result, such as total, variance, fluctuation.
    by
        A parameter to colour by.
    where
        NAME=VALUE: only cells with this value of a column; again for another column.
    store
        The file; the only one of results/sweep by default.
    output
        A .png, .pdf or .svg file.
    """
    from batchlaw.evidence.sweep.curves import curves
    from batchlaw.evidence.sweep.figure import sweep_figure
    from batchlaw.plots.common import save

    path = _found(store)
    with Store(path, read_only=True) as results:
        facts = results.facts()
        if "design" not in facts:
            raise InputError("store", "must be a file of batchlaw sweep", subject=str(path))
        found = curves(results, parse_design(facts["design"]), x, y, by, _conditions(where))
    save(sweep_figure(found), output)
    print(f"{len(found.lines)} lines in {output}")
    return 0


def _conditions(where: list[str] | None) -> dict[str, str]:
    """Names and values of NAME=VALUE."""
    found: dict[str, str] = {}
    for each in where or []:
        name, sign, value = each.partition("=")
        if not sign or name in found:
            raise InputError("where", "must be NAME=VALUE, each name once", repr(each))
        found[name] = value
    return found


def _workers(count: int, pool: str, dask: str | None) -> AbstractContextManager[Workers]:
    if dask is not None:
        from batchlaw.jobs.dask_workers import dask_workers

        return dask_workers(dask, count)
    return worker_threads(count) if pool == "threads" else worker_processes(count)


def _run(
    design: Design, results: Store, workers: Workers, estimate: bool, retry: Collection[str]
) -> Tally:
    """A few cells for the time they take, then all."""
    todo = sum(1 for _ in results.missing(design.cells(), retry=retry))
    _say(f"{len(design)} cells, {len(design) - todo} of them stored")
    few = list(results.missing(probes(design), retry=retry))
    # The first cell of a worker loads its libraries, and says little about the others.
    warm = execute(results, few[: workers.capacity()], solve, workers, retry=retry)
    others = few[workers.capacity() :]
    first = execute(results, others, solve, workers, retry=retry)
    left = todo - len(few)
    if first.computed:
        each = first.seconds / first.computed
        at_a_time = workers.capacity()
        _say(
            f"about {described(left * each / at_a_time)} for the other {left} with {at_a_time} "
            f"workers: {len(others)} cells took {1e3 * each:.3g} ms each"
        )
    first.join(warm)
    if estimate:
        return first
    start = time.perf_counter()
    with progress_bars(plain=True) as stage:
        advance = stage("cells", left) if stage else None
        # What was refused or failed a moment ago is not tried again.
        tried = {cell_key(cell) for cell in few}
        more = (cell for cell in design.cells() if cell_key(cell) not in tried)
        rest = execute(results, more, solve, workers, advance=advance, retry=retry)
    if rest.computed:
        rate = rest.computed / (time.perf_counter() - start)
        _say(f"{rest.computed} cells at {rate:.3g} a second")
    first.join(rest)
    return first


def _report(design: Design, results: Store, tally: Tally) -> bool:
    """Says what is there; whether no cell of the design was refused or failed."""
    found: Counter[str | None] = Counter()
    reasons: dict[str, Counter[str]] = {REFUSED: Counter(), FAILED: Counter()}
    for cell in design.cells():
        status = results.status(cell)
        found[status] += 1
        if status in reasons and (row := results.get(cell)) is not None:
            reasons[status][row.result["reason"]] += 1
    print(
        f"{found[DONE]} of {len(design)} cells done, {found[REFUSED]} refused, "
        f"{found[FAILED]} failed, {found[None]} missing; {tally.computed} computed now: "
        f"{results.path}"
    )
    for status, counted in reasons.items():
        _say_why(status, counted.most_common())
    if reasons[FAILED]:
        _say_how_to_see(results.path)
    return not any(reasons.values())


def _say_why(status: str, reasons: Iterable[tuple[str, int]]) -> None:
    """The commonest reasons, with the number of their cells."""
    for reason, rows in islice(reasons, SHOWN):
        print(f"{status}, {rows} cells: {reason}")


def _say_how_to_see(path: Path) -> None:
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


def _found(store: Path | None) -> Path:
    if store is not None:
        return store
    there = sorted(FOLDER.glob(f"*{SUFFIX}")) if FOLDER.is_dir() else []
    if len(there) != 1:
        names = ", ".join(path.name for path in there) or "none"
        raise InputError("store", f"must be given unless {FOLDER} has one sweep, it has {names}")
    return there[0]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
