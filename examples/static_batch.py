"""The one-pass law for a constant batch size, compared with the exact risk: best horizons,
saturation, and the gradient noise scale. Makes the figure and the numbers of docs/laws.md.

    .venv/bin/python examples/static_batch.py docs/figures    # a minute; --quick: seconds
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

import batchlaw as bl
from batchlaw import plots
from batchlaw.design.constant_batch import (
    best_batch,
    by_law,
    exact,
    horizon_exponent,
    largest_harmless_batch,
    reducible_curve,
    saturation,
)
from batchlaw.faces.cli.table import text_table

SKETCH, PEAK, SHARE = 10**6, 0.05, 0.1
EXPONENTS = ((2.0, 1.5), (1.5, 1.2), (1.5, 2.0), (1.5, 2.2), (2.0, 2.5))
SAMPLES = (1000, 10_000, 100_000, 1_000_000)
UPDATES = (100, 1000, 10_000, 100_000)
SHOWN = (1.5, 2.2)
# A batch past which the variance is proportional to 1/B.
LARGE = 10**6


def nodes(a: float, b: float) -> bl.Problem:
    return bl.Problem.power_law_nodes(a, b, SKETCH, kind="sketch")


def best_rows(samples: Sequence[int]) -> list[list[str]]:
    rows = []
    for a, b in EXPONENTS:
        for name, model in (
            ("exact", exact(nodes(a, b), PEAK)),
            ("law", by_law(a, b, SKETCH, PEAK)),
        ):
            best = [best_batch(model, N) for N in samples]
            wide = largest_harmless_batch(model, samples[-1], share=SHARE, best=best[-1])
            slope = math.log10(best[-1].steps / best[-2].steps)
            row = [f"{a:g}, {b:g} {name}", *(f"{choice.steps}" for choice in best)]
            rows.append(
                [*row, f"{slope:.3f}", f"{horizon_exponent(a, b):.3f}", f"{wide.batch:.3g}"]
            )
    return rows


def constant_rows(updates: Sequence[int]) -> list[list[str]]:
    """The bias does not depend on the batch; the variance is of order 1/B, and more at small B."""
    rows = []
    for a, b in EXPONENTS:
        problem = nodes(a, b)
        for part, batch, name in (
            ("bias", LARGE, "bias"),
            ("variance", LARGE, "variance, large B"),
            ("variance", 1, "variance, B = 1"),
        ):
            constants = []
            for T in updates:
                law = bl.one_pass_law(
                    a, b, SKETCH, steps=T, peak=PEAK, batches=batch, problem=problem
                )
                risk = bl.one_pass_risk(problem, bl.wsd(T, PEAK), batch)
                constants.append(law.constants(risk)[part])
            rows.append([f"{a:g}, {b:g} {name}", *(f"{value:.3f}" for value in constants)])
    return rows


def saturation_rows(updates: Sequence[int]) -> list[list[str]]:
    """The last column is c in: noise scale = share B tr(Sigma) A tau / (c directions)."""
    rows = []
    for a, b in EXPONENTS:
        problem, law = nodes(a, b), by_law(a, b, SKETCH, PEAK)
        for T in updates:
            saturated = saturation(problem, law, T, PEAK, share=SHARE)
            terms = bl.one_pass_law(a, b, SKETCH, steps=T, peak=PEAK, batches=1, problem=problem)
            # At large batches the variance is v/B; extrapolated to B = 1, also below a batch of 1.
            large = exact(problem, PEAK)(T, LARGE)
            single = large.variance * LARGE / (large.approximation + large.bias)
            kernel = terms.appendix_terms["variance"]
            c = single * problem.trace * terms.horizons["mass"] / (kernel * saturated.noise.final)
            rows.append(
                [
                    f"{a:g}, {b:g}, T = {T}",
                    f"{saturated.batch:.3g}",
                    f"{saturated.batch_by_law:.3g}",
                    f"{saturated.noise.final:.3g}",
                    f"{saturated.noise.mean:.3g}",
                    f"{saturated.noise.final / saturated.batch:.3g}",
                    f"{c:.3f}",
                ]
            )
    return rows


def main(folder: Path, quick: bool = False) -> None:
    samples, updates = (SAMPLES[:2], UPDATES[:2]) if quick else (SAMPLES, UPDATES)
    print(f"Best horizon T for N samples, M = {SKETCH}, gamma = {PEAK}:\n")
    sizes = [f"N = {N:g}" for N in samples]
    print(
        text_table(["a, b", *sizes, "last slope", "min(1, a/b)", "harmless B"], best_rows(samples))
    )
    print("\nExact part over the law's term:\n")
    print(text_table(["a, b, part", *(f"T = {T:g}" for T in updates)], constant_rows(updates)))
    print(f"\nVariance = {SHARE:g} of approximation + bias, and the gradient noise scale:\n")
    header = ["a, b, T", "batch", "by law", "noise, last", "noise, mean", "last/batch", "c"]
    print(text_table(header, saturation_rows(updates)))
    a, b = SHOWN
    problem, law = nodes(a, b), by_law(a, b, SKETCH, PEAK)
    curves = [reducible_curve(exact(problem, PEAK), N) for N in samples[:3]]
    rows = [saturation(problem, law, T, PEAK, share=SHARE) for T in (30, *updates)]
    plots.save(plots.static_batch_figure(curves, rows), folder / "static_batch.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path())
    parser.add_argument("--quick", action="store_true")
    main(**vars(parser.parse_args()))
