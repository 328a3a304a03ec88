"""Many clients at once: no error, bounded memory."""

import os
import runpy

import pytest

from browser import apart
from paths import BENCHMARKS

# Half a minute for the published measurement.
SECONDS = 30.0 if os.environ.get("CI") else 5.0


@pytest.mark.slow
@pytest.mark.process
def test_fifty_clients_are_served_without_an_error(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    run = runpy.run_path(str(BENCHMARKS / "explorer_load.py"))["run"]
    load = apart(run, SECONDS)
    assert load.errors == []
    assert load.statuses[200] > 50
    assert load.statuses[422] > 0
