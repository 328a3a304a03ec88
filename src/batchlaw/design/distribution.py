"""How the final risk scatters over batches, datasets and sketches, by Monte Carlo.

An average over datasets may be decided by datasets that are never drawn
(``theory.outlier_datasets``); a quantile is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import singledispatch

import numpy as np

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError, Unstable
from batchlaw._base.machine import cores
from batchlaw.design.case import REPETITIONS, SEED, Case
from batchlaw.design.quantiles import Quantiles, quantiles_of
from batchlaw.model.problem import Problem
from batchlaw.risk.coordinates import coordinates_of
from batchlaw.risk.procedure import Procedure, Setup
from batchlaw.risk.procedures import GradientDescent, MultiPass, OnePass, Reshuffled
from batchlaw.risk.result import Risk
from batchlaw.risk.runs import Dataset, gradient_descent, multi_pass_sgd, one_pass_sgd
from batchlaw.risk.simulate import ONE_PASS, REUSE
from batchlaw.risk.stepping import steps_of
from batchlaw.schedule.update_rule import SGD, check_stable

BATCHES, DATASETS, SKETCHES = OVER = ("batches", "datasets", "sketches")
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
FLUCTUATION = "fluctuation"
TERMS = ("excess", "total", FLUCTUATION)
# Spawn key of batches drawn from one dataset; the other keys are the simulators'.
GIVEN_DATASET = 3
FEWEST = 3

Sketches = Callable[[int], Problem]


def risk_quantiles(
    case: Case,
    *,
    over: str = DATASETS,
    levels: Sequence[float] = LEVELS,
    repetitions: int = REPETITIONS,
    seed: int = SEED,
    term: str = "excess",
    dataset: Dataset | None = None,
    sketches: Sketches | None = None,
    average_batches: bool = False,
    max_norm: float | None = None,
    confidence: float = 0.95,
    threads: int | None = None,
) -> Quantiles:
    """Quantiles of the final risk over batches, datasets or sketches, simulated run by run.

    With the same seed the runs over datasets are those of ``Case.simulate``. A run that diverges
    counts as infinite.

    Parameters
    ----------
    case
        Problem, rates, batches, procedure and update rule.
    over
        "batches": one dataset, fresh batches. "datasets": a fresh dataset (or stream of data, for
        one pass) and fresh batches. "sketches": a fresh problem as well.
    levels
        Probabilities between 0 and 1.
    repetitions
        Independent runs, at least 3.
    term
        "excess", "total", or "fluctuation" around GD on the same data with the same rule.
    dataset
        For "batches": features (N, M) and labels (N,); drawn from the seed if None.
    sketches
        For "sketches": the problem of each repetition, ``sketches(k)`` for k = 0, 1, ..., such as
        ``lambda k: bl.Problem.power_law(2.0, 1.5, 64, seed=k)``. The case's problem is not used.
    average_batches
        Over datasets or sketches of multi-pass SGD: take the exact average over batches given each
        dataset in place of a single run.
    max_norm
        Count only datasets with gamma max_i ||z_i||^2 up to this, the event of theorem 2; means are
        then averages on that event.
    confidence
        Of the intervals, which lie between two order statistics.
    """
    checks.choice("over", over, OVER)
    checks.choice("term", term, TERMS)
    R = checks.count("repetitions", repetitions, minimum=FEWEST)
    p = np.array([checks.real("levels", level, above=0.0, at_most=1.0) for level in levels])
    confidence = checks.real("confidence", confidence, above=0.0, at_most=1.0)
    _check(case, over, term, dataset, sketches, average_batches, max_norm)
    if over == BATCHES and dataset is None:
        dataset = case.problem.sample(_samples(case), _generator(seed, GIVEN_DATASET))
    names = tuple(case.schedules())
    values = np.full((R, len(names)), np.inf)
    counted = np.ones(R, dtype=bool)

    def run(k: int) -> None:
        there = case if sketches is None else replace(case, problem=sketches(k))
        data = dataset
        if data is not None:
            rng = _generator(seed, GIVEN_DATASET, k)
        else:
            rng = _generator(seed, REUSE if case.procedure.reuses else ONE_PASS, k)
            data = there.problem.sample(_samples(there), rng)
            if max_norm is not None:
                largest = (data[0] ** 2).sum(axis=1).max()
                counted[k] = case.gamma.max() * largest <= max_norm
        if counted[k]:
            values[k] = _term(there, data, rng, term, average_batches)

    threads = cores() if threads is None else checks.count("threads", threads)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, range(R)))
    if counted.sum() < FEWEST:
        needed = f"must leave at least {FEWEST} of the {R} repetitions"
        raise InputError("max_norm", needed, f"{counted.sum()}")
    return quantiles_of(
        values[counted],
        p,
        confidence,
        _least(case, over, term),
        over=over,
        term=term,
        schedules=names,
        seed=seed,
        share=float(counted.mean()),
        exact=None if max_norm is not None else _exact(case, over, dataset),
    )


@np.errstate(over="ignore", invalid="ignore")  # a run that diverges is infinite
def _term(
    case: Case, dataset: Dataset, rng: np.random.Generator, term: str, average_batches: bool
) -> FloatArray:
    """The term for every schedule, after one run or averaged over batches."""
    if average_batches:
        try:
            risk = case.procedure.given(_setup(case), dataset)
        except Unstable:
            return np.array([np.inf])
        return np.atleast_1d(np.asarray(getattr(risk, term), dtype=np.float64))
    problem = case.problem.expanded()
    place = coordinates_of(case.rule, problem)
    dataset = place.dataset(dataset)
    final = place.leave(final_iterates(case.procedure, case, dataset, rng))
    centre = problem.optimum
    if term == FLUCTUATION:
        centre = place.leave(gradient_descent(dataset, case.gamma, rule=case.rule))
    value = (final - centre) ** 2 @ problem.eigenvalues
    if term == "total":
        value += problem.noise_variance
    return np.asarray(np.where(np.isnan(value), np.inf, value))


@singledispatch
def final_iterates(
    procedure: Procedure, case: Case, dataset: Dataset, rng: np.random.Generator
) -> FloatArray:
    """The result of every schedule, (S, M), after one run on a dataset.

    Register other procedures here.
    """
    raise InputError("procedure", "must be one that is run on a dataset", procedure.name)


@final_iterates.register
def _(procedure: OnePass, case: Case, dataset: Dataset, rng: np.random.Generator) -> FloatArray:
    features, labels = dataset
    sizes = checks.batches(case.batches, case.gamma.size)
    return np.array(
        [
            one_pass_sgd((features[:N], labels[:N]), case.gamma, row, rule=case.rule)
            for row, N in zip(sizes, sizes.sum(axis=1), strict=True)
        ]
    )


@final_iterates.register
def _(procedure: MultiPass, case: Case, dataset: Dataset, rng: np.random.Generator) -> FloatArray:
    sizes = checks.batches(case.batches, case.gamma.size, maximum=procedure.max_batch)
    return multi_pass_sgd(
        dataset, case.gamma, sizes, rng, replacement=procedure.replacement, rule=case.rule
    )


@final_iterates.register
def _(procedure: Reshuffled, case: Case, dataset: Dataset, rng: np.random.Generator) -> FloatArray:
    sizes = checks.batches(case.batches, case.gamma.size, maximum=procedure.max_batch)
    return multi_pass_sgd(dataset, case.gamma, sizes, rng, reshuffle=True, rule=case.rule)


@final_iterates.register
def _(
    procedure: GradientDescent, case: Case, dataset: Dataset, rng: np.random.Generator
) -> FloatArray:
    return gradient_descent(dataset, case.gamma, rule=case.rule)[None, :]


def _check(
    case: Case,
    over: str,
    term: str,
    dataset: Dataset | None,
    sketches: Sketches | None,
    average_batches: bool,
    max_norm: float | None,
) -> None:
    """Refuse what has no meaning, or no effect."""
    procedure = case.procedure
    steps_of(case.rule, case.gamma)
    if isinstance(case.rule, SGD):
        check_stable(case.gamma, float(case.problem.eigenvalues[0]), case.rule)
    if over == BATCHES and not (procedure.reuses and procedure.summary):
        needed = f"must be {DATASETS} or {SKETCHES} with procedure {procedure.name}"
        hint = "it has no random batches of one dataset"
        raise InputError("over", needed, repr(over), hint)
    if term == FLUCTUATION and not procedure.reuses:
        raise InputError("term", "must be excess or total in one pass", term)
    if (sketches is None) == (over == SKETCHES):
        raise InputError("sketches", f"must be given for quantiles over {SKETCHES}, and only there")
    if dataset is not None and over != BATCHES:
        raise InputError("dataset", f"has no use for quantiles over {over}")
    if average_batches and (over == BATCHES or not isinstance(procedure, MultiPass)):
        raise InputError("average_batches", "needs multi-pass SGD over datasets or sketches")
    if max_norm is not None:
        checks.real("max_norm", max_norm, above=0.0)
        if over == BATCHES or not procedure.reuses:
            raise InputError("max_norm", "needs datasets that are reused")


def _exact(case: Case, over: str, dataset: Dataset | None) -> Risk | None:
    if not isinstance(case.rule, SGD):
        return None
    if over == BATCHES and dataset is not None and isinstance(case.procedure, MultiPass):
        return case.procedure.given(_setup(case), dataset)
    if over == DATASETS and isinstance(case.procedure, OnePass):
        return case.risk()
    return None


def _least(case: Case, over: str, term: str) -> float:
    """A value that no run's term is below; other sketches have other approximations."""
    if term != "total":
        return 0.0
    return case.problem.irreducible if over == SKETCHES else case.problem.noise_variance


def _setup(case: Case) -> Setup:
    return Setup(case.problem, case.gamma, case.batches, case.rule)


def _samples(case: Case) -> int:
    """Samples of a dataset; in one pass those of the longest schedule."""
    if isinstance(case.procedure, OnePass):
        return int(checks.batches(case.batches, case.gamma.size).sum(axis=1).max())
    return int(getattr(case.procedure, "samples"))  # noqa: B009 - every other procedure has it


def _generator(seed: int, *key: int) -> np.random.Generator:
    seed = checks.count("seed", seed, minimum=0)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))
