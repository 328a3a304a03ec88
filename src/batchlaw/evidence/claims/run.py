"""Run the tasks of the families, each once, store their checks, and judge them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from batchlaw.evidence.claims.check_settings import CheckSize
from batchlaw.evidence.claims.claim import CONTRADICTED, Check, Claim, Judgement
from batchlaw.evidence.claims.registry import FAMILIES, all_claims
from batchlaw.evidence.claims.serialize import from_plain, to_plain
from batchlaw.jobs.code_digest import code_digest
from batchlaw.jobs.execution import execute
from batchlaw.jobs.store import DONE, FAILED, REFUSED, Cell, Store
from batchlaw.jobs.workers import Workers

# Raise it when the same cell would mean another task, or be stored in another form.
VERSION = 3


@dataclass(frozen=True, eq=False)
class Row:
    """A check with its verdict, and whether each wrong law was rejected."""

    check: Check[Any]
    judgement: Judgement
    rejected: dict[str, bool]

    @property
    def claim(self) -> Claim:
        """What the check is about."""
        return self.check.claim

    @property
    def failed(self) -> bool:
        """Whether the law is contradicted."""
        return self.judgement.verdict == CONTRADICTED


def run(
    cells: Sequence[Cell],
    claims: Mapping[str, Claim],
    store: Store,
    workers: Workers,
    *,
    advance: Callable[[int], None] | None = None,
) -> tuple[list[Row], float]:
    """Run the tasks that are not stored, and judge all checks of these claims, in order.

    Also returns the core seconds that the tasks took, now or in earlier runs. Raises OSError if
    a task failed; the next run retries it.
    """
    retry = (REFUSED, FAILED)
    execute(store, cells, run_task, workers, advance=advance, retry=retry, largest=1)
    stored = [row for row in map(store.get, cells) if row is not None]
    if failed := [row for row in stored if row.status != DONE]:
        first = failed[0]
        raise OSError(
            f"{len(failed)} of {len(cells)} tasks failed and will be retried by the next run; "
            f"{first.cell['family']}, task {first.cell['task']}: {first.result['reason']}"
        )
    known = all_claims()
    checks = [from_plain(plain, known) for row in stored for plain in row.result["checks"]]
    rows = [
        Row(check, check.judge(), check.rejected()) for check in checks if check.claim.id in claims
    ]
    return rows, sum(row.seconds for row in stored)


def task_cells(size: CheckSize, claims: Mapping[str, Claim]) -> list[Cell]:
    """One cell per task that measures one of the claims: all that its checks depend on."""
    fixed = {"verify": VERSION, **asdict(size)}
    return [
        {**fixed, "code": code_digest(tasks.__module__), "family": family, "task": task.name}
        for family, tasks in FAMILIES.items()
        for task in tasks(size)
        if any(claim.id in claims for claim in task.claims)
    ]


def run_task(cell: Cell) -> dict[str, Any]:
    """The checks of one task, as plain values."""
    size = CheckSize(**{field.name: cell[field.name] for field in fields(CheckSize)})
    (task,) = (task for task in FAMILIES[cell["family"]](size) if task.name == cell["task"])
    return {"checks": [to_plain(check) for check in task.run()]}
