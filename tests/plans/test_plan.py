import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import batchlaw as bl
from batchlaw._base.files import read_schedule
from batchlaw.plans.plan import Plan, samples_of_budget, stages_of
from refused import refused


def make(**changes):
    given_ = {
        "rates": bl.wsd(20, 0.05),
        "stages": ((5, 8), (12, 16), (20, 40)),
        "budget": 500,
        "limits": bl.Limits(min_batch=8, max_batch=64, multiple_of=8, stages=3),
        "prediction": {"against_constant": 0.1 + 0.2, "effective_batch": 19.0},
        "assumptions": ("the spectrum is a power law",),
        "inputs": {"rates": {"name": "wsd", "peak": 0.05}, "spectrum": [1.0, 0.5]},
        "seed": 7,
    }
    return Plan(**(given_ | changes))


def test_a_plan_knows_its_batches_and_what_was_consumed_before_each_step():
    plan = make(sequence_length=128)
    batches = np.repeat([8, 16, 40], [5, 7, 8])
    np.testing.assert_array_equal(plan.batches, batches)
    for step in range(1, 22):
        assert plan.samples_before(step) == batches[: step - 1].sum()
        assert plan.tokens_before(step) == 128 * batches[: step - 1].sum()
    assert (plan.steps, plan.samples, plan.spent) == (20, 472, 472)
    assert plan.stage_table()[2] == {"first": 13, "last": 20, "batch": 40, "before": 152}
    assert stages_of(batches) == plan.stages


def test_every_sample_has_one_position():
    plan = make()
    belongs = np.repeat(np.arange(1, 21), plan.batches)
    for sample, step in enumerate(belongs):
        assert plan.position(sample) == (step, sample - plan.samples_before(step))
    assert plan.position(472) == (21, 0)
    with refused("samples"):
        plan.position(473)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(0.0, 1e300), min_size=1, max_size=30),
    st.data(),
)
def test_a_plan_round_trips_through_its_json(rates, data):
    sizes = data.draw(
        st.lists(st.integers(1, 10**9), min_size=len(rates), max_size=len(rates)), label="sizes"
    )
    plan = Plan(
        rates=np.array(rates),
        stages=stages_of(sizes),
        budget=sum(sizes) * 3,
        unit="tokens",
        sequence_length=3,
        prediction=data.draw(st.dictionaries(st.text(), st.floats(-1e300, 1e300), max_size=3)),
        assumptions=tuple(data.draw(st.lists(st.text(), max_size=3))),
        inputs=data.draw(st.dictionaries(st.text(), st.integers() | st.text() | st.none())),
    )
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert hash(again) == hash(plan)
    np.testing.assert_array_equal(again.rates, rates)
    assert again.to_json() == plan.to_json()


def test_the_json_names_its_schema_and_version():
    document = json.loads(make().to_json())
    assert document["schema"] == 1
    assert document["version"] == bl.__version__
    assert document["prediction"]["against_constant"] == 0.1 + 0.2


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"colour": 1}, "colour"),
        ({"schema": 2}, "schema"),
        ({"steps": 21}, "steps"),
        ({"steps": "20"}, "steps"),
        ({"steps": 20.0}, "steps"),
        ({"budget": True}, "budget"),
        ({"budget": 400}, "budget"),
        ({"unit": "bytes"}, "unit"),
        ({"unit": "tokens"}, "sequence_length"),
        ({"stages": []}, "stages"),
        ({"stages": [[20]]}, "stages"),
        ({"stages": [[20, 8.5]]}, "stages"),
        ({"stages": [[19, 8]]}, "stages"),
        ({"stages": [[9, 8], [9, 16]]}, "stages"),
        ({"stages": [[9, 8], [20, 8]]}, "stages"),
        ({"stages": [[20, 12]]}, "stages"),
        ({"stages": [[20, 72]]}, "stages"),
        ({"rates": [0.1] * 19 + ["x"]}, "rates"),
        ({"rates": [0.1] * 19 + [-1]}, "rates"),
        ({"prediction": {"gain": None}}, "prediction gain"),
        ({"assumptions": [3]}, "assumptions"),
        ({"seed": 1.5}, "seed"),
        ({"constraints": {"min_batch": 1}}, "max_batch"),
    ],
)
def test_a_wrong_field_is_refused_and_named(change, field):
    document = json.loads(make().to_json()) | change
    with refused(field) as caught:
        Plan.from_json(json.dumps(document))
    assert "\n" not in str(caught.value)


def test_files_of_earlier_versions_have_no_verdict():
    document = json.loads(make().to_json())
    del document["verdict"]
    assert Plan.from_json(json.dumps(document)) == make()


@pytest.mark.parametrize("verdict", [{}, {"recommendation": "x", "worth": "x", "evidence": "x"}])
def test_an_incomplete_verdict_is_refused(verdict):
    document = json.loads(make().to_json()) | {"verdict": verdict}
    with refused("verdict"):
        Plan.from_json(json.dumps(document))


@pytest.mark.parametrize("name", [n for n in json.loads(make().to_json()) if n != "verdict"])
def test_a_missing_field_is_refused_and_named(name):
    document = json.loads(make().to_json())
    del document[name]
    with refused(name):
        Plan.from_json(json.dumps(document))


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("", "plan"),
        ("[1, 2]", "plan"),
        ('{"schema": 1, "schema": 1}', "schema"),
        (None, "plan"),
        ('{"rates": [NaN]}', "plan"),
    ],
)
def test_text_that_is_no_plan_is_refused(text, field):
    with refused(field):
        Plan.from_json(text)


@pytest.mark.parametrize("given", ["plan.json", Path("plan.json")])
def test_a_file_name_in_place_of_a_plan_is_told_to_read_it(given):
    with refused("plan") as caught:
        Plan.from_json(given)
    assert "Path('plan.json').read_text()" in str(caught.value)


def test_zero_stages_and_crossed_bounds_are_refused():
    with refused("stages"):
        bl.Limits(stages=0)
    with refused("min_batch"):
        bl.Limits(min_batch=8, max_batch=4)
    with refused("stages"):
        make(limits=bl.Limits(stages=2))


@pytest.mark.parametrize("value", [np.ones(2), float("nan"), {1, 2}])
def test_inputs_that_json_cannot_hold_are_refused(value):
    with refused("inputs"):
        make(inputs={"rates": value})


def test_token_and_sample_budgets_must_agree():
    assert samples_of_budget(tokens=10**12, sequence_length=8192) == 122070312
    assert samples_of_budget(samples=15, tokens=1000, sequence_length=64) == 15
    with refused("samples"):
        samples_of_budget(samples=16, tokens=1000, sequence_length=64)
    with refused("sequence_length"):
        samples_of_budget(tokens=1000)
    with refused("budget"):
        samples_of_budget()


@pytest.mark.parametrize(
    "content", ["step,rate\n1,0.1\n3,0.2\n", "rate\n0.1\n\n0.2\n", "rate,x\n0.1,1\n,2\n"]
)
def test_a_rate_file_with_gaps_is_refused(content, tmp_path):
    path = tmp_path / "rates.csv"
    path.write_text(content)
    with refused("path"):
        read_schedule(path, "rate")
    path.write_text("step,rate\n1,0.1\n2,0.2\n")
    np.testing.assert_array_equal(read_schedule(path, "rate"), [0.1, 0.2])
