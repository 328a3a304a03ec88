"""Input checks for the public functions; bad input raises ``InputError``."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from batchlaw._base.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
# One schedule, several in an array or a list, or several by name.
Batches = ArrayLike | Mapping[str, ArrayLike]

# Beyond 2^53 a float64 cannot hold every integer, and budgets would drift.
LARGEST_COUNT = 2**53


def count(name: str, value: Any, minimum: int = 1, subject: str = "") -> int:
    """Check for an integer of at least ``minimum``; floats with an integer value pass (1e6).

    ``subject`` replaces the name at the start of the error where the value is only a part of
    the argument.
    """
    try:
        whole = int(value) if isinstance(value, float) and value.is_integer() else None
        number = operator.index(value) if whole is None else whole
    except TypeError:
        raise InputError(name, "must be a whole number", repr(value), subject=subject) from None
    need = ""
    if isinstance(value, bool) or number < minimum:
        need = f"must be a whole number of at least {minimum}"
    elif number > LARGEST_COUNT:
        need = f"must be at most 2^53 = {LARGEST_COUNT}"
    if need:
        raise InputError(name, need, repr(value), subject=subject)
    return number


def real(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
) -> float:
    """Check for a finite number within the given bounds."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(name, "must be a number", repr(value)) from None
    conditions = [
        (not math.isfinite(number), "finite"),
        (above is not None and not number > above, f"above {above}"),
        (at_least is not None and not number >= at_least, f"at least {at_least}"),
        (at_most is not None and not number <= at_most, f"at most {at_most}"),
        (below is not None and not number < below, f"below {below}"),
    ]
    for violated, need in conditions:
        if violated:
            raise InputError(name, f"must be {need}", repr(value))
    return number


def choice(name: str, value: str, options: Iterable[str]) -> str:
    """Check for one of the names in ``options``."""
    options = tuple(options)
    if value not in options:
        raise InputError(name, f"must be one of {', '.join(options)}", repr(value))
    return value


def vector(name: str, values: ArrayLike, *, positive: bool = False) -> FloatArray:
    """Check for a non-empty 1-d array of finite numbers, none negative (or all positive)."""
    try:
        array = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(name, "must be an array of numbers") from None
    if array.ndim != 1 or array.size == 0:
        raise InputError(name, "must be a non-empty vector", f"shape {array.shape}")
    too_low = array <= 0.0 if positive else array < 0.0
    conditions = ((~np.isfinite(array), "finite"), (too_low, "positive" if positive else ">= 0"))
    for violated, need in conditions:
        if violated.any():
            i = int(np.argmax(violated))
            raise InputError(name, f"must be {need}", f"{array[i]} at position {i + 1}")
    return array


def batches(
    values: Batches,
    steps: int,
    *,
    whole: bool = True,
    total: int | None = None,
    maximum: int | None = None,
) -> NDArray[Any]:
    """Batch sizes as a (schedules, steps) array: int64, or float64 where not ``whole``.

    A single number means a constant schedule, also under a name. ``schedule_names`` has the names
    of a mapping.
    """
    given: Any = values
    try:
        if isinstance(values, Mapping):
            given = [np.full(steps, x) if np.ndim(x) == 0 else x for x in values.values()]
        array = np.asarray(given, dtype=np.float64)
        array = np.full((1, steps), array) if array.ndim == 0 else np.atleast_2d(array)
    except (TypeError, ValueError):
        raise InputError(
            "batches", "must be numbers, and all schedules must have the same length"
        ) from None
    if array.ndim != 2 or array.shape[1] != steps or array.shape[0] == 0:
        raise InputError(
            "batches",
            f"must have one entry for each of the {steps} steps",
            f"shape {np.shape(given)}",
        )
    low = 1.0 if whole else np.finfo(float).tiny
    need = "at least 1" if whole else "positive"
    _refuse_where(~np.isfinite(array) | (array < low), array, need)
    if whole:
        _refuse_where(array != np.floor(array), array, "whole numbers")
        _refuse_where(array > LARGEST_COUNT, array, "at most 2^53")
        array = array.astype(np.int64)
    if maximum is not None:
        _refuse_where(array > maximum, array, f"at most the {maximum} samples of the dataset")
    sums = array.sum(axis=1)
    if array.sum(axis=1, dtype=np.float64).max() > LARGEST_COUNT:
        raise InputError("batches", "must sum to at most 2^53", f"{float(sums.max()):g}")
    if total is not None and (sums != total).any():
        wrong = sums[int(np.argmax(sums != total))]
        raise InputError("batches", f"must sum to the {total} samples of one pass", f"{wrong}")
    return np.ascontiguousarray(array)


def _refuse_where(bad: NDArray[np.bool_], array: NDArray[Any], need: str) -> None:
    """Refuse the first bad entry, naming its step."""
    if bad.any():
        row, step = np.unravel_index(int(np.argmax(bad)), bad.shape)
        where = f"schedule {row}, step {step + 1}" if array.shape[0] > 1 else f"step {step + 1}"
        raise InputError("batches", f"must be {need}", f"{array[row, step]:g} at {where}")


def is_single(values: Batches) -> bool:
    """Whether the caller passed a single schedule and so expects plain numbers back."""
    return not isinstance(values, Mapping) and np.ndim(values) <= 1


def schedule_names(values: Batches) -> tuple[str, ...]:
    """The names of schedules that were given by name; empty where they were not."""
    return tuple(map(str, values)) if isinstance(values, Mapping) else ()


def same_length(name: str, size: int, needed: int, of: str) -> None:
    """Check for one entry per item; ``of`` names the items ("rates")."""
    if size != needed:
        raise InputError(name, f"must have one entry for each of the {needed} {of}", f"{size}")
