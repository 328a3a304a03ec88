"""The words of a case as command-line options; whole numbers may be 1e12, 250B or 1T."""

from __future__ import annotations

from dataclasses import dataclass, fields, make_dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter, Token

from batchlaw._base import words as kinds
from batchlaw._base.errors import InputError
from batchlaw._base.words import Word
from batchlaw.design.vocabulary import SECTIONS

SUFFIXES = {"K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


def _whole(_: type, tokens: list[Token]) -> int:
    """A whole number, possibly written 1e12, 250B or 1T; 3.9 is refused, not rounded."""
    (token,) = tokens
    text, factor = token.value, 1
    if text[-1:].upper() in SUFFIXES:
        text, factor = text[:-1], SUFFIXES[text[-1:].upper()]
    try:
        number = Decimal(text) * factor
        if number == number.to_integral_value():
            return int(number)
    except (InvalidOperation, ValueError, OverflowError):
        pass
    raise ValueError(f"it must be a whole number, got {token.value!r}")


def _phase_end(_: type, tokens: list[Token]) -> int | float:
    (token,) = tokens
    try:
        return kinds.phase_end("it", token.value)
    except InputError as error:
        raise ValueError(error.sentence()) from None  # what cyclopts expects from a converter


Whole = Annotated[int, Parameter(converter=_whole)]
Flag = Annotated[bool, Parameter(negative=())]
PhaseEnd = Annotated[float, Parameter(converter=_phase_end)]

_TYPES: dict[str, Any] = {
    kinds.COUNT: Whole,
    kinds.REAL: float,
    kinds.TEXT: str,
    kinds.PHASE_END: PhaseEnd,
    kinds.PHASE_ENDS: str,
}


@dataclass(frozen=True)
class Options:
    """One option per word; an option that was not given is None, or False for a flag."""

    def words(self) -> dict[str, Any]:
        """The options that were given, by word."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        # Not `in (None, False)`: 0 == False.
        return {n: value for n, value in values.items() if value is not None and value is not False}


def choice_of(names: tuple[str, ...]) -> Any:
    """The type of an option that takes one of these names."""
    return Literal.__getitem__(names)


def option_class(title: str, words: tuple[Word, ...]) -> Any:
    """A dataclass with one option per word, for a command's signature."""
    rows: list[Any] = []
    for word in words:
        text = Parameter(help=word.help, show_default=False)
        if word.kind == kinds.FLAG:
            rows.append((word.name, Annotated[Flag, text], False))
            continue
        kind = choice_of(word.choices) if word.kind == kinds.CHOICE else _TYPES[word.kind]
        rows.append((word.name, Annotated[kind | None, text], None))
    # Without our module's name cyclopts would take the class for a builtin.
    namespace = {"__module__": __name__}
    options = make_dataclass(title, rows, bases=(Options,), namespace=namespace, frozen=True)
    return Parameter(name="*")(options)


if TYPE_CHECKING:
    ProblemOptions: TypeAlias = Options
    RateOptions: TypeAlias = Options
    BatchOptions: TypeAlias = Options
    SolverOptions: TypeAlias = Options
else:
    ProblemOptions, RateOptions, BatchOptions, SolverOptions = (
        option_class(f"{section.capitalize()}Options", words())
        for section, words in SECTIONS.items()
    )
