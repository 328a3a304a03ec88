"""``batchlaw explore``: an address that works as soon as it is printed, and clear refusals."""

import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

from batchlaw.faces.cli import explore, main

pytestmark = pytest.mark.process


def test_the_command_prints_an_address_that_answers_and_ends_by_interrupt():
    command = [sys.executable, "-m", "batchlaw", "explore", "--quiet"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().split()[0]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=60) as reply:
            assert b"batchlaw" in reply.read()
        server.send_signal(signal.SIGINT)
        out, err = server.communicate(timeout=60)
        assert (server.returncode, out, err) == (0, "", "")
    finally:
        server.kill()
        server.communicate()


def test_an_interrupt_does_not_wait_for_a_computation():
    command = [sys.executable, "-m", "batchlaw", "explore", "--quiet"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().split()[0]
        urllib.request.urlopen(address, timeout=60).close()
        # The paper's problem at the largest size: seconds of uninterruptible work.
        body = b'{"m": 1024, "steps": 10000, "budget": 1000000}'
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(f"{address}api/view", body, headers)
        replies = []

        def ask():
            try:
                replies.append(urllib.request.urlopen(asked, timeout=60).status)
            except OSError as error:
                replies.append(getattr(error, "code", 0))

        client = threading.Thread(target=ask)
        client.start()
        time.sleep(1.0)
        server.send_signal(signal.SIGINT)
        _, err = server.communicate(timeout=120)
        client.join(60)
        assert server.returncode == 0
        assert "Traceback" not in err
        assert replies
        assert replies[0] != 500
    finally:
        server.kill()
        server.communicate()


PLANTED = """
import numpy as np
from batchlaw.faces.cli import main
from batchlaw.influences import weights

weights.kernels.influence = lambda *_: np.ones(3)
main(["explore", "--quiet"])
"""


def test_a_bug_is_in_the_log_on_stderr_and_the_server_goes_on():
    command = [sys.executable, "-c", PLANTED]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().split()[0]
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(f"{address}api/view", b"{}", headers)
        with pytest.raises(urllib.error.HTTPError) as answer:
            urllib.request.urlopen(asked, timeout=60)
        assert answer.value.code == 500
        answer.value.close()
        urllib.request.urlopen(address, timeout=60).close()
        server.send_signal(signal.SIGINT)
        _, err = server.communicate(timeout=60)
        assert "POST /api/view failed\nTraceback (most recent call last):\n" in err
        assert "ValueError: operands could not be broadcast together" in err
    finally:
        server.kill()
        server.communicate()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--port", "70000"], "port must be at most 65535, got 70000"),
        (["--port", "-1"], "port must be a whole number of at least 0, got -1"),
        (["--host", "203.0.113.77"], "203.0.113.77:0 must be free to listen on"),
    ],
)
def test_what_cannot_be_listened_on_is_said_in_one_line(capsys, options, said):
    assert main(["explore", "--quiet", *options]) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert out == ""
    assert err.count("\n") == 1


def test_a_port_that_is_taken_is_said(capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["explore", "--quiet", "--port", str(port)]) == 2
    assert f"127.0.0.1:{port} must be free to listen on" in capsys.readouterr().err


def test_without_the_extra_the_command_names_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["explore", "--quiet"]) == 2
    assert "explore must have uvicorn: install the extra explore" in capsys.readouterr().err


def test_only_loopback_has_no_other_names():
    for host in ("127.0.0.1", "::1", "localhost", "127.0.0.2"):
        assert explore._names(host) == frozenset()
    assert "0.0.0.0" in explore._names("0.0.0.0")
    assert "tower" in explore._names("Tower")
