"""The explorer with Adam: the mean field's numbers, a search for the best schedule, the verdict."""

import numpy as np
import pytest
from fastapi.testclient import TestClient

import batchlaw as bl
from batchlaw.design.sensitivity import sensitivity
from batchlaw.faces.app import solution, view
from batchlaw.faces.app.server import make_app
from batchlaw.faces.app.setting_fields import page_setting
from batchlaw.faces.app.verdict import verdict
from batchlaw.plans.plan import Plan
from batchlaw.plans.verdict import Verdict
from batchlaw.schedule.update_rule import OPTIMIZERS

ADAMW = {"optimizer": "adamw", "peak": 0.02, "m": 16, "steps": 32, "budget": 256}
PROBLEM, RATES = bl.Problem.paper(sketch=16), bl.wsd(32, 0.02)
RULE = bl.adam(weight_decay=0.01, basis="generic")
CONSTANT = np.full(32, 8.0)


@pytest.fixture(scope="module")
def client():
    with TestClient(make_app(), base_url="http://127.0.0.1:8000") as found:
        yield found


@pytest.fixture(scope="module")
def plan():
    return bl.plan(RATES, 256, rule=RULE, spectrum=PROBLEM, stages=4)


def _reply(client, path, **body):
    reply = client.post(f"/api/{path}", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_a_view_of_adam_has_the_mean_fields_numbers(client, plan):
    found = _reply(client, "view", **ADAMW)
    by = {row["name"]: row for row in found["schedules"]}
    assert list(by) == ["planned", "constant"]
    schedules = {"planned": plan.batches, "constant": CONSTANT}
    risk = bl.one_pass_risk(PROBLEM, RATES, schedules, rule=RULE)
    for row, (name, batches) in enumerate(schedules.items()):
        assert by[name]["batches"] == batches.tolist()
        assert by[name]["effective"] is by[name]["score"] is None
        for part in ("total", "excess", "bias", "variance"):
            assert by[name]["risk"][part] == pytest.approx(getattr(risk, part)[row], rel=1e-12)
    against = by["planned"]["against_constant"]
    for name, term in (("total", "total"), ("excess", "excess"), ("noise", "variance")):
        assert against[name] == pytest.approx(risk.ratio(term, 0, 1)[0], rel=1e-12)
    assert against["bias"] == pytest.approx(risk.bias[0] / risk.bias[1], rel=1e-12)
    assert found["relative_error"] == pytest.approx(risk.uncertainty.max(), rel=1e-12)
    assert "mean field" in found["approximations"][0]
    assert found["influence"] is found["summary"] is None


@pytest.mark.parametrize("basis", ["generic", "eigen"])
def test_the_sensitivity_is_the_change_of_the_excess_with_the_log_of_a_batch(client, basis):
    """Against differences of the adjoint's own objective: v at its mean."""
    rule = bl.adam(weight_decay=0.01, basis=basis)
    found = _reply(client, "view", **ADAMW, basis=basis)["sensitivity"]

    def excess(t, shift):
        batches = CONSTANT.copy()
        batches[t] *= np.exp(shift)
        return sensitivity(PROBLEM, RATES, batches, rule=rule).excess

    for t in (0, 10, 31):
        slope = (excess(t, 1e-4) - excess(t, -1e-4)) / 2e-4
        shown = found["scales"][t] + found["noise"][t]
        assert shown == pytest.approx(slope, rel=1e-5, abs=1e-9)
    assert max(found["noise"]) <= 0.0


def test_a_search_adds_the_best_schedule_found_with_what_is_known_of_it(client):
    found = _reply(client, "search", **ADAMW)
    shown, along = found["view"], found["along"]
    names = [row["name"] for row in shown["schedules"]]
    assert names == [path["name"] for path in along["paths"]] == ["best", "planned", "constant"]
    best = bl.optimal_batches(PROBLEM, RATES, 256, rule=RULE, stages=32)
    assert shown["schedules"][0]["batches"] == best.batches.tolist()
    assert shown["certificate"] == best.certificate
    assert "without a proven bound" in shown["certificate"]
    ratios = [row["against_constant"]["excess"] for row in shown["schedules"]]
    assert ratios == sorted(ratios)
    assert (_reply(client, "view", **ADAMW)["search"], shown["search"]) == ("on request", "")
    # As many stages as updates leave every update free.
    free = bl.optimal_batches(PROBLEM, RATES, 256, rule=RULE)
    assert best.variance == pytest.approx(free.variance, rel=1e-4)


def test_a_search_of_sgd_is_its_view(client):
    assert _reply(client, "search", steps=32, budget=256)["view"] == _reply(
        client, "view", steps=32, budget=256
    )


def test_the_run_and_a_drawing_with_adam_are_those_of_the_trajectory(client):
    path = bl.one_pass_risk(PROBLEM, RATES, [CONSTANT], rule=RULE, trajectory=True)
    shown = _reply(client, "along", **ADAMW)["paths"][-1]
    np.testing.assert_allclose(shown["total"], path.total[0], rtol=1e-12)
    np.testing.assert_allclose(shown["noise"], path.variance[0], rtol=1e-12)
    np.testing.assert_allclose(shown["uncertainty"], path.uncertainty[0], rtol=1e-12)
    drawn = _reply(client, "score", setting=ADAMW, heights=[4.0, 2.0, 1.0])
    risk = bl.one_pass_risk(PROBLEM, RATES, [drawn["batches"], CONSTANT], rule=RULE)
    assert drawn["against_constant"]["total"] == pytest.approx(risk.total[0] / risk.total[1])
    assert drawn["path"]["total"][-1] == pytest.approx(risk.total[0], rel=1e-12)
    assert drawn["score"] is None


def test_the_verdict_is_the_plans(client, plan):
    found = _reply(client, "view", **ADAMW)
    shown = found["verdict"]
    for part in ("optimizer", "recommendation", "worth", "evidence"):
        assert shown[part] == getattr(plan.verdict, part)
    assert {rule["name"]: rule["steps"] for rule in shown["rules"] if rule["steps"]} == dict(
        plan.verdict.steps
    )
    rules = {
        rule["name"]: [rule[n] for n in ("best", "median", "worst")] for rule in shown["rules"]
    }
    assert rules == {name: list(row) for name, row in plan.verdict.rules.items()}
    assert found["verdict_reason"] == ""


def test_any_plan_with_a_verdict_shows_it():
    """Whatever the optimizer: also one over a range, with three numbers for each rule."""
    ranges = {"late-large": (0.9, 1.1, 1.4)}
    given = Plan(
        RATES, ((32, 8),), 256, verdict=Verdict("sgd", "keep it", "nothing", "a proof", ranges)
    )
    shown = verdict(given)
    assert (shown.recommendation, shown.worth, shown.evidence) == ("keep it", "nothing", "a proof")
    (rule,) = shown.rules
    assert (rule.name, rule.best, rule.median, rule.worst) == ("late-large", 0.9, 1.1, 1.4)
    assert verdict(None) is None


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("steps", [32, 600, 5000])
def test_there_is_a_verdict_or_a_reason(client, optimizer, steps):
    setting = {"optimizer": optimizer, "steps": steps, "budget": 8 * steps, "m": 16, "peak": 0.01}
    found = _reply(client, "view", **setting)
    assert (found["verdict"] is None) == bool(found["verdict_reason"])
    assert bool(found["stages"]) == ("planned" in [row["name"] for row in found["schedules"]])
    if OPTIMIZERS[optimizer].kind.has_influence:
        assert found["stages"]
    else:
        work = 16 * steps
        assert bool(found["stages"]) == (work <= solution.SEARCHED_AT_ONCE)
        expected = "on request" if work <= solution.MOST_SEARCHED else "too large"
        assert found["search"] == expected


LARGE = {"optimizer": "adam", "steps": 5000, "budget": 40_000, "m": 16}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("view", {"optimizer": "adam", "procedure": "multi-pass"}, "optimizer"),
        ("view", {"optimizer": "adamw", "procedure": "reshuffled"}, "optimizer"),
        ("view", {"optimizer": "sgd", "beta1": 0.5}, "beta1"),
        ("view", {"optimizer": "adam", "momentum": 0.5}, "momentum"),
        ("view", {"optimizer": "adam", "basis": "sketch"}, "basis"),
        ("view", {"optimizer": "nadam"}, "optimizer"),
        ("view", {"optimizer": ["adam"]}, "optimizer"),
        ("search", LARGE, "steps"),
        ("plan", {"setting": LARGE, "format": "csv"}, "steps"),
        ("plan", {"setting": ADAMW, "format": "olmo"}, "format"),
        ("checks", {"setting": {"optimizer": "adam"}}, "optimizer"),
    ],
)
def test_what_is_not_there_for_adam_is_refused_with_a_reason(client, path, body, field):
    reply = client.post(f"/api/{path}", json=body)
    assert reply.status_code == 422
    assert reply.json()["field"] == field
    assert reply.json()["reason"]


