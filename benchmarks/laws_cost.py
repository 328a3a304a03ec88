"""The cost of measuring the exponents of theorem 1, exactly and by Monte Carlo.

python benchmarks/laws_cost.py

Both are measured in this run. Monte Carlo runs at T = 10^4 with 1000 directions and is scaled to
the horizons of ``batchlaw verify``, because its time is proportional to T. Two accuracies of a
slope over the last decade are compared: a standard error of 0.01, just enough to tell a law from
one that is off by 0.05; and two standard errors equal to the interval from exact risks.
"""

from __future__ import annotations

import math
import time

import numpy as np

import batchlaw as bl
from batchlaw.evidence.claims.check_settings import (
    DECADE,
    FULL,
    PAIRS,
    parts,
    peak_rate,
    step_grid,
    wide_problem,
)
from batchlaw.from_data.slopes import fit_slope

STEPS, DIRECTIONS, REPETITIONS = 10**4, 1000, 200
SLOPE_ERROR = 0.01


def exact(a: float, b: float) -> tuple[float, float]:
    """Seconds for all horizons of one pair of exponents, and half the slope's interval."""
    problem = wide_problem(a, b)
    steps = step_grid(FULL.longest)
    rates = [bl.wsd(int(t), peak_rate(problem)) for t in steps]
    start = time.perf_counter()
    risks = [bl.one_pass_risk(problem, gamma, np.ones(gamma.size)) for gamma in rates]
    seconds = time.perf_counter() - start
    slope = fit_slope(steps / np.log(steps), parts(risks, "variance"), width=DECADE)
    return seconds, slope.slack


def simulated(a: float, b: float) -> tuple[float, float]:
    """Seconds per repetition on all cores, and the relative standard deviation of its Var."""
    j = np.arange(1.0, DIRECTIONS + 1.0)
    problem = bl.Problem.from_spectrum(j**-a, j ** (a - b), 1.0)
    rates, ones = bl.wsd(STEPS, peak_rate(problem)), np.ones(STEPS, dtype=int)
    bl.simulate_one_pass(problem, rates[:10], ones[:10], repetitions=4, seed=0)
    start = time.perf_counter()
    risk = bl.simulate_one_pass(problem, rates, ones, repetitions=REPETITIONS, seed=1)
    seconds = (time.perf_counter() - start) / REPETITIONS
    error = float(np.asarray(risk.standard_error("variance")))
    return seconds, error / float(np.asarray(risk.variance)) * math.sqrt(REPETITIONS)


def main() -> None:
    a, b = 2.0, 2.0
    bl.one_pass_risk(wide_problem(a, b), bl.wsd(100, 0.01), np.ones(100))
    ours, slack = exact(a, b)
    seconds, deviation = simulated(a, b)
    grid = step_grid(FULL.longest)
    window = np.log(grid[grid >= FULL.longest / 10])
    spread = math.sqrt(float(((window - window.mean()) ** 2).sum()))
    print(f"exact: {ours:.2f} s for {grid.size} horizons up to {FULL.longest:g} steps")
    print(
        f"Monte Carlo: {1e3 * seconds:.0f} ms a repetition of {STEPS} steps on all cores, "
        f"relative deviation {deviation:.2f}"
    )
    for error in (SLOPE_ERROR, 0.5 * slack):
        # For independent points, a slope's error is a point's relative error over the spread.
        repetitions = (deviation / (error * spread)) ** 2
        theirs = repetitions * seconds * float(grid.sum()) / STEPS
        print(
            f"standard error {error:.2g} of a slope: {repetitions:.0f} repetitions a horizon, "
            f"ratio {theirs / ours:.2g}; {len(PAIRS)} pairs take {len(PAIRS) * ours:.0f} s "
            f"against {len(PAIRS) * theirs / 86400:.2g} days"
        )


if __name__ == "__main__":
    main()
