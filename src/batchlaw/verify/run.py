"""All families of checks, in threads, and their verdicts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from batchlaw import _check
from batchlaw.verify import (
    collapse,
    influence_law,
    literature,
    one_pass,
    outside,
    reuse,
    sketches,
    slips,
)
from batchlaw.verify.claim import CONTRADICTED, Check, Judgement, NoLaw
from batchlaw.verify.setting import Size, Task

FAMILIES: dict[str, Callable[[Size], Sequence[Task]]] = {
    "one-pass": one_pass.tasks,
    "influence": influence_law.tasks,
    "collapse": collapse.tasks,
    "multi-pass": reuse.tasks,
    "sketches": sketches.tasks,
    "slips": slips.tasks,
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
    size: Size,
    families: Iterable[str] | None = None,
    *,
    threads: int | None = None,
    advance: Callable[[int], None] | None = None,
) -> list[Row]:
    """Measure and judge every check of the families, in their order."""
    work = tasks(size, families)
    count = (os.cpu_count() or 1) if threads is None else _check.count("threads", threads)

    def rows(item: tuple[str, Task]) -> list[Row]:
        family, task = item
        made = [Row(family, check, check.judge(), check.rejected()) for check in task()]
        if advance is not None:
            advance(1)
        return made

    with ThreadPoolExecutor(count) as pool:
        return [row for made in pool.map(rows, work) for row in made]


def tasks(size: Size, families: Iterable[str] | None = None) -> list[tuple[str, Task]]:
    """What there is to do: (family, task)."""
    names = list(FAMILIES) if families is None else list(dict.fromkeys(families))
    if not names:
        raise ValueError(f"at least one family is needed, of {', '.join(FAMILIES)}")
    for name in names:
        _check.choice("family", name, tuple(FAMILIES))
    return [(name, task) for name in names for task in FAMILIES[name](size)]
