"""What a plan says of training is what the stored runs show."""

import sys

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.batches.limits import Limits
from batchlaw.plans.evidence import (
    COSINE,
    DROP,
    EXPONENTIAL,
    FLAT,
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

RATES = {
    EXPONENTIAL: "wsd",
    SHORT: "wsd-short",
    LINEAR: "wsd-linear",
    COSINE: "cosine",
    FLAT: "constant",
    DROP: "drop",
}
OPTIMIZERS = {0.999: "adamw", 0.95: "adamw-0.95"}
NOT_RULES = ("default plan", "bold plan", "earlier plan", "constant")


def stored_losses():
    """(optimizer, rates, schedule, peak) -> final loss by seed, of the runs of 800 updates."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from trained_plans import STORE, read
    finally:
        sys.path.pop(0)
    losses = {}
    for row in read(STORE):
        key = row["optimizer"], row["rates"], row["schedule"], row["peak"]
        losses.setdefault(key, {})[row["seed"]] = float(row["validation"])
    return losses


def benchmark_losses():
    """The same of the benchmark's runs at equal samples and with the given rates."""
    losses = {}
    for run in bl.datasets.batch_schedules():
        facts = run.facts
        fair = run.updates == 3000 and run.samples == 24_000
        if fair and not facts["schedule"].startswith("random"):
            names = [facts["schedule"], *filter(None, facts["also"].split("; "))]
            for name in names:
                key = facts["optimizer"], facts["rates"], name, facts["peak"]
                losses.setdefault(key, {})[facts["seed"]] = run.final_loss
    return losses


def differences(losses, optimizer, rates):
    """schedule -> mean differences to constant, one per peak."""
    found = {}
    for (own, shape, schedule, peak), values in losses.items():
        if (own, shape) == (optimizer, rates):
            constant = losses[own, shape, "constant", peak]
            paired = [loss - constant[seed] for seed, loss in values.items() if seed in constant]
            found.setdefault(schedule, []).append(np.mean(paired))
    return found


@pytest.mark.parametrize(
    "runs", TRAINED, ids=lambda runs: f"{runs.steps}, {runs.shape}, {runs.beta2}"
)
def test_the_evidence_is_what_was_measured(runs):
    losses = stored_losses() if runs.steps == 800 else benchmark_losses()
    found = differences(losses, OPTIMIZERS[runs.beta2], RATES[runs.shape])
    if runs.departs:
        measured = found["default plan"]
    else:
        if runs.steps == 3000:
            assert found.get("default plan", [0.0]) == [0.0]
        others = [value for name, value in found.items() if name not in NOT_RULES]
        assert len(others) >= 4
        measured = np.concatenate(others)
    assert runs.best == pytest.approx(min(measured), abs=5.1e-4)
    assert runs.worst == pytest.approx(max(measured), abs=5.1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [FLAT, DROP])
def test_the_answer_for_rates_that_do_not_decay_is_a_constant_batch(shape):
    """The benchmark has no default plan there; its evidence says what the answer is."""
    made = bl.plan(TRAINED_SHAPES[shape](3000), 24_000, rule=ADAMW)
    assert len(made.stages) == 1
    assert "other schedules in place of a constant batch, the answer there" in made.verdict.evidence
    assert UNTRAINED not in made.verdict.evidence


def test_rates_are_of_a_trained_shape_only_where_they_are_near_it():
    for name, shape in TRAINED_SHAPES.items():
        assert shape_of(2e-4 * shape(3000)) == name
    assert shape_of(bl.wsd(500, 1.0, warmup=10, stable=0.82, decay="linear")) == LINEAR
    assert shape_of(bl.cosine(500, 1.0, warmup=0.05)) == COSINE
    assert shape_of(bl.constant(500, 1.0)) == FLAT
    assert shape_of(bl.linear(500, 1.0)) is None
    assert shape_of(bl.constant(5, 1.0)) is None


def test_evidence_is_for_similar_memories_only():
    gamma = bl.wsd(500, 1.0)
    assert {runs.beta2 for runs in trained_with(bl.adam(beta2=0.999), gamma)} == {0.999}
    assert {runs.beta2 for runs in trained_with(bl.adam(beta2=0.9995), gamma)} == {0.999}
    assert {runs.beta2 for runs in trained_with(bl.adam(beta2=0.95), gamma)} == {0.95}
    assert {runs.steps for runs in trained_with(bl.adam(), gamma)} == {800, 3000}
    assert not trained_with(bl.adam(beta2=0.99), gamma)
    assert not trained_with(bl.adam(), bl.linear(500, 1.0))
    rmsprop = bl.adam(0.0, 0.999)
    assert not trained_with(rmsprop, gamma)
    text = adam_evidence(rmsprop, "cases", answer(gamma))
    assert text == "cases; no training run has tested these rates with RMSProp and such betas"


def test_all_runs_of_a_shape_and_a_memory_have_the_same_answer():
    for runs in TRAINED:
        for other in TRAINED:
            if (runs.shape, runs.beta2) == (other.shape, other.beta2):
                assert runs.departs == other.departs


ADAMW = bl.adam(0.9, 0.999, weight_decay=0.01)


def answer(gamma, departs=True, *, batch=8, over_range=True, bold=False, stages=8, multiple_of=1):
    limits = Limits(stages=stages, multiple_of=multiple_of)
    return Answer(gamma, batch * gamma.size, limits, departs, over_range, bold)


def test_the_evidence_of_the_trained_settings_has_no_reservation():
    text = adam_evidence(ADAMW, "cases", answer(bl.wsd(800, 0.004)))
    assert text.startswith("cases; trained with AdamW on one transformer of 69 000 parameters")
    assert text.endswith(
        "the plan for such rates changed the validation loss by -0.068 to -0.043 in 800 updates "
        "(docs/adam.md) and by -0.051 in 3000 updates (docs/study.md)"
    )
    assert UNTRAINED not in text
    linear = bl.wsd(800, 0.004, stable=0.8, decay="linear")
    text = adam_evidence(ADAMW, "cases", answer(linear, departs=False))
    assert "other schedules in place of a constant batch, the answer there, changed" in text
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
    assert text.endswith(f"(docs/study.md); {UNTRAINED}")


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


def test_plans_for_momentum_point_at_the_benchmark_where_they_gained_nothing():
    made = bl.plan(bl.wsd(60, 0.05), 480, rule=bl.sgd(momentum=0.9, pytorch=True))
    assert made.verdict.evidence.endswith(f"changed nothing there (docs/study.md); {UNTRAINED}")
    runs = bl.datasets.batch_schedules("small-momentum")
    for shape in ("wsd-linear", "wsd"):
        by_seed = {
            name: {r.facts["seed"]: r.final_loss for r in runs
                   if (r.facts["rates"], r.facts["schedule"]) == (shape, name)}
            for name in ("constant", "default plan")
        }  # fmt: skip
        change = [by_seed["default plan"][k] - by_seed["constant"][k] for k in range(5)]
        assert abs(np.mean(change)) < 3.0 * np.std(change, ddof=1) / np.sqrt(5)


@pytest.mark.slow
def test_the_evidence_of_a_plan_follows_its_answer():
    """At mean batch 64 the answer for these rates is a constant batch."""
    made = bl.plan(bl.wsd(1000, 0.01), 64_000, rule=ADAMW)
    assert len(made.stages) == 1
    assert "the plan for such rates" not in made.verdict.evidence
    assert made.verdict.evidence.endswith(UNTRAINED)
