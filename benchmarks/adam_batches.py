"""The tables of docs/adam.md: which batch schedules gain and lose under Adam.

python benchmarks/adam_batches.py            # a minute of one core
python benchmarks/adam_batches.py --quick    # one peak rate
python benchmarks/adam_batches.py --draws    # one peak rate, four other drawn problems, no tables

Expected excess by the mean field, in percent of that of a constant batch with the same steps and
samples: T = 400, mean batch 8, a = 2, b = 1.5, sigma = 1, beta1 = 0.9. "sketch" is one drawn
problem (M = 32, dim 2000, seed 1) in its own coordinates. "nodes" is the same power law with
M = 10^6 in a generic basis, at the rates that have the same size relative to sqrt(v). Nothing in
these tables was fitted.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

import batchlaw as bl
from batchlaw.batches.rules import KeepsRates, rules_of
from batchlaw.theory.adam_limit import effective_rates, limit_batches, preconditioned

STEPS, MEAN, SKETCH, NODES = 400, 8, 32, 10**6
BETA1, BETA2, PEAKS = 0.9, (0.95, 0.999), (0.005, 0.02, 0.05)
SHAPES = {
    "linear, last fifth": lambda peak: bl.wsd(
        STEPS, peak, warmup=0.05, stable=0.75, decay="linear"
    ),
    "exponential, last half": lambda peak: bl.wsd(STEPS, peak),
    "cosine": lambda peak: bl.cosine(STEPS, peak, warmup=0.05),
}
SQUARE_ROOT, SQUARED_RATE, LIMIT = "sqrt(influence)", "rate squared", "noise limit"
NAMES = ("linear ramp", "late-large", "early-large", "like the rate")
COLUMNS = (*NAMES, SQUARED_RATE, SQUARE_ROOT, LIMIT)


def drawn(seed: int) -> bl.Problem:
    return bl.Problem.power_law(2.0, 1.5, SKETCH, dim=2000, seed=seed)


def settings() -> dict[str, tuple[bl.Problem, float, str]]:
    """By name: the problem, the factor on Adam's rate, and the basis."""
    nodes = bl.Problem.power_law_nodes(2.0, 1.5, NODES, nodes=150)
    return {
        "sketch": (drawn(1), 1.0, "sketch"),
        "nodes": (nodes, math.sqrt(SKETCH / NODES), "generic"),
    }


def schedules(problem: bl.Problem, rates: np.ndarray, rule: bl.UpdateRule) -> dict:
    """All batch schedules, none below one sample; SGD's rule by the rates that Adam really has."""
    budget = MEAN * STEPS
    constant = np.full(STEPS, float(MEAN))
    kappa = bl.influence(
        preconditioned(problem, rule), effective_rates(problem, rates, constant, rule)
    )
    shapes = {n: rules_of(KeepsRates)[n].shape(rates) ** 2 for n in ("constant", *NAMES)}
    shapes |= {SQUARED_RATE: rates**4 / rates.max() ** 4, SQUARE_ROOT: kappa}
    batches = {
        name: bl.allocate(shape, budget, method="continuous") for name, shape in shapes.items()
    }
    return batches | {LIMIT: limit_batches(problem, rates, budget, rule)}


def changes(
    problem: bl.Problem, rates: np.ndarray, rule: bl.UpdateRule
) -> tuple[dict[str, float], float]:
    """Percent against a constant batch by schedule, and what SGD's theory says of its own rule."""
    batches = schedules(problem, rates, rule)
    risk = bl.one_pass_risk(problem, rates, batches, rule=rule)
    found = {
        name: 100.0 * (float(risk.ratio("excess", name, "constant")[0]) - 1.0) for name in COLUMNS
    }
    eta = effective_rates(problem, rates, batches["constant"], rule)
    sgd = bl.one_pass_risk(preconditioned(problem, rule), eta, batches)
    return found, 100.0 * (float(sgd.ratio("excess", SQUARE_ROOT, "constant")[0]) - 1.0)


def rows_of(problem: bl.Problem, factor: float, basis: str, peaks: tuple[float, ...]) -> list:
    """(decay, peak, beta2, changes, SGD's promise) of every setting."""
    return [
        (decay, peak, beta2, *changes(problem, shape(factor * peak), rule))
        for decay, shape in SHAPES.items()
        for peak in peaks
        for beta2 in BETA2
        for rule in [bl.adam(BETA1, beta2, eps=0.0, basis=basis)]
    ]


def print_table(rows: list) -> None:
    print(f"| decay | peak | beta2 | {' | '.join(COLUMNS)} | SGD's promise |")
    print("| --- " + "| ---: " * (len(COLUMNS) + 3) + "|")
    for decay, peak, beta2, found, promise in rows:
        cells = " | ".join(f"{found[name]:+.1f}" for name in COLUMNS)
        print(f"| {decay} | {peak:g} | {beta2:g} | {cells} | {promise:+.1f} |")


def print_counts(rows: list) -> None:
    found = [row[3] for row in rows]
    lost, limit_lost = (sum(f[name] > 0.0 for f in found) for name in (SQUARE_ROOT, LIMIT))
    best = sum(min(f, key=f.__getitem__) == LIMIT for f in found)
    print(f"sqrt(influence) loses in {lost} of {len(rows)}")
    print(f"noise limit is the best of its row in {best}, and loses in {limit_lost}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one peak rate")
    parser.add_argument("--draws", action="store_true", help="one peak rate, other drawn problems")
    options = parser.parse_args()
    if options.draws:
        print_counts(
            [row for seed in range(2, 6) for row in rows_of(drawn(seed), 1.0, "sketch", PEAKS[1:2])]
        )
        return
    for place, (problem, factor, basis) in settings().items():
        rows = rows_of(problem, factor, basis, PEAKS[1:2] if options.quick else PEAKS)
        print(f"\n{place}: excess over a constant batch's, percent\n")
        print_table(rows)
        print()
        print_counts(rows)


if __name__ == "__main__":
    main()
