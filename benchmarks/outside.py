"""The claims about what lies outside the paper's assumptions, as docs/outside.md quotes them.

OPENBLAS_NUM_THREADS=1 .venv/bin/python benchmarks/outside.py [--quick]
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass

import batchlaw as bl
from batchlaw.cli.table import text_table
from batchlaw.verify import outside
from batchlaw.verify.outside.rates import SHAPES, noise_left


@dataclass(frozen=True)
class Size:
    quick: bool
    longest: int


def row(check):
    found, rejected = check.judge(), check.rejected()
    interval = f"{found.measured:.5g} [{found.low:.5g}, {found.high:.5g}]"
    claim = check.claim.removeprefix("outside: ")
    wrong = f"{sum(rejected.values())} of {len(rejected)}"
    return claim, check.case, found.predicted, interval, found.verdict, wrong, found.detail


def decays(steps):
    """Var_noise of every decay over that of the exponential one."""
    rows = []
    for a in (1.4, 2.0, 4.0):
        problem = bl.Problem.power_law_nodes(a, 1.5, math.inf, nodes=200)
        noise = [noise_left(problem, shape(steps)) for shape in SHAPES.values()]
        rows.append((f"a = {a:g}", *(f"{value / noise[0]:.3g}" for value in noise)))
    return text_table((f"Var_noise, T = {steps:g}", *SHAPES), rows)


if __name__ == "__main__":
    quick = "--quick" in sys.argv[1:]
    size = Size(quick, 10**5 if quick else 10**6)
    tasks = outside.tasks(size)
    start = time.process_time()
    rows = [row(check) for task in tasks for check in task()]
    header = ("claim", "case", "law", "measured", "verdict", "wrong laws rejected", "detail")
    print(text_table(header, rows), decays(size.longest), sep="\n\n")
    print(f"{time.process_time() - start:.0f} s of CPU time")
