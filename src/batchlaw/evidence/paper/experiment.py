"""The settings of the paper's command line, with the defaults of appendix L."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING

from batchlaw._base import checks
from batchlaw._base.errors import InputError, arg
from batchlaw.jobs.code_digest import code_digest
from batchlaw.jobs.workers import one_blas_thread
from batchlaw.model.problem import Problem

if TYPE_CHECKING:
    from batchlaw.jobs.store import Cell

# Raise it when the same cell would give other numbers.
VERSION = 1
# Fields that the problem instance depends on.
INSTANCE = ("seed", "d", "m", "a", "b", "sigma")
ONE_PASS_N = (96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448, 480, 512)
GRAD_BUDGETS = (512, 640, 768, 1024, 1280, 1536, 2048, 2560, 3072, 3584, 4096)


@dataclass(frozen=True)
class Experiment:
    """One run of the paper's experiments.

    Attributes
    ----------
    d, m
        Ambient and sketch dimension.
    n, t, l
        Samples, one-pass updates, multi-pass updates.
    reps, seed
        Repetitions; one seed for the instance and for the data.
    a, b, gamma, sigma
        Spectrum and source exponents, peak rate, label noise.
    one_pass_n_values, multipass_grad_budget_values
        Budgets of experiments 1 and 2.
    grad_budget
        Budget of experiment 4 and of experiment 3's multi-pass half; l n / t, rounded down,
        by default. ``n`` and this budget are part of the sweeps too.
    """

    d: int = 10_000
    m: int = 64
    n: int = 512
    t: int = 64
    l: int = 512  # noqa: E741 - the paper's letter
    reps: int = 300
    seed: int = 123
    a: float = 2.0
    b: float = 1.5
    gamma: float = 0.05
    sigma: float = 1.0
    one_pass_n_values: tuple[int, ...] = ONE_PASS_N
    multipass_grad_budget_values: tuple[int, ...] = GRAD_BUDGETS
    grad_budget: int | None = None

    def __post_init__(self) -> None:
        """Refuse a bad setting before anything is drawn or written."""
        checks.count("reps", self.reps, minimum=3)
        checks.count("seed", self.seed, minimum=0)
        checks.count("n", self.n, minimum=2)
        if self.d < self.m:
            raise InputError("d", f"must be at least {arg('m')} = {self.m}", f"{self.d}")
        for name in ("t", "l"):
            if checks.count(name, getattr(self, name), minimum=3) < 10:
                raise InputError(
                    name,
                    "must be at least 10: warmup is a tenth of the updates, rounded down",
                    f"{getattr(self, name)}",
                )
        checks.real("gamma", self.gamma, above=0.0)
        _check_one_sample_per_update("n", (self.n,), self.t)
        _check_one_sample_per_update("one_pass_n_values", self.one_pass_n_values, self.t)
        self._check_reuse("multipass_grad_budget_values", self.multipass_grad_budget_values)
        self._check_reuse("grad_budget", (self.reuse_budget,))

    def _check_reuse(self, name: str, budgets: tuple[int, ...]) -> None:
        _check_one_sample_per_update(name, budgets, self.l)
        if max(budgets) >= self.l * self.n:
            raise InputError(
                name,
                f"must be below l n = {self.l * self.n}, where every batch is the whole dataset "
                "and nothing fluctuates",
                f"{max(budgets)}",
            )

    @property
    def reuse_budget(self) -> int:
        """D_grad = L N / T unless it was given."""
        if self.grad_budget is not None:
            return self.grad_budget
        return self.l * self.n // self.t

    @property
    def one_pass_budgets(self) -> tuple[int, ...]:
        return tuple(sorted({*self.one_pass_n_values, self.n}))

    @property
    def reuse_budgets(self) -> tuple[int, ...]:
        return tuple(sorted({*self.multipass_grad_budget_values, self.reuse_budget}))

    def differs_from_paper(self) -> list[str]:
        """Names of the fields that change the paper's numbers. Repetitions do not."""
        paper = Experiment()
        names = [f.name for f in fields(self) if not f.name.endswith("_values")]
        names = [name for name in names if name not in ("reps", "grad_budget")]
        changed = [name for name in names if getattr(self, name) != getattr(paper, name)]
        if self.reuse_budget != paper.reuse_budget:
            changed.append("grad_budget")
        return changed

    def problem(self) -> Problem:
        return _instance(*(getattr(self, name) for name in INSTANCE))


def instance_cell(experiment: Experiment, module: str) -> dict[str, object]:
    """The entries that all cells of the paper's sweeps share; ``module`` computes the cell."""
    numbers = {name: getattr(experiment, name) for name in (*INSTANCE, "gamma")}
    return {"paper": VERSION, "code": code_digest(module), **numbers}


def cell_instance(cell: Cell) -> Problem:
    """The instance of a cell."""
    return _instance(*(cell[name] for name in INSTANCE))


@lru_cache(maxsize=1)
def _instance(seed: int, d: int, m: int, a: float, b: float, sigma: float) -> Problem:
    """Drawn with one thread, as in a worker: the bits of large products depend on their number."""
    with one_blas_thread():
        return Problem.paper(seed, d, m, a, b, sigma)


def _check_one_sample_per_update(name: str, budgets: tuple[int, ...], updates: int) -> None:
    for budget in budgets:
        if checks.count(name, budget) < updates:
            raise InputError(
                name,
                f"must be at least one sample per update: {updates} updates need {updates}",
                f"{budget}",
            )
