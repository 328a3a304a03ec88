"""Results in one SQLite file: one row a cell, there for good once it is acknowledged.

A cell is a flat mapping of names to numbers, texts or lists of them: all that its result
depends on. Its key is a hash of that content and of the code's numerical version, so a second
run finds what the first one computed, and a change of the numerics finds nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

Cell = Mapping[str, Any]

# Rises whenever a solver's or simulator's numbers change for the same cell.
NUMERICS = 2
SCHEMA = 1
DONE, FAILED = "done", "failed"

_TABLE = """
create table cells (
    key text primary key,
    status text not null check (status in ('done', 'failed')),
    cell text not null,
    result text not null,
    seconds real not null
) without rowid
"""
_FACTS = "create table if not exists facts (name text primary key, value text not null)"


@dataclass(frozen=True)
class Outcome:
    """What a cell gave: its result, or {"reason": ...} where it failed."""

    cell: Cell
    result: Mapping[str, Any]
    failed: bool
    seconds: float


@dataclass(frozen=True)
class Stored:
    """One row: a cell, whether it was done or failed, and its result or the reason."""

    key: str
    status: str
    cell: dict[str, Any]
    result: dict[str, Any]
    seconds: float


def cell_key(cell: Cell) -> str:
    """Content hash of a cell: names in any order are one cell, but 1, 1.0 and True differ."""
    try:
        text = json.dumps(dict(cell), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"a cell must hold finite numbers, texts and lists: {error}") from None
    return hashlib.sha256(f"{NUMERICS}\n{text}".encode()).hexdigest()


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Hash of the package's sources: a cell that holds it is computed anew by other code."""
    return digest_of(Path(__file__).parent.parent)


def digest_of(folder: Path) -> str:
    """Hash of all Python files below a folder, with their names."""
    total = hashlib.sha256()
    for name in sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py")):
        content = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        total.update(f"{content} {name}\n".encode())
    return total.hexdigest()


class Store:
    """The file, open for one writer at a time; ``read_only`` for any number of readers.

    A ``put`` is one transaction. When it returns its rows are on disk: a killed process
    loses nothing that was acknowledged, and leaves nothing half written.
    """

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        self.path = Path(path)
        self._lock = None if read_only else _lock(self.path)
        try:
            self._database = _reader(self.path) if read_only else _writer(self.path)
        except (sqlite3.Error, ValueError) as error:
            self._release()
            if isinstance(error, ValueError):
                raise
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
                raise OSError(f"{self.path} can't take more results: {error}") from None
            raise ValueError(f"{self.path} must be a file of results: {error}") from None

    def put(self, cell: Cell, result: Mapping[str, Any], seconds: float) -> None:
        """Store a result; the row is on disk when this returns."""
        self.put_many([Outcome(cell, result, False, seconds)])

    def put_failure(self, cell: Cell, reason: str, seconds: float) -> None:
        """Store that a cell failed, and why."""
        self.put_many([Outcome(cell, {"reason": reason}, True, seconds)])

    def put_many(self, outcomes: Iterable[Outcome]) -> None:
        """Store all of them or none, at the price of one."""
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
            found = self._database.execute("select * from cells where key = ?", (key,))
            row = found.fetchone()
        return None if row is None else _stored(row)

    def missing(self, cells: Iterable[Cell], *, retry_failed: bool = False) -> Iterator[Cell]:
        """Cells without a row, in order, as they are asked for."""
        for cell in cells:
            found = self.status(cell)
            if found is None or (retry_failed and found == FAILED):
                yield cell

    def status(self, cell: Cell) -> str | None:
        """ "done", "failed", or None where there is no row."""
        key = cell_key(cell)
        with self._reading():
            found = self._database.execute("select status from cells where key = ?", (key,))
            row = found.fetchone()
        return None if row is None else str(row[0])

    def note(self, facts: Mapping[str, str]) -> None:
        """Keep what the results as a whole come from."""
        try:
            self._database.execute(_FACTS)
            for pair in facts.items():
                self._database.execute("insert or replace into facts values (?, ?)", pair)
        except sqlite3.Error as error:
            raise OSError(f"{self.path} can't take more results: {error}") from None

    def facts(self) -> dict[str, str]:
        """What was noted; nothing in a file of before there were notes."""
        known = "select 1 from sqlite_master where name = 'facts'"
        with self._reading():
            if self._database.execute(known).fetchone() is None:
                return {}
            return dict(self._database.execute("select name, value from facts"))

    def counts(self) -> dict[str, tuple[int, float]]:
        """Status -> its rows, and their seconds."""
        query = "select status, count(*), sum(seconds) from cells group by status"
        with self._reading():
            found = self._database.execute(query)
            return {status: (rows, seconds) for status, rows, seconds in found}

    def reasons(self) -> Iterator[tuple[str, int]]:
        """Why cells failed and how many of them, the commonest first."""
        query = (
            "select json_extract(result, '$.reason') as reason, count(*) from cells "
            f"where status = '{FAILED}' group by reason order by count(*) desc, reason"
        )
        with self._reading():
            yield from self._database.execute(query)

    def rows(self) -> Iterator[Stored]:
        """All rows by key: the same order however they were computed."""
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
        """Finish the log and let go of the file."""
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
        raise ValueError(f"a result must hold numbers, texts and lists: {error}") from None
    status = FAILED if outcome.failed else DONE
    return cell_key(outcome.cell), status, cell, result, outcome.seconds


