"""A bug is a bug on every face, and bad input is not one.

The same NumPy error, of shapes that do not fit, is planted inside ``influence``.
"""

import numpy as np
import pytest

from batchlaw.evidence.sweep.cell import solve
from batchlaw.faces.cli import BAD_INPUT, BUG, BUG_LINE, UNFINISHED, main
from batchlaw.influences import weights
from batchlaw.jobs.execution import compute_cells


@pytest.fixture
def planted(monkeypatch):
    """Raise a ValueError of NumPy, which is not an InputError."""

    def broken(mu, weight, gamma):
        return np.ones(3) + np.ones(4)

    monkeypatch.setattr(weights.kernels, "influence", broken)


def test_the_command_line_shows_the_traceback_and_exits_with_70(planted, capsys):
    assert main(["risk", "--steps", "16"]) == BUG == 70
    err = capsys.readouterr().err
    assert "Traceback (most recent call last)" in err
    assert "operands could not be broadcast together" in err
    assert err.rstrip().endswith(BUG_LINE)


def test_bad_input_is_one_line_and_exit_code_2(capsys):
    assert main(["risk", "--steps", "16", "--budget", "3"]) == BAD_INPUT == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "batchlaw: --budget must be at least one sample per update: 16 updates need 16, got 3\n"
    )


def test_an_error_of_the_system_is_one_line_and_exit_code_1(monkeypatch, tmp_path, capsys):
    """A full disk, for example: neither a bug nor bad input."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    arguments = ["risk", "--steps", "16", "--trajectory", str(tmp_path)]
    assert main(arguments) == UNFINISHED == 1
    assert capsys.readouterr().err == "batchlaw: [Errno 28] No space left on device\n"
    assert not list(tmp_path.iterdir())


def test_a_sweep_stores_a_bug_apart_from_a_refused_setting(planted):
    (bug,) = compute_cells(solve, [{"steps": 16}])
    assert bug.status == "failed"
    assert "broadcast" in bug.result["reason"]
    assert "Traceback" in bug.result["traceback"]
    (refused,) = compute_cells(solve, [{"steps": 16, "rates": "cosine", "stable": 0.5}])
    assert refused.status == "refused"
    assert "traceback" not in refused.result


def test_the_server_answers_a_bug_with_500_and_logs_it(planted, caplog):
    from fastapi.testclient import TestClient

    from batchlaw.faces.app.server import make_app

    with TestClient(
        make_app(), raise_server_exceptions=False, base_url="http://127.0.0.1"
    ) as client:
        reply = client.post("/api/view", json={"steps": 16, "budget": 128})
        assert reply.status_code == 500
        assert "broadcast" in caplog.text
        assert "Traceback" in caplog.text
        refused = client.post("/api/view", json={"steps": 16, "budget": 3})
        assert refused.status_code == 422
        assert refused.json()["field"] == "budget"
