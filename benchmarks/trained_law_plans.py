"""Plans from laws fitted to constant batches, trained: beside constant and every rule of thumb.

    python benchmarks/trained_law_plans.py                        # the tables, two minutes
    python benchmarks/trained_law_plans.py --measure              # train again what is not stored
    python benchmarks/trained_law_plans.py --docs docs/training_laws.md

For every model and optimizer of the benchmark of batch schedules a law is fitted to its runs of
constant batches, and a plan of up to eight stages within the batches that the law has seen is made
from it for every shape of the rates. It is trained as the benchmark's runs are, with its seeds.
What ``batchlaw plan`` recommends is that plan where the band of its predicted difference to
constant (90 %) excludes zero, else the constant batch.

Stored are the losses, with the batches that were trained. Differences are paired by seed, with a
95 % interval from the fit of the setting (``benchmarks/batch_schedules.py``).
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path

import numpy as np

import batch_schedules as board
import batchlaw as bl
from batchlaw.batches.limits import Limits
from batchlaw.design.law_optimum import law_optimum
from batchlaw.evidence.study.blocks import BLOCKS
from batchlaw.evidence.study.cells import run_cell, training_cell
from batchlaw.evidence.study.schedules import CONSTANT
from batchlaw.plans.plan import stages_of
from fitted_laws import table, write

STORE = Path(__file__).with_suffix(".csv")
FIELDS = ("block", "rates", "seed", "validation", "batches")
NAME = "law plan"
STAGES = 8


def plans(found):
    """(setting, batches, (difference, low, high)) of the law's plan, as of today's code."""
    kinds = defaultdict(list)
    for setting in found:
        kinds[setting.kind].append(setting)
    for group in kinds.values():
        runs = [run for s in group for seeds in s.runs.values() for run in seeds.values()]
        law = bl.fit_law([run for run in runs if np.ptp(run.batches) == 0.0])
        for setting in group:
            own = board.first(setting.runs[CONSTANT])
            batches = law_optimum(law, own.rates, int(own.samples), Limits(stages=STAGES))
            change = law.difference((own.rates, batches), (own.rates, own.batches))
            yield setting, np.asarray(batches), change


def text(batches):
    return " ".join(f"{end}:{size}" for end, size in stages_of(batches))


def stored():
    """(block, rates, batches) -> seed -> loss."""
    rows = defaultdict(dict)
    if STORE.exists():
        with STORE.open(newline="") as file:
            for row in csv.DictReader(file):
                key = row["block"], row["rates"], row["batches"]
                rows[key][int(row["seed"])] = float(row["validation"])
    return rows


def measure(found):
    """Train what is not stored; every loss is written when it is there."""
    there = stored()
    todo = []
    for setting, batches, _ in plans(found):
        group = next(g for g in BLOCKS[setting.block].groups if g.rates == setting.rates)
        for seed in sorted(setting.runs[CONSTANT]):
            if seed not in there[setting.block, setting.rates, text(batches)]:
                todo.append((seed, setting, group, batches))
    if not STORE.exists():
        STORE.write_text(",".join(FIELDS) + "\n")
    for seed, setting, group, batches in sorted(todo, key=lambda one: one[0]):
        cell = training_cell(group, NAME, group.peaks[0], seed, batches)
        loss = run_cell(cell)["validation"]
        with STORE.open("a", newline="") as file:
            csv.writer(file).writerow((setting.block, setting.rates, seed, loss, text(batches)))
        print(setting.block, setting.rates, seed, f"{loss:.4f}", flush=True)


def trained(found):
    """One line per setting: the law's promise, what training showed, and the best rule."""
    there = stored()
    lines, counts = [], defaultdict(int)
    for setting, batches, (change, low, high) in plans(found):
        losses = there.get((setting.block, setting.rates, text(batches)))
        if not losses:
            lines.append((setting.block, setting.rates, f"{change:+.4f}", *["not trained"] * 5))
            continue
        rules = [n for n in setting.compared if n != CONSTANT]
        facts = dict(board.first(setting.runs[CONSTANT]).facts)
        own = board.first(setting.runs[CONSTANT])
        facts |= {"schedule": NAME, "also": ""}
        setting.runs[NAME] = {
            seed: bl.Run(own.rates, batches, [own.updates], [loss], facts=facts)
            for seed, loss in losses.items()
        }
        del setting.effects  # fitted again with the plan
        measured = setting.difference(NAME)
        best = min(rules, key=lambda name: setting.difference(name).mean)
        rival = setting.difference(best)
        recommended = high < 0.0
        answer = measured if recommended else board.Difference(0.0, 0.0, 0.0)
        counts["settings"] += 1
        counts["worse"] += answer.side > 0
        some_rule = rival.side < 0
        counts["gainable"] += some_rule
        counts["gained"] += some_rule and answer.side < 0
        counts["best"] += answer.mean <= rival.mean + max(measured.half, rival.half)
        lines.append((
            setting.block, setting.rates, f"{change:+.4f} ({low:+.4f} to {high:+.4f})",
            "the plan" if recommended else "constant",
            bold(measured), f"{best}: {bold(rival)}", str(len(losses)), text(batches),
        ))  # fmt: skip
    header = ("block", "rates", "predicted difference to constant (90 %)", "recommended",
              "trained difference of the plan (95 %)", "best rule", "seeds", "stages")  # fmt: skip
    return header, lines, counts


def bold(change):
    shown = f"{change.mean:+.4f} ± {change.half:.4f}"
    return f"**{shown}**" if change.side else shown


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--measure", action="store_true", help="train what is not stored")
    parser.add_argument("--docs", type=Path, help="a page whose table is written anew")
    given = parser.parse_args()
    found = [
        s for s in board.settings() if s.block in ("small-adamw", "small-adamw-0.95", "small-flat")
    ]
    if given.measure:
        measure(found)
    header, lines, counts = trained(found)
    shown = table(header, lines)
    print(shown)
    print(dict(counts))
    if given.docs:
        write(given.docs, "trained", shown)


if __name__ == "__main__":
    main()
