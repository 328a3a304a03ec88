"""The best horizon and rate for a fixed number of samples, their wall-clock cost, and common
schedules compared with the best by influence. Makes the figures of docs/plan.md.

    .venv/bin/python examples/run_length_choices.py docs/figures
"""

from __future__ import annotations

import sys
from pathlib import Path

import batchlaw as bl
from batchlaw import plots
from batchlaw.design.comparison import compare
from batchlaw.design.run_length import (
    CostModel,
    best_run_length,
    best_run_length_and_rate,
    frontier,
)
from batchlaw.faces.cli.table import text_table

SAMPLES, UPDATES = 4096, 512
# More lines cannot be told apart.
DRAWN = ("greedy", "constant", "linear ramp", "late-large", "noise scale", "Seesaw")


def main(folder: Path) -> None:
    problem = bl.Problem.paper()
    fixed = best_run_length(problem, SAMPLES, 0.5)
    both = best_run_length_and_rate(problem, SAMPLES, points=14)
    print(f"{SAMPLES} samples, peak rate 0.5: {fixed.steps} updates, risk {fixed.total:.5f}")
    print(f"and the rate free: {both.steps} updates at {both.peak:.3f}, risk {both.total:.5f}\n")

    cost = CostModel(step_seconds=1.0, sample_seconds=0.002, width=64)
    kept = frontier(problem, SAMPLES, cost, points=14)
    rows = [(f"{c.steps}", f"{c.peak:.3f}", f"{c.seconds:.0f}", f"{c.total:.5f}") for c in kept]
    print(text_table(("updates", "peak rate", "seconds", "risk"), rows), "\n")

    print(f"{UPDATES} updates at a peak rate of 0.5:\n")
    compared = compare(problem, bl.wsd(UPDATES, 0.5), SAMPLES)
    constant = compared[1].risk
    terms = ("total", "excess", "variance")
    rows = []
    for row in compared:
        cells = [row.name, f"{row.rates.size}"]
        for term in terms:
            value, other = getattr(row.risk, term), getattr(constant, term)
            cells += [f"{value:.5f}", f"{100 * (value / other - 1):+.2f} %"]
        rows.append((*cells, f"{row.risk.bias:.5f}", f"{row.effective_batch:.3f}"))
    changes = [cell for name in ("risk", "excess", "variance") for cell in (name, "to constant")]
    print(text_table(("schedule", "updates", *changes, "bias", "effective batch"), rows))
    drawn = [row for row in compared if row.name in DRAWN]
    plots.save(plots.comparison_figure(drawn), folder / "schedules.png")
    plots.save(plots.frontier_figure(kept), folder / "frontier.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
