"""The explorer's API: the package's own numbers, bounds on every request, loopback only."""

import csv
import io
import json
import time

import numpy as np
import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

import batchlaw as bl
from batchlaw.app import checks, server
from batchlaw.app.server import make_app
from batchlaw.app.setting import MOST_WORK, Setting
from batchlaw.app.view import POINTS, stretched
from batchlaw.plan_file import Plan

PAPER = bl.Problem.paper()


@pytest.fixture(scope="module")
def client():
    with TestClient(make_app(), base_url="http://127.0.0.1:8000") as found:
        yield found


def _view(client, **setting):
    reply = client.post("/api/view", json=setting)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_a_view_has_the_numbers_of_the_package(client):
    found = _view(client)
    rates = bl.wsd(64, 0.05)
    kappa = bl.influence(PAPER, rates)
    np.testing.assert_array_equal(found["rate"], rates)
    np.testing.assert_array_equal(found["kappa"], kappa)
    by = {row["name"]: row for row in found["schedules"]}
    oracle = bl.allocate(kappa, 512)
    planned = bl.plan(rates, 512, spectrum=PAPER, stages=4).batches
    for name, batches in (("oracle", oracle), ("planned", planned), ("constant", np.full(64, 8.0))):
        assert by[name]["batches"] == batches.tolist()
        assert by[name]["effective"] == bl.effective_batch(kappa, batches)
        risk = bl.one_pass_risk(PAPER, rates, batches)
        for part in ("total", "approximation", "bias", "variance"):
            assert by[name]["risk"][part] == pytest.approx(getattr(risk, part), rel=1e-12)
    assert by["oracle"]["score"] == 1.0
    path = bl.one_pass_risk(PAPER, rates, oracle, trajectory=True)
    np.testing.assert_allclose(found["along"]["total"]["oracle"], path.total, rtol=1e-12)


def test_a_view_of_data_reuse(client):
    found = _view(client, procedure="multi-pass", steps=128, samples=64, budget=1024)
    rates = bl.wsd(128, 0.05)
    kappa = bl.influence(PAPER, rates)
    (constant,) = [row for row in found["schedules"] if row["name"] == "constant"]
    batches = np.full(128, 8.0)
    assert found["effective_name"] == "rho_eff"
    assert found["along"] is None
    assert constant["effective"] == bl.effective_fluctuation(kappa, batches, 64)
    risk = bl.multi_pass_risk(PAPER, rates, batches, samples=64)
    assert constant["risk"]["fluctuation"] == pytest.approx(risk.fluctuation, rel=1e-12)


@pytest.mark.parametrize(
    "setting",
    [
        {"rates": kind, "problem": problem}
        for kind in ("cosine", "linear", "polynomial", "constant", "step")
        for problem in ("sketch", "truncation")
    ]
    + [{"momentum": 0.9}, {"procedure": "multi-pass", "replacement": True}],
)
def test_every_choice_has_a_view_and_a_collapse(client, setting):
    assert len(_view(client, **setting)["schedules"]) == 3
    found = client.post("/api/collapse", json=setting).json()
    assert {point["family"] for point in found["points"]} == set(found["families"])
    assert all(point["value"] > 0.0 for point in found["points"])


def test_long_runs_are_shown_at_some_of_their_steps(client):
    found = _view(client, steps=100_000, budget=800_000)
    assert len(found["steps"]) == len(found["rate"]) == POINTS
    assert (found["steps"][0], found["steps"][-1]) == (1, 100_000)


def test_an_uploaded_spectrum(client):
    mu, energy = [1.0, 0.5, 0.25], [1.0, 2.0, 3.0]
    spectrum = {"eigenvalue": mu, "energy": energy}
    found = _view(client, problem="spectrum", spectrum=spectrum)
    problem = bl.Problem.from_spectrum(mu, energy, 1.0)
    np.testing.assert_array_equal(found["kappa"], bl.influence(problem, bl.wsd(64, 0.05)))


def test_the_score_of_a_drawing_is_that_of_effective_batch(client):
    heights = [1.0, 5.0, 2.0, 8.0]
    found = client.post("/api/score", json={"setting": {}, "heights": heights}).json()
    batches = stretched(Setting(), np.array(heights))
    kappa = bl.influence(PAPER, bl.wsd(64, 0.05))
    assert batches.sum() == pytest.approx(512.0)
    assert found["effective"] == bl.effective_batch(kappa, batches)
    ratio = found["effective"] / bl.effective_batch(kappa, bl.allocate(kappa, 512))
    assert found["score"] == pytest.approx(ratio, rel=1e-12)


@pytest.mark.parametrize("format_", ["json", "megatron", "olmo", "accumulation", "pytorch"])
def test_every_export_can_be_downloaded(client, format_):
    setting = {"steps": 64, "budget": 1024, "multiple_of": 8, "stages": 1, "decay": "linear"}
    layout = {"sequence_length": 128, "data_parallel": 4, "micro_batch": 2}
    reply = client.post("/api/plan", json={"setting": setting, "format": format_, **layout})
    assert reply.status_code == 200, reply.text
    assert "attachment" in reply.headers["content-disposition"]
    if format_ == "json":
        plan = Plan.from_json(reply.text)
        assert plan.samples == 1024


