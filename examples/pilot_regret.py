"""How much a schedule loses when its spectrum comes from a few pilot samples.

Makes the table and the figure of docs/estimate.md.

    .venv/bin/python examples/pilot_regret.py docs/figures    # --pilots 3: seconds
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import batchlaw as bl
from batchlaw import plots
from batchlaw.faces.cli.table import text_table
from batchlaw.from_data import plug_in_regret
from batchlaw.from_data.regret import METHODS

SPECTRA = {
    "the paper's": bl.Problem.paper().eigenvalues,
    "0.3 i^-1.2, 256 directions": 0.3 * np.arange(1.0, 257.0) ** -1.2,
    "flat, 64 directions": np.full(64, 1 / 64),
    "one half in one of 100": np.append(0.5, np.full(99, 0.5 / 99)),
}
RUNS = {"one pass, T = 64, peak 0.05": (64, 0.05), "data reuse, L = 512, peak 0.05": (512, 0.05)}
SAMPLES = (8, 16, 32, 64, 128, 256)
TARGETS = {16: 0.98, 64: 0.995}


def main(folder: Path, pilots: int = 50) -> None:
    curves = {}
    for run, (steps, peak) in RUNS.items():
        curves[run] = {
            f"{name}|{method}": plug_in_regret(
                mu, bl.wsd(steps, peak), 8 * steps, SAMPLES, method=method, pilots=pilots
            )
            for name, mu in SPECTRA.items()
            for method in METHODS
        }
        rows = [
            (*name.split("|"), *(f"{row.mean:.4f} ± {row.error:.4f}" for row in curve))
            for name, curve in curves[run].items()
        ]
        header = ("spectrum", "eigenvalues", *(f"{n} samples" for n in SAMPLES))
        print(f"{run}: efficiency, mean and s.e. over {pilots} pilots\n")
        print(text_table(header, rows), "\n")
    plots.save(plots.regret_figure(curves, TARGETS), folder / "pilot_regret.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path())
    parser.add_argument("--pilots", type=int, default=50)
    main(**vars(parser.parse_args()))
