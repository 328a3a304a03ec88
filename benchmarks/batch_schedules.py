"""Scores of laws and of planners on the benchmark of batch schedules.

    python benchmarks/batch_schedules.py                     # every baseline, about a minute
    python benchmarks/batch_schedules.py --law module:name   # and a law of your own
    python benchmarks/batch_schedules.py --tables docs/study.md   # write the tables into a page

A law is any object with

    fit(runs)                  runs: the bl.Run of constant batches, of one model and optimizer
    predict(rates, batches)    the final loss, or (loss, low, high)

and is judged on what it has not seen: the difference in final loss of every other schedule to the
constant batch of the same rates. ``name`` in ``--law`` is called without arguments for every model
and optimizer.

A planner is a schedule's name. Its regret is its final loss less that of the schedule which the
*other* seeds find best: the best of ten noisy means is not a fair rival on the seeds that chose it.
"""

from __future__ import annotations

import argparse
import importlib
import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

import batchlaw as bl
from batch_schedule_laws import baselines
from batchlaw.evidence.study.schedules import RANDOM, SIZES
from batchlaw.evidence.study.statistics import paired

CONSTANT = "constant"
# Seeds from which the scatter of a difference is estimated.
ENOUGH_SEEDS = 3
CONFIDENCE, POWER = 0.95, 0.8


@dataclass
class Setting:
    """All runs of one model, optimizer and shape of the rates: schedule -> seed -> run."""

    block: str
    task: str
    optimizer: str
    rates: str
    runs: dict

    @property
    def kind(self):
        return self.task, self.optimizer

    @property
    def compared(self):
        """Schedules at equal samples that are rivals, with enough seeds."""
        return [
            name
            for name, seeds in self.runs.items()
            if name not in SIZES and name not in RANDOM and len(seeds) >= ENOUGH_SEEDS
        ]

    def named(self, name):
        """The schedule's own name: one that coincides with another was trained once."""
        if name in self.runs:
            return name
        for own, seeds in self.runs.items():
            if name in next(iter(seeds.values())).facts["also"].split("; "):
                return own
        return None

    def losses(self, name):
        return {seed: run.final_loss for seed, run in self.runs[name].items()}

    def difference(self, name):
        """To the constant batch, paired by seed: an interval."""
        return paired(self.losses(name), self.losses(CONSTANT))

    @property
    def scatter(self):
        """Standard deviation of a paired difference, pooled over schedules, and its freedom."""
        constant = self.losses(CONSTANT)
        squares = freedom = 0.0
        for name in self.compared:
            if name != CONSTANT:
                other = self.losses(name)
                values = np.array([other[s] - constant[s] for s in other.keys() & constant.keys()])
                squares += ((values - values.mean()) ** 2).sum()
                freedom += values.size - 1
        return math.sqrt(squares / freedom), int(freedom)


def settings(folder=None):
    """The benchmark, by setting."""
    found = {}
    for run in bl.datasets.batch_schedules(folder=folder):
        key = tuple(run.facts[name] for name in ("block", "task", "optimizer", "rates"))
        runs = found.setdefault(key, Setting(*key, defaultdict(dict))).runs
        runs[run.facts["schedule"]][run.facts["seed"]] = run
    return list(found.values())


def predictions(law_of, found):
    """Setting -> schedule -> (predicted difference, whether the band covers, or None)."""
    kinds = defaultdict(list)
    for setting in found:
        kinds[setting.kind].append(setting)
    out = {}
    for group in kinds.values():
        law = law_of()
        law.fit([
            run
            for setting in group
            for name in (CONSTANT, *SIZES)
            for run in setting.runs.get(name, {}).values()
        ])  # fmt: skip
        for setting in group:
            out[id(setting)] = _of_setting(law, setting)
    return out


def _of_setting(law, setting):
    def at(run):
        value = law.predict(run.rates, run.batches)
        return tuple(value) if np.ndim(value) else (float(value), math.nan, math.nan)

    constant = at(first(setting.runs[CONSTANT]))[0]
    found = {}
    for name, runs in setting.runs.items():
        if name != CONSTANT and name not in SIZES:
            loss, low, high = at(first(runs))
            measured = np.mean([run.final_loss for run in runs.values()])
            covers = None if math.isnan(low) else low <= measured <= high
            found[name] = loss - constant, covers
    return found


