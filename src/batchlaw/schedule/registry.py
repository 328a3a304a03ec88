"""Learning-rate schedules by name, each with its own parameters.

The interfaces derive their options, menus and help from this registry. To add a schedule, write
a function ``(steps, peak, ...) -> rates`` and pass it to ``register``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw._base.words import (
    CHOICE,
    PHASE_END,
    PHASE_ENDS,
    REAL,
    Word,
    phase_ends,
    refuse_unused,
)
from batchlaw.schedule import rates

Make = Callable[..., FloatArray]


@dataclass(frozen=True)
class RateSchedule:
    """A schedule: its function, and its parameters other than steps and peak."""

    name: str
    make: Make
    parameters: tuple[str, ...]

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return (inspect.getdoc(self.make) or self.name).partition("\n")[0]

    def default(self, parameter: str) -> Any:
        """The default value of a parameter."""
        return inspect.signature(self.make).parameters[parameter].default


RATE_SCHEDULES: dict[str, RateSchedule] = {}
RATE_PARAMETERS: dict[str, Word] = {}


def register(make: Make, *parameters: Word) -> Make:
    """Add a schedule under the name of its function; ``parameters`` describes the new ones."""
    for word in parameters:
        RATE_PARAMETERS[word.name] = word
    names = tuple(inspect.signature(make).parameters)
    if names[:2] != ("steps", "peak"):
        raise TypeError(f"{make.__name__} must begin with steps and peak, got {names}")
    for name in names[2:]:
        if name not in RATE_PARAMETERS:
            raise TypeError(f"{make.__name__} must describe its parameter {name}")
    RATE_SCHEDULES[make.__name__] = RateSchedule(make.__name__, make, names[2:])
    return make


def rates_by_name(name: str, steps: int, peak: float, parameters: Mapping[str, Any]) -> FloatArray:
    """The rates of a named schedule; parameters that it does not have are refused."""
    schedule = RATE_SCHEDULES[checks.choice("rates", name, RATE_SCHEDULES)]
    unused = [key for key in RATE_PARAMETERS if key not in schedule.parameters]
    refuse_unused(parameters, unused, f"rates {name}")
    given = {key: value for key, value in parameters.items() if value is not None}
    for key in given:
        if key not in RATE_PARAMETERS:
            raise InputError(key, "is not a parameter of any schedule")
    for key, value in given.items():
        if RATE_PARAMETERS[key].kind == PHASE_ENDS and isinstance(value, str):
            given[key] = phase_ends(key, value)
    return schedule.make(steps, peak, **given)


def users_of(parameter: str) -> tuple[str, ...]:
    """The schedules that have a parameter."""
    return tuple(s.name for s in RATE_SCHEDULES.values() if parameter in s.parameters)


def parameter_help(word: Word, schedules: Collection[str]) -> str:
    """What a parameter means, which of some schedules have it, and its default."""
    users = [name for name in users_of(word.name) if name in schedules]
    scope = "" if len(users) == len(schedules) else f" For {', '.join(users)}."
    defaults: dict[str, list[str]] = {}
    for name in users:
        value = RATE_SCHEDULES[name].default(word.name)
        if value is not None:
            defaults.setdefault(_shown(value), []).append(name)
    if len(defaults) == 1:
        return f"{word.help}{scope} Default: {next(iter(defaults))}."
    listed = "; ".join(f"{text} ({', '.join(names)})" for text, names in defaults.items())
    return f"{word.help}{scope}" + (f" Default: {listed}." if listed else "")


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_shown, value))
    return f"{value:g}" if isinstance(value, float) else f"{value}"


register(
    rates.wsd,
    Word(
        "warmup", PHASE_END, "End of the warmup: a share of the steps (0.1) or a step (51).", low=0
    ),
    Word("stable", PHASE_END, "End of the stable phase, likewise."),
    Word("decay", CHOICE, "Shape of the decay; the paper's is exponential.", tuple(rates.DECAYS)),
    Word(
        "final",
        REAL,
        "Last rate as a share of the peak; 1/steps for WSD's exponential decay, else 0.",
        low=0,
        high=1,
    ),
)
register(rates.cosine)
register(rates.linear)
register(rates.polynomial, Word("power", REAL, "Power of the decay.", low=0, high=20))
register(rates.constant)
register(
    rates.step,
    Word("drops", PHASE_ENDS, "Where the rate drops: shares of the steps, or steps."),
    Word("factor", REAL, "What a drop multiplies the rate by.", low=0, high=1),
)
