"""What the page may ask for: every field with its bounds, and a limit on the work as a whole."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from batchlaw._base.checks import FloatArray
from batchlaw.design.choices import ProblemChoice, RateChoice, SolverChoice
from batchlaw.model.problem import Problem

# Steps, directions of a drawn or uploaded spectrum, and numbers an update touches in all.
MOST_STEPS, MOST_DIRECTIONS, MOST_WORK = 200_000, 1024, 2 * 10**7
# The mean field of multi-pass keeps pairs of points: its work grows faster.
MOST_REUSE_STEPS = 8192
MOST_SAMPLES = 10**12
MOST_STAGES = 64

# No further fields, no text or truth values in place of numbers.
EXACTLY = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Count = Annotated[int, Field(ge=1, le=MOST_SAMPLES)]


class Spectrum(BaseModel):
    """An uploaded spectrum: eigenvalues, the target's energy in each, and how many there are."""

    model_config = EXACTLY

    eigenvalue: Annotated[
        list[Annotated[float, Field(ge=1e-15, le=1e15)]],
        Field(min_length=1, max_length=MOST_DIRECTIONS),
    ]
    energy: Annotated[
        list[Annotated[float, Field(ge=0.0, le=1e30)]],
        Field(min_length=1, max_length=MOST_DIRECTIONS),
    ]

    multiplicity: (
        Annotated[
            list[Annotated[float, Field(ge=1e-6, le=1e30)]],
            Field(min_length=1, max_length=MOST_DIRECTIONS),
        ]
        | None
    ) = None

    @model_validator(mode="after")
    def _same_length(self) -> Self:
        lengths = [len(self.eigenvalue), len(self.energy)]
        if self.multiplicity is not None:
            lengths.append(len(self.multiplicity))
        if len(set(lengths)) > 1:
            raise ValueError(f"the columns must have the same length, got {lengths}")
        return self