def first(runs):
    return runs[min(runs)]


def interval(setting, name):
    """Measured difference and the half width of its 95 % interval, pooled where seeds are few."""
    measured = setting.difference(name)
    seeds = len(setting.runs[name])
    if seeds >= ENOUGH_SEEDS:
        return measured.mean, measured.high - measured.mean
    scatter, freedom = setting.scatter
    return measured.mean, stats.t.ppf(0.5 + CONFIDENCE / 2, freedom) * scatter / math.sqrt(seeds)


def law_table(found, laws):
    """One line per law and set of settings."""
    lines = []
    for name, law_of in laws.items():
        predicted = predictions(law_of, found)
        for title, group in groups_of(found):
            rows = [
                (*interval(setting, schedule), *predicted[id(setting)][schedule])
                for setting in group
                for schedule in predicted[id(setting)]
            ]
            lines.append((name, title, *scores(rows)))
    header = ("law", "settings", "differences", "resolved", "right sign", "rank correlation",
              "rms error", "rms of differences", "band covers")  # fmt: skip
    return header, lines


def scores(rows):
    measured, half, predicted = (np.array([row[k] for row in rows], float) for k in range(3))
    resolved = np.abs(measured) > half
    right = (np.sign(predicted) == np.sign(measured))[resolved]
    flat = np.ptp(predicted) == 0.0
    rank = math.nan if flat else float(stats.spearmanr(measured, predicted).statistic)
    bands = [row[3] for row in rows if row[3] is not None]
    return (
        str(measured.size),
        str(int(resolved.sum())),
        f"{int(right.sum())} of {right.size}",
        "-" if math.isnan(rank) else f"{rank:.2f}",
        f"{np.sqrt(np.mean((predicted - measured) ** 2)):.4f}",
        f"{np.sqrt(np.mean(measured**2)):.4f}",
        f"{np.mean(bands):.0%}" if bands else "-",
    )


def groups_of(found):
    """All settings of a block, and all together."""
    titles = list(dict.fromkeys(setting.block for setting in found))
    groups = [(title, [s for s in found if s.block == title]) for title in titles]
    return groups if len(groups) == 1 else [*groups, ("all", found)]


def planner_table(found):
    """Regret and difference to constant of every planner, over the settings that have it."""
    names = list(dict.fromkeys(name for s in found for name in [*s.compared, *also(s)]))
    lines = []
    for name in names:
        own = [(s, s.named(name)) for s in found if s.named(name) in s.compared]
        regrets = [regret(s, own_name) for s, own_name in own]
        changes = [0.0 if n == CONSTANT else interval(s, n)[0] for s, n in own]
        sides = [s.difference(n).side if n != CONSTANT else 0 for s, n in own]
        counts = " / ".join(str(sides.count(side)) for side in (-1, 1, 0))
        lines.append((
            name, str(len(own)), f"{np.mean(regrets):+.4f}", f"{max(regrets):+.4f}",
            f"{np.mean(changes):+.4f}", f"{max(changes):+.4f}", counts,
        ))  # fmt: skip
    lines.sort(key=lambda line: float(line[2]))
    header = ("planner", "settings", "mean regret", "worst", "mean difference to constant",
              "worst", "better / worse / can't tell")  # fmt: skip
    return header, lines


def also(setting):
    """Other names of the compared schedules."""
    names = (first(setting.runs[name]).facts["also"] for name in setting.compared)
    return [name for joined in names if joined for name in joined.split("; ")]


def regret(setting, name):
    """Mean over seeds of the loss less that of the schedule which the other seeds find best."""
    table = {other: setting.losses(other) for other in setting.compared}
    seeds = sorted(set.intersection(*(set(losses) for losses in table.values())))
    total = 0.0
    for seed in seeds:
        means = {
            other: np.mean([losses[s] for s in seeds if s != seed])
            for other, losses in table.items()
        }
        total += table[name][seed] - table[min(means, key=means.get)][seed]
    return total / len(seeds)


def difference_table(found):
    """The measured differences of all rivals, a line per setting."""
    names = list(dict.fromkeys(n for s in found for n in [*s.compared, *also(s)] if n != CONSTANT))
    lines = []
    for setting in found:
        losses = list(setting.losses(CONSTANT).values())
        cells = [cell(setting, name) for name in names]
        lines.append((setting.block, setting.rates, f"{np.mean(losses):.4f}", *cells))
    return ("block", "rates", CONSTANT, *names), lines


