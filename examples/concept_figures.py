"""The pictures and numbers of docs/concepts.md: influence, the collapse, and the two horizons.

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
TICKS = (0.05, 0.1, 0.2, 0.5)
# Exponents of the law at a = 2, b = 1.5: (1 - b)/a and 1/a - 1.
EXPONENTS = {"bias": -0.25, "noise": -0.5}


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
    points: dict[str, list[tuple[float, float]]] = {}
    for budget in BUDGETS:
        for name, batches in bl.schedule_families(kappa, budget).items():
            variance = bl.one_pass_risk(problem, rates, batches).variance
            points.setdefault(name, []).append((1.0 / bl.effective_batch(kappa, batches), variance))
    return {name: tuple(np.array(pairs).T) for name, pairs in points.items()}


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
    curves = influence_data(problem)
    rates, kappa = curves["learning rate"], curves["influence"]
    share = kappa / kappa.sum()
    print(f"the influence peaks at update {kappa.argmax() + 1}")
    print(
        f"{share[200:330].sum():.1%} of it in updates 201 to 330, {share[400:].sum():.1%} after 400"
    )
    print(
        f"rates sum to {rates.sum():.1f}, after the stable phase to {rates[STEPS // 2 :].sum():.1f}"
    )
    plots.save(plots.influence_concept(curves), folder / "concept_influence.png")

    collapse = collapse_data(problem)
    slopes = np.concatenate([variance / summary for summary, variance in collapse.values()])
    off = np.abs(slopes / np.exp(np.log(slopes).mean()) - 1.0).max()
    print(f"no point is more than {off:.1%} off the line")
    figure = plots.collapse_concept(collapse)
    figure.axes[0].set_xticks(TICKS, labels=[f"{tick:g}" for tick in TICKS])
    plots.save(figure, folder / "concept_collapse.png")

    horizons = horizon_data()
    middle = np.abs(horizons["steps"] - 10**4).argmin()
    for part, power in EXPONENTS.items():
        for name in ("learning", "memory"):
            flat = horizons[part] / horizons[name] ** power
            moved = abs(flat[middle] / flat[-1] - 1.0)
            print(f"{part} over the {name} horizon moves by {moved:.1%} from 10^4 updates to 10^6")
    figure = plots.horizons_concept(horizons, EXPONENTS["bias"], EXPONENTS["noise"])
    plots.save(figure, folder / "concept_horizons.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
