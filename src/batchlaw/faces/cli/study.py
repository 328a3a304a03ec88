"""``batchlaw study``: what the schedules buy in real training."""

from __future__ import annotations

import math
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from batchlaw._base import checks
from batchlaw._base.errors import InputError
from batchlaw._base.files import OutputDirectory
from batchlaw._base.machine import cores
from batchlaw.evidence.study.blocks import BLOCKS
from batchlaw.evidence.study.cells import group_cells, pilot_cells, run_cell
from batchlaw.evidence.study.plan import StudyPlan, make_plan, read_plan, write_plan
from batchlaw.evidence.study.schedules import CONSTANT, SCHEDULES
from batchlaw.evidence.study.summary import write
from batchlaw.faces.cli.inputs import Flag, Whole
from batchlaw.faces.cli.progress import progress_bars
from batchlaw.faces.cli.study_blocks import make_blocks, opened
from batchlaw.jobs.execution import Tally, execute
from batchlaw.jobs.store import FAILED, Store
from batchlaw.jobs.workers import Workers, worker_processes

SCHEDULE_HELP = (
    "Only the constant batch and these schedules (may be repeated): "
    f"{', '.join(name for name in SCHEDULES if name != CONSTANT)}."
)
BLOCK_HELP = (
    "Make these blocks of the benchmark of batch schedules (may be repeated; all for all of them): "
    f"{', '.join(BLOCKS)}."
)
Names = Annotated[list[str] | None, Parameter(negative=())]
STORE = "study.sqlite"
# Time limit of the default study.
HOURS = 2.0


def study(
    *,
    quick: Flag = False,
    output_dir: Path = Path("results/study"),
    task: Names = None,
    optimizer: Names = None,
    schedule: Annotated[list[str] | None, Parameter(negative=(), help=SCHEDULE_HELP)] = None,
    rates: Names = None,
    hours: float | None = None,
    workers: Whole | None = None,
    estimate: Flag = False,
    summary: Flag = False,
    block: Annotated[list[str] | None, Parameter(negative=(), help=BLOCK_HELP)] = None,
    again: Flag = False,
) -> int:
    """Compare batch schedules in training, at equal updates and equal samples.

    With ``--block``, makes blocks of the benchmark of batch schedules instead: loss curves of a
    transformer as compressed CSV, a folder for each block, from the runs in blocks.sqlite.

    Writes study.sqlite (every run), results.csv, summary.md and its figures. Run the same command
    again to resume a study after an interrupt. The exit code is 1 if a run failed other than by
    diverging; such a run is left out, and retried next time.

    Parameters
    ----------
    quick
        Two minutes of short runs, to see that it works; too short for conclusions.
    output_dir
        Directory for the files; created if missing.
    task
        Only these tasks (may be repeated): digits-features, digits, diabetes, breast_cancer,
        wine (linear regression), logistic, mlp, transformer.
    optimizer
        Only these optimizers (may be repeated): sgd, momentum, adamw; or, with the transformer
        only, adamw-0.95, whose beta2 is 0.95 instead of 0.999.
    rates
        Only these shapes of the rates (may be repeated): wsd, wsd-linear, cosine; or, with the
        transformer only, wsd-short (the decay is the last 30 %) and drop (to a tenth, at 80 %).
    hours
        Time limit: 2 by default, and none for blocks. A few steps are timed first; groups of runs
        that would not fit are dropped and listed. A block is first trimmed to fewer seeds, but
        keeps the runs it has.
    workers
        Number of single-threaded processes; one per core by default. Results do not depend on
        it.
    estimate
        Time a few steps, print the number of runs and the time they will take, and stop.
    summary
        Run nothing; write the summary of the stored runs.
    again
        Make blocks that batchlaw already comes with, too.
    """
    _refuse_missing_extras()
    if block is not None:
        chosen = {"quick": quick, "task": task, "optimizer": optimizer, "schedule": schedule}
        chosen |= {"rates": rates, "summary": summary}
        for name, value in chosen.items():
            if value:
                raise InputError(name, "must be left out with a block, which has its own")
        return make_blocks(
            block,
            OutputDirectory(output_dir),
            math.inf if hours is None else checks.real("hours", hours, above=0.0),
            cores() if workers is None else checks.count("workers", workers),
            estimate=estimate,
            again=again,
        )
    if again:
        raise InputError("again", "must be used with a block")
    if summary:
        return _summary(output_dir)
    count = cores() if workers is None else checks.count("workers", workers)
    hours = checks.real("hours", HOURS if hours is None else hours, above=0.0)
    output = OutputDirectory(output_dir)
    asked: dict[str, Any] = {"quick": quick, "tasks": task, "optimizers": optimizer}
    asked |= {"schedules": schedule, "rates": rates, "hours": hours}
    with opened(output_dir / STORE, read_only=estimate) as store:
        with worker_processes(count) as processes:
            plan = _planned(asked, output, processes)
            stored = 0 if store is None else len(store)
            _say(f"{plan.described(count)} with {count} processes; {stored} cells are stored")
            if estimate or store is None:
                return 0
            with progress_bars(plain=True) as stage:
                tally = _run(plan, store, processes, stage)
        written = write(plan, store, output)
        reasons = list(store.reasons(FAILED)) if tally.failed else []
    print(f"{len(written)} files in {output_dir}; summary: {output_dir / 'summary.md'}")
    for reason, runs in reasons:
        _say(f"{runs} runs failed and will be retried next time: {reason}")
    return 1 if reasons else 0


def _summary(folder: Path) -> int:
    plan = read_plan(folder)
    if plan is None:
        raise InputError("output_dir", "must hold a study to summarise", subject=str(folder))
    with Store(folder / STORE, read_only=True) as store:
        written = write(plan, store, OutputDirectory(folder))
    print(f"{len(written)} files in {folder}; summary: {folder / 'summary.md'}")
    return 0


def _planned(asked: dict[str, Any], output: OutputDirectory, workers: Workers) -> StudyPlan:
    """The plan in this folder if it was made with the same options, else a new one."""
    plan = read_plan(output.path)
    if plan is None or plan.asked != asked:
        _say("timing a few steps of every task")
        plan = make_plan(asked, workers)
        write_plan(plan, output)
    for name in plan.dropped:
        _say(f"dropped, it does not fit in {asked['hours']:g} hours: {name}")
    return plan


def _run(plan: StudyPlan, store: Store, workers: Workers, stage: Any) -> Tally:
    """Pilots, then the runs. Only failed runs are retried: a diverged one would diverge again."""
    retry = (FAILED,)
    pilots = pilot_cells(plan.groups)
    todo = sum(1 for _ in store.missing(pilots, retry=retry))
    advance = stage("pilots", todo) if stage else None
    tally = execute(store, pilots, run_cell, workers, advance=advance, retry=retry)
    cells = [cell for group in plan.groups for cell in group_cells(group, store)]
    todo = sum(1 for _ in store.missing(cells, retry=retry))
    advance = stage("runs", todo) if stage else None
    tally.join(execute(store, cells, run_cell, workers, advance=advance, retry=retry))
    return tally


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _refuse_missing_extras() -> None:
    for module in ("torch", "sklearn"):
        if find_spec(module) is None:
            raise InputError(
                "task",
                "must have PyTorch and scikit-learn",
                hint="install the extra, study",
                subject="study",
            )
