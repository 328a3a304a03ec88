"""Cost of Adam's mean field: growth in steps, sketch size and number of schedules.

    python benchmarks/adam_cost.py

Prints milliseconds, and the exponents between the two largest sizes of each row.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import batchlaw as bl
from batchlaw.risk.adam_diagonal import diagonal_moments
from batchlaw.risk.adam_matrix import matrix_moments


def seconds(call):
    """Process time of one call, the best of three."""
    best = np.inf
    for _ in range(3):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def row(name, sizes, calls):
    times = [seconds(call) for call in calls]
    growth = np.log(times[-1] / times[-2]) / np.log(sizes[-1] / sizes[-2])
    cells = ", ".join(f"{size}: {1e3 * t:.3g}" for size, t in zip(sizes, times, strict=True))
    print(f"{name:46s} {cells}; exponent {growth:.2f}", flush=True)
    return times


def constant(steps, schedules=1):
    return bl.wsd(steps, 0.01), np.full((schedules, steps), 8.0)


def in_sketch(sketch, steps, schedules=1, beta1=0.9):
    problem = bl.Problem.power_law(2.0, 1.5, sketch, 2 * sketch, seed=1)
    rule = bl.adam(beta1)
    return lambda: matrix_moments(problem, *constant(steps, schedules), rule)


def on_nodes(nodes, steps, basis="eigen"):
    problem = bl.Problem.power_law_nodes(2.0, 1.5, 1e9, nodes=nodes)
    rule = bl.adam(basis=basis)
    return lambda: diagonal_moments(problem, *constant(steps), rule, spread=True)


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    in_sketch(4, 20)()
    on_nodes(16, 20)()
    steps = (200, 400, 800)
    row("sketch, M = 32, ms by steps", steps, [in_sketch(32, T) for T in steps])
    sizes = (32, 64, 128, 256, 512)
    times = row("sketch, 20 steps, ms by M", sizes, [in_sketch(M, 20) for M in sizes])
    row("the same without momentum", sizes, [in_sketch(M, 20, beta1=0.0) for M in sizes])
    product = np.random.default_rng(0).standard_normal((512, 512))
    share = times[-1] / 20 / seconds(lambda: product @ product)
    print(f"{'one step at M = 512, in products of matrices':46s} {share:.2f}")
    counts = (1, 4, 16, 64)
    calls = [in_sketch(32, 100, count) for count in counts]
    row("sketch, M = 32, 100 steps, ms by schedules", counts, calls)
    lengths = (10**3, 10**4, 10**5)
    for basis in ("eigen", "generic"):
        calls = [on_nodes(400, T, basis) for T in lengths]
        row(f"{basis}, 400 nodes, ms by steps", lengths, calls)


if __name__ == "__main__":
    main()