def cell(setting, name):
    own = setting.named(name)
    if own == CONSTANT:
        return "constant"
    if own not in setting.compared:
        return "-"
    middle, half = interval(setting, own)
    text = f"{middle:+.4f} ± {half:.4f}"
    return f"**{text}**" if abs(middle) > half else text


def noise_table(found):
    """How small a difference the set can see: standard errors of a paired difference."""
    lines = []
    for setting in found:
        scatter, freedom = setting.scatter
        seeds = len(setting.runs[CONSTANT])
        error = scatter / math.sqrt(seeds)
        beyond = stats.t.ppf(0.5 + CONFIDENCE / 2, freedom) + stats.t.ppf(POWER, freedom)
        levels = np.std(list(setting.losses(CONSTANT).values()), ddof=1)
        lines.append((
            setting.block, setting.rates, str(seeds), f"{levels:.4f}", f"{scatter:.4f}",
            f"{error:.4f}", f"{beyond * error:.4f}",
        ))  # fmt: skip
    header = ("block", "rates", "seeds", "a loss, between seeds", "a paired difference",
              "its mean's standard error", "seen in 8 of 10")  # fmt: skip
    return header, lines


def size_table(found):
    """Constant batches of five sizes, in the same number of updates."""
    names = sorted([CONSTANT, *SIZES], key=lambda name: SIZES.get(name, 1.0))
    lines = []
    for setting in found:
        cells = [
            f"{np.mean(list(setting.losses(name).values())):.4f}" if name in setting.runs else "-"
            for name in names
        ]
        lines.append((setting.block, setting.rates, *cells))
    return ("block", "rates", *names), lines


def convergence_table(found):
    """How far from converged: what the last tenth of a run still changes, and the noise scale."""
    lines = []
    for setting in found:
        runs = list(setting.runs[CONSTANT].values())
        late = int(np.searchsorted(runs[0].steps, 0.9 * runs[0].updates))
        final = np.mean([run.final_loss for run in runs])
        change = final - np.mean([run.losses[late] for run in runs])
        gap = final - np.mean([run.columns["training"][-1] for run in runs])
        scales = [noise_scale(runs, k) for k in (len(runs[0].steps) // 2, -1)]
        numbers = f"{final:.4f}", f"{change:+.4f}", f"{gap:+.4f}", *scales
        lines.append((setting.block, setting.rates, *numbers))
    last = "change in the last tenth"
    header = ("final loss", last, "validation less training", "noise scale midway", "at the end")
    return ("block", "rates", *header), lines


def noise_scale(runs, k):
    """Ratio of means over seeds at the k-th observation, in samples."""
    noise, gradient = (np.mean([run.columns[n][k] for run in runs]) for n in ("noise", "gradient"))
    return f"{noise / gradient:.0f}" if gradient > 0.0 else "unknown"


TABLES = {
    "differences": difference_table,
    "planners": planner_table,
    "noise": noise_table,
    "sizes": size_table,
    "convergence": convergence_table,
}


def markdown(header, lines):
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def write_into(page, texts):
    """Replace what stands between the marks of every table."""
    content = page.read_text()
    for name, text in texts.items():
        begin, end = f"<!-- table: {name} -->\n", f"\n<!-- end: {name} -->"
        if begin in content:
            head, rest = content.split(begin, 1)
            content = head + begin + text + end + rest.split(end, 1)[1]
    page.write_text(content)


def own_law(text):
    module, _, name = text.partition(":")
    return getattr(importlib.import_module(module), name)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--law", action="append", default=[], help="module:name of a law")
    parser.add_argument("--folder", type=Path, help="blocks of your own, not the package's")
    parser.add_argument("--tables", type=Path, nargs="*", default=[], help="pages to write into")
    options = parser.parse_args()
    found = settings(options.folder)
    laws = baselines(options.folder) | {text: own_law(text) for text in options.law}
    tables = {name: make(found) for name, make in TABLES.items()} | {"laws": law_table(found, laws)}
    texts = {name: markdown(*table) for name, table in tables.items()}
    for name, text in texts.items():
        print(f"{name}\n\n{text}\n")
    for page in options.tables:
        write_into(page, texts)


if __name__ == "__main__":
    main()