class Setting(BaseModel):
    """All that a view depends on; the defaults are the paper's one-pass experiment."""

    model_config = EXACTLY

    rates: Literal["wsd", "cosine", "linear", "polynomial", "constant", "step"] = Field(
        default="wsd", description="shape of the learning rate; wsd: warmup, stable, decay"
    )
    steps: int = Field(default=64, ge=10, le=MOST_STEPS, description="updates")
    peak: float = Field(default=0.05, gt=0.0, le=1e6, description="largest learning rate")
    warmup: Share = Field(
        default=0.1, description="end of the warmup, a share of the steps from 0 to 1"
    )
    stable: Share = Field(
        default=0.5, description="end of WSD's stable phase, a share of the steps"
    )
    decay: Literal["exponential", "linear", "1-sqrt"] = Field(
        default="exponential", description="shape of WSD's decay; the paper's is exponential"
    )

    problem: Literal["paper", "sketch", "truncation", "spectrum"] = Field(
        default="paper",
        description="the paper's draw of a sketch; what a sketch gives on average; the leading M "
        "directions; or a spectrum of your own",
    )
    a: float = Field(default=2.0, gt=1.0, le=10.0, description="eigenvalues i^-a")
    b: float = Field(default=1.5, gt=1.0, le=10.0, description="target energies i^-b")
    m: int = Field(default=64, ge=1, le=MOST_DIRECTIONS, description="sketch dimension M")
    sigma: float = Field(
        default=1.0, ge=0.0, le=1e6, description="standard deviation of the label noise"
    )
    spectrum: Spectrum | None = Field(default=None, description="of the problem spectrum")

    procedure: Literal["one-pass", "multi-pass"] = Field(
        default="one-pass", description="fresh samples, or a dataset that is read many times"
    )
    samples: int = Field(
        default=512, ge=2, le=10**7, description="size of the dataset that multi-pass reads"
    )
    replacement: bool = Field(default=False, description="batches drawn with replacement")
    momentum: float = Field(default=0.0, ge=0.0, le=0.999, description="beta of SGD with one pass")
    momentum_form: Literal["heavy-ball", "nesterov", "pytorch", "pytorch-nesterov"] = Field(
        default="heavy-ball", description="pytorch: the velocity times the current rate"
    )

    budget: Count = Field(default=512, description="sum of all batches, in samples")
    min_batch: Count = Field(default=1, description="smallest batch of the oracle and the plan")
    max_batch: Count | None = Field(default=None, description="largest batch, if there is one")
    multiple_of: Count = Field(
        default=1, description="every batch is a multiple of this: ranks times micro-batch"
    )
    stages: int = Field(
        default=4, ge=1, le=MOST_STAGES, description="constant stages of the plan, at most"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Refused before anything is computed."""
        if self.problem == "spectrum" and self.spectrum is None:
            raise ValueError("an uploaded spectrum is needed")
        if self.rates == "wsd" and self.stable <= self.warmup:
            raise ValueError(
                f"the decay must start after the warmup ends, at {self.warmup:g}, "
                f"got {self.stable:g}"
            )
        work = self.steps * self.directions
        if work > MOST_WORK:
            raise ValueError(
                f"steps times directions must be at most {MOST_WORK}, got {work}: take fewer"
            )
        if self.reuse:
            if self.momentum:
                raise ValueError("momentum exists for one pass only")
            if self.steps > MOST_REUSE_STEPS:
                raise ValueError(
                    f"steps: must be at most {MOST_REUSE_STEPS} with many passes, got {self.steps}"
                )
            most = self.steps * self.samples
            if not self.replacement and self.budget > most:
                raise ValueError(
                    f"budget: must be at most {most}, {self.steps} updates with all of the "
                    f"{self.samples} samples, got {self.budget}"
                )
        if self.budget < self.steps * self.min_batch:
            raise ValueError(
                f"budget: must be at least {self.steps * self.min_batch}, {self.steps} updates "
                f"with the smallest batch of {self.min_batch}, got {self.budget}"
            )
        return self

    @property
    def reuse(self) -> bool:
        """Whether a dataset is read more than once."""
        return self.procedure == "multi-pass"

    @property
    def directions(self) -> int:
        if self.problem == "spectrum" and self.spectrum is not None:
            return len(self.spectrum.eigenvalue)
        return self.m

    @property
    def largest_batch(self) -> int | None:
        """What the page asked for, and no more than a dataset has."""
        limits = [most for most in (self.max_batch, self.solver.max_batch) if most is not None]
        return min(limits, default=None)

    @property
    def whole_budget(self) -> int:
        """What batches that are multiples can spend."""
        return self.budget // self.multiple_of * self.multiple_of

    @property
    def momentum_rule(self) -> dict[str, Any]:
        """Momentum and its form, as solvers take them."""
        if not self.momentum:
            return {}
        return {
            "momentum": self.momentum,
            "nesterov": self.momentum_form in ("nesterov", "pytorch-nesterov"),
            "pytorch": self.momentum_form in ("pytorch", "pytorch-nesterov"),
        }

    @property
    def solver(self) -> SolverChoice:
        if not self.reuse:
            return SolverChoice(**self.momentum_rule)
        return SolverChoice(
            procedure="multi-pass", samples=self.samples, replacement=self.replacement
        )

    def gamma(self) -> FloatArray:
        shape = RateChoice(
            rates=self.rates,
            steps=self.steps,
            gamma=self.peak,
            warmup=None if self.rates == "constant" else self.warmup,
            stable=self.stable if self.rates == "wsd" else None,
            decay=self.decay if self.rates == "wsd" else None,
        )
        return shape.build()

    def build_problem(self) -> Problem:
        if self.problem == "spectrum" and self.spectrum is not None:
            return Problem.from_spectrum(
                self.spectrum.eigenvalue,
                self.spectrum.energy,
                self.sigma**2,
                self.spectrum.multiplicity,
            )
        return _problem(self.problem, self.a, self.b, self.m, self.sigma)


@lru_cache(maxsize=32)
def _problem(kind: str, a: float, b: float, m: int, sigma: float) -> Problem:
    return ProblemChoice(problem=kind, a=a, b=b, m=float(m), sigma=sigma).build()
