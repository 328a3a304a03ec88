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
    NoLaw,
    OutsideRegime,
    Proportional,
    Value,
)
from batchlaw.evidence.claims.registry import all_claims
from batchlaw.evidence.claims.serialize import KINDS, from_plain, to_plain
from batchlaw.jobs.arrays import pack, unpack

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
    st.builds(NoLaw, st.booleans()),
)
evidence = st.one_of(
    st.builds(Curve, tables, arrays, texts, st.none() | numbers, texts),
    st.builds(Collapse, arrays, tables, texts, numbers),
    st.builds(Estimate, numbers, texts, numbers, numbers, texts),
    st.builds(OutsideRegime, st.lists(texts, max_size=3).map(tuple), texts),
)
checks = st.builds(
    Check,
    st.sampled_from(list(CLAIMS.values())),
    texts,
    evidence,
    laws,
    st.dictionaries(texts, laws, max_size=2),
    texts,
)


def same(one, other):
    """The same types and bits all the way down; a NaN is the same as itself."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray | np.generic):
        kind = (one.dtype, one.shape, one.tobytes())
        return kind == (other.dtype, other.shape, other.tobytes())
    if is_dataclass(one):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    return repr(one) == repr(other)


def there_and_back(value):
    return from_plain(json.loads(json.dumps(to_plain(value))), CLAIMS)


@given(checks)
def test_a_check_of_any_kind_comes_back_exactly(check):
    assert same(there_and_back(check), check)


@given(laws | evidence)
def test_evidence_and_laws_come_back_exactly(value):
    assert same(there_and_back(value), value)


def test_every_kind_is_drawn_above():
    drawn = {Curve, Collapse, Estimate, OutsideRegime, Exponent, Proportional, Value, NoLaw, Check}
    assert set(KINDS.values()) == drawn


@pytest.mark.slow
def test_a_family_comes_back_with_its_verdicts():
    for check in [check for task in paper_slips.tasks(QUICK) for check in task.run()]:
        again = there_and_back(check)
        assert same(again, check)
        assert again.judge() == check.judge()
        assert again.rejected() == check.rejected()


def test_what_json_would_change_is_refused():
    for value in ([1.0], {1: 2.0}, {1.0}, np.array([None])):
        with pytest.raises((TypeError, ValueError), match="plain values"):
            to_plain(value)


def test_an_array_that_was_packed_can_be_written_to():
    again = unpack(pack(np.arange(6.0).reshape(2, 3)[:, ::2]))
    again += 1.0
    assert again.tolist() == [[1.0, 3.0], [4.0, 6.0]]
