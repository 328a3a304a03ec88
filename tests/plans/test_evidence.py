"""What a plan says of training is what the stored runs show."""

import sys

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.batches.limits import Limits
from batchlaw.plans.evidence import (
    COSINE,
    EXPONENTIAL,
    LINEAR,
    SHORT,
    TRAINED,
    TRAINED_SHAPES,
    UNTRAINED,
    Answer,
    adam_evidence,
    shape_of,
    trained_with,
)
from paths import ROOT

RATES = {EXPONENTIAL: "wsd", SHORT: "wsd-short", LINEAR: "wsd-linear", COSINE: "cosine"}
OPTIMIZERS = {0.999: "adamw", 0.95: "adamw-0.95"}
NOT_RULES = ("default plan", "bold plan", "constant")


def means():
    """(optimizer, rates, schedule) -> mean differences to constant, one per peak."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from trained_plans import STORE, read
    finally:
        sys.path.pop(0)
    losses = {}
    for row in read(STORE):
        key = row["optimizer"], row["rates"], row["schedule"], row["peak"]
        losses.setdefault(key, {})[row["seed"]] = float(row["validation"])
    found = {}
    for (optimizer, rates, schedule, peak), values in losses.items():
        constant = losses[optimizer, rates, "constant", peak]
        paired = [loss - constant[seed] for seed, loss in values.items() if seed in constant]
        found.setdefault((optimizer, rates, schedule), []).append(np.mean(paired))
    return found


@pytest.mark.parametrize("runs", TRAINED, ids=lambda runs: f"{runs.shape}, {runs.beta2}")
def test_the_evidence_is_what_was_measured(runs):
    group = OPTIMIZERS[runs.beta2], RATES[runs.shape]
    found = {key[2]: value for key, value in means().items() if key[:2] == group}
    if runs.departs:
        differences = found["default plan"]
    else:
        others = [value for name, value in found.items() if name not in NOT_RULES]
        assert len(others) == 4
        differences = np.concatenate(others)
    assert runs.best == pytest.approx(min(differences), abs=5.1e-4)
    assert runs.worst == pytest.approx(max(differences), abs=5.1e-4)


def test_rates_are_of_a_trained_shape_only_where_they_are_near_it():
    for name, shape in TRAINED_SHAPES.items():
        assert shape_of(2e-4 * shape(3000)) == name
    assert shape_of(bl.wsd(500, 1.0, warmup=10, stable=0.82, decay="linear")) == LINEAR
    assert shape_of(bl.cosine(500, 1.0, warmup=0.05)) == COSINE
    assert shape_of(bl.constant(500, 1.0)) is None
    assert shape_of(bl.constant(5, 1.0)) is None


def test_evidence_is_for_a_similar_memory_only():
    gamma = bl.wsd(500, 1.0)
    assert trained_with(bl.adam(beta2=0.999), gamma).beta2 == 0.999
    assert trained_with(bl.adam(beta2=0.9995), gamma).beta2 == 0.999
    assert trained_with(bl.adam(beta2=0.95), gamma).beta2 == 0.95
    assert trained_with(bl.adam(beta2=0.99), gamma) is None
    assert trained_with(bl.adam(), bl.constant(500, 1.0)) is None


ADAMW = bl.adam(0.9, 0.999, weight_decay=0.01)


def answer(gamma, departs=True, *, batch=8, over_range=True, bold=False, stages=8, multiple_of=1):
    limits = Limits(stages=stages, multiple_of=multiple_of)
    return Answer(gamma, batch * gamma.size, limits, departs, over_range, bold)


def test_the_evidence_of_the_trained_settings_has_no_reservation():
    text = adam_evidence(ADAMW, "cases", answer(bl.wsd(800, 0.004)))
    assert text.startswith("cases; trained on one transformer of 69 000 parameters (800 updates")
    assert "the plan for such rates changed the validation loss by -0.068 to -0.043" in text
    assert UNTRAINED not in text
    linear = bl.wsd(800, 0.004, stable=0.8, decay="linear")
    text = adam_evidence(ADAMW, "cases", answer(linear, departs=False))
    assert "four rules in place of a constant batch, the answer there, changed" in text
    assert UNTRAINED not in text


@pytest.mark.parametrize(
    ("rule", "given"),
    [
        (ADAMW, answer(bl.wsd(1000, 0.004))),
        (ADAMW, answer(bl.wsd(800, 0.004), batch=64)),
        (ADAMW, answer(bl.wsd(800, 0.004), multiple_of=2)),
        (ADAMW, answer(bl.wsd(800, 0.004), stages=5)),
        (ADAMW, answer(bl.wsd(800, 0.004), bold=True)),
        (bl.adam(0.9, 0.999, weight_decay=0.1), answer(bl.wsd(800, 0.004))),
        (bl.adam(0.9, 0.9985, weight_decay=0.01), answer(bl.wsd(800, 0.004))),
        (ADAMW, answer(bl.wsd(800, 0.004, warmup=40), departs=False)),
    ],
)
def test_evidence_says_where_its_own_answer_was_not_trained(rule, given):
    text = adam_evidence(rule, "cases", given)
    assert text.endswith(f"(docs/adam.md); {UNTRAINED}")


def test_a_constant_answer_does_not_claim_what_a_schedule_changed():
    text = adam_evidence(ADAMW, "cases", answer(bl.wsd(1000, 1.0), departs=False, batch=64))
    assert "a schedule, the answer there for such rates, changed" in text
    assert "the plan" not in text


def test_a_plan_for_a_known_problem_has_no_trained_evidence():
    text = adam_evidence(ADAMW, "the problem", answer(bl.wsd(800, 1.0), over_range=False))
    assert text == (
        "the problem; no training run has tested a plan for a given problem or exponent with Adam"
    )


def test_plans_of_sgd_point_at_the_small_study():
    made = bl.plan(bl.wsd(60, 0.05), 480, rule=bl.sgd())
    assert made.verdict.evidence.endswith(f"(docs/small_study.md); {UNTRAINED}")


@pytest.mark.slow
def test_the_evidence_of_a_plan_follows_its_answer():
    """At mean batch 64 the answer for these rates is a constant batch."""
    made = bl.plan(bl.wsd(1000, 0.01), 64_000, rule=ADAMW)
    assert len(made.stages) == 1
    assert "the plan for such rates" not in made.verdict.evidence
    assert made.verdict.evidence.endswith(UNTRAINED)
