"""``batchlaw verify``: the paper's claims, measured and judged."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from batchlaw._base import checks
from batchlaw._base.files import OutputDirectory
from batchlaw._base.machine import cores
from batchlaw.evidence.claims.check_settings import FULL, QUICK
from batchlaw.evidence.claims.claim import CONFIRMED, CONTRADICTED, OPEN, OUTSIDE
from batchlaw.evidence.claims.registry import FAMILIES, all_claims, choose_claims
from batchlaw.evidence.claims.report import by_family, counts, write
from batchlaw.evidence.claims.run import Row, run, task_cells
from batchlaw.faces.cli.inputs import Whole
from batchlaw.faces.cli.progress import left_to_do, progress_bars
from batchlaw.faces.cli.table import text_table
from batchlaw.jobs.store import Store
from batchlaw.jobs.workers import worker_processes

STORE = "verify.sqlite"
SHORT = {
    CONFIRMED: "confirmed",
    OPEN: "not settled",
    CONTRADICTED: "contradicted",
    OUTSIDE: "outside",
}
FAMILY_HELP = f"Only these families (may be repeated): {', '.join(FAMILIES)}. All by default."
CLAIM_HELP = (
    f"Only these claims (may be repeated), by id, such as {next(iter(all_claims()))}; in addition "
    "to those of any families named."
)


def verify(
    *,
    quick: bool = False,
    output_dir: Path = Path("results/verify"),
    family: Annotated[list[str] | None, Parameter(negative=(), help=FAMILY_HELP)] = None,
    claim: Annotated[list[str] | None, Parameter(negative=(), help=CLAIM_HELP)] = None,
    list_: Annotated[bool, Parameter(name="--list", negative=())] = False,
    workers: Whole | None = None,
) -> int:
    """Check the paper's claims against exact risks, and write a table of claims and a report.

    Writes claims.csv, claims.json, report.md and its figures, and verify.sqlite (every task):
    run the same command again to resume after an interrupt. Where a hypothesis does not hold the
    row is outside, and evidence that leaves a wrong law standing settles nothing. The exit code
    is 1 if a claim is contradicted or a task failed.

    Parameters
    ----------
    quick
        Smaller sizes: one or two minutes on two cores instead of ten, once compiled.
    output_dir
        Directory for the files; created if missing.
    list_
        Print the ids and sentences of the claims, and stop.
    workers
        Number of single-threaded processes; one per core by default. Results do not depend on
        it.
    """
    size = QUICK if quick else FULL
    claims = choose_claims(size, family, claim)
    if list_:
        width = max(map(len, claims))
        print("\n".join(f"{id_:{width}}  {claim_.sentence}" for id_, claim_ in claims.items()))
        return 0
    cells = task_cells(size, claims)
    count = cores() if workers is None else checks.count("workers", workers)
    output = OutputDirectory(output_dir)
    with Store(output_dir / STORE) as store:
        todo = left_to_do(store, cells, "tasks")
        with worker_processes(count) as processes, progress_bars() as stage:
            advance = stage("tasks", todo) if stage else None
            rows, seconds = run(cells, claims, store, processes, advance=advance)
    written = write(rows, size, seconds, output)
    print(_report(rows))
    print(f"\n{len(written)} files in {output_dir}; report: {output_dir / 'report.md'}")
    return 1 if any(row.failed for row in rows) else 0


def _report(rows: list[Row]) -> str:
    lines = [_counted(name, members) for name, members in by_family(rows).items()]
    header = ("family", "cases", *SHORT.values(), "wrong laws rejected")
    parts = [text_table(header, [*lines, _counted("all", rows)])]
    for row in rows:
        judgement = row.judgement
        if judgement.verdict != CONFIRMED:
            parts.append(
                f"{judgement.verdict}: {_named(row)}: {judgement.predicted}, "
                f"got {judgement.measured:.4f} in [{judgement.low:.4f}, {judgement.high:.4f}]; "
                f"{judgement.detail}"
            )
    return "\n".join([parts[0], "", *parts[1:]])


def _named(row: Row) -> str:
    return f"{row.claim.id}, {row.claim.sentence} ({row.check.case})"


def _counted(name: str, rows: list[Row]) -> tuple[str, ...]:
    verdicts = counts([row.judgement.verdict for row in rows])
    planted = [ok for row in rows for ok in row.rejected.values()]
    numbers = (str(verdicts.get(verdict, 0)) for verdict in SHORT)
    return (name, str(len(rows)), *numbers, f"{sum(planted)} of {len(planted)}")
