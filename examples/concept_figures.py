"""The pictures of docs/concepts.md: influence, the collapse, and the two horizons.

.venv/bin/python examples/concept_figures.py docs/figures
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import batchlaw as bl
from batchlaw import plots

STEPS, PEAK, BUDGET = 512, 0.05, 4096
BUDGETS = (1024, 1536, 2048, 3072, 4096, 6144, 8192)


def influence_data(problem: bl.Problem) -> dict[str, np.ndarray]:
    rates = bl.wsd(STEPS, PEAK)
    kappa = bl.influence(problem, rates)
    return {
        "learning rate": rates,
        "influence": kappa,
        "batch": bl.allocate(kappa, BUDGET, method="continuous"),
    }


def collapse_data(problem: bl.Problem) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rates = bl.wsd(STEPS, PEAK)
    kappa = bl.influence(problem, rates)
    found: dict[str, list[tuple[float, float]]] = {}
    for budget in BUDGETS:
        for name, batches in bl.schedule_families(kappa, budget).items():
            variance = bl.one_pass_risk(problem, rates, batches).variance
            found.setdefault(name, []).append((1.0 / bl.effective_batch(kappa, batches), variance))
    return {name: tuple(np.array(points).T) for name, points in found.items()}


def horizon_data() -> dict[str, np.ndarray]:
    problem = bl.Problem.power_law_nodes(2.0, 1.5, 10**12, kind="sketch")
    peak = 0.08 / problem.trace
    steps = np.geomspace(10**2, 10**6, 25).astype(int)
    risks = [bl.one_pass_risk(problem, bl.wsd(int(T), peak), 8.0) for T in steps]
    return {
        "steps": steps,
        "bias": np.array([risk.bias for risk in risks]),
        "noise": np.array([risk.variance_noise for risk in risks]),
        "learning": peak * steps,
        "memory": peak * steps / np.log(steps),
    }


def main(folder: Path) -> None:
    problem = bl.Problem.paper()
    plots.save(plots.influence_concept(influence_data(problem)), folder / "concept_influence.png")
    plots.save(plots.collapse_concept(collapse_data(problem)), folder / "concept_collapse.png")
    # The law's exponents at a = 2, b = 1.5: (1 - b)/a, and 1/a - 1.
    plots.save(plots.horizons_concept(horizon_data(), -0.25, -0.5), folder / "concept_horizons.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
