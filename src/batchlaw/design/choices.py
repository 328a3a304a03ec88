"""A whole setting by name: a problem, rates, batches and a solver, as plain values.

The command line and sweeps describe what to compute in the same words; these build it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.files import read_columns, read_schedule
from batchlaw.batches.allocation import FAMILIES, METHODS, allocate, schedule_families
from batchlaw.batches.effective import effective_batch, effective_fluctuation
from batchlaw.influences.weights import influence
from batchlaw.model.problem import KINDS, Problem
from batchlaw.risk.multi_pass import gradient_descent_risk, multi_pass_risk
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.risk.result import Risk
from batchlaw.risk.simulate import simulate_gradient_descent, simulate_multi_pass, simulate_one_pass
from batchlaw.schedule import rates
from batchlaw.schedule.averages import ema, tail_average

DRAWN = ("paper", "power-law")
REUSE_METHODS = ("mean-field", "simple")
# The terms of the risk that a procedure has, beside the irreducible and the approximation.
PARTS = {
    "one-pass": ("bias", "variance", "variance_noise", "variance_covariance"),
    "multi-pass": ("bias", "variance", "fluctuation"),
    "gd": ("bias", "variance"),
}
# Samples an update where nothing is said.
MEAN_BATCH = 8


@dataclass(frozen=True)
class ProblemChoice:
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
    d: int | None = None
    m: float | None = None
    a: float | None = None
    b: float | None = None
    sigma: float | None = None
    seed: int | None = None
    prior: bool = False

    def build(self) -> Problem:
        kind = self.problem or "paper"
        a, b = (2.0 if self.a is None else self.a), (1.5 if self.b is None else self.b)
        sigma = 1.0 if self.sigma is None else self.sigma
        if kind in DRAWN:
            dim = 10_000 if self.d is None else self.d
            size = 64 if self.m is None else checks.count("m", self.m)
            seed = self.used_seed or 0
            if kind == "paper":
                made = Problem.paper(seed, dim, size, a, b, sigma)
            else:
                made = Problem.power_law(a, b, size, dim, sigma, seed=seed)
        elif kind in KINDS:
            refuse(self, f"problem {kind}", "d", "seed")
            m = 64.0 if self.m is None else self.m
            rows = math.inf if math.isinf(m) else checks.count("m", m)
            made = Problem.power_law_nodes(a, b, rows, kind=kind, sigma=sigma)
        else:
            refuse(self, "a spectrum from a file", "d", "seed", "m", "a", "b")
            made = self._from_file(_file("problem", kind, (*DRAWN, *KINDS)), sigma)
        return made.prior_mean() if self.prior else made

    @property
    def used_seed(self) -> int | None:
        """The seed of the draws, where there are any."""
        if (self.problem or "paper") not in DRAWN:
            return None
        return 123 if self.seed is None else self.seed

    @staticmethod
    def _from_file(path: Path, sigma: float) -> Problem:
        sigma = checks.real("sigma", sigma, at_least=0.0, at_most=1e100)
        columns = read_columns(path, needed=("eigenvalue", "energy"), optional=("multiplicity",))
        return Problem.from_spectrum(
            columns["eigenvalue"], columns["energy"], sigma**2, columns.get("multiplicity")
        )


def refuse(options: object, what: str, *names: str) -> None:
    """An option that would change nothing is a mistake, and named."""
    for name in names:
        if getattr(options, name) not in (None, False):
            raise ValueError(f"{what} has no use for --{name.replace('_', '-')}")


def _file(option: str, name: str, known: tuple[str, ...]) -> Path:
    """A file that stands in for a known name; a word that is neither is answered with them."""
    path = Path(name)
    if not path.suffix and not os.path.exists(name):
        raise ValueError(f"{option} must be one of {', '.join(known)} or a CSV file, got {name!r}")
    return path


@dataclass(frozen=True)
class RateChoice:
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
    steps: int | None = None
    gamma: float | None = None
    warmup: int | float | None = None
    stable: int | float | None = None
    decay: str | None = None

    def build(self) -> FloatArray:
        steps = 64 if self.steps is None else self.steps
        gamma = 0.05 if self.gamma is None else self.gamma
        if self.rates == "wsd":
            return rates.wsd(steps, gamma, *self.phases, self.decay or "exponential")
        refuse(self, f"rates {self.rates}", "stable", "decay")
        if self.rates in SHAPES:
            return SHAPES[self.rates](steps, gamma, warmup=self.warmup or 0)
        refuse(self, f"rates {self.rates}", "warmup")
        if self.rates == "constant":
            return rates.constant(steps, gamma)
        refuse(self, "a file of rates", "steps", "gamma")
        path = _file("rates", self.rates, ("wsd", *SHAPES, "constant"))
        return read_schedule(path, "rate")

    @property
    def phases(self) -> tuple[int | float, int | float]:
        """Where WSD's warmup and its stable phase end."""
        warmup = 0.1 if self.warmup is None else self.warmup
        return warmup, 0.5 if self.stable is None else self.stable


