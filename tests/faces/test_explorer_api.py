"""The explorer's API: the package's own numbers, bounds on every request, loopback only."""

import asyncio
import csv
import io
import json
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from fastapi import HTTPException
from fastapi.testclient import TestClient

import batchlaw as bl
from batchlaw._base.kernels import mean_field
from batchlaw.faces.app import checks, guard, refusals, server
from batchlaw.faces.app.server import make_app
from batchlaw.faces.app.setting_fields import page_setting
from batchlaw.faces.app.view import POINTS
from batchlaw.influences import weights
from batchlaw.plans.plan import Plan
from batchlaw.plans.trainers import TRAINERS, export
from browser import apart

PAPER = bl.Problem.paper()
Setting = page_setting()


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
    np.testing.assert_array_equal(found["influence"]["kappa"], kappa)
    assert (found["sensitivity"], found["search"], found["approximations"]) == (None, "", [])
    by = {row["name"]: row for row in found["schedules"]}
    greedy = bl.allocate(kappa, 512)
    planned = bl.plan(rates, 512, rule=bl.sgd(), spectrum=PAPER, stages=4).batches
    for name, batches in (("greedy", greedy), ("planned", planned), ("constant", np.full(64, 8.0))):
        assert by[name]["batches"] == batches.tolist()
        effective = bl.effective_batch(kappa, batches)
        assert by[name]["effective"] == pytest.approx(effective, rel=1e-13)
        risk = bl.one_pass_risk(PAPER, rates, batches)
        for part in ("total", "excess", "approximation", "bias", "variance"):
            assert by[name]["risk"][part] == pytest.approx(getattr(risk, part), rel=1e-12)
    assert by["greedy"]["score"] == 1.0


def test_the_risk_along_the_run_is_that_of_the_trajectory(client):
    found = client.post("/api/along", json={"momentum": 0.5, "pytorch": True}).json()
    rule = {"momentum": 0.5, "pytorch": True}
    rates = bl.wsd(64, 0.05)
    greedy = bl.allocate(bl.influence(PAPER, rates, **rule), 512)
    path = bl.one_pass_risk(PAPER, rates, greedy, trajectory=True, **rule)
    assert found["paths"][0]["name"] == "greedy"
    np.testing.assert_allclose(found["paths"][0]["total"], path.total, rtol=1e-12)
    np.testing.assert_allclose(found["paths"][0]["noise"], path.variance, rtol=1e-12)


@pytest.mark.parametrize("steps", [64, 1000])
def test_data_reuse_along_the_run_is_that_of_the_trajectory(client, steps):
    setting = {"procedure": "multi-pass", "steps": steps, "samples": 64, "budget": 8 * steps}
    found = client.post("/api/along", json=setting).json()
    assert len(found["steps"]) == min(steps + 1, 200)
    assert (found["steps"][0], found["steps"][-1]) == (0, steps)
    rates, constant = bl.wsd(steps, 0.05), np.full(steps, 8.0)
    path = bl.multi_pass_risk(PAPER, rates, constant, samples=64, trajectory=True)
    shown = found["paths"][2]
    np.testing.assert_allclose(shown["total"], path.total[found["steps"]], rtol=1e-12)
    np.testing.assert_allclose(shown["noise"], path.fluctuation[found["steps"]], rtol=1e-12)


def test_a_view_of_data_reuse(client):
    found = _view(client, procedure="multi-pass", steps=128, samples=64, budget=1024)
    rates = bl.wsd(128, 0.05)
    kappa = bl.influence(PAPER, rates)
    (constant,) = [row for row in found["schedules"] if row["name"] == "constant"]
    batches = np.full(128, 8.0)
    assert (found["summary"], found["noise"]) == ("rho_eff", "fluctuation")
    rho = bl.effective_fluctuation(kappa, batches, 64)
    assert constant["effective"] == pytest.approx(rho, rel=1e-13)
    risk = bl.multi_pass_risk(PAPER, rates, batches, samples=64)
    assert constant["risk"]["fluctuation"] == pytest.approx(risk.fluctuation, rel=1e-12)


SIMPLE = {"procedure": "multi-pass", "samples": 5000, "method": "simple"}


