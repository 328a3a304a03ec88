"""Cost of Adam's mean field: growth in steps, sketch size and number of schedules.

    python benchmarks/adam_cost.py

Prints milliseconds of the process, and the exponents between the two largest sizes of each row.
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
from batchlaw.risk.adam_preconditioned import preconditioned_moments, preconditioned_slopes

# Calls are repeated, and the best is taken, until they took this long.
ENOUGH_SECONDS, MOST_CALLS = 0.5, 5


def seconds(call):
    """Process time of one call, the best of a few."""
    times = []
    while len(times) < MOST_CALLS and sum(times) < ENOUGH_SECONDS:
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def row(name, sizes, calls):
    times = [seconds(call) for call in calls]
    growth = np.log(times[-1] / times[-2]) / np.log(sizes[-1] / sizes[-2])
    cells = ", ".join(f"{size}: {1e3 * t:.3g}" for size, t in zip(sizes, times, strict=True))
    print(f"| {name} | {cells} | {growth:.2f} |", flush=True)
    return times


def constant(steps, schedules=1):
    return bl.wsd(steps, 0.01), np.full((schedules, steps), 8.0)


def in_sketch(sketch, steps, schedules=1, beta1=0.9, moments=matrix_moments):
    problem = bl.Problem.power_law(2.0, 1.5, sketch, 2 * sketch, seed=1)
    rule = bl.adam(beta1)
    return lambda: moments(problem, *constant(steps, schedules), rule)


def slopes(sketch, steps):
    problem = bl.Problem.power_law(2.0, 1.5, sketch, 2 * sketch, seed=1)
    rates, batches = constant(steps)
    return lambda: preconditioned_slopes(problem, rates, batches[0], bl.adam())


def on_nodes(nodes, steps, basis="eigen"):
    problem = bl.Problem.power_law_nodes(2.0, 1.5, 1e9, nodes=nodes)
    rule = bl.adam(basis=basis)
    return lambda: diagonal_moments(problem, *constant(steps), rule, spread=True)


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    in_sketch(4, 20)()
    in_sketch(4, 20, moments=preconditioned_moments)()
    slopes(4, 20)()
    on_nodes(16, 20)()
    print("| what grows | size: ms | exponent |\n| --- | --- | ---: |")
    steps = (200, 400, 800)
    row("full, M = 32, by steps", steps, [in_sketch(32, T) for T in steps])
    sizes = (32, 64, 128, 256, 512)
    times = row("full, 10 steps, by M", sizes, [in_sketch(M, 10) for M in sizes])
    row("the same without momentum", sizes, [in_sketch(M, 10, beta1=0.0) for M in sizes])
    counts = (1, 4, 16, 64)
    calls = [in_sketch(32, 100, count) for count in counts]
    row("full, M = 32, 100 steps, by schedules", counts, calls)
    cheap = preconditioned_moments
    calls = [in_sketch(32, T, moments=cheap) for T in (1000, 10_000, 100_000)]
    row("sketch-diagonal, M = 32, by steps", (1000, 10_000, 100_000), calls)
    calls = [in_sketch(M, 200, moments=cheap) for M in sizes]
    row("sketch-diagonal, 200 steps, by M", sizes, calls)
    row("its slopes, 200 steps, by M", sizes, [slopes(M, 200) for M in sizes])
    calls = [in_sketch(128, 100, count, moments=cheap) for count in counts]
    row("sketch-diagonal, M = 128, 100 steps, by schedules", counts, calls)
    lengths = (10**3, 10**4, 10**5)
    for basis in ("eigen", "generic"):
        calls = [on_nodes(400, T, basis) for T in lengths]
        row(f"{basis}, 400 nodes, by steps", lengths, calls)
    product = np.random.default_rng(0).standard_normal((512, 512))
    share = times[-1] / 10 / seconds(lambda: product @ product)
    print(f"\nA full step at M = 512 takes {share:.2f} products of such matrices.")


if __name__ == "__main__":
    main()
