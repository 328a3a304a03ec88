"""The registry of trainers: one that is added is found wherever trainers are listed."""

import dataclasses
import subprocess
import sys

import pytest

import batchlaw as bl
from batchlaw._base.errors import InputError
from batchlaw.plans.trainers.registry import table_rows
from paths import DOCS

ADD_ONE = """
import batchlaw as bl

def write(plan, layout):
    return bl.trainers.Export(f"{plan.steps} x {layout.value('data_parallel')}")

bl.trainers.register(
    bl.trainers.Trainer("shouter", "Shouter 3000", "shouts", write, "shout.txt", "text/shout",
                        needs=("data_parallel",), batch_factor=3)
)
"""


def _output(code):
    done = subprocess.run(
        [sys.executable, "-c", ADD_ONE + code], capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture
def shouter():
    """A trainer that is registered while a test runs."""
    exec(ADD_ONE, {})
    yield bl.trainers.TRAINERS["shouter"]
    del bl.trainers.TRAINERS["shouter"]


@pytest.mark.process
def test_a_registered_trainer_is_in_the_help_and_prints_its_export():
    run = (
        "from batchlaw.faces.cli import main\n"
        "main(['plan', '--help'])\n"
        "options = '--steps 50 --budget 5000 --format shouter --data-parallel 2'\n"
        "main(['plan', '--optimizer', 'sgd', *options.split()])\n"
    )
    *help_lines, exported = _output(run).splitlines()
    help_text = " ".join(" ".join(help_lines).split())
    assert "accumulation, pytorch, shouter." in help_text
    assert "3 for the format shouter" in help_text
    assert exported == "50 x 2"


def test_a_registered_trainer_is_in_the_schema_of_the_page_and_can_be_downloaded(shouter):
    from fastapi.testclient import TestClient

    from batchlaw.faces.app.server import make_app

    with TestClient(make_app(), base_url="http://127.0.0.1:8000") as client:
        schema = client.get("/api/openapi.json").json()
        asked = {"setting": {"budget": 1024, "multiple_of": 2}, "format": "shouter"}
        reply = client.post("/api/plan", json=asked | {"data_parallel": 2})
        unknown = client.post("/api/plan", json=asked | {"format": "deepspeed"})
    formats = schema["components"]["schemas"]["Download"]["properties"]["format"]
    assert formats["enum"] == [*bl.trainers.TRAINERS, "csv", "png"]
    assert formats["x-titles"]["shouter"] == shouter.title
    assert shouter.media_type in schema["paths"]["/api/plan"]["post"]["responses"]["200"]["content"]
    assert reply.text == "64 x 2"
    assert "powers of 3" in reply.headers["batchlaw-warning"]
    assert unknown.status_code == 422


def test_the_page_of_plans_lists_the_registered_trainers(shouter):
    *known, added = table_rows()
    page = (DOCS / "plan.md").read_text().splitlines()
    first = page.index(known[0])
    assert page[first : first + len(known) + 1] == [*known, ""]
    assert added == "| `shouter` | Shouter 3000 | shouts | `--data-parallel` | by powers of 3 |"


def test_a_name_is_registered_once(shouter):
    with pytest.raises(InputError) as refused:
        bl.trainers.register(shouter)
    assert refused.value.field == "trainer"


def test_a_trainer_needs_fields_that_a_layout_has():
    with pytest.raises(InputError) as refused:
        dataclasses.replace(bl.trainers.TRAINERS["json"], needs=("luck",))
    assert refused.value.field == "needs"


def test_a_trainer_that_reads_what_it_does_not_need_is_a_bug():
    with pytest.raises(LookupError):
        bl.trainers.Layout().value("data_parallel")