def test_the_table_and_the_picture_can_be_downloaded(client):
    table = client.post("/api/plan", json={"setting": {}, "format": "csv"}).text
    rows = list(csv.DictReader(io.StringIO(table)))
    plan = bl.plan(bl.wsd(64, 0.05), 512, spectrum=PAPER, stages=4)
    assert [int(row["batch"]) for row in rows] == plan.batches.tolist()
    assert [float(row["rate"]) for row in rows] == plan.rates.tolist()
    picture = client.post("/api/plan", json={"setting": {}, "format": "png"})
    assert picture.content.startswith(b"\x89PNG")


def test_a_check_lands_on_the_exact_values(client):
    setting = {"steps": 32, "budget": 256, "problem": "truncation", "m": 16}
    exact = client.post("/api/collapse", json=setting).json()["points"]
    asked = {"setting": setting, "repetitions": 100}
    name = client.post("/api/checks", json=asked).json()["id"]
    found = _finished(client, name)
    assert found["done"] == 100
    assert found["error"] == ""
    apart = [
        (there["value"] - here["value"]) / there["error"]
        for there, here in zip(found["points"], exact, strict=True)
    ]
    assert np.abs(apart).max() < 4.0


def test_a_check_can_be_cancelled_and_a_third_is_refused(client):
    asked = {"setting": {"steps": 2000, "budget": 16_000}, "repetitions": 2000}
    names = [client.post("/api/checks", json=asked).json()["id"] for _ in range(2)]
    assert client.post("/api/checks", json=asked).status_code == 429
    for name in names:
        assert client.delete(f"/api/checks/{name}").status_code == 204
    for name in names:
        assert _finished(client, name)["cancelled"]
    assert client.get("/api/checks/none").status_code == 404


def test_a_check_of_what_has_no_samples_is_refused(client):
    reply = client.post("/api/checks", json={"setting": {"problem": "sketch"}})
    assert reply.status_code == 422
    assert "can't be drawn" in reply.json()["detail"]


def _finished(client, name):
    end = time.monotonic() + 60.0
    while time.monotonic() < end:
        found = client.get(f"/api/checks/{name}").json()
        if found["finished"]:
            return found
        time.sleep(0.02)
    raise AssertionError("the check did not end")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"steps": 10**9}, "steps: Input should be less than or equal to"),
        ({"steps": 200_000, "m": 1024, "budget": 10**6}, f"at most {MOST_WORK}"),
        ({"procedure": "multi-pass", "steps": 50_000, "budget": 10**6}, "at most 20000 steps"),
        ({"peak": -1}, "peak: "),
        ({"peak": "NaN"}, "peak: "),
        ({"budget": 10}, "budget must be at least steps times the smallest batch, 64, got 10"),
        ({"path": "/etc/passwd"}, "path: Extra inputs are not permitted"),
        ({"problem": "../x"}, "problem: "),
        ({"problem": "spectrum"}, "an uploaded spectrum is needed"),
        ({"peak": 1000.0}, "peak rate 1000 is unstable"),
        ({"multiple_of": 1000}, ""),
        ({"procedure": "multi-pass", "momentum": 0.5}, "momentum exists for one pass only"),
    ],
)
def test_bad_settings_are_refused_with_a_reason(client, setting, said):
    start = time.perf_counter()
    reply = client.post("/api/view", json=setting)
    assert reply.status_code == 422
    assert said in reply.json()["detail"]
    assert "\n" not in reply.json()["detail"]
    assert time.perf_counter() - start < 5.0


def test_other_hosts_and_origins_are_turned_away(client):
    for host in ("evil.example", "127.0.0.1.evil.example:80", "localhost.evil", ""):
        assert client.post("/api/view", json={}, headers={"host": host}).status_code == 421
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:8000"):
        assert client.post("/api/view", json={}, headers={"origin": origin}).status_code == 403
    ours = {"origin": "http://127.0.0.1:8000"}
    assert client.post("/api/view", json={}, headers=ours).status_code == 200
    assert client.get("/", headers={"host": "[::1]:99"}).status_code == 200


def test_long_bodies_are_refused_before_they_are_read(client):
    reply = client.post("/api/view", content=b" " * (server.LARGEST + 1))
    assert reply.status_code == 413
    unknown = client.post("/api/view", content=iter([b"{}"]))
    assert unknown.status_code == 413


def test_every_reply_has_the_security_headers(client):
    for reply in (client.get("/"), client.get("/nothing"), client.post("/api/view", json={"a": 0})):
        for name, value in server.HEADERS.items():
            assert reply.headers[name] == value


def test_the_page_names_nothing_outside(client):
    for name in ("/", "/static/main.js", "/static/style.css", "/static/charts.js"):
        text = client.get(name).text.replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text
        assert "https://" not in text
    assert client.get("/static/../server.py").status_code == 404
    assert client.get("/static/%2e%2e/server.py").status_code == 404


def test_the_api_describes_itself(client):
    found = client.get("/api/openapi.json").json()
    paths = {"/api/view", "/api/collapse", "/api/score", "/api/plan", "/api/checks"}
    assert paths < set(found["paths"])
    assert json.dumps(found["components"]["schemas"]["Setting"])


def test_old_checks_are_forgotten(monkeypatch):
    monkeypatch.setattr(checks, "KEPT", 2)
    found = checks.Checks()
    setting = Setting(steps=16, budget=32, problem="truncation", m=4)
    names = []
    for _ in range(4):
        names.append(found.start(setting, 20))
        end = time.monotonic() + 60.0
        while not found.get(names[-1]).finished and time.monotonic() < end:
            time.sleep(0.01)
    assert found.get(names[0]) is None
    assert found.get(names[-1]) is not None
    found.close()
