"""All families of checks, each task computed once and stored, and their verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from batchlaw._base import checks
from batchlaw.evidence.claims import (
    collapse,
    influence_law,
    literature,
    one_pass,
    outside,
    paper_slips,
    reuse,
    sketches,
)
from batchlaw.evidence.claims.claim import CONTRADICTED, Check, Judgement, NoLaw
from batchlaw.evidence.claims.serialize import from_plain, to_plain
from batchlaw.evidence.claims.settings import Size, Task
from batchlaw.jobs.execution import execute
from batchlaw.jobs.store import FAILED, Cell, Store, code_digest
from batchlaw.jobs.workers import Workers

# Rises when the same cell would mean another task.
VERSION = 1

FAMILIES: dict[str, Callable[[Size], Sequence[Task]]] = {
    "one-pass": one_pass.tasks,
    "influence": influence_law.tasks,
    "collapse": collapse.tasks,
    "multi-pass": reuse.tasks,
    "sketches": sketches.tasks,
    "slips": paper_slips.tasks,
    "outside": outside.tasks,
    "literature": literature.tasks,
}


@dataclass(frozen=True, eq=False)
class Row:
    """A check with its verdict, and whether each wrong law was rejected."""

    family: str
    check: Check[Any]
    judgement: Judgement
    rejected: dict[str, bool]

    @property
    def failed(self) -> bool:
        """A contradicted law, evidence that would let a wrong one pass, or none where some should
        be: a case that unexpectedly lies outside the law's regime."""
        law = self.check.law
        lost = isinstance(law, NoLaw) and not law.expected
        return lost or self.judgement.verdict == CONTRADICTED or not all(self.rejected.values())


def run(
    cells: Sequence[Cell],
    store: Store,
    workers: Workers,
    *,
    advance: Callable[[int], None] | None = None,
) -> tuple[list[Row], float]:
    """Measure what the store does not have, and judge every check of the tasks, in order.

    Also gives the seconds of one core that the tasks took, now or before. A task that failed is
    tried again by the next run; OSError says that there is one.
    """
    execute(store, cells, run_task, workers, advance=advance, retry_failed=True, largest=1)
    stored = [row for row in map(store.get, cells) if row is not None]
    if failed := [row for row in stored if row.status == FAILED]:
        first = failed[0]
        raise OSError(
            f"{len(failed)} of {len(cells)} tasks failed and are tried again by the next run; "
            f"{first.cell['family']}, task {first.cell['task']}: {first.result['reason']}"
        )
    checks = [(row.cell["family"], from_plain(c)) for row in stored for c in row.result["checks"]]
    rows = [Row(family, check, check.judge(), check.rejected()) for family, check in checks]
    return rows, sum(row.seconds for row in stored)


def task_cells(size: Size, families: Iterable[str] | None = None) -> list[Cell]:
    """What there is to do: a cell a task, with all that its checks depend on."""
    names = list(FAMILIES) if families is None else list(dict.fromkeys(families))
    if not names:
        raise ValueError(f"at least one family is needed, of {', '.join(FAMILIES)}")
    for name in names:
        checks.choice("family", name, tuple(FAMILIES))
    fixed = {"verify": VERSION, "code": code_digest(), **asdict(size)}
    return [
        {**fixed, "family": name, "task": task}
        for name in names
        for task in range(len(FAMILIES[name](size)))
    ]


def run_task(cell: Cell) -> dict[str, Any]:
    """The checks of one task, as plain values."""
    size = Size(**{field.name: cell[field.name] for field in fields(Size)})
    checks = FAMILIES[cell["family"]](size)[cell["task"]]()
    return {"checks": [to_plain(check) for check in checks]}
