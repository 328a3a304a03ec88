"""Problems, rates and batches from the command line: names with parameters, or files."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter, Token
from numpy.typing import NDArray

from batchlaw import _check, rates
from batchlaw._check import FloatArray
from batchlaw._files import read_columns
from batchlaw.allocation import METHODS, allocate, schedule_families
from batchlaw.problem import KINDS, Problem
from batchlaw.update_rules import ema, tail_average

FAMILIES = ("oracle", "constant", "early_large_late_small", "early_small_late_large")


def _whole(_: type, tokens: list[Token]) -> int:
    """A whole number: 3.9 is refused, not rounded."""
    (token,) = tokens
    try:
        return int(token.value)
    except ValueError:
        raise ValueError(f"it must be a whole number, got {token.value!r}") from None


Whole = Annotated[int, Parameter(converter=_whole)]


@Parameter(name="*")
@dataclass(frozen=True)
class ProblemOptions:
    """The regression problem.

    Attributes
    ----------
    problem
        "paper" (its instance), "power-law" (fresh draws), "truncation" or "sketch" (a power
        law of any size without draws: its leading m directions, or what a Gaussian sketch
        gives on average), or a CSV file with columns eigenvalue, energy and, if some stand
        for many, multiplicity.
    d
        Ambient dimension of the draws.
    m
        Sketch dimension M; "inf" for truncation and sketch without limit.
    a
        Spectrum exponent: eigenvalues i^-a.
    b
        Source exponent: target energies i^-b.
    sigma
        Standard deviation of the label noise.
    seed
        Of the draws.
    prior
        Average over the target's prior instead of drawing a target.
    """

    problem: str = "paper"
    d: Whole = 10_000
    m: float = 64
    a: float = 2.0
    b: float = 1.5
    sigma: float = 1.0
    seed: Whole = 123
    prior: Annotated[bool, Parameter(negative=())] = False

    def build(self) -> Problem:
        if self.problem == "paper":
            made = Problem.paper(self.seed, self.d, self._sketch(), self.a, self.b, self.sigma)
        elif self.problem == "power-law":
            made = Problem.power_law(
                self.a, self.b, self._sketch(), self.d, self.sigma, seed=self.seed
            )
        elif self.problem in KINDS:
            size = math.inf if math.isinf(self.m) else self._sketch()
            return Problem.power_law_nodes(
                self.a, self.b, size, kind=self.problem, sigma=self.sigma
            )
        else:
            return self._from_file()
        return made.prior_mean() if self.prior else made

    def _sketch(self) -> int:
        return _check.count("m", self.m)

    def _from_file(self) -> Problem:
        columns = read_columns(
            Path(self.problem), needed=("eigenvalue", "energy"), optional=("multiplicity",)
        )
        return Problem.from_spectrum(
            columns["eigenvalue"],
            columns["energy"],
            self.sigma**2,
            columns.get("multiplicity"),
        )


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
        Updates T (or L).
    gamma
        Peak rate.
    warmup
        End of the warmup: a share of the steps (0.1) or a step (51). WSD's default is 0.1.
    stable
        End of WSD's stable phase, likewise.
    decay
        WSD's decay: exponential, linear or 1-sqrt.
    """

    rates: str = "wsd"
    steps: Whole = 64
    gamma: float = 0.05
    warmup: str | None = None
    stable: str = "0.5"
    decay: str = "exponential"

    def build(self) -> FloatArray:
        warmup = "0.1" if self.rates == "wsd" else "0"
        start = _share_or_step("warmup", self.warmup or warmup)
        if self.rates == "wsd":
            end = _share_or_step("stable", self.stable)
            return rates.wsd(self.steps, self.gamma, start, end, self.decay)
        if self.rates == "constant":
            return rates.constant(self.steps, self.gamma)
        shapes: dict[str, Callable[..., FloatArray]] = {
            "cosine": rates.cosine,
            "linear": rates.linear,
            "polynomial": rates.polynomial,
            "step": rates.step,
        }
        if self.rates in shapes:
            return shapes[self.rates](self.steps, self.gamma, warmup=start)
        return read_columns(Path(self.rates), needed=("rate",))["rate"]


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
        return read_columns(Path(name), needed=("batch",))["batch"]


def parse_average(text: str | None, steps: int) -> FloatArray | None:
    """None or "last": the last iterate; "tail:0.5" and "ema:0.99" are averages."""
    if text is None or text == "last":
        return None
    kind, _, value = text.partition(":")
    if kind in ("tail", "ema"):
        number = _check.real("average", value)
        return tail_average(steps, number) if kind == "tail" else ema(steps, number)
    raise ValueError(f"average must be last, tail:SHARE or ema:DECAY, got {text!r}")


def _share_or_step(name: str, text: str) -> float | int:
    """ "51" is a step, "0.1" a share of the steps."""
    try:
        return int(text)
    except ValueError:
        return _check.real(name, text)