SHAPES: dict[str, Callable[..., FloatArray]] = {
    "cosine": rates.cosine,
    "linear": rates.linear,
    "polynomial": rates.polynomial,
    "step": rates.step,
}


@dataclass(frozen=True)
class BatchChoice:
    """The batch-size schedules.

    Attributes
    ----------
    batches
        Any of "oracle", "constant", "early_large_late_small", "early_small_late_large" (with
        the paper's rounding), "greedy" (optimal integers), "continuous" (optimal real
        numbers), or CSV files with a column batch, one row a step; separated by commas.
    budget
        Sum of the batch sizes of the named schedules; 8 an update by default.
    mean_batch
        The same as a mean over the updates.
    """

    batches: str = "oracle,constant"
    budget: int | None = None
    mean_batch: int | None = None

    def build(self, influence: FloatArray, max_batch: int | None = None) -> dict[str, FloatArray]:
        """Every schedule by name, in the order asked for."""
        if "" in self.batches.split(","):
            raise ValueError(f"batches must be names separated by commas, got {self.batches!r}")
        budget = self.total(influence.size)
        return {
            name: np.asarray(self._one(name, influence, budget, max_batch), dtype=np.float64)
            for name in self.batches.split(",")
        }

    def total(self, steps: int) -> int:
        """The budget of so many updates."""
        if self.budget is not None:
            refuse(self, "a budget", "mean_batch")
            return self.budget
        mean = MEAN_BATCH if self.mean_batch is None else self.mean_batch
        return steps * checks.count("mean_batch", mean)

    def _one(
        self, name: str, influence: FloatArray, budget: int, max_batch: int | None
    ) -> NDArray[np.int64] | FloatArray:
        if name in FAMILIES:
            return schedule_families(influence, budget, max_batch=max_batch)[name]
        if name in METHODS:
            return allocate(influence, budget, method=name, max_batch=max_batch)
        return read_schedule(_file("batches", name, (*FAMILIES, *METHODS)), "batch")


