"""Time of a plan for 10^6 steps and 10^13 samples, including influence over 400 nodes.

.venv/bin/python benchmarks/plan_speed.py
"""

from __future__ import annotations

import time

import batchlaw as bl
from batchlaw.batches.stages import best_stages
from batchlaw.faces.cli.table import text_table

CASES = (
    ("8 stages", {"stages": 8}),
    ("8 stages, multiples of 1024", {"stages": 8, "multiple_of": 1024}),
    ("8 stages, bounds that bind", {"stages": 8, "min_batch": 4_000_000, "max_batch": 20_000_000}),
    ("16 stages, multiples of 1024", {"stages": 16, "multiple_of": 1024}),
)

if __name__ == "__main__":
    problem = bl.Problem.power_law_nodes(2.0, 1.5, 10**9, nodes=400)
    rates = bl.wsd(10**6, 0.3)
    bl.allocate(bl.influence(problem, rates[:5000]), 10**9, stages=8)  # compiles
    rows = []
    for name, options in CASES:
        start = time.perf_counter()
        kappa = bl.influence(problem, rates)
        middle = time.perf_counter()
        staged = best_stages(kappa, 10**13, bl.Limits(**options))
        end = time.perf_counter()
        gap = staged.objective / staged.lower_bound - 1
        rows.append(
            (
                name,
                f"{middle - start:.2f}",
                f"{end - middle:.2f}",
                f"{staged.gap:.4f}",
                f"{gap:.1e}",
            )
        )
    header = (
        "10^6 steps, 10^13 samples",
        "influence, s",
        "stages, s",
        "gap to square root",
        "gap to bound",
    )
    print(text_table(header, rows))
