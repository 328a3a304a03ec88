"""How often the band of batchlaw.from_data covers the truth, for docs/estimate.md.

.venv/bin/python benchmarks/estimate_coverage.py [datasets]
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import batchlaw as bl
from batchlaw.faces.cli.table import text_table
from batchlaw.from_data import influence_band

PAPER = bl.Problem.paper().eigenvalues
SPECTRA = {
    "the paper's": PAPER,
    "0.3 i^-1.2, 256 directions": 0.3 * np.arange(1.0, 257.0) ** -1.2,
    "flat, 64 directions": np.full(64, 1 / 64),
    "one half in one of 100": np.append(0.5, np.full(99, 0.5 / 99)),
}
CASES = [
    ("the paper's", 16, 64, "normal"),
    ("the paper's", 32, 64, "normal"),
    ("the paper's", 64, 64, "normal"),
    ("the paper's", 32, 512, "normal"),
    ("0.3 i^-1.2, 256 directions", 32, 64, "normal"),
    ("flat, 64 directions", 32, 64, "normal"),
    ("one half in one of 100", 32, 512, "normal"),
    ("the paper's", 64, 64, "heavy rows"),
]


def draw(rng, law, n, mu):
    """Rows with covariance diag(mu): normal, or multivariate t with 7 degrees of freedom."""
    rows = rng.standard_normal((n, mu.size)) * np.sqrt(mu)
    return rows if law == "normal" else rows * np.sqrt(5.0 / rng.chisquare(7.0, n))[:, None]


def covered(name, n, steps, law, datasets):
    """Whether each band covers each step, for every dataset: (datasets, 2, T)."""
    mu, rates = SPECTRA[name], bl.wsd(steps, 0.05)
    kappa = bl.influence(mu, rates)
    shape = np.sqrt(kappa) / np.sqrt(kappa).mean()
    hits = []
    for index in range(datasets):
        features = draw(np.random.default_rng((5, index)), law, n, mu)
        band = influence_band(features, rates, draws=39, seed=index)
        level = (band.lower <= kappa) & (kappa <= band.upper)
        hits.append([level, (band.shape_lower <= shape) & (shape <= band.shape_upper)])
    return np.array(hits)


def main(datasets):
    rows = []
    for case in CASES:
        hits = covered(*case, datasets)
        share = hits.mean(axis=2)
        error = share.std(axis=0, ddof=1) / np.sqrt(datasets)
        worst = hits.mean(axis=0).min(axis=1)
        cells = [f"{m:.3f} ± {e:.3f}" for m, e in zip(share.mean(axis=0), error, strict=True)]
        rows.append(
            (case[0], case[3], f"{case[1]}", f"{case[2]}", *cells, *(f"{w:.3f}" for w in worst))
        )
        print(" | ".join(rows[-1]), flush=True)
    header = ("spectrum", "rows", "n", "steps", "influence", "batches", "worst step", "worst step")
    print(f"\nshare of steps covered, nominal 0.9, {datasets} datasets\n")
    print(text_table(header, rows))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 80)
