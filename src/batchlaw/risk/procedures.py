"""Procedures that run on the data: one class each, with everything that can be computed for it.

To add one, write a subclass of ``Procedure`` and call ``register_procedure``; its name, options
and parts then appear in the command line, sweeps and the page.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from batchlaw._base import checks
from batchlaw._base.checks import Batches, FloatArray
from batchlaw._base.errors import InputError
from batchlaw._base.words import CHOICE, COUNT, FLAG, Word, refuse_unused
from batchlaw.batches.effective import effective_batch, effective_fluctuation
from batchlaw.model.problem import Problem
from batchlaw.risk.multi_pass import METHODS, gradient_descent_risk, multi_pass_risk
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.risk.reshuffling import reshuffling_first_order
from batchlaw.risk.result import Risk
from batchlaw.risk.runs import Dataset
from batchlaw.risk.simulate import simulate_gradient_descent, simulate_multi_pass, simulate_one_pass
from batchlaw.schedule.update_rule import WORD, UpdateRule, linear

# Default size N of a dataset that is reused.
SAMPLES = 512
_SAMPLES = Word(
    "samples", COUNT, f"N, the size of the dataset that is reused; {SAMPLES} by default.", low=2
)


@dataclass(frozen=True)
class Procedure(ABC):
    """How data are used: in one pass, in several, or all at every update.

    Attributes
    ----------
    name
        Its spelling in options, files and menus.
    title
        Its name in a sentence.
    sampling
        How batches are drawn, in a sentence.
    parts
        The terms of its risk besides the irreducible and the approximation.
    noise
        The term that depends on the batches.
    summary
        "b_eff" or "rho_eff", the number that summarises a schedule; empty without batches.
    reuses
        Whether it reads a dataset more than once.
    solvable
        Whether its risk can be computed without Monte Carlo.
    traceable
        Whether it can be computed after every update.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    sampling: ClassVar[str]
    parts: ClassVar[tuple[str, ...]]
    noise: ClassVar[str]
    summary: ClassVar[str]
    reuses: ClassVar[bool] = True
    solvable: ClassVar[bool] = True
    traceable: ClassVar[bool] = True

    @property
    def max_batch(self) -> int | None:
        """The largest batch that can be drawn."""
        return None

    @property
    def data(self) -> str:
        """Where the samples of a batch come from, in a sentence."""
        return self.sampling

    def check_rule(self, rule: UpdateRule) -> None:
        """Refuse an update rule that this procedure has no solver for."""
        if not rule.plain:
            raise InputError(rule.changed[0], f"exists for procedure {OnePass.name} only")

    @abstractmethod
    def expected(
        self,
        problem: Problem,
        rates: FloatArray,
        batches: Batches,
        *,
        rule: UpdateRule,
        trajectory: bool = False,
    ) -> Risk:
        """The risk without Monte Carlo: exact, or an approximation that says so."""

    def given(
        self, problem: Problem, rates: FloatArray, batches: Batches, dataset: Dataset
    ) -> Risk:
        """The risk given a dataset, averaged over the batches."""
        raise InputError("dataset", f"has no use with procedure {self.name}")

    @abstractmethod
    def simulated(
        self,
        problem: Problem,
        rates: FloatArray,
        batches: Batches,
        *,
        rule: UpdateRule,
        repetitions: int,
        seed: int,
        threads: int | None = None,
    ) -> Risk:
        """The risk by Monte Carlo, with standard errors."""

    def summaries(self, influence: FloatArray, batches: Batches) -> dict[str, FloatArray]:
        """B_eff or rho_eff of every schedule, under its name."""
        return {}


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

    def check_rule(self, rule: UpdateRule) -> None:
        linear(rule, "one pass")

    def expected(
        self,
        problem: Problem,
        rates: FloatArray,
        batches: Batches,
        *,
        rule: UpdateRule,
        trajectory: bool = False,
    ) -> Risk:
        return one_pass_risk(problem, rates, batches, rule=rule, trajectory=trajectory)

    def simulated(
        self,
        problem: Problem,
        rates: FloatArray,
        batches: Batches,
        *,
        rule: UpdateRule,
        repetitions: int,
        seed: int,
        threads: int | None = None,
    ) -> Risk:
        check_simulated(rule)
        return simulate_one_pass(
            problem, rates, batches, repetitions=repetitions, seed=seed, threads=threads
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

    def expected(
        self,
        problem: Problem,
        rates: FloatArray,
        batches: Batches,
        *,
        rule: UpdateRule,
        trajectory: bool = False,
    ) -> Risk:
        self.check_rule(rule)
        return multi_pass_risk(
            problem,
            rates,
            batches,
            samples=self.samples,
            replacement=self.replacement,
            method=self.method,
            trajectory=trajectory,
        )

    def given(
        self, problem: Problem, rates: FloatArray, batches: Batches, dataset: Dataset
    ) -> Risk:
        return multi_pass_risk(
            problem, rates, batches, dataset=dataset, replacement=self.replacement
        )

    def simulated(
        self,
        problem: Problem,
        rates: FloatArray,
        batches: Batches,
        *,
        rule: UpdateRule,
        repetitions: int,
        seed: int,
        threads: int | None = None,
    ) -> Risk:
        self.check_rule(rule)
        if self.method != METHODS[0]:
            raise InputError("method", "exists without Monte Carlo only")
        return simulate_multi_pass(
            problem,
            rates,
            batches,
            samples=self.samples,
            replacement=self.replacement,
            repetitions=repetitions,
            seed=seed,
            threads=threads,
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

    def expected(
        self,
        problem: Problem,
        rates: FloatArray,
        batches: Batches,
        *,
        rule: UpdateRule,
        trajectory: bool = False,
    ) -> Risk:
        raise InputError("procedure", "has no risk without Monte Carlo", self.name)

    def given(
        self, problem: Problem, rates: FloatArray, batches: Batches, dataset: Dataset
    ) -> Risk:
        return reshuffling_first_order(problem, rates, batches, dataset)

    def simulated(
        self,
        problem: Problem,
        rates: FloatArray,
        batches: Batches,
        *,
        rule: UpdateRule,
        repetitions: int,
        seed: int,
        threads: int | None = None,
    ) -> Risk:
        self.check_rule(rule)
        return simulate_multi_pass(
            problem,
            rates,
            batches,
            samples=self.samples,
            reshuffle=True,
            repetitions=repetitions,
            seed=seed,
            threads=threads,
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

    def expected(
        self,
        problem: Problem,
        rates: FloatArray,
        batches: Batches,
        *,
        rule: UpdateRule,
        trajectory: bool = False,
    ) -> Risk:
        self.check_rule(rule)
        return gradient_descent_risk(problem, rates, samples=self.samples, trajectory=trajectory)

    def given(
        self, problem: Problem, rates: FloatArray, batches: Batches, dataset: Dataset
    ) -> Risk:
        return gradient_descent_risk(problem, rates, dataset)

    def simulated(
        self,
        problem: Problem,
        rates: FloatArray,
        batches: Batches,
        *,
        rule: UpdateRule,
        repetitions: int,
        seed: int,
        threads: int | None = None,
    ) -> Risk:
        self.check_rule(rule)
        return simulate_gradient_descent(
            problem,
            rates,
            samples=self.samples,
            repetitions=repetitions,
            seed=seed,
            threads=threads,
        )


PROCEDURES: dict[str, type[Procedure]] = {}


def register_procedure(kind: type[Procedure]) -> type[Procedure]:
    """Add a procedure under its name."""
    PROCEDURES[kind.name] = kind
    return kind


for _kind in (OnePass, MultiPass, Reshuffled, GradientDescent):
    register_procedure(_kind)


def check_simulated(rule: UpdateRule) -> None:
    """Refuse an update rule that the simulators do not support."""
    if not rule.plain:
        raise InputError(rule.changed[0], "exists without Monte Carlo only")


def procedure_words() -> dict[str, Word]:
    """The options of all procedures, by name."""
    return {
        option.name: option.metadata[WORD]
        for kind in PROCEDURES.values()
        for option in fields(kind)
        if WORD in option.metadata
    }


def procedure_by_words(given: Mapping[str, Any]) -> Procedure:
    """The procedure that the words describe; an option that it does not have is refused."""
    name = given.get("procedure") or OnePass.name
    kind = PROCEDURES[checks.choice("procedure", name, PROCEDURES)]
    known = {option.name for option in fields(kind)}
    others = [word for word in procedure_words() if word not in known]
    refuse_unused(given, others, f"procedure {name}")
    return kind(**{word: given[word] for word in known if given.get(word) is not None})
