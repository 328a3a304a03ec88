"""Var_noise of every decay relative to the exponential one: a table of docs/outside.md.

python benchmarks/decay_levels.py
"""

from __future__ import annotations

import math

import batchlaw as bl
from batchlaw.evidence.claims.outside.rates import SHAPES, noise_left
from batchlaw.faces.cli.table import text_table

STEPS = 10**6


def main() -> None:
    rows = []
    for a in (1.4, 2.0, 4.0):
        problem = bl.Problem.power_law_nodes(a, 1.5, math.inf, nodes=200)
        noise = [noise_left(problem, shape(STEPS)) for shape in SHAPES.values()]
        rows.append((f"a = {a:g}", *(f"{value / noise[0]:.3g}" for value in noise)))
    print(text_table((f"Var_noise, T = {STEPS:g}", *(shape.name for shape in SHAPES)), rows))


if __name__ == "__main__":
    main()
