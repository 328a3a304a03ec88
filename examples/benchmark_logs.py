"""Logs of some runs of the benchmark, as a trainer would leave them, for docs/from_logs.md.

    .venv/bin/python examples/benchmark_logs.py results/logs

Writes a CSV file for each of nine runs with AdamW: three shapes of the rate at three constant
batches; runs.csv, the list of them with their batches; and batches.csv, a schedule that is not
among them. Prints what that schedule gained when it was trained.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

import batchlaw as bl

BLOCK, SEED = "small-adamw-0.95", 0
FITTED = ("constant x1/4", "constant", "constant x4")
# The schedule to predict, and the shape of the rate that it was trained with.
NEW, RATES = "late-large", "wsd-linear"
# Updates between logged rates.
EVERY = 20


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    runs = bl.datasets.batch_schedules(BLOCK)
    fitted = [r for r in runs if r.facts["schedule"] in FITTED and r.facts["seed"] == SEED]
    listed = []
    for run in fitted:
        batch = int(run.batches[0])
        name = f"{run.facts['rates']}-{batch}.csv"
        write_log(folder / name, run)
        listed.append((name, batch))
    write(folder / "runs.csv", ("path", "batch"), listed)
    print(f"{len(listed)} logs, and runs.csv, in {folder}")

    own = {run.facts["seed"]: run for run in runs if named(run, NEW)}
    constant = {run.facts["seed"]: run for run in runs if named(run, "constant")}
    batches = own[SEED].batches
    write(folder / "batches.csv", ("batch",), [(f"{batch:g}",) for batch in batches])
    gains = [own[seed].final_loss - constant[seed].final_loss for seed in own.keys() & constant]
    error = np.std(gains, ddof=1) / np.sqrt(len(gains))
    print(f"batches.csv: {NEW}, batches of {batches.min():g} to {batches.max():g}")
    print(f"trained, against constant: {np.mean(gains):+.4f} +- {error:.4f} in the final loss")


def named(run: bl.Run, schedule: str) -> bool:
    return run.facts["rates"] == RATES and run.facts["schedule"] == schedule


def write_log(path: Path, run: bl.Run) -> None:
    """The rate at every few updates, and the loss where it was measured."""
    losses = dict(zip(run.steps.tolist(), run.losses.tolist(), strict=True))
    logged = sorted({*range(EVERY, run.updates + 1, EVERY), *losses})
    rows = [(step, run.rates[step - 1], losses.get(step, "")) for step in logged if step]
    write(path, ("step", "learning_rate", "val_loss"), rows)


def write(path: Path, header: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    main(parser.parse_args().folder)
