"""Plans from laws fitted to constant batches, trained: beside constant and every rule of thumb.

    python benchmarks/trained_law_plans.py                        # the table, two minutes
    python benchmarks/trained_law_plans.py --measure              # train what is not stored
    python benchmarks/trained_law_plans.py --docs docs/training_laws.md

For every model and optimizer of the benchmark of batch schedules a law is fitted to its runs of
constant batches, and a plan of up to eight stages within the batches that the law has seen is made
from it for every shape of the rates. It is trained as the benchmark's runs are, with its seeds.
What ``batchlaw plan`` recommends is that plan where the band of its predicted difference to
constant (90 %) excludes zero, else the constant batch.

Stored are the losses and the batches that were trained; ``--measure`` trains those of a setting
that has stored ones, and plans of today's code for others. Differences to constant have a 95 %
interval from the fit of the setting's losses with effects of schedule and seed
(``benchmarks/batch_schedules.py``).
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter, defaultdict
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
BLOCKS_TRAINED = ("small-adamw", "small-adamw-0.95", "small-flat")


def laws(found):
    """Every setting with the law of its model and optimizer."""
    kinds = defaultdict(list)
    for setting in found:
        kinds[setting.kind].append(setting)
    for group in kinds.values():
        runs = [run for s in group for seeds in s.runs.values() for run in seeds.values()]
        law = bl.fit_law([run for run in runs if np.ptp(run.batches) == 0.0])
        yield from ((setting, law) for setting in group)


def planned(law, own):
    """Batches of the law's plan in place of a constant batch, as of today's code."""
    return law_optimum(law, own.rates, int(own.samples), Limits(stages=STAGES))


def text(batches):
    return " ".join(f"{end}:{size}" for end, size in stages_of(batches))


def batches_of(stages):
    """From what ``text`` wrote."""
    ends, sizes = np.array([pair.split(":") for pair in stages.split()], int).T
    return np.repeat(sizes, np.diff(ends, prepend=0))


def stored():
    """(block, rates) -> (stages, seed -> loss)."""
    rows = {}
    if STORE.exists():
        with STORE.open(newline="") as file:
            for row in csv.DictReader(file):
                stages, losses = rows.setdefault((row["block"], row["rates"]), (row["batches"], {}))
                if stages != row["batches"]:
                    raise SystemExit(f"{STORE}: two plans for {row['block']}, {row['rates']}")
                losses[int(row["seed"])] = float(row["validation"])
    return rows


def measure(found):
    """Train what is not stored; every loss is written when it is there."""
    there, todo = stored(), []
    for setting, law in laws(found):
        own = board.first(setting.runs[CONSTANT])
        stages, losses = there.get((setting.block, setting.rates), ("", {}))
        batches = batches_of(stages) if stages else planned(law, own)
        group = next(g for g in BLOCKS[setting.block].groups if g.rates == setting.rates)
        todo += [
            (seed, setting, group, batches)
            for seed in sorted(setting.runs[CONSTANT])
            if seed not in losses
        ]
    if not STORE.exists():
        STORE.write_text(",".join(FIELDS) + "\n")
    for seed, setting, group, batches in sorted(todo, key=lambda one: one[0]):
        cell = training_cell(group, NAME, group.peaks[0], seed, batches)
        loss = run_cell(cell)["validation"]
        with STORE.open("a", newline="") as file:
            csv.writer(file).writerow((setting.block, setting.rates, seed, loss, text(batches)))
        print(setting.block, setting.rates, seed, f"{loss:.4f}", flush=True)


def measured(setting, losses, batches):
    """The difference of trained plans to constant; the setting has them as a schedule after it."""
    own = board.first(setting.runs[CONSTANT])
    facts = {**own.facts, "schedule": NAME, "also": ""}
    setting.runs[NAME] = {
        seed: bl.Run(own.rates, batches, [own.updates], [loss], facts=facts)
        for seed, loss in losses.items()
    }
    vars(setting).pop("effects", None)  # fitted again, with the plan
    return setting.difference(NAME)


def trained(found):
    """One line per setting: the law's promise, what training showed, and the best rule."""
    there = stored()
    lines, counts = [], Counter()
    for setting, law in laws(found):
        own = board.first(setting.runs[CONSTANT])
        rules = [name for name in setting.compared if name != CONSTANT]
        stages, losses = there[setting.block, setting.rates]
        batches = batches_of(stages)
        change, low, high = law.difference((own.rates, batches), (own.rates, own.batches))
        found_now = planned(law, own)
        now = law.difference((own.rates, found_now), (own.rates, own.batches))[0]
        plan = measured(setting, losses, batches)
        best = min(rules, key=lambda name: setting.difference(name).mean)
        rival = setting.difference(best)
        recommended = high < 0.0
        answer = plan if recommended else board.Difference(0.0, 0.0, 0.0)
        counts["settings"] += 1
        counts["recommended"] += recommended
        counts["worse than constant"] += answer.side > 0
        gains = any(setting.difference(name).side < 0 for name in rules)
        counts["some rule gains"] += gains
        counts["of these, gained"] += gains and answer.side < 0
        counts["best, or within the best rule's interval"] += answer.mean <= rival.mean + rival.half
        lines.append((
            setting.block, setting.rates, f"{change:+.4f} ({low:+.4f} to {high:+.4f})",
            "the plan" if recommended else "constant", bold(plan), f"{best}: {bold(rival)}",
            str(len(losses)), f"{now:+.4f}", stages,
        ))  # fmt: skip
    header = ("block", "rates", "predicted (90 %)", "recommended", "trained (95 %)", "best rule",
              "seeds", "today's plan, predicted", "stages that were trained")  # fmt: skip
    return header, lines, counts


def bold(change):
    shown = f"{change.mean:+.4f} ± {change.half:.4f}"
    return f"**{shown}**" if change.side else shown


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--measure", action="store_true", help="train what is not stored")
    parser.add_argument("--docs", type=Path, help="a page whose table is written anew")
    given = parser.parse_args()
    found = [setting for setting in board.settings() if setting.block in BLOCKS_TRAINED]
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
