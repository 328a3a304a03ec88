"""The pictures of docs/study.md: the benchmark of batch schedules.

.venv/bin/python examples/benchmark_figures.py docs/figures
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from batch_schedules import CONSTANT, Setting, settings
from batchlaw import plots
from batchlaw.plots.training import Band

# Blocks that are compared, and their pictures.
BLOCKS = {
    "small-adamw": "benchmark_small_adamw.png",
    "small-adamw-0.95": "benchmark_small_adamw_095.png",
}
DECAYS = {"wsd-linear": "linear, last fifth", "wsd": "exponential, last half", "cosine": "cosine"}
SHOWN = ("early-large", "late-large", "Li-Bu-Xu", "Seesaw")
# The first differences are large and tell nothing: shown from this share of the samples.
SHOWN_FROM = 0.05


def differences(found: list[Setting], block: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Of every rival, by decay."""
    return {
        DECAYS[one.rates]: {
            name: (one.difference(name).mean, one.difference(name).half)
            for name in sorted(one.compared, key=str.lower)
            if name != CONSTANT
        }
        for one in found
        if one.block == block
    }


def gaps(found: list[Setting], block: str) -> dict[str, dict[str, Band]]:
    """Loss less the constant batch's along the run, over the samples spent, with intervals."""
    return {
        DECAYS[one.rates]: {name: _gap(one, name) for name in SHOWN if name in one.runs}
        for one in found
        if one.block == block
    }


def _gap(one: Setting, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = []
    for seed, run in one.runs[name].items():
        constant = one.runs[CONSTANT][seed]
        spent = np.cumsum(run.batches)[run.steps - 1]
        there = np.cumsum(constant.batches)[constant.steps - 1]
        rows.append(run.losses - np.interp(spent, there, constant.losses))
    values = np.array(rows)
    half = stats.t.ppf(0.975, len(rows) - 1) * values.std(axis=0, ddof=1) / np.sqrt(len(rows))
    shown = spent > SHOWN_FROM * spent[-1]
    return spent[shown], values.mean(axis=0)[shown], half[shown]


def scales(found: list[Setting], block: str) -> dict[str, dict[str, Band]]:
    """Noise scale along the run of constant batches of three sizes, by decay."""
    sizes = {"constant x1/4": "batch 2", CONSTANT: "batch 8", "constant x4": "batch 32"}
    return {
        DECAYS[one.rates]: {label: _scale(one, name) for name, label in sizes.items()}
        for one in found
        if one.block == block
    }


def _scale(one: Setting, name: str) -> tuple[np.ndarray, np.ndarray, None]:
    runs = list(one.runs[name].values())
    noise, gradient = (
        np.mean([run.columns[column] for run in runs], axis=0) for column in ("noise", "gradient")
    )
    # Where the mean gradient is lost in the noise there is no scale to show.
    return runs[0].steps, np.where(gradient > 0.0, noise / np.abs(gradient), np.nan), None


def main(folder: Path) -> None:
    found = settings()
    for block, name in BLOCKS.items():
        plots.save(plots.schedule_differences(differences(found, block)), folder / name)
    first = next(iter(BLOCKS))
    curves = plots.along_runs(gaps(found, first), "loss less constant's", axis="samples")
    plots.save(curves, folder / "benchmark_curves.png")
    noise = plots.along_runs(scales(found, first), "noise scale, samples", logarithmic=True)
    plots.save(noise, folder / "benchmark_noise.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
