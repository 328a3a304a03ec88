"""The SQLite file of a store: its layout, older layouts, and the write lock."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

from batchlaw._base.errors import InputError

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

# Layout 1 had two statuses: refused cells were stored as "failed".
LAYOUT, TWO_STATUSES = 2, 1

_TABLE = """
create table cells (
    key text primary key,
    status text not null check (status in ('done', 'refused', 'failed')),
    cell text not null,
    result text not null,
    seconds real not null
) without rowid
"""
FACTS_TABLE = "create table if not exists facts (name text primary key, value text not null)"
_FROM_TWO_STATUSES = (
    "select key, case status when 'failed' then 'refused' else status end as status, "
    "cell, result, seconds from"
)


def lock(path: Path) -> Any:
    """The write lock: held by the open file, so it is released if the holder is killed."""
    if fcntl is None:
        raise refusal(path, "can't be locked: stores are supported on Linux and macOS only")
    if path.is_dir():
        raise refusal(path, "must be a file, it is a directory")
    path = path.resolve()  # two names of one file share one lock
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.with_name(path.name + ".lock").open("w")
    except OSError as error:
        raise refusal(path, "must be writable", hint=str(error.strerror)) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise refusal(path, "must have one writer", hint="another run is using it") from None
    return file


def open_writer(path: Path) -> sqlite3.Connection:
    """Open for writing; created if missing, and upgraded to the current layout."""
    # Autocommit: each statement is a transaction, and the log is synced after each.
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        # Before any pragma: a file of another kind must not be changed.
        layout = _layout(database, path, new=True)
        database.execute("pragma journal_mode = wal")
        database.execute("pragma synchronous = full")
        if layout != LAYOUT:
            _upgrade(database, layout)
    except BaseException:
        database.close()
        raise
    return database


def open_reader(path: Path) -> sqlite3.Connection:
    """Open read-only; an older layout is read as the current one."""
    if not path.exists():
        raise refusal(path, "must exist to be read")
    # Quoted: a "?" in the path would begin the URI's query.
    address = f"file://{quote(str(path.absolute()))}?mode=ro"
    log = path.with_name(path.name + "-wal")
    if not os.access(path.parent, os.W_OK):
        if not log.exists():
            # Without a log there is no writer, and a reader can't create its own lock file here.
            address += "&immutable=1"
        elif not path.with_name(path.name + "-shm").exists():
            raise refusal(
                path,
                "must be in a writable directory to be read",
                hint=f"a killed run left its log, {log.name}; copy both",
            )
    database = sqlite3.connect(address, uri=True, isolation_level=None)
    try:
        if _layout(database, path) == TWO_STATUSES:
            # A temporary view, in memory, shadows the table of the same name.
            database.execute("pragma temp_store = memory")
            database.execute(f"create temp view cells as {_FROM_TWO_STATUSES} main.cells")
    except BaseException:
        database.close()
        raise
    return database


def refusal(path: Path, needed: str, *, got: str = "", hint: str = "") -> InputError:
    """The error for a file of results that can't be used."""
    return InputError("store", needed, got, hint, subject=str(path))


def _upgrade(database: sqlite3.Connection, layout: int) -> None:
    """In one transaction: a table without its version would look like another database."""
    database.execute("begin immediate")
    try:
        if layout == TWO_STATUSES:
            database.execute("alter table cells rename to two_statuses")
        database.execute(_TABLE)
        database.execute(FACTS_TABLE)
        if layout == TWO_STATUSES:
            database.execute(f"insert into cells {_FROM_TWO_STATUSES} two_statuses")
            database.execute("drop table two_statuses")
        database.execute(f"pragma user_version = {LAYOUT}")
        database.execute("commit")
    except BaseException:
        if database.in_transaction:
            database.execute("rollback")
        raise


def _layout(database: sqlite3.Connection, path: Path, *, new: bool = False) -> int:
    """Layout version; 0 for an empty file if it may be ``new``; anything else is refused."""
    version = int(database.execute("pragma user_version").fetchone()[0])
    if new and version == 0:
        if database.execute("select count(*) from sqlite_master").fetchone()[0]:
            raise refusal(path, "must be a file of results, it is another database")
    elif version not in (TWO_STATUSES, LAYOUT):
        raise refusal(path, f"must have layout {LAYOUT} of results", got=str(version))
    return version
