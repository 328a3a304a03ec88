"""Problems, rates and batches from the command line: names with parameters, or files."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter, Token
from numpy.typing import NDArray

from batchlaw import _check, rates
from batchlaw._check import FloatArray
from batchlaw._files import read_columns
from batchlaw.allocation import FAMILIES, METHODS, allocate, schedule_families
from batchlaw.plan_file import read_schedule
from batchlaw.problem import KINDS, Problem
from batchlaw.update_rules import ema, tail_average

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


Whole = Annotated[int, Parameter(converter=_whole)]


@Parameter(name="*")
@dataclass(frozen=True)
class ProblemOptions:
    """The regression problem.

    Attributes
    ----------
    problem
        "paper" (its instance, the default of risk), "power-law" (fresh draws), "truncation"
        or "sketch" (a power law of any size without draws: its leading m directions, or what
        a Gaussian sketch gives on average), or a CSV file with columns eigenvalue, energy
        and, if some stand for many, multiplicity.
    d
        Ambient dimension of the draws; 10000 by default.
    m
        Sketch dimension M, 64 by default; "inf" for truncation and sketch without limit.
    a
        Spectrum exponent: eigenvalues i^-a; 2 by default.
    b
        Source exponent: target energies i^-b; 1.5 by default.
    sigma
        Standard deviation of the label noise; 1 by default.
    seed
        Of the draws; 123 by default.
    prior
        Average over the target's prior instead of drawing a target.
    """

    problem: str | None = None
    d: Whole | None = None
    m: float | None = None
    a: float | None = None
    b: float | None = None
    sigma: float | None = None
    seed: Whole | None = None
    prior: Annotated[bool, Parameter(negative=())] = False

    def build(self) -> Problem:
        kind = self.problem or "paper"
        a, b = (2.0 if self.a is None else self.a), (1.5 if self.b is None else self.b)
        sigma = 1.0 if self.sigma is None else self.sigma
        if kind in ("paper", "power-law"):
            dim = 10_000 if self.d is None else self.d
            size = 64 if self.m is None else _check.count("m", self.m)
            seed = self.used_seed or 0
            if kind == "paper":
                made = Problem.paper(seed, dim, size, a, b, sigma)
            else:
                made = Problem.power_law(a, b, size, dim, sigma, seed=seed)
        elif kind in KINDS:
            refuse(self, f"problem {kind}", "d", "seed")
            m = 64.0 if self.m is None else self.m
            rows = math.inf if math.isinf(m) else _check.count("m", m)
            made = Problem.power_law_nodes(a, b, rows, kind=kind, sigma=sigma)
        else:
            refuse(self, "a spectrum from a file", "d", "seed", "m", "a", "b")
            made = self._from_file(Path(kind), sigma)
        return made.prior_mean() if self.prior else made

    @property
    def used_seed(self) -> int | None:
        """The seed of the draws, where there are any."""
        if (self.problem or "paper") not in ("paper", "power-law"):
            return None
        return 123 if self.seed is None else self.seed

    @staticmethod
    def _from_file(path: Path, sigma: float) -> Problem:
        sigma = _check.real("sigma", sigma, at_least=0.0, at_most=1e100)
        columns = read_columns(path, needed=("eigenvalue", "energy"), optional=("multiplicity",))
        return Problem.from_spectrum(
            columns["eigenvalue"], columns["energy"], sigma**2, columns.get("multiplicity")
        )


def refuse(options: object, what: str, *names: str) -> None:
    """An option that would change nothing is a mistake, and named."""
    for name in names:
        if getattr(options, name) is not None:
            raise ValueError(f"{what} has no use for --{name.replace('_', '-')}")


@Parameter(name="*")
@dataclass(frozen=True)
class RateOptions:
    """The learning-rate schedule.

    Attributes
    ----------
    rates
        "wsd", "cosine", "linear", "polynomial", "constant", "step", or a CSV file with a
        column rate, one row a step.
    steps
        Updates T (or L); 64 by default.
    gamma
        Peak rate; 0.05 by default.
    warmup
        End of the warmup: a share of the steps (0.1) or a step (51). WSD's default is 0.1.
    stable
        End of WSD's stable phase, likewise; 0.5 by default.
    decay
        WSD's decay: exponential (the default), linear or 1-sqrt.
    """

    rates: str = "wsd"
    steps: Whole | None = None
    gamma: float | None = None
    warmup: str | None = None
    stable: str | None = None
    decay: str | None = None

    def build(self) -> FloatArray:
        steps = 64 if self.steps is None else self.steps
        gamma = 0.05 if self.gamma is None else self.gamma
        if self.rates == "wsd":
            start = share_or_step("warmup", self.warmup or "0.1")
            end = share_or_step("stable", self.stable or "0.5")
            return rates.wsd(steps, gamma, start, end, self.decay or "exponential")
        refuse(self, f"rates {self.rates}", "stable", "decay")
        shapes: dict[str, Callable[..., FloatArray]] = {
            "cosine": rates.cosine,
            "linear": rates.linear,
            "polynomial": rates.polynomial,
            "step": rates.step,
        }
        if self.rates in shapes:
            start = share_or_step("warmup", self.warmup or "0")
            return shapes[self.rates](steps, gamma, warmup=start)
        refuse(self, f"rates {self.rates}", "warmup")
        if self.rates == "constant":
            return rates.constant(steps, gamma)
        refuse(self, "a file of rates", "steps", "gamma")
        return read_schedule(Path(self.rates), "rate")


@Parameter(name="*")
@dataclass(frozen=True)
class BatchOptions:
    """The batch-size schedules.

    Attributes
    ----------
    batches
        Any of "oracle", "constant", "early_large_late_small", "early_small_late_large" (with
        the paper's rounding), "greedy" (optimal integers), "continuous" (optimal real
        numbers), or CSV files with a column batch, one row a step; separated by commas.
    budget
        Sum of the batch sizes of the named schedules; 8 an update by default.
    """

    batches: str = "oracle,constant"
    budget: Whole | None = None

    def build(self, influence: FloatArray, max_batch: int | None = None) -> dict[str, FloatArray]:
        """Every schedule by name, in the order asked for."""
        if "" in self.batches.split(","):
            raise ValueError(f"batches must be names separated by commas, got {self.batches!r}")
        budget = 8 * influence.size if self.budget is None else self.budget
        return {
            name: np.asarray(self._one(name, influence, budget, max_batch), dtype=np.float64)
            for name in self.batches.split(",")
        }

    def _one(
        self, name: str, influence: FloatArray, budget: int, max_batch: int | None
    ) -> NDArray[np.int64] | FloatArray:
        if name in FAMILIES:
            return schedule_families(influence, budget, max_batch=max_batch)[name]
        if name in METHODS:
            return allocate(influence, budget, method=name, max_batch=max_batch)
        return read_schedule(Path(name), "batch")


def parse_average(text: str | None, steps: int) -> FloatArray | None:
    """None or "last": the last iterate; "tail:0.5" and "ema:0.99" are averages."""
    if text is None or text == "last":
        return None
    kind, _, value = text.partition(":")
    if kind in ("tail", "ema"):
        number = _check.real("average", value)
        return tail_average(steps, number) if kind == "tail" else ema(steps, number)
    raise ValueError(f"average must be last, tail:SHARE or ema:DECAY, got {text!r}")


def share_or_step(name: str, text: str) -> float | int:
    """ "51" is a step, "0.1" a share of the steps."""
    try:
        return int(text)
    except ValueError:
        return _check.real(name, text)
