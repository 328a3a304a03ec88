"""The JSON of a plan: written with every digit, read with every field checked."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from batchlaw._base.errors import InputError
from batchlaw.batches.limits import Limits
from batchlaw.plans.verdict import Verdict

SCHEMA = 1
_WHOLE, _NUMBER, _TEXT = "a whole number", "a number", "text"
_OPTIONAL = "a whole number or null"
_VERDICT = "an object or null"
_KINDS: dict[str, tuple[type, ...]] = {
    _WHOLE: (int,),
    _NUMBER: (int, float),
    _TEXT: (str,),
    _OPTIONAL: (int, type(None)),
    "a list": (list,),
    "an object": (dict,),
    _VERDICT: (dict, type(None)),
}
_TYPES = {
    "schema": _WHOLE,
    "version": _TEXT,
    "steps": _WHOLE,
    "budget": _WHOLE,
    "unit": _TEXT,
    "sequence_length": _OPTIONAL,
    "stages": "a list",
    "constraints": "an object",
    "prediction": "an object",
    "assumptions": "a list",
    "verdict": _VERDICT,
    "inputs": "an object",
    "seed": _OPTIONAL,
    "rates": "a list",
}
# Names of the limits in the file -> names in ``Limits``.
_LIMITS = {
    "min_batch": "min_batch",
    "max_batch": "max_batch",
    "multiple_of": "multiple_of",
    "max_stages": "stages",
}
_LIMIT_TYPES = {
    "min_batch": _WHOLE,
    "max_batch": _OPTIONAL,
    "multiple_of": _WHOLE,
    "max_stages": _OPTIONAL,
}


def write_plan(values: Mapping[str, Any]) -> str:
    """The fields of a plan, and its number of steps, as text: one field per line."""
    limits = {name: getattr(values["limits"], field) for name, field in _LIMITS.items()}
    document = {name: values.get(name) for name in _TYPES} | {
        "schema": SCHEMA,
        "stages": [list(stage) for stage in values["stages"]],
        "constraints": limits,
        "prediction": dict(values["prediction"]),
        "assumptions": list(values["assumptions"]),
        "verdict": None if values["verdict"] is None else values["verdict"].to_dict(),
        "inputs": dict(values["inputs"]),
        "rates": values["rates"].tolist(),
    }
    lines = (
        f"  {json.dumps(name)}: {json.dumps(value, allow_nan=False)}"
        for name, value in document.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read_plan(text: str) -> dict[str, Any]:
    """The fields of a plan from its JSON; an error names the one that is unknown or wrong."""
    document = _parse(text)
    document.setdefault("verdict", None)  # files of earlier versions have none
    _check_fields("plan", document, _TYPES)
    if document.pop("schema") != SCHEMA:
        raise InputError(
            "schema",
            f"must be {SCHEMA}, the version that is read here",
            subject="plan field schema",
        )
    _check_fields("constraints", document["constraints"], _LIMIT_TYPES)
    steps = document.pop("steps")
    if steps != len(document["rates"]):
        raise InputError(
            "steps",
            f"must count the rates: {len(document['rates'])}",
            f"{steps}",
            subject="plan field steps",
        )
    for name, kind in (("rates", _NUMBER), ("assumptions", _TEXT)):
        _check_items(name, document[name], kind)
    for name, value in document["prediction"].items():
        _check_type(f"prediction {name}", value, _NUMBER)
    for stage in document["stages"]:
        if not (isinstance(stage, list) and len(stage) == 2):
            raise InputError(
                "stages", "must hold pairs of numbers", repr(stage), subject="plan field stages"
            )
        _check_items("stages", stage, _WHOLE)
    if document["verdict"] is not None:
        document["verdict"] = Verdict.from_dict(document["verdict"])
    limits = document.pop("constraints")
    document["stages"] = tuple(tuple(stage) for stage in document["stages"])
    document["limits"] = Limits(**{field: limits[name] for name, field in _LIMITS.items()})
    return document


def _parse(text: str) -> dict[str, Any]:
    def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        for name in names:
            if names.count(name) > 1:
                raise InputError(name, "must be given once", subject=f"plan field {name}")
        return dict(pairs)

    def no_constants(name: str) -> float:
        raise InputError("plan", "must hold finite numbers", name)

    if isinstance(text, os.PathLike) or str(text).endswith(".json"):
        raise InputError(
            "plan",
            "must be given as its JSON text",
            "a file name",
            f"pass Path({os.fspath(text)!r}).read_text()",
        )
    try:
        document = json.loads(text, object_pairs_hook=no_duplicates, parse_constant=no_constants)
    except (json.JSONDecodeError, RecursionError, TypeError) as error:
        raise InputError("plan", "must be JSON", hint=str(error)) from None
    if not isinstance(document, dict):
        raise InputError("plan", "must be a JSON object", type(document).__name__)
    return document


def _check_fields(owner: str, document: dict[str, Any], types: dict[str, str]) -> None:
    for name in document:
        if name not in types:
            raise InputError(name, "is unknown", subject=f"{owner} field {name}")
    for name, kind in types.items():
        if name not in document:
            raise InputError(name, "is missing", subject=f"{owner} field {name}")
        _check_type(name, document[name], kind)


def _check_items(name: str, values: list[Any], kind: str) -> None:
    for value in values:
        _check_type(name, value, kind, "hold")


def _check_type(name: str, value: Any, kind: str, verb: str = "be") -> None:
    if isinstance(value, bool) or not isinstance(value, _KINDS[kind]):
        raise InputError(name, f"must {verb} {kind}", repr(value), subject=f"plan field {name}")
