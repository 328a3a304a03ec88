import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchlaw._base.errors import InputError
from batchlaw.jobs import store_file
from batchlaw.jobs.store import DONE, FAILED, REFUSED, Store, cell_key
from refused import refused
from sweep_cells import put

VALUES = st.one_of(
    st.integers(-(10**9), 10**9),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.lists(st.integers(0, 9), max_size=3),
)
CELLS = st.dictionaries(st.text("abc", min_size=1, max_size=3), VALUES, max_size=4)


@given(cell=CELLS)
def test_a_key_depends_on_content_and_not_on_order(cell):
    assert cell_key(dict(reversed(cell.items()))) == cell_key(cell)
    assert cell_key(cell | {"another": 1}) != cell_key(cell)


def test_a_key_changes_with_the_numerics(monkeypatch):
    before = cell_key({"a": 1})
    monkeypatch.setattr("batchlaw.jobs.store.NUMERICS", 10**6)
    assert cell_key({"a": 1}) != before


@pytest.mark.parametrize("bad", [{"a": float("nan")}, {"a": object()}])
def test_a_cell_that_has_no_content_hash_is_refused(bad):
    with refused("cell"):
        cell_key(bad)


def test_rows_come_back_as_they_were_put_and_in_the_same_order(tmp_path):
    cells = [{"seed": k, "rate": 0.1 * k} for k in range(20)]
    for name, order in (("one", cells), ("two", cells[::-1])):
        with Store(tmp_path / name) as store:
            for cell in order:
                put(store, cell, {"loss": cell["seed"] ** 2 / 7}, 0.5)
    with Store(tmp_path / "one", read_only=True) as a, Store(tmp_path / "two") as b:
        assert [vars(row) for row in a.rows()] == [vars(row) for row in b.rows()]
        assert len(a) == 20
        assert a.get(cells[3]).result == {"loss": 9 / 7}
        assert a.get({"seed": 99}) is None


def test_missing_gives_what_has_no_row_and_other_statuses_on_demand(tmp_path):
    cells = [{"seed": k} for k in range(5)]
    with Store(tmp_path / "s") as store:
        put(store, cells[0], {})
        put(store, cells[2], {"reason": "unstable"}, status=REFUSED)
        put(store, cells[3], {"reason": "IndexError", "traceback": "..."}, status=FAILED)
        assert list(store.missing(cells)) == [cells[1], cells[4]]
        assert list(store.missing(cells, retry=(FAILED,))) == [cells[1], cells[3], cells[4]]
        assert list(store.missing(cells, retry=(REFUSED, FAILED))) == cells[1:]
        assert store.get(cells[2]).result == {"reason": "unstable"}


def test_a_second_writer_by_another_name_is_refused(tmp_path):
    (tmp_path / "other").symlink_to(tmp_path / "s")
    with Store(tmp_path / "s"), refused("store"):
        Store(tmp_path / "other")


def test_a_directory_is_refused(tmp_path):
    with refused("store"):
        Store(tmp_path)


def test_a_second_writer_is_refused_and_a_reader_is_not(tmp_path):
    with Store(tmp_path / "s") as store:
        put(store, {"a": 1}, {})
        with refused("store"):
            Store(tmp_path / "s")
        with Store(tmp_path / "s", read_only=True) as reader:
            assert len(reader) == 1
    Store(tmp_path / "s").close()


def test_a_file_of_another_kind_is_refused_and_left_alone(tmp_path):
    text = tmp_path / "notes"
    text.write_text("not a database, " * 100)
    with refused("store"):
        Store(text)
    assert text.read_text().startswith("not a database")
    other = tmp_path / "other"
    with closing(sqlite3.connect(other)) as database:
        database.execute("pragma user_version = 77")
    with refused("store"):
        Store(other)
    with refused("store"):
        Store(tmp_path / "nothing", read_only=True)


def test_a_file_that_is_refused_is_not_changed(tmp_path):
    for name, statement in (
        ("other", "create table cells (x)"),
        ("old", "pragma user_version = 77"),
    ):
        path = tmp_path / name
        with closing(sqlite3.connect(path)) as database:
            database.execute(statement)
        before = path.read_bytes()
        with refused("store"):
            Store(path)
        assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%20b", "a b", "?mode=rwc", "ü&x=1"])
def test_a_reader_opens_the_file_of_that_very_name(tmp_path, name):
    for other in ("a", "a b"):
        Store(tmp_path / other).close()
    with Store(tmp_path / name) as store:
        put(store, {"k": 1}, {"name": name})
    with Store(tmp_path / name, read_only=True) as store:
        assert store.get({"k": 1}).result == {"name": name}
        with pytest.raises(OSError, match="readonly"):
            put(store, {"k": 2}, {})


def test_a_reader_leaves_a_directory_that_it_cannot_write_to_alone(tmp_path, monkeypatch):
    path = tmp_path / "s"
    with Store(path) as store:
        put(store, {"k": 1}, {})
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(os, "access", lambda *_: False)
    with Store(path, read_only=True) as store:
        assert len(store) == 1
        assert sorted(tmp_path.iterdir()) == before
    path.with_name("s-wal").write_bytes(b"")
    with refused("store"):
        Store(path, read_only=True)


