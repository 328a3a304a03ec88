"""What a plan says of training is what the stored runs show."""

import sys

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.plans.evidence import (
    COSINE,
    EXPONENTIAL,
    LINEAR,
    SHORT,
    TRAINED,
    TRAINED_SHAPES,
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
