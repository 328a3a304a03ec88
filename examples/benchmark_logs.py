"""Logs of ten runs of the benchmark, as a trainer would leave them, for docs/from_logs.md.

    .venv/bin/python examples/benchmark_logs.py results/logs

Writes a CSV file for each of ten runs with AdamW, three shapes of the rate at three constant
batches and one run whose batch changes; and batches.csv, a schedule that is not among them. Prints
what that schedule gained when it was trained.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

import batchlaw as bl

BLOCK, SEED = "small-adamw", 0
CONSTANT = ("constant x1/4", "constant", "constant x4")
# (rates, schedule) of the run that changes its batch, and of the one to predict.
CHANGED, NEW = ("wsd-linear", "early-large"), ("wsd", "Li-Bu-Xu")


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    runs = {
        (run.facts["rates"], run.facts["schedule"], run.facts["seed"]): run
        for run in bl.datasets.batch_schedules(BLOCK)
    }
    fitted = {
        (rates, schedule): run
        for (rates, schedule, seed), run in runs.items()
        if seed == SEED and (schedule in CONSTANT or (rates, schedule) == CHANGED)
    }
    for (rates, schedule), run in fitted.items():
        batch = schedule if (rates, schedule) == CHANGED else f"{run.batches[0]:g}"
        write_log(folder / f"run-{rates}-{batch}.csv", run)
    print(f"{len(fitted)} logs, run-*.csv, in {folder}")

    rates, schedule = NEW
    batches = runs[*NEW, SEED].batches
    write(folder / "batches.csv", ("batch",), [(f"{batch:g}",) for batch in batches])
    seeds = [seed for *named, seed in runs if (*named,) == NEW]
    gains = [
        runs[*NEW, seed].final_loss - runs[rates, "constant", seed].final_loss for seed in seeds
    ]
    error = np.std(gains, ddof=1) / np.sqrt(len(gains))
    print(
        f"batches.csv: {schedule}, batches of {batches.min():g} to {batches.max():g}; trained, it"
    )
    print(f"changed the final loss by {np.mean(gains):+.4f} +- {error:.4f} against constant")


def write_log(path: Path, run: bl.Run) -> None:
    """Rate and batch of every update, and the loss where it was measured."""
    losses = dict(zip(run.steps.tolist(), run.losses.tolist(), strict=True))
    rows = [
        (step, run.rates[step - 1], f"{run.batches[step - 1]:g}", losses.get(step, ""))
        for step in range(1, run.updates + 1)
    ]
    write(path, ("step", "learning_rate", "batch_size", "val_loss"), rows)


def write(path: Path, header: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    main(parser.parse_args().folder)
