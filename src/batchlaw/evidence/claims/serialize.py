"""Checks as plain values for the store, and back, exactly.

Numbers, strings, booleans and None stand for themselves. Anything else is an object whose only
key is its kind: {"Exponent": {"value": -0.5, ...}}, {"tuple": [...]}. A claim is its id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from batchlaw.evidence.claims.claim import (
    Check,
    Claim,
    Collapse,
    Curve,
    Estimate,
    Exponent,
    Proportional,
    Value,
)
from batchlaw.jobs.arrays import pack, unpack
from batchlaw.theory.bounds.bound import Condition

EVIDENCE: tuple[type, ...] = (Curve, Collapse, Estimate)
LAWS: tuple[type, ...] = (Exponent, Proportional, Value)
KINDS: dict[str, Any] = {kind.__name__: kind for kind in (Check, Condition, *EVIDENCE, *LAWS)}
CLAIM, ARRAY, SCALAR, TUPLE, MAPPING = "claim", "array", "scalar", "tuple", "mapping"


def to_plain(value: Any) -> Any:
    """A check, or a part of one, as values that JSON can hold."""
    kind = type(value).__name__
    if type(value) is KINDS.get(kind):
        return {kind: {f.name: to_plain(getattr(value, f.name)) for f in fields(value)}}
    if isinstance(value, Claim):
        return {CLAIM: value.id}
    # Tested before numbers: np.float64 is also a float.
    if isinstance(value, np.generic):
        return {SCALAR: pack(np.asarray(value))}
    if isinstance(value, np.ndarray):
        return {ARRAY: pack(value)}
    if isinstance(value, tuple):
        return {TUPLE: [to_plain(item) for item in value]}
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {MAPPING: {name: to_plain(item) for name, item in value.items()}}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a check must consist of plain values, got {kind}")


def from_plain(plain: Any, claims: Mapping[str, Claim]) -> Any:
    """The inverse of ``to_plain``, with the claims by id."""
    if not isinstance(plain, dict):
        return plain
    ((kind, content),) = plain.items()
    if kind == CLAIM:
        return claims[content]
    if kind == ARRAY:
        return unpack(content)
    if kind == SCALAR:
        return unpack(content)[()]
    if kind == TUPLE:
        return tuple(from_plain(item, claims) for item in content)
    parts = {name: from_plain(item, claims) for name, item in content.items()}
    return parts if kind == MAPPING else KINDS[kind](**parts)
