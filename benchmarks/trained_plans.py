"""The default plan for AdamW and rules that people use, trained on a small transformer.

    python benchmarks/trained_plans.py                        # the tables, from the stored losses
    python benchmarks/trained_plans.py --study results/study  # the losses again, from a study

The runs are cells of the study: ``batchlaw study --task transformer --optimizer adamw`` with
``--schedule`` for each schedule below, about 50 minutes on two idle cores. Every difference is to
the constant batch at the same peak rate, paired by seed, with a 95 % interval of Student's t.

The prediction was fixed before training: the median over the range of problems that the planner
uses, which is what ``batchlaw plan`` prints. ``SGD's influence`` is what the earlier plan for AdamW
went by: the noise that a schedule leaves, by the worst-case influence of plain SGD.
"""

from __future__ import annotations

import argparse
import csv
import math
from pathlib import Path

import numpy as np

import batchlaw as bl
from batchlaw.design.robust_plan import score
from batchlaw.evidence.study.schedules import CONSTANT, EARLY, OPTIMIZERS, PLAN, RATES, batches_of
from batchlaw.evidence.study.statistics import paired
from batchlaw.influences.worst_case import power_law_candidates, robust_influence
from batchlaw.jobs.store import DONE, Store

STORE = Path(__file__).with_suffix(".csv")
FIELDS = ("rates", "peak", "schedule", "seed", "validation", "training")
TASK, OPTIMIZER, STEPS, MEAN_BATCH = "transformer", "adamw", 800, 8
EXPONENTIAL = "wsd"


def from_study(folder: Path) -> None:
    """Write the losses of a study's runs."""
    with Store(folder / "study.sqlite", read_only=True) as store:
        found = [row for row in store.rows() if row.status == DONE and "schedule" in row.cell]
    rows = [
        {name: row.cell[name] for name in FIELDS[:4]}
        | {name: f"{row.result[name]:.6f}" for name in FIELDS[4:]}
        for row in found
        if row.cell["task"] == TASK and row.cell["optimizer"] == OPTIMIZER
    ]
    rows.sort(key=lambda row: tuple(str(row[name]) for name in FIELDS[:4]))
    with STORE.open("w", newline="") as file:
        table = csv.DictWriter(file, FIELDS, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def losses():
    """(rates, peak, schedule) -> seed -> validation loss."""
    found = {}
    with STORE.open(newline="") as file:
        for row in csv.DictReader(file):
            key = row["rates"], float(row["peak"]), row["schedule"]
            found.setdefault(key, {})[int(row["seed"])] = float(row["validation"])
    return found


def differences(found=None):
    """(rates, peak, schedule) -> interval of the difference to constant."""
    found = losses() if found is None else found
    return {
        (rates, peak, schedule): paired(values, found[rates, peak, CONSTANT])
        for (rates, peak, schedule), values in found.items()
        if schedule != CONSTANT
    }


def batches(rates, schedules):
    gamma = RATES[rates](STEPS, 1.0)
    return gamma, {name: batches_of(name, OPTIMIZER, gamma, MEAN_BATCH) for name in schedules}


def predictions(rates, schedules):
    """Of every schedule: the median ratio over the range, and SGD's ratio of the noise."""
    gamma, sizes = batches(rates, (CONSTANT, *schedules))
    ratios = score(gamma, sizes, OPTIMIZERS[OPTIMIZER])
    kappa = robust_influence(power_law_candidates(gamma, bl.PowerLaw())).influence
    noise = {
        name: float((kappa / b).sum() / (kappa / MEAN_BATCH).sum()) for name, b in sizes.items()
    }
    return {name: (float(np.median(ratios[name])), noise[name]) for name in schedules}


def table(measured):
    """One row per rates, schedule and peak; counts of right signs by both predictions."""
    print("| rates | schedule | peak | difference | predicted excess | SGD's noise | sign |")
    print("| --- | --- | ---: | ---: | ---: | ---: | --- |")
    counts = {"mean field": [0, 0], "SGD's influence": [0, 0]}
    for rates in dict.fromkeys(key[0] for key in measured):
        keys = sorted(key for key in measured if key[0] == rates)
        predicted = predictions(rates, list(dict.fromkeys(key[2] for key in keys)))
        for key in sorted(keys, key=lambda k: (k[2], k[1])):
            _, peak, schedule = key
            ours, noise = predicted[schedule]
            known = measured[key].side != 0
            verdict = "within the interval"
            if known:
                right = sign_of(ours) == measured[key].side
                verdict = "right" if right else "wrong"
                counts["mean field"][right] += 1
                counts["SGD's influence"][sign_of(noise) == measured[key].side] += 1
            print(
                f"| {rates} | {schedule} | {peak:g} | {shown(measured[key])} | "
                f"{100 * (ours - 1):+.1f} % | {100 * (noise - 1):+.0f} % | {verdict} |"
            )
    for name, (wrong, right) in counts.items():
        print(f"\n{name}: the right sign in {right} of {right + wrong} differences beyond "
              "their interval")  # fmt: skip


def sign_of(ratio):
    return int(np.sign(round(ratio - 1.0, 6)))


def shown(interval):
    return f"{interval.mean:+.4f} ± {interval.high - interval.mean:.4f}"


def judged(measured):
    """Whether the plan is nowhere worse, and what share of early-large's gain it has."""
    plans = {key: value for key, value in measured.items() if key[2] == PLAN}
    worse = [key for key, value in plans.items() if value.side == 1]
    print(f"\nthe default plan is worse than constant in {len(worse)} of {len(plans)} comparisons")
    for (rates, peak, _), value in plans.items():
        if rates == EXPONENTIAL:
            share = value.mean / measured[rates, peak, EARLY].mean
            print(f"peak {peak:g}: {share:.2f} of what early-large gains")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--study", type=Path, help="folder of a study, whose losses are stored")
    given = parser.parse_args()
    if given.study is not None:
        from_study(given.study)
    measured = differences()
    assert all(math.isfinite(value.mean) for value in measured.values())
    table(measured)
    judged(measured)


if __name__ == "__main__":
    main()
