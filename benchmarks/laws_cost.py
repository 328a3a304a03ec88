"""What the exponents of theorem 1 cost with exact risks, and what Monte Carlo would cost.

python benchmarks/laws_cost.py

Both are measured in this run, at T = 10^4 and 1000 directions for Monte Carlo, whose time is
proportional to T: it is scaled to the horizons of ``batchlaw verify``. Equal accuracy means a
standard error of 0.01 for a slope over one decade, half of the smallest tolerance; the exact
risks are good to nine digits.
"""

from __future__ import annotations

import math
import time

import numpy as np

import batchlaw as bl
from batchlaw.verify.setting import FULL, PAIRS, peak_rate, step_grid, wide_problem

STEPS, DIRECTIONS, REPETITIONS = 10**4, 1000, 200
SLOPE_ERROR = 0.01


def exact_seconds(a: float, b: float) -> float:
    """Every horizon of one pair of exponents."""
    problem = wide_problem(a, b)
    rates = [bl.wsd(int(t), peak_rate(problem)) for t in step_grid(FULL.longest)]
    start = time.perf_counter()
    for gamma in rates:
        bl.one_pass_risk(problem, gamma, np.ones(gamma.size))
    return time.perf_counter() - start


def simulated(a: float, b: float) -> tuple[float, float]:
    """Seconds of one repetition on all cores, and its relative standard deviation of Var."""
    j = np.arange(1.0, DIRECTIONS + 1.0)
    problem = bl.Problem.from_spectrum(j**-a, j ** (a - b), 1.0)
    rates, ones = bl.wsd(STEPS, peak_rate(problem)), np.ones(STEPS, dtype=int)
    bl.simulate_one_pass(problem, rates[:10], ones[:10], repetitions=2, seed=0)
    start = time.perf_counter()
    risk = bl.simulate_one_pass(problem, rates, ones, repetitions=REPETITIONS, seed=1)
    seconds = (time.perf_counter() - start) / REPETITIONS
    error = float(np.asarray(risk.standard_error("variance")))
    return seconds, error / float(np.asarray(risk.variance)) * math.sqrt(REPETITIONS)


def main() -> None:
    a, b = 2.0, 2.0
    bl.one_pass_risk(wide_problem(a, b), bl.wsd(100, 0.01), np.ones(100))
    exact = exact_seconds(a, b)
    seconds, deviation = simulated(a, b)
    grid = step_grid(FULL.longest)
    window = np.log(grid[grid >= FULL.longest / 10])
    # Error of a slope from independent points with this relative error each.
    point = SLOPE_ERROR * math.sqrt(float(((window - window.mean()) ** 2).sum()))
    repetitions = (deviation / point) ** 2
    carlo = repetitions * seconds * float(grid.sum()) / STEPS
    print(f"exact: {exact:.2f} s for {grid.size} horizons up to {FULL.longest:g} steps")
    print(
        f"Monte Carlo: {1e3 * seconds:.0f} ms a repetition of {STEPS} steps, relative deviation "
        f"{deviation:.2f}; {repetitions:.0f} repetitions a horizon for a slope within "
        f"{SLOPE_ERROR:g}: {carlo / 3600:.1f} hours"
    )
    print(
        f"ratio {carlo / exact:.0f}; {len(PAIRS)} pairs: {len(PAIRS) * exact:.0f} s "
        f"against {len(PAIRS) * carlo / 86400:.1f} days"
    )


if __name__ == "__main__":
    main()