@pytest.mark.parametrize(
    "setting",
    [
        {"rates": kind, "problem": problem}
        for kind in ("cosine", "linear", "polynomial", "constant", "step")
        for problem in ("sketch", "truncation")
    ]
    + [{"momentum": 0.9} | form for form in ({}, {"nesterov": True}, {"pytorch": True})]
    + [{"average": average} for average in ("last", "tail:0.5", "ema:0.9")]
    + [
        {"rates": "wsd", "decay": "cosine", "warmup": 0, "final": 0.1},
        {"warmup": 0.0, "stable": 0.9},
    ]
    + [{"rates": "polynomial", "power": 1.5}, {"rates": "constant", "warmup": 0.3}]
    + [{"rates": "step", "drops": "0.3,40", "factor": 0.5, "warmup": 0}]
    + [{"problem": "power-law", "seed": 7, "d": 500, "prior": True}]
    + [{"procedure": "multi-pass", "replacement": True}, SIMPLE],
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
    expected = bl.influence(problem, bl.wsd(64, 0.05))
    np.testing.assert_array_equal(found["influence"]["kappa"], expected)


def test_the_score_of_a_drawing_is_that_of_effective_batch(client):
    heights = [1.0, 5.0, 2.0, 8.0]
    found = client.post("/api/score", json={"setting": {}, "heights": heights}).json()
    kappa = bl.influence(PAPER, bl.wsd(64, 0.05))
    shape = np.interp(np.linspace(0, 1, 64), np.linspace(0, 1, 4), heights)
    batches = bl.allocate(shape**2, 512)
    assert found["batches"] == batches.tolist()
    np.testing.assert_allclose(batches, shape * 512 / shape.sum(), atol=1.5)
    assert found["effective"] == pytest.approx(bl.effective_batch(kappa, batches), rel=1e-13)
    ratio = found["effective"] / bl.effective_batch(kappa, bl.allocate(kappa, 512))
    assert found["score"] == pytest.approx(ratio, rel=1e-12)
    risk = bl.one_pass_risk(PAPER, bl.wsd(64, 0.05), [batches, np.full(64, 8)], trajectory=True)
    for name, values in (
        ("total", risk.total),
        ("excess", risk.excess),
        ("noise", risk.variance),
    ):
        exact = values[0, -1] / values[1, -1]
        assert found["against_constant"][name] == pytest.approx(exact, rel=1e-12)
    assert found["against_constant"]["standard_error"] is None
    np.testing.assert_allclose(found["path"]["noise"], risk.variance[0], rtol=1e-12)


def test_no_drawing_passes_the_greedy_schedule_under_the_same_limits(client):
    root = _view(client)["influence"]["root"]
    for limits in ({}, {"min_batch": 6, "multiple_of": 3}, {"max_batch": 10}, {"min_batch": 8}):
        asked = {"setting": limits, "heights": root}
        found = client.post("/api/score", json=asked).json()
        assert found["score"] <= 1.0 + 1e-12
        assert min(found["batches"]) >= limits.get("min_batch", 1)
        assert max(found["batches"]) <= limits.get("max_batch", 512)


DIVERGING = {
    "procedure": "multi-pass",
    "steps": 8000,
    "budget": 10**6,
    "rates": "constant",
    "samples": 10**7,
    "replacement": True,
    "problem": "spectrum",
    "spectrum": {"eigenvalue": [1e-15, 1.0], "energy": [1.0, 1.0]},
    "peak": 1.9,
}


def test_a_run_that_diverges_is_refused_before_its_costly_part(client, monkeypatch):
    """All pairs of points would take minutes."""
    monkeypatch.setattr(mean_field, "pair_products", None)
    for path in ("view", "collapse", "along"):
        reply = client.post(f"/api/{path}", json=DIVERGING)
        assert "the second moment overflows" in reply.json()["detail"]


@pytest.mark.parametrize("format_", TRAINERS)
def test_every_export_can_be_downloaded(client, format_):
    setting = {"steps": 64, "budget": 1024, "multiple_of": 8, "stages": 3}
    layout = {"sequence_length": 128, "data_parallel": 4, "micro_batch": 2}
    reply = client.post("/api/plan", json={"setting": setting, "format": format_, **layout})
    assert reply.status_code == 200, reply.text
    assert "attachment" in reply.headers["content-disposition"]
    options = {"spectrum": PAPER, "stages": 3, "multiple_of": 8}
    plan = bl.plan(
        bl.wsd(64, 0.05),
        1024,
        rule=bl.sgd(),
        batch_factor=TRAINERS[format_].batch_factor,
        **options,
    )
    written = export(plan, format_, **layout)
    if format_ == "json":
        assert Plan.from_json(reply.text).stages == plan.stages
    else:
        assert reply.text == written.text
    # No trainer has the paper's exponential decay: the download warns where the file does.
    warned = reply.headers.get("batchlaw-warning", "")
    assert written.warning in warned
    assert bool(warned) == (format_ in ("megatron", "olmo", "accumulation"))
    assert ("powers of 2" in warned) == (format_ == "olmo")


def test_the_table_and_the_picture_can_be_downloaded(client):
    table = client.post("/api/plan", json={"setting": {}, "format": "csv"}).text
    rows = list(csv.DictReader(io.StringIO(table)))
    plan = bl.plan(bl.wsd(64, 0.05), 512, rule=bl.sgd(), spectrum=PAPER, stages=4)
    assert list(rows[0]) == ["step", "rate", "batch", "samples_before"]
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
    assert found["apart"] == pytest.approx(np.abs(apart).max())
    assert [point["exact"] for point in found["points"]] == [point["value"] for point in exact]


def test_a_check_can_be_cancelled_and_a_third_is_refused(client):
    asked = {"setting": {"steps": 2000, "budget": 16_000}, "repetitions": 2000}
    names = [client.post("/api/checks", json=asked).json()["id"] for _ in range(2)]
    assert client.post("/api/checks", json=asked).status_code == 429
    for name in names:
        assert client.delete(f"/api/checks/{name}").status_code == 204
    # Stopped checks free their place at once, even while their block runs.
    another = client.post("/api/checks", json=asked | {"repetitions": 100})
    assert another.status_code == 202
    client.delete(f"/api/checks/{another.json()['id']}")
    for name in names:
        assert _finished(client, name)["cancelled"]
    assert client.get("/api/checks/none").status_code == 404


def test_a_check_of_what_has_no_samples_is_refused(client):
    many = {"eigenvalue": [1.0], "energy": [1.0], "multiplicity": [1e9]}
    for asked, field in (
        ({"setting": {"problem": "sketch"}}, "problem"),
        ({"setting": {"procedure": "multi-pass", "momentum": 0.5}}, "procedure"),
        ({"setting": {"procedure": "reshuffled"}}, "procedure"),
        ({"setting": {"budget": 10**10}}, "budget"),
        ({"setting": {"problem": "spectrum", "spectrum": many}}, "spectrum"),
        ({"setting": {"budget": 60_000}, "repetitions": 2000}, "repetitions"),
    ):
        reply = client.post("/api/checks", json=asked)
        assert (reply.status_code, reply.json()["field"]) == (422, field)


def _finished(client, name):
    _until(lambda: client.get(f"/api/checks/{name}").json()["finished"])
    return client.get(f"/api/checks/{name}").json()


@pytest.mark.parametrize(
    ("setting", "field"),
    [
        ({"steps": 10**9}, "steps"),
        ({"steps": 200_000, "m": 1024, "budget": 10**6}, "steps"),
        ({"procedure": "multi-pass", "steps": 50_000, "budget": 10**6}, "steps"),
        ({"procedure": "reshuffled", "samples": 10**6}, "procedure"),
        ({"procedure": "reshuffled", "problem": "sketch"}, "problem"),
        ({"peak": -1}, "peak"),
        ({"peak": 0}, "peak"),
        ({"peak": "NaN"}, "peak"),
        ({"peak": 1000.0}, "peak"),
        ({"a": 1.0}, "a"),
        ({"d": 10}, "d"),
        ({"budget": 10}, "budget"),
        ({"multiple_of": 1000}, "budget"),
        ({"min_batch": 9, "max_batch": 8}, "min_batch"),
        ({"path": "/etc/passwd"}, "path"),
        ({"problem": "../x"}, "problem"),
        ({"problem": "spectrum"}, "spectrum"),
        ({"spectrum": {"eigenvalue": [1.0], "energy": [1.0]}}, "spectrum"),
        ({"problem": "spectrum", "spectrum": {"eigenvalue": [0.0], "energy": [1.0]}}, "spectrum"),
        ({"warmup": 0.6}, "stable"),
        ({"rates": "cosine", "stable": 0.7}, "stable"),
        ({"rates": "step", "drops": "a"}, "drops"),
        ({"average": "half"}, "average"),
        ({"average": "ema:1"}, "average"),
        ({"procedure": "multi-pass", "average": "half"}, "average"),
        ({"nesterov": True}, "nesterov"),
        ({"samples": 100}, "samples"),
    ],
)
def test_bad_settings_are_refused_with_a_reason(client, setting, field):
    """As a setting alone, and inside another request."""
    reply = client.post("/api/view", json=setting)
    inside = client.post("/api/score", json={"setting": setting, "heights": [1.0, 2.0]})
    assert reply.status_code == inside.status_code == 422
    refusal = reply.json()
    assert refusal == inside.json()
    assert refusal["field"] == field
    assert "\n" not in refusal["detail"]
    # The sentence begins with the field, unless it has another subject.
    if refusal["reason"] is None:
        assert field in ("peak", "procedure")
    else:
        assert refusal["detail"].startswith(f"{field} ")


def test_a_reason_names_other_fields_by_their_labels(client):
    refusal = client.post("/api/view", json={"min_batch": 9, "max_batch": 8}).json()
    assert refusal == {
        "detail": "min_batch must be at most max_batch = 8, got 9",
        "field": "min_batch",
        "reason": "must be at most largest batch = 8, got 9",
    }


def test_a_body_that_is_not_json_is_said(client):
    for body, kind in (
        (b"x", "application/json"),
        (b"[]", "application/json"),
        (b"{}", "text/csv"),
    ):
        reply = client.post("/api/view", content=body, headers={"content-type": kind})
        assert reply.status_code == 422
        assert "must be a JSON object" in reply.json()["detail"]
        assert reply.json()["field"] is None


def test_a_body_that_does_not_come_is_given_up(monkeypatch):
    monkeypatch.setattr(guard, "BODY_TIMEOUT_S", 0.05)
    said = []

    async def never():
        await asyncio.Event().wait()

    async def send(message):
        said.append(message)

    headers = [(b"host", b"127.0.0.1"), (b"content-length", b"9")]
    scope = {"type": "http", "method": "POST", "path": "/api/view", "headers": headers}
    scope |= {"scheme": "http", "query_string": b"", "http_version": "1.1", "app": None}
    apart(asyncio.run, asyncio.wait_for(make_app()(scope, never, send), 30.0))
    assert said[0]["status"] == 400


def test_other_hosts_and_origins_are_turned_away(client):
    for host in ("evil.example", "127.0.0.1.evil.example:80", "localhost.evil", "10.0.0.1", ""):
        assert client.post("/api/view", json={}, headers={"host": host}).status_code == 421
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:8000"):
        assert client.post("/api/view", json={}, headers={"origin": origin}).status_code == 403
    ours = {"origin": "http://127.0.0.1:8000"}
    assert client.post("/api/view", json={}, headers=ours).status_code == 200
    assert client.get("/", headers={"host": "[::1]:99"}).status_code == 200


def test_long_bodies_are_refused_before_they_are_read(client):
    reply = client.post("/api/view", content=b" " * (guard.MAX_REQUEST_BYTES + 1))
    assert reply.status_code == 413
    unknown = client.post("/api/view", content=iter([b"{}"]))
    assert unknown.status_code == 411


def test_every_reply_has_the_security_headers(client):
    for reply in (client.get("/"), client.get("/nothing"), client.post("/api/view", json={"a": 0})):
        for name, value in guard.HEADERS.items():
            assert reply.headers[name] == value


def test_the_page_names_nothing_outside(client):
    names = [path.name for path in server.STATIC.iterdir() if path.is_file()]
    assert len(names) > 6
    for name in ["/", *(f"/static/{name}" for name in names)]:
        text = client.get(name).text.replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text
        assert "https://" not in text
    assert client.get("/static/../server.py").status_code == 404
    assert client.get("/static/%2e%2e/server.py").status_code == 404


def test_the_api_describes_itself(client):
    found = client.get("/api/openapi.json").json()
    paths = {
        f"/api/{name}"
        for name in ("view", "along", "collapse", "score", "plan", "checks", "search")
    }
    assert paths < set(found["paths"])
    assert json.dumps(found["components"]["schemas"]["PageSetting"])


def test_old_checks_are_forgotten(monkeypatch):
    monkeypatch.setattr(checks, "MAX_FINISHED", 2)
    found = checks.Checks()
    setting = Setting(steps=16, budget=32, problem="truncation", m=4)
    names = []
    for _ in range(4):
        names.append(found.start(setting, 20))
        _until(lambda: found.get(names[-1]).finished)
    assert found.get(names[0]) is None
    assert found.get(names[-1]) is not None
    found.close()


def test_a_server_that_was_opened_answers_to_its_names_and_to_digits_only():
    app = make_app(frozenset({"0.0.0.0", "tower"}))
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        for host in ("tower:80", "TOWER", "192.168.1.5:8000", "[fe80::1]:80", "localhost"):
            assert client.get("/", headers={"host": host}).status_code == 200
        for host in ("evil.example", "tower.evil.example", "1.2.3", "[::1", "tower:x"):
            assert client.get("/", headers={"host": host}).status_code == 421


def test_a_check_that_nobody_asks_about_ends(monkeypatch):
    monkeypatch.setattr(checks, "IDLE_TIMEOUT_S", 0.0)
    found = checks.Checks()
    name = found.start(Setting(steps=16, budget=32, problem="truncation", m=4), 2000)
    check = found._checks[name]
    _until(lambda: check.finished)
    assert check.cancelled.is_set()
    assert check.done < 2000
    found.close()


def test_blocks_of_repetitions_are_short_and_add_up():
    setting = Setting(budget=100_000, problem="truncation", m=64)
    for repetitions in (20, 21, 39, 200, 1999):
        for at in (Setting(), setting):
            blocks = checks._blocks(checks.Check(at, repetitions))
            assert sum(blocks) == repetitions
            assert 3 <= min(blocks) <= max(blocks) <= checks.BLOCK


def test_a_request_whose_client_has_gone_is_not_computed():
    """Two computations run; a third client disconnects while it waits, and is skipped."""

    class Client:
        def __init__(self, gone):
            self.gone = gone

        async def is_disconnected(self):
            return self.gone

    async def all_of_them():
        turns, release, done = server.Turns(), threading.Event(), []
        held = [asyncio.create_task(turns.run(Client(False), release.wait, 30.0)) for _ in range(2)]
        await asyncio.sleep(0.05)
        gone = asyncio.create_task(turns.run(Client(True), done.append, "gone"))
        there = asyncio.create_task(turns.run(Client(False), done.append, "there"))
        await asyncio.sleep(0.05)
        assert done == []
        release.set()
        await asyncio.gather(*held, there)
        with pytest.raises(HTTPException) as refused:
            await gone
        return done, refused.value.status_code

    assert apart(asyncio.run, all_of_them()) == (["there"], 499)


def test_too_many_waiting_requests_are_refused(monkeypatch):
    monkeypatch.setattr(server, "MAX_WAITING", 0)
    with TestClient(make_app(), base_url="http://127.0.0.1:8000") as client:
        assert client.post("/api/view", json={}).status_code == 429


def _until(true):
    end = time.monotonic() + 60.0
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


RESHUFFLED = {"procedure": "reshuffled", "samples": 64, "steps": 32, "budget": 256, "m": 16}


def test_a_view_of_reshuffling_is_simulated_and_has_standard_errors(client):
    found = _view(client, **RESHUFFLED)
    problem, rates = bl.Problem.paper(sketch=16), bl.wsd(32, 0.05)
    by = {row["name"]: row for row in found["schedules"]}
    sizes = {name: np.array(row["batches"]) for name, row in by.items()}
    assert sizes["constant"].tolist() == [8.0] * 32
    risk = bl.simulate_multi_pass(
        problem, rates, sizes, samples=64, reshuffle=True, repetitions=100, seed=0
    )
    assert found["method"] == risk.method
    for row, scored in enumerate(found["schedules"]):
        for part in ("total", "bias", "variance", "fluctuation", "cross"):
            error = risk.standard_error(part)[row]
            assert scored["risk"][part] == pytest.approx(getattr(risk, part)[row], rel=1e-12)
            assert scored["risk"]["standard_error"][part] == pytest.approx(error, rel=1e-12)
        rho = bl.effective_fluctuation(bl.influence(problem, rates), scored["batches"], 64)
        assert scored["effective"] == pytest.approx(rho, rel=1e-12)
    against = by["greedy"]["against_constant"]
    for name, term in (("total", "total"), ("excess", "excess"), ("noise", "fluctuation")):
        shown = (against[name], against["standard_error"][name])
        assert shown == pytest.approx(risk.ratio(term, 0, 2), rel=1e-12)
    assert by["constant"]["against_constant"]["standard_error"] is None
    assert _view(client)["schedules"][0]["risk"]["standard_error"] is None


AVERAGED = RESHUFFLED | {"procedure": "multi-pass", "momentum": 0.5, "average": "tail:0.5"}


def test_a_view_of_many_passes_with_a_rule_is_simulated_with_that_rule(client):
    found = _view(client, **AVERAGED)
    problem, rates = bl.Problem.paper(sketch=16), bl.wsd(32, 0.05)
    rule = bl.sgd(0.5, average="tail:0.5")
    sizes = [row["batches"] for row in found["schedules"]]
    np.testing.assert_array_equal(
        sizes[0], bl.allocate(bl.influence(problem, rates, rule=rule), 256, max_batch=64)
    )
    risk = bl.simulate_multi_pass(
        problem, rates, sizes, samples=64, rule=rule, repetitions=100, seed=0
    )
    totals = [row["risk"]["total"] for row in found["schedules"]]
    np.testing.assert_allclose(totals, risk.total, rtol=1e-12)
    assert found["schedules"][0]["risk"]["standard_error"]["fluctuation"] > 0.0


@pytest.mark.slow
def test_a_check_simulates_momentum_and_averages_too(client):
    setting = {"momentum": 0.5, "average": "ema:0.9", "m": 16, "steps": 32, "budget": 128}
    name = client.post("/api/checks", json={"setting": setting, "repetitions": 100}).json()["id"]
    while not (state := client.get(f"/api/checks/{name}").json())["finished"]:
        time.sleep(0.05)
    assert state["error"] == ""
    assert state["apart"] < 5.0


def test_what_is_not_known_for_a_setting_is_left_out_with_a_reason(client):
    simple = SIMPLE | {"steps": 128, "budget": 1024}
    for setting in (RESHUFFLED, AVERAGED, simple):
        reply = client.post("/api/along", json=setting)
        assert reply.status_code == 200
        assert reply.json()["paths"] == []
        assert reply.json()["reason"]
        drawn = client.post("/api/score", json={"setting": setting, "heights": [1.0, 2.0]}).json()
        assert drawn["path"] is None
    for setting in (RESHUFFLED, AVERAGED):
        collapse = client.post("/api/collapse", json=setting).json()
        assert collapse["points"] == []
        assert collapse["reason"]
    assert client.post("/api/along", json={}).json()["reason"] == ""


def test_reshuffled_batches_are_whole_whatever_the_budget(client):
    found = _view(client, **RESHUFFLED | {"budget": 301, "multiple_of": 3})
    constant = found["schedules"][2]["batches"]
    assert sum(constant) == 300
    assert set(constant) == {9.0, 12.0}


@pytest.mark.parametrize("wrong", ["shape", "raise"])
def test_a_bug_is_answered_with_500_and_logged_and_the_server_goes_on(
    client, monkeypatch, caplog, wrong
):
    def broken(*_):
        if wrong == "raise":
            raise ValueError("operands could not be broadcast together")
        return np.ones(3)

    setting = {"peak": 0.0123 if wrong == "shape" else 0.0124}  # not solved by any other test
    with monkeypatch.context() as planted:
        planted.setattr(weights.kernels, "influence", broken)
        reply = client.post("/api/view", json=setting)
        assert reply.status_code == 500
        assert reply.json() == {"detail": refusals.BUG}
        assert reply.headers["X-Frame-Options"] == "DENY"
        (record,) = [each for each in caplog.records if each.name == refusals.log.name]
        assert record.levelname == "ERROR"
        assert record.exc_info[2] is not None
        # In the background, the check reports it.
        name = client.post("/api/checks", json={"setting": setting}).json()["id"]
        assert _finished(client, name)["error"] == refusals.BUG
        assert len(caplog.records) == 2
    assert _view(client, **setting)["schedules"]


def test_a_check_of_bad_input_says_what_is_wrong(client):
    asked = {"setting": {"peak": 100.0, "steps": 16, "budget": 64}}
    found = _finished(client, client.post("/api/checks", json=asked).json()["id"])
    assert "peak rate 100 is unstable" in found["error"]


REGISTER = """
import json
from dataclasses import dataclass, field
from typing import ClassVar
import numpy as np
import batchlaw as bl
from batchlaw._base.words import COUNT, FLAG, REAL, Word
from batchlaw.risk.procedures import MultiPass
from batchlaw.risk.procedure import register_procedure
from batchlaw.schedule import registry
from batchlaw.schedule.update_rule import SGD, WORD, register_rule

def ramp(steps, peak, slope=0.5):
    return peak * np.linspace(1.0, 1.0 - slope, steps)

registry.register(ramp, Word("slope", REAL, "How steep it is.", low=0, high=0.9))

@dataclass(frozen=True)
class Blocked(MultiPass):
    name: ClassVar[str] = "blocked"
    blocks: int = field(default=4, metadata={WORD: Word("blocks", COUNT, "How many.", low=1)})

register_procedure(Blocked)

@dataclass(frozen=True, eq=False)
class Signed(SGD):
    name: ClassVar[str] = "signed"
    signs: bool = field(default=False, metadata={WORD: Word("signs", FLAG, "Signs alone.")})

register_rule(Signed)
write = lambda plan, layout: bl.trainers.Export("x")
bl.trainers.register(bl.trainers.Trainer("shouter", "Shouter", "shouts", write, "x.txt"))

from fastapi.testclient import TestClient
from batchlaw.faces.app.server import make_app
with TestClient(make_app(), base_url="http://127.0.0.1:8000") as client:
    schemas = client.get("/api/openapi.json").json()["components"]["schemas"]
    setting = {"rates": "ramp", "slope": 0.2, "optimizer": "signed", "signs": True}
    view = client.post("/api/view", json=setting).json()
fields = schemas["PageSetting"]["properties"]
print(json.dumps([fields, schemas["Download"]["properties"]["format"], view["rate"][-1]]))
"""


@pytest.mark.process
def test_what_is_registered_before_the_server_is_made_is_in_its_schema():
    command = [sys.executable, "-c", REGISTER]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    fields, formats, last_rate = json.loads(done.stdout)
    assert fields["rates"]["enum"][-1] == "ramp"
    slope = fields["slope"]
    assert (slope["minimum"], slope["maximum"], slope["default"]) == (0, 0.9, 0.5)
    assert slope["x-page"] == {
        "group": "Learning rate",
        "label": "slope",
        "shown_with": {"rates": ["ramp"]},
    }
    assert fields["procedure"]["enum"][-1] == "blocked"
    assert "gd" not in fields["procedure"]["enum"]
    assert fields["blocks"]["x-page"]["shown_with"] == {"procedure": ["blocked"]}
    assert "blocked" in fields["samples"]["x-page"]["shown_with"]["procedure"]
    assert fields["signs"]["type"] == "boolean"
    assert fields["signs"]["x-page"]["group"] == "Procedure"
    assert formats["x-titles"]["shouter"] == "Shouter"
    assert last_rate == pytest.approx(0.05 * 0.8)


def test_a_view_names_the_schedule_whose_noise_grows_and_a_score_that_misleads(client):
    assert _view(client)["notes"] == []
    assert _view(client, procedure="multi-pass")["notes"] == []
    grows, misled = _view(client, peak=2.0)["notes"]
    assert "of the steps: rate 2 at step 6 of schedule greedy is above 1.98549" in grows
    rates = bl.wsd(64, 2.0)
    greedy = bl.allocate(bl.influence(PAPER, rates), 512)
    noise = bl.one_pass_risk(PAPER, rates, [greedy, np.full(64, 8)]).variance
    assert f"by its risk {noise[0] / noise[1]:.3g}" in misled
    assert noise[0] > noise[1]
