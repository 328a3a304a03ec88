"""Checks survive the store exactly."""

import json
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from batchlaw.evidence.claims import paper_slips
from batchlaw.evidence.claims.check_settings import QUICK
from batchlaw.evidence.claims.claim import (
    Check,
    Collapse,
    Curve,
    Estimate,
    Exponent,
    Proportional,
    Value,
)
from batchlaw.evidence.claims.registry import all_claims
from batchlaw.evidence.claims.serialize import KINDS, from_plain, to_plain
from batchlaw.jobs.arrays import pack, unpack
from batchlaw.theory.bounds.bound import KINDS as CONDITION_KINDS
from batchlaw.theory.bounds.bound import Condition

CLAIMS = all_claims()
texts = st.text(max_size=8)
numbers = st.floats() | st.floats().map(np.float64) | st.integers()
arrays = hnp.arrays(
    st.sampled_from([np.float64, np.float32, np.int64, np.bool_]),
    hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=4),
)
tables = st.dictionaries(texts, arrays, max_size=3)
laws = st.one_of(
    st.builds(Exponent, numbers, texts, numbers, st.none() | texts),
    st.builds(Proportional, texts, numbers),
    st.builds(Value, numbers, numbers, texts),
)
evidence = st.one_of(
    st.builds(
        Curve,
        tables,
        arrays,
        texts,
        st.none() | numbers,
        st.lists(arrays, max_size=2).map(tuple),
    ),
    st.builds(Collapse, arrays, tables, texts, numbers),
    st.builds(Estimate, numbers, texts, numbers, numbers, texts),
)
conditions = st.builds(
    Condition, texts, texts, numbers, numbers, st.booleans(), st.sampled_from(list(CONDITION_KINDS))
)
checks = st.builds(
    Check,
    st.sampled_from(list(CLAIMS.values())),
    texts,
    evidence,
    laws,
    st.dictionaries(texts, laws, max_size=2),
    st.lists(conditions, max_size=2).map(tuple),
)


def same(first, second):
    """Equal types and bits at every level; a NaN equals itself."""
    if type(first) is not type(second):
        return False
    if isinstance(first, np.ndarray | np.generic):
        kind = (first.dtype, first.shape, first.tobytes())
        return kind == (second.dtype, second.shape, second.tobytes())
    if is_dataclass(first):
        return all(same(getattr(first, f.name), getattr(second, f.name)) for f in fields(first))
    if isinstance(first, tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, dict):
        return list(first) == list(second) and all(
            same(first[name], second[name]) for name in first
        )
    return repr(first) == repr(second)


def round_trip(value):
    return from_plain(json.loads(json.dumps(to_plain(value))), CLAIMS)


@given(checks)
def test_a_check_of_any_kind_comes_back_exactly(check):
    assert same(round_trip(check), check)


@given(laws | evidence)
def test_evidence_and_laws_come_back_exactly(value):
    assert same(round_trip(value), value)


def test_every_kind_is_drawn_above():
    drawn = {Curve, Collapse, Estimate, Exponent, Proportional, Value, Check, Condition}
    assert set(KINDS.values()) == drawn


@pytest.mark.slow
def test_a_family_comes_back_with_its_verdicts():
    for check in [check for task in paper_slips.tasks(QUICK) for check in task.run()]:
        restored = round_trip(check)
        assert same(restored, check)
        assert restored.judge() == check.judge()
        assert restored.rejected() == check.rejected()


def test_what_json_would_change_is_refused():
    for value in ([1.0], {1: 2.0}, {1.0}, np.array([None])):
        with pytest.raises((TypeError, ValueError), match="plain values"):
            to_plain(value)


def test_an_array_that_was_packed_can_be_written_to():
    restored = unpack(pack(np.arange(6.0).reshape(2, 3)[:, ::2]))
    restored += 1.0
    assert restored.tolist() == [[1.0, 3.0], [4.0, 6.0]]
