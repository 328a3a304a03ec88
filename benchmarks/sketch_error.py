"""The average over Gaussian sketches on nodes, against drawn sketches: the table of docs/exact.md.

.venv/bin/python benchmarks/sketch_error.py [--draws 2000] [--rows]

What ``Problem.node_error`` adds up was chosen on the first grid and on two more that are not
here; the second one had no part in it.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

import batchlaw as bl
from batchlaw.faces.cli.table import text_table
from batchlaw.model.nodes import power_sum_after

NAMES = ("Approx", "initial bias", "excess, short", "excess, long")
BATCH = 8.0
GRIDS = {
    "chosen on": (
        (1, 2, 3, 5, 9, 16, 33, 64),
        ((1.2, 1.1), (1.5, 1.25), (2, 1.5), (2, 2.6), (2.3, 3.1), (3, 2.5), (1.5, 2.2)),
        (64, 4096),
    ),
    "held out": (
        (1, 2, 4, 6, 11, 20, 40),
        ((1.35, 1.3), (1.6, 2.0), (1.9, 1.7), (2.4, 2.8), (2.7, 1.6), (3.2, 3.6), (1.15, 1.5)),
        (90, 2500),
    ),
}


def sketch(a: float, b: float, M: int, rng: np.random.Generator) -> tuple:
    """Eigenvalues, target energies mu_j v_j^2 and Approx of a drawn sketch of an infinite law.

    The first coordinates are drawn. Those beyond give a sum of many small Wishart matrices,
    replaced by one with the same first two moments (Bartlett's decomposition).
    """
    dim = max(100, 6 * M)
    i = np.arange(1.0, dim + 1.0)
    first = rng.standard_normal((dim, M)) * np.sqrt(i**-a / M)[:, None]
    trace, squares, overlap = (power_sum_after(s, dim) for s in (a, 2 * a, a + b))
    root = np.tril(rng.standard_normal((M, M)), -1)
    np.fill_diagonal(root, np.sqrt(rng.chisquare(trace**2 / squares - np.arange(M))))
    rest = math.sqrt(squares / trace / M) * root.T
    left, singular, _ = np.linalg.svd(np.vstack([first, rest]), full_matrices=False)
    weight = np.append(i**-b, np.full(M, overlap / trace))
    energy = weight @ left**2
    return singular**2, energy, power_sum_after(b, 0) - float(energy.sum())


def measured(problem: bl.Problem, runs: list) -> list[float]:
    signal = (problem.multiplicity * problem.eigenvalues) @ problem.target_energy
    risks = [bl.one_pass_risk(problem, *run) for run in runs]
    return [problem.approximation, float(signal), *(float(risk.excess) for risk in risks)]


def setting(a: float, b: float, M: int, lengths: tuple, draws: int, seed: list) -> np.ndarray:
    """One row per quantity: true relative error, its standard error, stated relative error."""
    peak = 0.1 / power_sum_after(a, 0)
    runs = [(bl.wsd(steps, peak), np.full(steps, BATCH)) for steps in lengths]
    rng = np.random.default_rng(seed)
    drawn = np.empty((draws, len(NAMES)))
    for row in drawn:
        mu, energy, approximation = sketch(a, b, M, rng)
        problem = bl.Problem.from_spectrum(
            mu, energy / mu, 1.0 + approximation, approximation=approximation
        )
        row[:] = measured(problem, runs)
    mean, error = drawn.mean(axis=0), drawn.std(axis=0, ddof=1) / math.sqrt(draws)
    nodes = bl.Problem.power_law_nodes(a, b, M, kind="sketch")
    ours = np.array(measured(nodes, runs))
    lost = nodes.approximation_error
    stated = [lost / ours[0], lost / ours[1]]
    stated += [float(bl.one_pass_risk(nodes, *run).uncertainty) for run in runs]
    return np.column_stack([ours / mean - 1.0, error / mean, stated])


def summary(rows: np.ndarray) -> tuple[str, ...]:
    """Settings inside, the largest true error, the median of stated over true where it is known."""
    true, error, stated = np.abs(rows).T
    inside = (true <= stated + 3.0 * error).mean()
    known = true > 3.0 * error
    ratio = f"{np.median(stated[known] / true[known]):.1f}" if known.any() else "-"
    return (
        f"{100 * inside:.0f} %",
        f"{100 * true.max():.1f} %",
        f"{100 * np.median(true):.2f} %",
        f"{100 * np.median(stated):.2f} %",
        f"{known.sum()}",
        ratio,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=2000, help="sketches per setting at M = 1")
    parser.add_argument("--rows", action="store_true", help="print every setting")
    options = parser.parse_args()
    table = []
    for number, (name, (sizes, laws, lengths)) in enumerate(GRIDS.items()):
        results = {}
        for M in sizes:
            draws = max(options.draws // (1 + M // 8), 20)
            for k, (a, b) in enumerate(laws):
                found = setting(a, b, M, lengths, draws, [number, M, k])
                results[M, a, b] = found
                if options.rows:
                    cells = "  ".join(f"{e:+.4f} ± {s:.4f} of {u:.4f}" for e, s, u in found)
                    print(f"{M:3d} {a:4} {b:4}  {cells}", flush=True)
        every = np.array(list(results.values()))
        for quantity, label in enumerate(NAMES):
            table.append((name, label, f"{len(every)}", *summary(every[:, quantity])))
        table.append((name, "all", f"{every[..., 0].size}", *summary(every.reshape(-1, 3))))
    header = ("grid", "quantity", "settings", "inside stated", "largest error", "median error")
    header += ("median stated", "resolved", "stated/true")
    print(text_table(header, table))


if __name__ == "__main__":
    main()
