"""Many clients at once: no error, bounded memory. Half a minute of it is in benchmarks/."""

import runpy
from pathlib import Path

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def test_fifty_clients_are_served_without_an_error(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    load = runpy.run_path(str(BENCHMARKS / "explorer_load.py"))["run"](seconds=5.0)
    assert load.errors == []
    assert load.statuses[200] > 50
    assert load.statuses[422] > 0
