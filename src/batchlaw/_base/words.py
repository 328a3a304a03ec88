"""Words: values that a person may set by name, described once for every face.

The command line, the file of a sweep and the page all offer the same words. Each word says what
it takes, so that options, menus, types and help texts are derived, never typed again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from batchlaw._base.errors import InputError

# What a word takes: a whole number, a number, yes or no, free text, one of some names, the end
# of a phase (a share of the steps as a float, a step as an int), or several such ends.
COUNT, REAL, FLAG, TEXT, CHOICE, PHASE_END, PHASE_ENDS = KINDS = (
    "count",
    "real",
    "flag",
    "text",
    "choice",
    "phase end",
    "phase ends",
)


@dataclass(frozen=True)
class Word:
    """One value that may be set.

    Attributes
    ----------
    name
        As the library spells it; an option is ``--name`` with hyphens.
    kind
        One of ``KINDS``.
    help
        What it means and what its default is, for people.
    choices
        The names that a ``CHOICE`` takes.
    low, high
        Bounds that make sense, for a face that shows them; the library checks its own.
    """

    name: str
    kind: str
    help: str
    choices: tuple[str, ...] = ()
    low: float = -math.inf
    high: float = math.inf


def refuse_unused(given: Mapping[str, Any], names: Iterable[str], case: str) -> None:
    """A word that would change nothing is a mistake, and named."""
    for name in names:
        if given.get(name) not in (None, False):
            raise InputError(name, f"has no use with {case}")


def phase_ends(name: str, text: str) -> tuple[float | int, ...]:
    """The phase ends that a text holds: "0.5,0.75" are shares of the steps, "300,450" steps."""
    return tuple(phase_end(name, part) for part in text.split(","))


def phase_end(name: str, text: str) -> float | int:
    """ "51" is a step, "0.1" a share of the steps."""
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            raise InputError(name, "must be a share of the steps or a step", repr(text)) from None
