"""Checks as plain values and back, exactly: what a store keeps of them.

Numbers, texts, truth values and None stand for themselves. All else is an object with one
name, that of its kind: {"Exponent": {"value": -0.5, ...}}, {"tuple": [...]}. A claim is its id.
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
    NoLaw,
    OutsideRegime,
    Proportional,
    Value,
)
from batchlaw.jobs.arrays import pack, unpack

EVIDENCE: tuple[type, ...] = (Curve, Collapse, Estimate, OutsideRegime)
LAWS: tuple[type, ...] = (Exponent, Proportional, Value, NoLaw)
KINDS: dict[str, Any] = {kind.__name__: kind for kind in (Check, *EVIDENCE, *LAWS)}
CLAIM, ARRAY, SCALAR, TUPLE, MAPPING = "claim", "array", "scalar", "tuple", "mapping"


def to_plain(value: Any) -> Any:
    """What JSON can hold of a check, or of a part of one."""
    kind = type(value).__name__
    if type(value) is KINDS.get(kind):
        return {kind: {f.name: to_plain(getattr(value, f.name)) for f in fields(value)}}
    if isinstance(value, Claim):
        return {CLAIM: value.id}
    # Before numbers: NumPy's are also Python's.
    if isinstance(value, np.generic):
        return {SCALAR: pack(np.asarray(value))}
    if isinstance(value, np.ndarray):
        return {ARRAY: pack(value)}
    if isinstance(value, tuple):
        return {TUPLE: [to_plain(each) for each in value]}
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {MAPPING: {name: to_plain(each) for name, each in value.items()}}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a check must be made of plain values, got {kind}")


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
        return tuple(from_plain(each, claims) for each in content)
    parts = {name: from_plain(each, claims) for name, each in content.items()}
    return parts if kind == MAPPING else KINDS[kind](**parts)
