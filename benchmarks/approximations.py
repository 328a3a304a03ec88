"""Errors of the approximations, as quoted in docs/exact.md.

.venv/bin/python benchmarks/approximations.py
"""

from __future__ import annotations

import numpy as np

import batchlaw as bl
from batchlaw.batches.effective import fluctuation_factors
from batchlaw.faces.cli.table import text_table
from batchlaw.risk import runs as procedures
from batchlaw.risk.given_dataset import first_order_weights, fluctuation_given_dataset
from batchlaw.risk.reshuffling import reshuffling_first_order

N = L = 512


def setting(budget):
    problem, rates = bl.Problem.paper(), bl.wsd(L, 0.05)
    families = bl.schedule_families(bl.influence(problem, rates), budget, max_batch=N)
    return problem, rates, families, problem.sample(N, seed=1)


def weights_and_truncation():
    rows = []
    for budget in (4096, 2048, 1024, 512):
        problem, rates, families, dataset = setting(budget)
        batches = list(families.values())
        exact = bl.multi_pass_risk(problem, rates, batches, dataset=dataset).fluctuation
        weights = first_order_weights(problem, rates, dataset)
        first = fluctuation_factors(batches, L, N) @ weights
        cut = fluctuation_given_dataset(problem, rates, batches, dataset, truncate=8)
        low = 100 * (1 - first / exact)
        error = np.abs(cut.fluctuation / exact - 1).max()
        reported = (cut.uncertainty * cut.excess / cut.fluctuation).max()
        shortfall = f"{low.min():.2f} to {low.max():.2f} %"
        rows.append((f"{budget}", shortfall, f"{error:.1e}", f"{reported:.1e}"))
    header = ("budget", "first-order weights, low by", "truncated to 8, error", "as reported")
    return text_table(header, rows)


def reshuffling(runs=3000):
    problem, rates, families, dataset = setting(4096)
    rows = []
    theta = procedures.gradient_descent(dataset, rates)
    for name in ("constant", "oracle"):
        batches = families[name]
        repeated = np.tile(batches, (runs, 1))
        first = reshuffling_first_order(problem, rates, batches, dataset)
        u = procedures.multi_pass_sgd(dataset, rates, repeated, 3, reshuffle=True)
        around = (u - theta) ** 2 @ problem.eigenvalues
        independent = bl.multi_pass_risk(problem, rates, batches, dataset=dataset).fluctuation
        error = around.std(ddof=1) / np.sqrt(runs)
        gap, gap_error = 100 * (first.fluctuation / around.mean() - 1), 100 * error / around.mean()
        rows.append((name, f"{gap:+.1f} ± {gap_error:.1f} %", f"{independent / around.mean():.0f}"))
    header = ("schedule", "first order against runs", "independent / reshuffled")
    return text_table(header, rows)


def sketches():
    rows = []
    for M, dim, seeds in ((16, 20_000, 30), (64, 20_000, 30)):
        rates = bl.wsd(4 * M, 0.1)
        nodes = bl.Problem.power_law_nodes(2.0, 1.5, M, kind="sketch")
        ours = np.array([nodes.approximation, bl.one_pass_risk(nodes, rates, 4).total])
        tail = 2.0 * dim**-0.5  # target energy beyond dim, which a finite sketch never sees
        drawn = []
        for seed in range(seeds):
            problem = bl.Problem.power_law(2.0, 1.5, M, dim, seed=seed).prior_mean()
            total = bl.one_pass_risk(problem, rates, 4).total
            drawn.append((problem.approximation + tail, total + tail))
        mean, error = np.mean(drawn, axis=0), np.std(drawn, axis=0, ddof=1) / np.sqrt(seeds)
        gaps = [
            f"{100 * g:+.2f} ± {100 * e:.2f} %"
            for g, e in zip(ours / mean - 1, error / mean, strict=True)
        ]
        rows.append((f"{M}", *gaps))
    return text_table(("M", "Approx, equivalent / sketches - 1", "total one-pass risk"), rows)


if __name__ == "__main__":
    print(weights_and_truncation(), reshuffling(), sketches(), sep="\n\n")