def _stored(row: tuple[str, str, str, str, float]) -> Stored:
    key, status, cell, result, seconds = row
    return Stored(key, status, json.loads(cell), json.loads(result), seconds)


def _lock(path: Path) -> Any:
    """The right to write: held by the open file, so a killed holder gives it up."""
    if path.is_dir():
        raise ValueError(f"{path} must be a file, it is a directory")
    path = path.resolve()  # two names of one file have one lock
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.with_name(path.name + ".lock").open("w")
    except OSError as error:
        raise ValueError(f"{path} must be writable: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise ValueError(f"{path} must have one writer: another run is using it") from None
    return file


def _writer(path: Path) -> sqlite3.Connection:
    # Autocommit: a row is a transaction. The log is synced at every one of them.
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        # A file of another kind is left as it is: nothing is set before this.
        new = _layout(database, path, new=True) == 0
        database.execute("pragma journal_mode = wal")
        database.execute("pragma synchronous = full")
        if new:
            # Both or neither: a table without its version would be somebody else's.
            database.execute("begin")
            database.execute(_TABLE)
            database.execute(_FACTS)
            database.execute(f"pragma user_version = {SCHEMA}")
            database.execute("commit")
    except BaseException:
        database.close()
        raise
    return database


def _reader(path: Path) -> sqlite3.Connection:
    if not path.exists():
        raise ValueError(f"{path} must exist to be read")
    # As a URI; a plain path may hold what there begins a query.
    address = f"file://{quote(str(path.absolute()))}?mode=ro"
    log = path.with_name(path.name + "-wal")
    if not os.access(path.parent, os.W_OK):
        if not log.exists():
            # Without a log nobody writes, and there is no place for a reader's own lock.
            address += "&immutable=1"
        elif not path.with_name(path.name + "-shm").exists():
            raise ValueError(
                f"{path} must be in a writable directory to be read: a killed run left its log, "
                f"{log.name}; copy both"
            )
    database = sqlite3.connect(address, uri=True, isolation_level=None)
    try:
        _layout(database, path)
    except BaseException:
        database.close()
        raise
    return database


def _layout(database: sqlite3.Connection, path: Path, *, new: bool = False) -> int:
    """Version of the table, 0 for an empty file where it may be ``new``; all else is refused."""
    found = int(database.execute("pragma user_version").fetchone()[0])
    if new and found == 0:
        if database.execute("select count(*) from sqlite_master").fetchone()[0]:
            raise ValueError(f"{path} must be a file of results, it is another database")
    elif found != SCHEMA:
        raise ValueError(f"{path} must have layout {SCHEMA} of results, got {found}")
    return found