@dataclass(frozen=True)
class SolverChoice:
    """What is computed, and how.

    Attributes
    ----------
    procedure
        one-pass is exact. multi-pass and gd are expectations over datasets of ``samples``,
        an approximation that says how good it is.
    samples
        N of multi-pass and gd; 512 by default.
    replacement
        Multi-pass batches with replacement.
    method
        Of multi-pass: mean-field (all parts, the default), or simple (the fluctuation alone,
        cheaper).
    momentum
        beta of one-pass SGD.
    nesterov
        Nesterov's momentum instead of heavy ball.
    pytorch
        The velocity is multiplied by the current rate, as in torch.optim.SGD.
    average
        last, tail:SHARE or ema:DECAY: what is read out of the iterates.
    """

    procedure: str = "one-pass"
    samples: int | None = None
    replacement: bool = False
    method: str | None = None
    momentum: float = 0.0
    nesterov: bool = False
    pytorch: bool = False
    average: str = "last"

    def check(self) -> None:
        """Options that would change nothing are refused."""
        checks.choice("procedure", self.procedure, tuple(PARTS))
        if self.method is not None:
            checks.choice("method", self.method, REUSE_METHODS)
        one_pass = self.procedure == "one-pass"
        if not one_pass and (self.momentum or self.average != "last"):
            raise ValueError("momentum and average exist for procedure one-pass only")
        if (self.nesterov or self.pytorch) and not self.momentum:
            raise ValueError("nesterov and pytorch are forms of momentum, which is zero")
        if self.procedure != "multi-pass" and (self.replacement or self.method):
            raise ValueError("replacement and method exist for procedure multi-pass only")
        if one_pass and self.samples is not None:
            raise ValueError(
                "samples exists for procedures multi-pass and gd; one pass has a budget"
            )

    def check_simulated(self) -> None:
        """What only the exact solvers know is refused."""
        if self.momentum or self.average != "last":
            raise ValueError("momentum and average exist for the exact solver only")
        if self.method is not None:
            raise ValueError("method exists for the exact solver only")

    @property
    def dataset_size(self) -> int:
        """N of the procedures that reuse their data."""
        return 512 if self.samples is None else self.samples

    @property
    def max_batch(self) -> int | None:
        """The largest batch that can be drawn."""
        limited = self.procedure == "multi-pass" and not self.replacement
        return self.dataset_size if limited else None

    def update_rule(self, steps: int) -> dict[str, Any]:
        """Momentum and averaging, as solvers take them."""
        return {
            "momentum": self.momentum,
            "nesterov": self.nesterov,
            "pytorch": self.pytorch,
            "average": parse_average(self.average, steps),
        }

    def influence(self, problem: Problem, gamma: FloatArray) -> FloatArray:
        return influence(problem, gamma, **self.update_rule(gamma.size))

    def expected(
        self,
        problem: Problem,
        gamma: FloatArray,
        sizes: list[FloatArray],
        *,
        trajectory: bool = False,
    ) -> Risk:
        """The risk without Monte Carlo, at the end or before and after every update."""
        N = self.dataset_size
        if self.procedure == "gd":
            return gradient_descent_risk(problem, gamma, samples=N, trajectory=trajectory)
        if self.procedure == "multi-pass":
            how = (self.method or "mean-field").replace("-", "_")
            return multi_pass_risk(
                problem,
                gamma,
                sizes,
                samples=N,
                replacement=self.replacement,
                method=how,
                trajectory=trajectory,
            )
        rule = self.update_rule(gamma.size)
        return one_pass_risk(problem, gamma, sizes, trajectory=trajectory, **rule)

    def simulated(
        self,
        problem: Problem,
        gamma: FloatArray,
        sizes: list[FloatArray],
        repetitions: int,
        seed: int,
    ) -> Risk:
        """The risk by Monte Carlo, on one thread."""
        self.check_simulated()
        draws: dict[str, Any] = {"repetitions": repetitions, "seed": seed, "threads": 1}
        N = self.dataset_size
        if self.procedure == "gd":
            return simulate_gradient_descent(problem, gamma, samples=N, **draws)
        if self.procedure == "multi-pass":
            return simulate_multi_pass(
                problem, gamma, sizes, samples=N, replacement=self.replacement, **draws
            )
        return simulate_one_pass(problem, gamma, sizes, **draws)

    def summaries(self, kappa: FloatArray, sizes: list[FloatArray]) -> dict[str, FloatArray]:
        """B_eff for one pass, rho_eff for multi-pass."""
        if self.procedure == "gd":
            return {}
        if self.procedure == "multi-pass":
            rho = effective_fluctuation(
                kappa, sizes, self.dataset_size, replacement=self.replacement
            )
            return {"rho_eff": np.asarray(rho)}
        return {"b_eff": np.asarray(effective_batch(kappa, sizes))}


def parse_average(text: str | None, steps: int) -> FloatArray | None:
    """None or "last": the last iterate; "tail:0.5" and "ema:0.99" are averages."""
    if text is None or text == "last":
        return None
    kind, _, value = text.partition(":")
    if kind in ("tail", "ema"):
        number = checks.real("average", value)
        return tail_average(steps, number) if kind == "tail" else ema(steps, number)
    raise ValueError(f"average must be last, tail:SHARE or ema:DECAY, got {text!r}")
