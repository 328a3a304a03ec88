"""Words: named settings, described once for every interface.

The command line, sweep files and the web page all offer the same words. Each word declares what
it accepts; options, menus, types and help texts are derived from that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from batchlaw._base.errors import InputError

# What a word accepts: an integer, a number, yes or no, free text, one of a set of names, the end
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
    """One named setting.

    Attributes
    ----------
    name
        Its name in the library; the command-line option is ``--name``, with hyphens.
    kind
        One of ``KINDS``.
    help
        What it means and what its default is.
    choices
        The names that a ``CHOICE`` accepts.
    low, high
        Sensible bounds for an interface to show; the library checks its own.
    """

    name: str
    kind: str
    help: str
    choices: tuple[str, ...] = ()
    low: float = -math.inf
    high: float = math.inf


def refuse_unused(given: Mapping[str, Any], names: Iterable[str], case: str) -> None:
    """Refuse words that are set but would have no effect."""
    for name in names:
        # A comparison would take 0 for False.
        if given.get(name) is not None and given.get(name) is not False:
            raise InputError(name, f"has no use with {case}")


def phase_ends(name: str, text: str) -> tuple[float | int, ...]:
    """Parse phase ends: "0.5,0.75" are shares of the steps, "300,450" are steps."""
    return tuple(phase_end(name, part) for part in text.split(","))


def phase_end(name: str, text: str) -> float | int:
    """Parse one phase end: "51" is a step, "0.1" a share of the steps."""
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            raise InputError(name, "must be a share of the steps or a step", repr(text)) from None
