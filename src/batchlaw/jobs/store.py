"""Results in one SQLite file: one row per cell, durable once ``put_many`` returns.

A cell is a flat mapping of names to numbers, texts or lists of them: everything its result
depends on. Its key is a hash of that content and of ``NUMERICS``, so a second run finds the
results of the first, unless the numerics have changed.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from batchlaw._base.errors import InputError
from batchlaw.jobs.store_file import FACTS_TABLE, lock, open_reader, open_writer, refusal

Cell = Mapping[str, Any]

# Increase whenever a solver's or simulator's numbers change for the same cell.
NUMERICS = 3
# Computed; a setting that can't be computed; a bug or a machine failure.
DONE, REFUSED, FAILED = "done", "refused", "failed"


@dataclass(frozen=True)
class Outcome:
    """A computed cell.

    ``result`` holds its numbers if it is done, a ``reason`` if it was refused, a ``reason`` and a
    ``traceback`` if it failed.
    """

    cell: Cell
    result: Mapping[str, Any]
    status: str
    seconds: float


@dataclass(frozen=True)
class Stored:
    """One row: an outcome with the key of its cell."""

    key: str
    status: str
    cell: dict[str, Any]
    result: dict[str, Any]
    seconds: float


def cell_key(cell: Cell) -> str:
    """Content hash of a cell: the order of names does not matter, but 1, 1.0 and True differ."""
    try:
        text = json.dumps(dict(cell), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            "cell", "must hold finite numbers, texts and lists", hint=str(error), subject="a cell"
        ) from None
    return hashlib.sha256(f"{NUMERICS}\n{text}".encode()).hexdigest()


class Store:
    """The file, open for one writer at a time; ``read_only`` for any number of readers.

    ``put_many`` is one transaction. When it returns its rows are on disk: a killed process
    loses nothing that was acknowledged, and leaves nothing half written.
    """

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        self.path = Path(path)
        self._lock = None if read_only else lock(self.path)
        try:
            self._database = open_reader(self.path) if read_only else open_writer(self.path)
        except BaseException as error:
            self._release()
            if not isinstance(error, sqlite3.Error):
                raise
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
                raise OSError(f"{self.path} can't take more results: {error}") from None
            raise refusal(self.path, "must be a file of results", hint=str(error)) from None

    def put_many(self, outcomes: Iterable[Outcome]) -> None:
        """Store all of them or none, in one synced transaction."""
        rows = [_row(outcome) for outcome in outcomes]
        database = self._database
        try:
            database.execute("begin immediate")
            database.executemany("insert or replace into cells values (?, ?, ?, ?, ?)", rows)
            database.execute("commit")
        except sqlite3.Error as error:
            if database.in_transaction:
                database.execute("rollback")
            raise OSError(f"{self.path} can't take more results: {error}") from None

    def get(self, cell: Cell) -> Stored | None:
        """The row of a cell, if there is one."""
        key = cell_key(cell)
        with self._reading():
            rows = self._database.execute("select * from cells where key = ?", (key,))
            row = rows.fetchone()
        return None if row is None else _stored(row)

    def missing(self, cells: Iterable[Cell], *, retry: Collection[str] = ()) -> Iterator[Cell]:
        """Cells without a row, or with a status in ``retry``; lazily, in order."""
        for cell in cells:
            status = self.status(cell)
            if status is None or status in retry:
                yield cell

    def status(self, cell: Cell) -> str | None:
        """ "done", "refused", "failed", or None where there is no row."""
        key = cell_key(cell)
        with self._reading():
            rows = self._database.execute("select status from cells where key = ?", (key,))
            row = rows.fetchone()
        return None if row is None else str(row[0])

    def note(self, facts: Mapping[str, str]) -> None:
        """Store facts about the results as a whole, such as their design."""
        try:
            self._database.execute(FACTS_TABLE)
            for pair in facts.items():
                self._database.execute("insert or replace into facts values (?, ?)", pair)
        except sqlite3.Error as error:
            raise OSError(f"{self.path} can't take more results: {error}") from None

    def facts(self) -> dict[str, str]:
        """Facts stored by ``note``; empty for files older than the table of facts."""
        table = "select 1 from sqlite_master where name = 'facts'"
        with self._reading():
            if self._database.execute(table).fetchone() is None:
                return {}
            return dict(self._database.execute("select name, value from facts"))

    def counts(self) -> dict[str, tuple[int, float]]:
        """Status -> (number of rows, their total seconds)."""
        query = "select status, count(*), sum(seconds) from cells group by status"
        with self._reading():
            statuses = self._database.execute(query)
            return {status: (rows, seconds) for status, rows, seconds in statuses}

    def reasons(self, status: str) -> Iterator[tuple[str, int]]:
        """Reasons of refused or failed cells with their counts, commonest first."""
        query = (
            "select json_extract(result, '$.reason') as reason, count(*) from cells "
            "where status = ? group by reason order by count(*) desc, reason"
        )
        with self._reading():
            yield from self._database.execute(query, (status,))

    def first_failure(self, reason: str) -> Stored | None:
        """A cell that failed for this reason."""
        query = (
            f"select * from cells where status = '{FAILED}' "
            "and json_extract(result, '$.reason') = ? order by key limit 1"
        )
        with self._reading():
            row = self._database.execute(query, (reason,)).fetchone()
        return None if row is None else _stored(row)

    def rows(self) -> Iterator[Stored]:
        """All rows in the order of their keys, which does not depend on the order of computing."""
        with self._reading():
            for row in self._database.execute("select * from cells order by key"):
                yield _stored(row)

    def __len__(self) -> int:
        with self._reading():
            return int(self._database.execute("select count(*) from cells").fetchone()[0])

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise OSError(f"{self.path} can't be read: {error}") from None

    def close(self) -> None:
        """Close the database and release the lock."""
        self._database.close()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _row(outcome: Outcome) -> tuple[str, str, str, str, float]:
    cell = json.dumps(dict(outcome.cell), sort_keys=True)
    try:
        result = json.dumps(dict(outcome.result), allow_nan=True)
    except (TypeError, ValueError) as error:
        # A bug in the code that computes the cell, not bad input.
        raise TypeError(f"a result must hold numbers, texts and lists: {error}") from None
    return cell_key(outcome.cell), outcome.status, cell, result, outcome.seconds


def _stored(row: tuple[str, str, str, str, float]) -> Stored:
    key, status, cell, result, seconds = row
    return Stored(key, status, json.loads(cell), json.loads(result), seconds)
