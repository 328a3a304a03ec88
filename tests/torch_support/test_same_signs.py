"""The pieces of benchmarks/same_signs.py that its conclusions rest on."""

import runpy

import numpy as np
import pytest

from paths import BENCHMARKS

torch = pytest.importorskip("torch")
torch.set_num_threads(1)
# torch warns of itself: its first forward derivative compiles helpers with torch.jit.
pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def bench():
    report = runpy.run_path(str(BENCHMARKS / "same_signs_report.py"))
    return runpy.run_path(str(BENCHMARKS / "same_signs.py")) | {"report": report}


def small_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)
    ).double()


def test_the_tangent_model_is_the_first_order_of_the_model(bench):
    x = torch.randn(4, 3, dtype=torch.float64)
    model = small_model()
    base = bench["flat"](model)
    tangent = bench["Tangent"](small_model())
    assert torch.equal(tangent(x), model(x))
    step = torch.randn_like(base)
    errors = []
    for size in (1e-2, 5e-3):
        bench["at"](tangent, size * step)
        moved = bench["at"](small_model(), base + size * step)
        errors.append(float((tangent(x) - moved(x)).detach().norm()))
    # What is left is of second order: a quarter at half the step.
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.02)


def test_the_tangent_model_trains_its_own_weights_only(bench):
    model = small_model()
    before = bench["flat"](model)
    tangent = bench["Tangent"](model)
    tangent(torch.randn(4, 3, dtype=torch.float64)).square().sum().backward()
    assert all(w.grad is None for w in model.parameters())
    assert all(w.grad is not None for w in tangent.parameters())
    assert torch.equal(bench["flat"](model), before)


def test_a_change_of_a_quadratic_is_its_slope_and_its_curvature(bench):
    def loss(x):
        return 1.0 + 0.3 * x + 0.7 * x**2

    places = {"loss": 1.0, "half": 0.5, "ahead": bench["NEARBY"], "back": -bench["NEARBY"]}
    r = {name: str(loss(x)) for name, x in places.items()}
    r |= {"part": "windows", "model": "m", "seed": "0", "run": "from 0", "step": "1"}
    r["distance"] = "1"
    losses = {("windows", "m", 0, "constant", 1): loss(0.0)}
    found = bench["report"]["compared"](losses, r)
    assert found["slope"] == pytest.approx(0.3)
    assert found["curved"] == pytest.approx(0.7)
    assert found["change"] == pytest.approx(1.0)


def test_every_schedule_spends_the_constant_batches_samples(bench):
    setting = bench["TRANSFORMER"]
    for name in bench["SCHEDULES"]:
        batches = bench["scheduled"](name, setting.rates)
        assert batches.sum() == bench["CONSTANT"] * setting.steps
    assert np.all(bench["constant"](setting) == bench["CONSTANT"])
