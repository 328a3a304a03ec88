"""Plans for AdamW and rules that people use, trained on a small transformer.

    python benchmarks/trained_plans.py                            # the tables, from stored losses
    python benchmarks/trained_plans.py --benchmark                # signs in the benchmark, a minute
    python benchmarks/trained_plans.py --study results/study ...  # the losses again, from studies

The runs are cells of the study; docs/adam.md has the commands. Every difference is to the constant
batch at the same peak rate, paired by seed, with a 95 % interval of Student's t.

The prediction is the median over the range of problems that the planner uses, which is what
``batchlaw plan`` prints. The range stood before training; that its median is judged was written
down when the runs under the paper's WSD had been seen. "SGD's noise" is what the plan for AdamW
went by before there was a theory of Adam: the noise that a schedule leaves, by SGD's worst-case
influence.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from pathlib import Path

import numpy as np

import batchlaw as bl
from batchlaw.batches.rules import Schedule
from batchlaw.design.robust_plan import score
from batchlaw.evidence.study.schedules import (
    BOLD,
    CONSTANT,
    EARLY,
    OPTIMIZERS,
    PLAN,
    RATES,
    schedule_of,
)
from batchlaw.evidence.study.statistics import paired
from batchlaw.influences.worst_case import power_law_candidates, robust_influence
from batchlaw.jobs.store import DONE, Store

STORE = Path(__file__).with_suffix(".csv")
FIELDS = ("optimizer", "rates", "peak", "schedule", "seed", "validation", "training", "batches")
# Started and given up: a bold plan after one seed, and a shape where the plan is a constant batch.
LEFT_OUT = {
    ("adamw", "wsd-linear", BOLD),
    ("adamw", "drop", PLAN),
    ("adamw", "drop", CONSTANT),
}
PREDICTIONS = ("the range's median", "SGD's noise")
# Runs that were made before a standard of the planner was dropped; the others came later.
FIRST = [("adamw", rates) for rates in ("wsd", "wsd-linear", "cosine")]
# Plans that today's planner does not make.
EARLIER = "earlier plan"


def from_studies(folders: list[Path]) -> None:
    """Write the losses of the transformer's AdamW runs; batches as last step:size."""
    rows = {}
    for folder in folders:
        with Store(folder / "study.sqlite", read_only=True) as store:
            for row in store.rows():
                if row.status == DONE and row.cell["task"] == "transformer":
                    cell = row.cell | row.result | {"batches": shortened(row.cell["batches"])}
                    if (cell["optimizer"], cell["rates"], cell["schedule"]) in LEFT_OUT:
                        continue
                    key = tuple(str(cell[name]) for name in FIELDS[:5])
                    rows[key] = {name: cell[name] for name in FIELDS}
    with STORE.open("w", newline="") as file:
        table = csv.DictWriter(file, FIELDS, lineterminator="\n")
        table.writeheader()
        for key in sorted(rows):
            numbers = {name: f"{rows[key][name]:.6f}" for name in ("validation", "training")}
            table.writerow(rows[key] | numbers)


def shortened(batches):
    """Stages of a plan; nothing for long lists, which are rules that anyone can compute."""
    sizes = np.asarray(batches)
    ends = np.append(np.flatnonzero(np.diff(sizes)) + 1, sizes.size)
    return " ".join(f"{end}:{sizes[end - 1]}" for end in ends) if ends.size <= 12 else ""


def losses():
    """(optimizer, rates, schedule, peak) -> seed -> validation loss."""
    found = {}
    for row in read(STORE):
        schedule = row["schedule"]
        if schedule == PLAN and row["batches"] != planned(row["optimizer"], row["rates"]):
            schedule = EARLIER
        key = row["optimizer"], row["rates"], schedule, float(row["peak"])
        found.setdefault(key, {})[int(row["seed"])] = float(row["validation"])
    return found


def read(path):
    """Rows of the stored losses."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


PLANNED = {}


def planned(optimizer, rates):
    """Today's plan."""
    if (optimizer, rates) not in PLANNED:
        gamma = RATES[rates](800, 1.0)
        PLANNED[optimizer, rates] = shortened(schedule_of(PLAN, optimizer, gamma, 8).batches)
    return PLANNED[optimizer, rates]


def earlier(optimizer, rates):
    """Batches of the plan that was trained, where it is not today's."""
    group = {"optimizer": optimizer, "rates": rates, "schedule": PLAN}
    row = next(row for row in read(STORE) if group.items() <= row.items())
    stages = [tuple(map(int, stage.split(":"))) for stage in row["batches"].split()]
    ends, sizes = zip(*stages, strict=True)
    return np.repeat(sizes, np.diff(ends, prepend=0))


def differences(found):
    """(optimizer, rates, schedule, peak) -> interval of the difference to constant."""
    return {
        key: paired(values, found[*key[:2], CONSTANT, key[3]])
        for key, values in found.items()
        if key[2] != CONSTANT
    }