def test_what_has_no_use_with_adam_is_left_out_with_a_reason(client):
    found = _reply(client, "collapse", **ADAMW)
    assert found["points"] == []
    assert "Adam" in found["reason"]


def test_an_average_over_targets_is_said_to_be_a_further_approximation(client):
    found = _reply(client, "view", **ADAMW, prior=True)
    assert any("averaged over its prior" in text for text in found["approximations"])


def test_a_download_is_the_plan_of_the_view(client, plan):
    text = client.post("/api/plan", json={"setting": ADAMW, "format": "json"}).text
    read = Plan.from_json(text)
    assert read.stages == plan.stages
    assert read.verdict == plan.verdict


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_has_its_presets_and_options_replace_them(name):
    setting = page_setting()
    kind, presets = OPTIMIZERS[name].kind, OPTIMIZERS[name].presets
    _, rule = setting(optimizer=name).procedure_and_rule()
    assert isinstance(rule, kind)
    for option, value in presets.items():
        assert getattr(rule, option) == value
    for option in ("momentum", "weight_decay"):
        if hasattr(kind, option):
            _, rule = setting(optimizer=name, **{option: 0.25}).procedure_and_rule()
            assert getattr(rule, option) == 0.25
    if "weight_decay" in presets:
        _, rule = setting(optimizer=name, weight_decay=0.0).procedure_and_rule()
        assert rule.weight_decay == 0.0


def test_a_view_of_adam_stays_within_its_points(client):
    found = _reply(client, "view", **LARGE | {"steps": 2000})
    assert len(found["sensitivity"]["noise"]) == len(found["steps"]) == view.POINTS
