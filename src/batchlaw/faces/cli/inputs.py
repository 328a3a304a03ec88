"""The words of ``choices`` on the command line: whole numbers also as 1e12, 250B or 1T."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Annotated, Literal

from cyclopts import Parameter, Token

from batchlaw.design.choices import BatchChoice, ProblemChoice, RateChoice, SolverChoice

# Exponents that a plan is made for where none are given.
EXPONENTS = "1.2:3"


SUFFIXES = {"K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


def _whole(_: type, tokens: list[Token]) -> int:
    """A whole number, also as 1e12, 250B or 1T; 3.9 is refused, not rounded."""
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


def _share_or_step(_: type, tokens: list[Token]) -> int | float:
    """ "51" is a step, "0.1" a share of the steps."""
    (token,) = tokens
    try:
        return int(token.value)
    except ValueError:
        try:
            return float(token.value)
        except ValueError:
            raise ValueError(f"it must be a number, got {token.value!r}") from None


Whole = Annotated[int, Parameter(converter=_whole)]
Flag = Annotated[bool, Parameter(negative=())]
ShareOrStep = Annotated[float, Parameter(converter=_share_or_step)]


@Parameter(name="*")
@dataclass(frozen=True)
class ProblemOptions(ProblemChoice):
    __doc__ = ProblemChoice.__doc__

    d: Whole | None = None
    seed: Whole | None = None
    prior: Flag = False


@Parameter(name="*")
@dataclass(frozen=True)
class RateOptions(RateChoice):
    __doc__ = RateChoice.__doc__

    steps: Whole | None = None
    warmup: ShareOrStep | None = None
    stable: ShareOrStep | None = None


@Parameter(name="*")
@dataclass(frozen=True)
class BatchOptions(BatchChoice):
    __doc__ = BatchChoice.__doc__

    budget: Whole | None = None
    mean_batch: Whole | None = None


@Parameter(name="*")
@dataclass(frozen=True)
class SolverOptions(SolverChoice):
    __doc__ = SolverChoice.__doc__

    procedure: Literal["one-pass", "multi-pass", "gd"] = "one-pass"
    samples: Whole | None = None
    replacement: Flag = False
    method: Literal["mean-field", "simple"] | None = None
    nesterov: Flag = False
    pytorch: Flag = False
