"""The procedures of the paper: one pass, multi-pass, reshuffled epochs, gradient descent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from batchlaw._base import checks
from batchlaw._base.checks import Batches, FloatArray
from batchlaw._base.errors import InputError, arg
from batchlaw._base.words import CHOICE, COUNT, FLAG, Word
from batchlaw.batches.effective import effective_batch, effective_fluctuation
from batchlaw.risk.multi_pass import METHODS, gradient_descent_risk, multi_pass_risk
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.risk.procedure import Draws, Procedure, Setup, register_procedure
from batchlaw.risk.reshuffling import reshuffling_first_order
from batchlaw.risk.result import Risk
from batchlaw.risk.runs import Dataset
from batchlaw.risk.simulate import simulate_gradient_descent, simulate_multi_pass, simulate_one_pass
from batchlaw.schedule.update_rule import WORD, UpdateRule

# Default size N of a dataset that is reused.
SAMPLES = 512
_SAMPLES = Word(
    "samples", COUNT, f"N, the size of the dataset that is reused; {SAMPLES} by default.", low=2
)


@dataclass(frozen=True)
class OnePass(Procedure):
    """Every sample is used once."""

    name: ClassVar[str] = "one-pass"
    title: ClassVar[str] = "one-pass SGD"
    sampling: ClassVar[str] = "one pass"
    parts: ClassVar[tuple[str, ...]] = (
        "bias",
        "variance",
        "variance_noise",
        "variance_covariance",
    )
    noise: ClassVar[str] = "variance"
    summary: ClassVar[str] = "b_eff"
    reuses: ClassVar[bool] = False

    def solves(self, rule: UpdateRule) -> bool:
        return True

    def expected(self, setup: Setup, *, trajectory: bool = False) -> Risk:
        return one_pass_risk(
            setup.problem, setup.rates, setup.batches, rule=setup.rule, trajectory=trajectory
        )

    def simulated(self, setup: Setup, draws: Draws) -> Risk:
        return simulate_one_pass(
            setup.problem, setup.rates, setup.batches, rule=setup.rule, **vars(draws)
        )

    def summaries(self, influence: FloatArray, batches: Batches) -> dict[str, FloatArray]:
        return {self.summary: np.asarray(effective_batch(influence, batches))}


@dataclass(frozen=True)
class MultiPass(Procedure):
    """Every batch is a fresh random subset of a dataset, with or without replacement.

    Attributes
    ----------
    samples
        N, the size of the dataset.
    replacement
        Whether a batch is drawn with replacement.
    method
        For the expectation over datasets: "mean-field" (all parts) or "simple" (the fluctuation
        alone, cheaper).
    """

    name: ClassVar[str] = "multi-pass"
    title: ClassVar[str] = "multi-pass SGD"
    sampling: ClassVar[str] = "independent batches"
    parts: ClassVar[tuple[str, ...]] = ("bias", "variance", "fluctuation")
    noise: ClassVar[str] = "fluctuation"
    summary: ClassVar[str] = "rho_eff"

    samples: int = field(default=SAMPLES, metadata={WORD: _SAMPLES})
    replacement: bool = field(
        default=False,
        metadata={WORD: Word("replacement", FLAG, "Batches of multi-pass with replacement.")},
    )
    method: str = field(
        default=METHODS[0],
        metadata={
            WORD: Word(
                "method",
                CHOICE,
                "Of multi-pass without Monte Carlo: mean-field (all parts, the default), or "
                "simple (the fluctuation alone, cheaper).",
                METHODS,
            )
        },
    )

    def __post_init__(self) -> None:
        checks.count("samples", self.samples, minimum=2)
        checks.choice("method", self.method, METHODS)

    @property
    def max_batch(self) -> int | None:
        return None if self.replacement else self.samples

    @property
    def data(self) -> str:
        how = "with" if self.replacement else "without"
        return f"{self.sampling} {how} replacement from a dataset of {self.samples} samples"

    def expected(self, setup: Setup, *, trajectory: bool = False) -> Risk:
        self.check_solved(setup.rule)
        return multi_pass_risk(
            setup.problem,
            setup.rates,
            setup.batches,
            samples=self.samples,
            replacement=self.replacement,
            method=self.method,
            trajectory=trajectory,
        )

    def given(self, setup: Setup, dataset: Dataset) -> Risk:
        return multi_pass_risk(
            setup.problem,
            setup.rates,
            setup.batches,
            dataset=dataset,
            replacement=self.replacement,
            rule=setup.rule,
        )

    def simulated(self, setup: Setup, draws: Draws) -> Risk:
        if self.method != METHODS[0]:
            hint = "" if setup.rule.plain else f"{arg(setup.rule.changed[0])} makes it simulated"
            needed = f"must be {METHODS[0]} where the risk is simulated"
            raise InputError("method", needed, self.method, hint)
        return simulate_multi_pass(
            setup.problem,
            setup.rates,
            setup.batches,
            samples=self.samples,
            replacement=self.replacement,
            rule=setup.rule,
            **vars(draws),
        )

    def summaries(self, influence: FloatArray, batches: Batches) -> dict[str, FloatArray]:
        rho = effective_fluctuation(influence, batches, self.samples, replacement=self.replacement)
        return {self.summary: np.asarray(rho)}


@dataclass(frozen=True)
class Reshuffled(Procedure):
    """Every epoch goes through a fresh random order of a dataset.

    No recursion for its moments is known, so its expectation over datasets is simulated;
    given a dataset, ``reshuffling_first_order`` is an approximation for small steps.
    """

    name: ClassVar[str] = "reshuffled"
    title: ClassVar[str] = "multi-pass SGD, reshuffled by epochs"
    sampling: ClassVar[str] = "reshuffled epochs"
    parts: ClassVar[tuple[str, ...]] = ("bias", "variance", "fluctuation", "cross")
    noise: ClassVar[str] = "fluctuation"
    summary: ClassVar[str] = "rho_eff"
    solvable: ClassVar[bool] = False
    traceable: ClassVar[bool] = False

    samples: int = field(default=SAMPLES, metadata={WORD: _SAMPLES})

    def __post_init__(self) -> None:
        checks.count("samples", self.samples, minimum=2)

    @property
    def max_batch(self) -> int | None:
        return self.samples

    @property
    def data(self) -> str:
        return f"{self.sampling} of a dataset of {self.samples} samples"

    def expected(self, setup: Setup, *, trajectory: bool = False) -> Risk:
        raise InputError("procedure", "has no risk without Monte Carlo", self.name)

    def given(self, setup: Setup, dataset: Dataset) -> Risk:
        if not setup.rule.plain:
            raise InputError(setup.rule.changed[0], "is no part of the first-order formula")
        return reshuffling_first_order(setup.problem, setup.rates, setup.batches, dataset)

    def simulated(self, setup: Setup, draws: Draws) -> Risk:
        return simulate_multi_pass(
            setup.problem,
            setup.rates,
            setup.batches,
            samples=self.samples,
            reshuffle=True,
            rule=setup.rule,
            **vars(draws),
        )

    def summaries(self, influence: FloatArray, batches: Batches) -> dict[str, FloatArray]:
        return {self.summary: np.asarray(effective_fluctuation(influence, batches, self.samples))}


@dataclass(frozen=True)
class GradientDescent(Procedure):
    """Every update takes the gradient of a whole dataset."""

    name: ClassVar[str] = "gd"
    title: ClassVar[str] = "normal GD"
    sampling: ClassVar[str] = "full batches"
    parts: ClassVar[tuple[str, ...]] = ("bias", "variance")
    noise: ClassVar[str] = "variance"
    summary: ClassVar[str] = ""

    samples: int = field(default=SAMPLES, metadata={WORD: _SAMPLES})

    def __post_init__(self) -> None:
        checks.count("samples", self.samples, minimum=2)

    def expected(self, setup: Setup, *, trajectory: bool = False) -> Risk:
        self.check_solved(setup.rule)
        return gradient_descent_risk(
            setup.problem, setup.rates, samples=self.samples, trajectory=trajectory
        )

    def given(self, setup: Setup, dataset: Dataset) -> Risk:
        return gradient_descent_risk(setup.problem, setup.rates, dataset, rule=setup.rule)

    def simulated(self, setup: Setup, draws: Draws) -> Risk:
        return simulate_gradient_descent(
            setup.problem,
            setup.rates,
            samples=self.samples,
            rule=setup.rule,
            **vars(draws),
        )


for _kind in (OnePass, MultiPass, Reshuffled, GradientDescent):
    register_procedure(_kind)