def test_results_that_are_not_finite_come_back(tmp_path):
    with Store(tmp_path / "s") as store:
        put(store, {"k": 1}, {"a": math.nan, "b": [math.inf, -math.inf]})
        result = store.get({"k": 1}).result
    assert math.isnan(result["a"])
    assert result["b"] == [math.inf, -math.inf]


def test_a_result_that_json_cannot_hold_is_refused_in_one_line(tmp_path):
    with (
        Store(tmp_path / "s") as store,
        pytest.raises(TypeError, match="a result must hold numbers, texts and lists: .*int64"),
    ):
        put(store, {"k": 1}, {"a": np.int64(3)})


def test_damage_is_named_with_the_file(tmp_path):
    path = tmp_path / "s"
    with Store(path) as store:
        for k in range(100):
            put(store, {"k": k}, {"text": "x" * 500})
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    with Store(path) as store:
        for read in (len, lambda store: store.get({"k": 3}), lambda store: list(store.rows())):
            with pytest.raises(OSError, match="s can't be read: database disk image is malformed"):
                read(store)


WRITER = """
import sys
from batchlaw.jobs.store import DONE, Outcome, Store
with Store(sys.argv[1]) as store:
    for k in range(10**6):
        store.put_many([Outcome({"k": k}, {"square": k * k}, DONE, 0.0)])
        print(k, flush=True)
"""


@pytest.mark.process
def test_every_acknowledged_row_survives_a_kill(tmp_path):
    path = tmp_path / "s"
    last = -1
    for lines in (1, 4, 16):
        command = [sys.executable, "-c", WRITER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            said = [process.stdout.readline().strip() for _ in range(lines)]
            os.kill(process.pid, signal.SIGKILL)
            said += process.stdout.read().split()
        acknowledged = int(said[-2]) if len(said) > 1 else last
        with Store(path) as store:
            check = store._database.execute("pragma integrity_check").fetchone()
            assert check == ("ok",)
            for k in range(acknowledged + 1):
                assert store.get({"k": k}).result == {"square": k * k}
        last = max(last, acknowledged)
    assert last > 0


# Written by batchlaw 0.1.
LAYOUT_1 = """
create table cells (
    key text primary key,
    status text not null check (status in ('done', 'failed')),
    cell text not null,
    result text not null,
    seconds real not null
) without rowid
"""
OLD = [({"k": k}, {"root": k / 7} if k % 3 else {"reason": "unstable"}) for k in range(30)]


def _old_file(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("pragma journal_mode = wal")
        database.execute(LAYOUT_1)
        for cell, result in OLD:
            status = "failed" if "reason" in result else "done"
            row = (cell_key(cell), status, json.dumps(cell), json.dumps(result), 0.5)
            database.execute("insert into cells values (?, ?, ?, ?, ?)", row)
        database.execute("pragma user_version = 1")
    return path


def _is_as_it_was(store):
    assert store.counts() == {DONE: (20, 10.0), REFUSED: (10, 5.0)}
    assert list(store.reasons(REFUSED)) == [("unstable", 10)]
    assert list(store.reasons(FAILED)) == []
    assert len(list(store.rows())) == len(store) == 30
    for cell, result in OLD:
        row = store.get(cell)
        assert (row.cell, row.result, row.seconds) == (cell, result, 0.5)
        assert row.status == store.status(cell) == (REFUSED if "reason" in result else DONE)


@pytest.mark.parametrize("writable", [True, False])
def test_an_older_file_is_read_as_it_is(tmp_path, monkeypatch, writable):
    path = _old_file(tmp_path / "s")
    monkeypatch.setattr(os, "access", lambda *_: writable)
    before = path.read_bytes()
    with Store(path, read_only=True) as store:
        _is_as_it_was(store)
        assert store.facts() == {}
    assert path.read_bytes() == before


def test_an_older_file_is_brought_up_to_date_by_its_next_writer(tmp_path):
    path = _old_file(tmp_path / "s")
    for _ in range(2):
        with Store(path) as store:
            _is_as_it_was(store)
    with Store(path) as store:
        put(store, {"k": 99}, {"reason": "IndexError", "traceback": "..."}, status=FAILED)
        store.note({"a": "b"})
    with closing(sqlite3.connect(path)) as database:
        names = [name for (name,) in database.execute("select name from sqlite_master order by 1")]
        assert [name for name in names if not name.startswith("sqlite")] == ["cells", "facts"]
        assert database.execute("pragma user_version").fetchone() == (2,)
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)


def test_a_file_is_brought_up_to_date_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    path = _old_file(tmp_path / "s")
    monkeypatch.setattr(store_file, "FACTS_TABLE", "no SQL")
    with pytest.raises(InputError, match="must be a file of results: .*syntax error"):
        Store(path)
    monkeypatch.undo()
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("pragma user_version").fetchone() == (1,)
        assert database.execute("select count(*) from cells").fetchone() == (30,)
    with Store(path) as store:
        _is_as_it_was(store)


def test_a_machine_without_locks_is_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(store_file, "fcntl", None)
    with pytest.raises(InputError, match="stores are supported on Linux and macOS only"):
        Store(tmp_path / "s")
    assert not list(tmp_path.iterdir())
