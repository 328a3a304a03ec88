"""Speed compared with a plain NumPy port of appendix L, both measured in the same run.

    make bench

The port runs a few repetitions and is scaled to 300, because its cost is proportional to them;
batchlaw runs all 300. Compiled code is cached before anything is timed.
"""

from __future__ import annotations

import math
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numba
import numpy as np

import batchlaw as bl
from batchlaw._base.kernels.common import aligned_zeros
from batchlaw._base.machine import cores
from batchlaw.evidence.paper.experiment import GRAD_BUDGETS, ONE_PASS_N
from batchlaw.faces.cli.table import text_table
from numpy_port import Port, gradient_descent, multi_pass_sweep, one_pass_sweep, timed

REPETITIONS, PORT_REPETITIONS, ROUNDS = 300, 10, 5


@numba.njit(nogil=True, fastmath={"contract", "reassoc"})
def _multiply_adds(x, rounds):
    """Independent multiply-adds on data that stays in registers and the L1 cache."""
    for _ in range(rounds):
        for j in range(x.size):
            y = x[j]
            for _ in range(16):
                y = y * 0.999999 + 1e-9
            x[j] = y
    return x[0]


def peak_multiply_adds() -> float:
    """Measured multiply-adds per second on one core."""
    best = 0.0
    for size in (64, 128, 256):
        x = aligned_zeros(size)
        _multiply_adds(x, 1)
        rounds = 10**7 // size
        seconds = min(timed(_multiply_adds, x, rounds)[1] for _ in range(ROUNDS))
        best = max(best, 16 * size * rounds / seconds)
    return best


def process_seconds(*command: str) -> float:
    """Best of three runs after one to fill caches; "{run}" in the command is the run's number."""
    times = []
    for run in range(4):
        words = [word.format(run=run) for word in command]
        start = time.perf_counter()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return min(times[1:])


def redrawing_seconds(port: Port, rates: np.ndarray, rng: np.random.Generator) -> float:
    """Time the port spends on datasets, and GD on them, beyond one per repetition."""

    def draw():
        for n in ONE_PASS_N[:-1]:
            port.dataset(n, rng)
        for _ in GRAD_BUDGETS[:-1]:
            gradient_descent(*port.dataset(512, rng), rates)

    return REPETITIONS * min(timed(draw)[1] for _ in range(ROUNDS))


def main() -> None:
    problem = bl.Problem.paper()
    mu = problem.eigenvalues
    rates = {steps: bl.wsd(steps, 0.05) for steps in (64, 512)}
    kappa = {steps: bl.influence(mu, rates[steps]) for steps in rates}
    one = {n: bl.schedule_families(kappa[64], n) for n in ONE_PASS_N}
    multi = {n: bl.schedule_families(kappa[512], n, max_batch=512) for n in GRAD_BUDGETS}
    stacked = [
        np.array([b for f in families.values() for b in f.values()]) for families in (one, multi)
    ]

    def ours_one():
        return bl.simulate_one_pass(
            problem, rates[64], stacked[0], repetitions=REPETITIONS, seed=123
        )

    def ours_multi():
        return bl.simulate_multi_pass(
            problem, rates[512], stacked[1], samples=512, repetitions=REPETITIONS, seed=123
        )

    # The port and ours take turns, so that both see the same machine.
    signal = float(mu @ problem.target_energy) + problem.approximation
    port = Port(np.diag(mu), mu * problem.optimum, signal, math.sqrt(problem.irreducible))
    rng = np.random.default_rng(0)
    ours_one(), ours_multi()
    best = dict.fromkeys(("port one", "port multi", "one", "multi"), math.inf)
    for _ in range(ROUNDS):
        _, a = timed(one_pass_sweep, port, rates[64], one, PORT_REPETITIONS // ROUNDS, rng)
        _, b = timed(
            multi_pass_sweep, port, rates[512], multi, 512, PORT_REPETITIONS // ROUNDS, rng
        )
        scale = REPETITIONS / (PORT_REPETITIONS // ROUNDS)
        new = {"port one": a * scale, "port multi": b * scale}
        new |= {"one": timed(ours_one)[1], "multi": timed(ours_multi)[1]}
        best = {name: min(best[name], seconds) for name, seconds in new.items()}

    with tempfile.TemporaryDirectory() as folder:
        batchlaw = str(Path(sys.executable).parent / "batchlaw")
        whole = process_seconds(batchlaw, "reproduce", "--output-dir", f"{folder}/{{run}}")
        version = process_seconds(batchlaw, "--version")
    port_total, ours_total = best["port one"] + best["port multi"], best["one"] + best["multi"]
    rows = [
        (name, f"{p:.1f}", f"{o:.2f}", f"{p / o:.0f}")
        for name, p, o in (
            ("one-pass sweep, 56 schedules", best["port one"], best["one"]),
            ("multi-pass sweep, 44 schedules", best["port multi"], best["multi"]),
            ("both sweeps", port_total, ours_total),
            ("batchlaw reproduce, whole process", port_total, whole),
        )
    ]
    print(
        f"{REPETITIONS} repetitions, {platform.machine()}, best of {ROUNDS}; port scaled from "
        f"{PORT_REPETITIONS // ROUNDS} repetitions a round\n"
    )
    print(text_table(("", "port, s", "batchlaw, s", "times faster"), rows))

    redrawn = redrawing_seconds(port, rates[512], rng)
    print(
        f"\nappendix L draws a dataset for every budget, batchlaw one for all budgets: that is "
        f"{redrawn:.0f} s of the port's.\nWithout them both sweeps are "
        f"{(port_total - redrawn) / ours_total:.0f} times faster."
    )
    threads = cores()
    peak = peak_multiply_adds()
    print(f"\none core's measured multiply-add peak: {peak / 1e9:.1f} G/s; {threads} threads\n")
    cost = []
    for name, key, batches in (
        ("one-pass", "one", stacked[0]),
        ("multi-pass", "multi", stacked[1]),
    ):
        samples = REPETITIONS * int(batches.sum())
        core_seconds = threads * best[key]
        # Two multiply-adds per entry: the residual and the update.
        share = 2 * mu.size * samples / core_seconds / peak
        cost.append(
            (
                name,
                f"{samples / 1e6:.1f}",
                f"{core_seconds / samples * 1e9:.0f}",
                f"{100 * share:.0f} %",
            )
        )
    print(text_table(("sweep", "million samples", "ns a sample and core", "share of peak"), cost))
    print("(data drawing, full-batch GD and statistics are in the time, not in the multiply-adds)")
    print(f"\nbatchlaw --version: {version:.2f} s")


if __name__ == "__main__":
    main()
