"""The cost of an exact risk: compared with Monte Carlo, and as the run gets longer.

.venv/bin/python benchmarks/exact_cost.py [--figure docs/figures/exact_cost.png]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import batchlaw as bl
from batchlaw.evidence.paper.experiment import GRAD_BUDGETS
from batchlaw.faces.cli.table import text_table
from batchlaw.risk.given_dataset import fluctuation_given_dataset

ACCURACY = 1e-3


def seconds(function, rounds=5):
    function()
    best = np.inf
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


def against_monte_carlo() -> str:
    problem, rates = bl.Problem.paper(), bl.wsd(64, 0.05)
    kappa = bl.influence(problem.eigenvalues, rates)
    batches = list(bl.schedule_families(kappa, 512).values())
    repetitions = 2000
    exact = seconds(lambda: bl.one_pass_risk(problem, rates, batches))

    def simulate():
        return bl.simulate_one_pass(problem, rates, batches, repetitions=repetitions, seed=1)

    measured = simulate()
    cost = seconds(simulate, rounds=3)
    error = float(np.max(measured.standard_error("variance") / measured.variance))
    needed = repetitions * (error / ACCURACY) ** 2
    monte_carlo = cost * needed / repetitions
    return (
        f"one pass at the paper's setting, four schedules: exact in {1e3 * exact:.2f} ms. Monte "
        f"Carlo\nwith a standard error of {100 * ACCURACY:g} % needs {needed:.2g} repetitions, "
        f"{monte_carlo:.0f} s: {monte_carlo / exact:.1e} times as much."
    )


def multi_pass() -> str:
    """All 44 schedules of the paper's sweep: given one dataset, and over datasets."""
    problem, rates = bl.Problem.paper(), bl.wsd(512, 0.05)
    kappa = bl.influence(problem, rates)
    batches = np.array(
        [b for n in GRAD_BUDGETS for b in bl.schedule_families(kappa, n, max_batch=512).values()]
    )
    dataset = problem.sample(512, seed=1)
    rows = [
        (
            "exact given a dataset",
            lambda: bl.multi_pass_risk(problem, rates, batches, dataset=dataset),
        ),
        (
            "the same, truncated to 8 directions",
            lambda: fluctuation_given_dataset(problem, rates, batches, dataset, truncate=8),
        ),
        (
            "expected over datasets, mean field",
            lambda: bl.multi_pass_risk(problem, rates, batches, samples=512),
        ),
        (
            "expected over datasets, simple",
            lambda: bl.multi_pass_risk(problem, rates, batches, samples=512, method="simple"),
        ),
    ]
    cells = [(name, f"{seconds(function, 2):.3g}") for name, function in rows]
    return text_table(("multi-pass, 44 schedules, N = L = 512, M = 64", "seconds"), cells)


def growth() -> tuple[list[int], list[int], np.ndarray]:
    steps, nodes = [10**k for k in range(2, 7)], [25, 100, 400]
    table = np.empty((len(steps), len(nodes)))
    for column, n in enumerate(nodes):
        problem = bl.Problem.from_spectrum(np.arange(1, n + 1) ** -2.0, np.ones(n), 1.0)
        for row, T in enumerate(steps):
            rates, batches = bl.wsd(T, 0.05), np.full(T, 8)
            run = seconds(lambda: bl.one_pass_risk(problem, rates, batches), 3)  # noqa: B023
            table[row, column] = run
    return steps, nodes, table


def draw(path: Path, steps: list[int], nodes: list[int], table: np.ndarray) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 3.6), layout="constrained")
    axes = figure.subplots()
    for column, (n, marker) in enumerate(zip(nodes, "osD", strict=True)):
        axes.loglog(steps, table[:, column], marker=marker, label=f"{n} nodes")
    line = table[-1, -1] * np.array(steps) / steps[-1]
    axes.loglog(steps, line, ":", color="0.4", label="proportional to steps")
    axes.set(xlabel="steps", ylabel="seconds", title="Time of one exact one-pass risk")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--figure", type=Path)
    arguments = parser.parse_args()
    print(against_monte_carlo(), "\n")
    print(multi_pass(), "\n")
    steps, nodes, table = growth()
    rows = [
        (f"{T:.0e}", *(f"{1e3 * x:.3g}" for x in row), f"{1e9 * row[-1] / T / nodes[-1]:.2f}")
        for T, row in zip(steps, table, strict=True)
    ]
    header = ("steps", *(f"{n} nodes, ms" for n in nodes), f"ns a step and node ({nodes[-1]})")
    print(text_table(header, rows))
    if arguments.figure:
        draw(arguments.figure, steps, nodes, table)


if __name__ == "__main__":
    main()