def predictions(optimizer, rates, schedules):
    """Of every schedule: the median ratio over the range, and SGD's ratio of the noise."""
    gamma = RATES[rates](800, 1.0)
    sizes = {
        name: earlier(optimizer, rates)
        if name == EARLIER
        else schedule_of(name, optimizer, gamma, 8).batches
        for name in (CONSTANT, *schedules)
    }
    ratios = score(gamma, sizes, OPTIMIZERS[optimizer])
    kappa = robust_influence(power_law_candidates(gamma, bl.PowerLaw())).influence
    noise = {name: float((kappa / b).sum() / (kappa / 8).sum()) for name, b in sizes.items()}
    return {name: (float(np.median(ratios[name])), noise[name]) for name in schedules}


def table(found, measured):
    """One row per optimizer, rates and schedule, peaks side by side; counts of right signs."""
    counts = {"first": Counter(), "later": Counter()}
    print("| optimizer, rates | schedule | seeds | difference at 0.002 | 0.004 | 0.008 "
          "| predicted excess | SGD's noise |")  # fmt: skip
    print("| --- | --- | ---: | --- | --- | --- | ---: | ---: |")
    for group in dict.fromkeys(key[:2] for key in measured):
        schedules = list(dict.fromkeys(key[2] for key in measured if key[:2] == group))
        predicted = predictions(*group, schedules)
        for name in schedules:
            rows = {key[3]: value for key, value in measured.items() if key[:3] == (*group, name)}
            seeds = min(len(found[*group, name, peak]) for peak in rows)
            cells = [marked(rows[peak]) for peak in sorted(rows)]
            cells += [f"{100 * (ratio - 1):+.1f} %" for ratio in predicted[name]]
            print(f"| {', '.join(group)} | {name} | {seeds} | {' | '.join(cells)} |")
            count = counts["first" if group in FIRST else "later"]
            for value in rows.values():
                count["all"] += value.side != 0
                for by, ratio in zip(PREDICTIONS, predicted[name], strict=True):
                    count[by] += value.side != 0 and np.sign(ratio - 1.0) == value.side
    for runs, count in counts.items():
        for by in PREDICTIONS:
            print(f"\n{runs} runs, {by}: the right sign in {count[by]} of {count['all']} "
                  "differences beyond their interval")  # fmt: skip


def marked(interval):
    """The difference and half its interval, in bold where that excludes zero."""
    text = f"{interval.mean:+.4f} ± {interval.high - interval.mean:.4f}"
    return f"**{text}**" if interval.side else text


def judged(measured):
    """Whether the plan is nowhere worse, and what share of early-large's gain it has."""
    plans = {key: value for key, value in measured.items() if key[2] == PLAN}
    worse = sum(value.side == 1 for value in plans.values())
    better = sum(value.side == -1 for value in plans.values())
    print(f"\nthe plan differs from constant in {len(plans)} comparisons: better beyond the "
          f"interval in {better}, worse in {worse}")  # fmt: skip
    for key, value in plans.items():
        early = measured.get((*key[:2], EARLY, key[3]))
        if early is not None:
            print(f"{', '.join(map(str, key))}: {value.mean / early.mean:.2f} of what "
                  "early-large gains")  # fmt: skip


def on_benchmark():
    """The range's median on the benchmark of batch schedules: right signs, and the wrong ones."""
    import batch_schedules

    right, wrong = 0, []
    for setting in batch_schedules.settings():
        constant = batch_schedules.first(setting.runs[CONSTANT])
        runs = {
            name: batch_schedules.first(setting.runs[name])
            for name in setting.others
            if name not in batch_schedules.RANDOM
        }
        schedules = {
            name: Schedule(run.rates, run.batches.astype(np.int64)) for name, run in runs.items()
        }
        ratios = score(constant.rates, {CONSTANT: constant.batches} | schedules, constant.rule)
        for name in runs:
            measured, ratio = setting.difference(name), float(np.median(ratios[name]))
            if measured.side:
                right += np.sign(ratio - 1.0) == measured.side
                if np.sign(ratio - 1.0) != measured.side:
                    where = f"{setting.optimizer}, {setting.rates}, {name}"
                    predicted = f"{100 * (ratio - 1):+.1f} % predicted"
                    wrong.append(f"{where}: {measured.mean:+.4f}, {predicted}")
    print(f"the range's median: the right sign in {right} of {right + len(wrong)} differences "
          "beyond their interval; wrong in")  # fmt: skip
    print("\n".join(wrong))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--study", type=Path, nargs="+", help="folders whose losses are stored")
    parser.add_argument("--benchmark", action="store_true", help="signs in the benchmark alone")
    given = parser.parse_args()
    if given.benchmark:
        on_benchmark()
        return
    if given.study:
        from_studies(given.study)
    found = losses()
    measured = {
        key: value
        for key, value in differences(found).items()
        # Where the plan is a constant batch there is nothing to compare.
        if not (key[2] in (PLAN, BOLD) and value.low == value.high == 0.0)
    }
    table(found, measured)
    judged(measured)


if __name__ == "__main__":
    main()
