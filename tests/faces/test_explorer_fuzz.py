"""The explorer's API against its own description: whatever is asked, no answer is a 5xx."""

import json

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import checks

from batchlaw.faces.app.server import make_app
from batchlaw.faces.app.setting_fields import page_setting

pytestmark = pytest.mark.slow

ADDRESS = "http://127.0.0.1:8000"
APP = make_app()
SCHEMA = schemathesis.openapi.from_asgi("/api/openapi.json", APP, headers={"host": "127.0.0.1"})
# Not "positive data are accepted": a setting whose fields fit alone may be impossible as a whole.
CHECKS = [
    checks.not_a_server_error,
    *schemathesis.checks.CHECKS.get_by_names(
        [
            "status_code_conformance",
            "content_type_conformance",
            "response_schema_conformance",
            "negative_data_rejection",
        ]
    ),
]
QUIET = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module", autouse=True)
def client():
    with TestClient(APP, base_url=ADDRESS) as found:
        yield found


@SCHEMA.parametrize()
@QUIET
def test_every_answer_is_as_described(case):
    # The largest sketches take seconds, many on a busy machine.
    case.call_and_validate(base_url=ADDRESS, checks=CHECKS, timeout=600)


FIELDS = page_setting().model_json_schema()["properties"]
# Ranges in which most settings are valid and fast to compute.
NARROW = {
    "steps": st.integers(10, 80),
    "budget": st.integers(60, 4000),
    "peak": st.floats(1e-6, 3.0),
    "m": st.integers(1, 40),
    "d": st.integers(1, 200),
    "seed": st.integers(0, 3),
    "sigma": st.floats(0.0, 100.0),
    "samples": st.integers(2, 5000),
    "min_batch": st.integers(1, 40),
    "max_batch": st.integers(1, 200),
    "multiple_of": st.integers(1, 16),
    "stages": st.integers(1, 12),
    "drops": st.sampled_from(["0.5", "0.1,0.9", "3,40", "0.5,0.5", "x", ",", "90"]),
    "average": st.sampled_from(["last", "tail:0.5", "tail:2", "ema:0.9", "ema:", "mean"]),
    "spectrum": st.integers(1, 5).flatmap(
        lambda n: st.fixed_dictionaries(
            {
                "eigenvalue": st.lists(st.floats(1e-15, 1e15), min_size=n, max_size=n),
                "energy": st.lists(st.floats(0.0, 1e30), min_size=n, max_size=n),
            },
            optional={"multiplicity": st.lists(st.floats(1e-6, 1e30), min_size=n, max_size=n)},
        )
    ),
}


def _values(name):
    """Values of a field, from its schema unless a narrower range is given."""
    field = FIELDS[name]
    field = field.get("anyOf", [field])[0]
    if name in NARROW:
        return NARROW[name]
    if "enum" in field:
        return st.sampled_from(field["enum"])
    if field["type"] == "boolean":
        return st.booleans()
    return st.floats(field["minimum"], field.get("maximum", 1.0))


def _with_a_use(setting):
    """Without the fields that the page would hide: they would be refused before anything else."""
    values = {name: field["default"] for name, field in FIELDS.items()} | setting

    def shown(name):
        page = FIELDS[name]["x-page"]
        return all(
            values[other] in allowed for other, allowed in page.get("shown_with", {}).items()
        ) and not any(
            values[other] in without for other, without in page.get("hidden_with", {}).items()
        )

    return {name: value for name, value in setting.items() if shown(name)}


ALWAYS = ("steps", "budget", "spectrum")
SETTINGS = st.fixed_dictionaries(
    {name: _values(name) for name in ALWAYS},
    optional={name: _values(name) for name in FIELDS if name not in ALWAYS},
).map(_with_a_use)


@settings(QUIET, max_examples=150)
@given(setting=SETTINGS, heights=st.lists(st.floats(1e-9, 1e12), min_size=2, max_size=9))
def test_settings_that_nearly_fit_have_numbers_or_a_reason(client, setting, heights):
    """Bounds that meet, rates that diverge, batches of the whole dataset."""
    requests = dict.fromkeys(("/api/view", "/api/along", "/api/collapse"), setting)
    requests["/api/score"] = {"setting": setting, "heights": heights}
    requests["/api/plan"] = {"setting": setting, "format": "json"}
    for path, body in requests.items():
        reply = client.post(path, json=body)
        assert reply.status_code in (200, 422), reply.text
        if reply.status_code == 422:
            assert set(reply.json()) == {"detail", "field", "reason"}
            assert "\n" not in reply.json()["detail"]
        else:
            json.loads(reply.text, parse_constant=pytest.fail)
