"""The pictures of docs/adam.md: what samples are worth under Adam, and the batches that follow.

.venv/bin/python examples/adam_figures.py docs/figures
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

import batchlaw as bl
from batchlaw import plots
from batchlaw.theory.adam_limit import effective_rates, limit_batches, preconditioned

STEPS, BATCH, DIRECTIONS, PEAK = 400, 8, 10**6, 0.02 * math.sqrt(32 / 10**6)
MEMORIES = {"Adam, beta2 = 0.95": 0.95, "Adam, beta2 = 0.999": 0.999}
SHAPES = {
    "linear, last fifth": bl.wsd(STEPS, PEAK, warmup=0.05, stable=0.75, decay="linear"),
    "exponential, last half": bl.wsd(STEPS, PEAK),
    "cosine": bl.cosine(STEPS, PEAK, warmup=0.05),
}


def rule_of(beta2: float) -> bl.UpdateRule:
    return bl.adam(0.9, beta2, eps=0.0, basis="generic")


def worth(problem: bl.Problem, rates: np.ndarray) -> dict[str, np.ndarray]:
    """Percent of the excess that a sample at each update saves, at a constant batch."""
    slopes = bl.design.sensitivity(
        problem, rates, np.full(STEPS, float(BATCH)), rule=rule_of(0.999)
    )
    unit = -100.0 / slopes.excess
    return {
        "rate": rates,
        "by the later rates": unit * slopes.deterministic,
        "by the noise": unit * slopes.noise,
        "both": unit * slopes.total,
    }


def batches(problem: bl.Problem, rates: np.ndarray) -> dict[str, np.ndarray]:
    """The limit's stationary batches for two memories, and SGD's rule."""
    rule, budget = rule_of(0.999), BATCH * STEPS
    eta = effective_rates(problem, rates, np.full(STEPS, float(BATCH)), rule)
    kappa = bl.influence(preconditioned(problem, rule), eta)
    best = {
        name: limit_batches(problem, rates, budget, rule_of(beta2))
        for name, beta2 in MEMORIES.items()
    }
    root = bl.allocate(kappa, budget, method="continuous")
    return {"rate": rates, **best, "SGD's square root": root}


def main(folder: Path) -> None:
    problem = bl.Problem.power_law_nodes(2.0, 1.5, DIRECTIONS, nodes=150)
    sensitivities = {name: worth(problem, rates) for name, rates in SHAPES.items()}
    for name, curves in sensitivities.items():
        share = curves["by the later rates"].sum() / curves["both"].sum()
        print(f"{name}: {share:.0%} of what samples are worth is through the later rates")
    plots.save(plots.sample_worth(sensitivities), folder / "adam_worth.png")
    found = {name: batches(problem, rates) for name, rates in SHAPES.items()}
    plots.save(plots.best_batches(found), folder / "adam_batches.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
