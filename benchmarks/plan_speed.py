"""Time of a plan for 10^6 steps and 10^13 samples, including influence over 400 nodes; and of the
command without a spectrum, 20 000 steps in 5 stages, from the shell.

.venv/bin/python benchmarks/plan_speed.py
"""

from __future__ import annotations

import resource
import subprocess
import sys
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

COMMAND = ("plan", "--steps", "20000", "--gamma", "1e-3", "--budget", "160000", "--stages", "5")


def of_the_command(optimizer: str) -> tuple[float, float]:
    """Seconds, and of processors, of a plan from the shell, once it is compiled."""
    command = [sys.executable, "-m", "batchlaw", *COMMAND, "--optimizer", optimizer]
    subprocess.run(command, check=True, capture_output=True)
    start, used = time.perf_counter(), _children()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start, _children() - used


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


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
    timed = [
        (name, *(f"{seconds:.1f}" for seconds in of_the_command(name)))
        for name in ("sgd", "momentum", "adamw")
    ]
    print()
    print(text_table(("20 000 steps, no spectrum", "seconds", "of processors"), timed))
