"""The explorer's API against its own description: whatever is asked, no answer is a 5xx."""

import json

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import checks

from batchlaw.faces.app.server import make_app

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
    # The largest sketches take seconds, on a busy machine many.
    case.call_and_validate(base_url=ADDRESS, checks=CHECKS, timeout=600)


SETTINGS = st.fixed_dictionaries(
    {"steps": st.integers(10, 80), "budget": st.integers(60, 4000)},
    optional={
        "rates": st.sampled_from(["wsd", "cosine", "linear", "polynomial", "constant", "step"]),
        "peak": st.floats(1e-6, 3.0),
        "warmup": st.floats(0.0, 1.0),
        "stable": st.floats(0.0, 1.0),
        "decay": st.sampled_from(["exponential", "linear", "1-sqrt"]),
        "problem": st.sampled_from(["sketch", "truncation", "paper", "spectrum"]),
        "spectrum": st.integers(1, 5).flatmap(
            lambda n: st.fixed_dictionaries(
                {
                    "eigenvalue": st.lists(st.floats(1e-15, 1e15), min_size=n, max_size=n),
                    "energy": st.lists(st.floats(0.0, 1e30), min_size=n, max_size=n),
                },
                optional={"multiplicity": st.lists(st.floats(1e-6, 1e30), min_size=n, max_size=n)},
            )
        ),
        "a": st.floats(1.0, 10.0),
        "b": st.floats(1.0, 10.0),
        "m": st.integers(1, 40),
        "sigma": st.floats(0.0, 100.0),
        "procedure": st.sampled_from(["one-pass", "multi-pass"]),
        "samples": st.integers(2, 5000),
        "replacement": st.booleans(),
        "momentum": st.floats(0.0, 0.999),
        "momentum_form": st.sampled_from(["heavy-ball", "nesterov", "pytorch", "pytorch-nesterov"]),
        "min_batch": st.integers(1, 40),
        "max_batch": st.one_of(st.none(), st.integers(1, 200)),
        "multiple_of": st.integers(1, 16),
        "stages": st.integers(1, 12),
    },
)


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
            assert set(reply.json()) == {"detail"}
            assert "\n" not in reply.json()["detail"]
        else:
            json.loads(reply.text, parse_constant=pytest.fail)
