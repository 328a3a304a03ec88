"""Scores of laws and of planners on the benchmark of batch schedules.

    python benchmarks/batch_schedules.py                     # every baseline, under a minute
    python benchmarks/batch_schedules.py --law module:name   # and a law of your own
    python benchmarks/batch_schedules.py --tables docs/study.md docs/batch_schedules.md

A law is any object with

    fit(runs)                  runs: the bl.Run of constant batches, of one model and optimizer
    predict(rates, batches)    the final loss, or (loss, low, high), a band of 90 %

and is judged on what it has not seen: the difference in final loss of every other schedule to the
constant batch of the same rates. It may also have ``difference(run, constant)`` with the same
result for a difference; without it the difference of two losses is taken, and a band is judged as
one of the loss. Bands are held against means over seeds, so they have to hold those means' noise
too. ``name`` in ``--law`` is called without arguments for every model and optimizer.

A planner is a schedule's name. Its regret is its final loss less that of the schedule which the
*other* seeds find best: the best of ten noisy means is not a fair rival on the seeds that chose it.

Losses of a setting are fitted by an effect of the schedule and one of the seed, by least squares.
Every interval comes from that fit; where all seeds are there, its differences are the paired ones.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import math
import sys
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy import optimize, stats

import batchlaw as bl
from batch_schedule_laws import NoPilotError, baselines
from batchlaw.datasets import layout
from batchlaw.evidence.study.blocks import BLOCKS
from batchlaw.evidence.study.schedules import CONSTANT, RANDOM, SIZES

CONFIDENCE, POWER, BAND = 0.95, 0.8, 0.9
# Differences that a law for fine choices must get right.
CLOSE = 0.05


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
        """Rivals: schedules at equal samples with all seeds."""
        whole = len(self.runs[CONSTANT])
        return [
            name
            for name, seeds in self.runs.items()
            if name not in SIZES and name not in RANDOM and len(seeds) == whole
        ]

    @property
    def others(self):
        """What is to be predicted: schedules at equal samples, random ones too."""
        return [name for name in self.runs if name != CONSTANT and name not in SIZES]

    def named(self, name):
        """The schedule's own name: one that coincides with another was trained once."""
        if name in self.runs:
            return name
        for own, seeds in self.runs.items():
            if name in first(seeds).facts["also"].split("; "):
                return own
        return None

    def losses(self, name):
        return {seed: run.final_loss for seed, run in self.runs[name].items()}

    def mean(self, name):
        return float(np.mean(list(self.losses(name).values())))

    @cached_property
    def effects(self):
        """Least squares with an effect of every schedule and of every seed."""
        names = [CONSTANT, *self.others]
        seeds = sorted(self.runs[CONSTANT])
        rows, losses = [], []
        for i, name in enumerate(names):
            for seed, loss in self.losses(name).items():
                row = np.zeros(len(names) + len(seeds) - 1)
                row[i] = 1.0
                if seed != seeds[0]:
                    row[len(names) + seeds.index(seed) - 1] = 1.0
                rows.append(row)
                losses.append(loss)
        design = np.array(rows)
        solution, *_ = np.linalg.lstsq(design, np.array(losses), rcond=None)
        left = np.array(losses) - design @ solution
        freedom = design.shape[0] - design.shape[1]
        return Effects(
            dict(zip(names, solution, strict=False)),
            {name: i for i, name in enumerate(names)},
            np.linalg.inv(design.T @ design),
            math.sqrt(float(left @ left) / freedom),
            freedom,
        )

    def difference(self, name):
        """To the constant batch."""
        return self.effects.difference(name)


@dataclass
class Effects:
    """Losses by schedule, seeds apart; ``spread`` is the standard deviation that is left."""

    values: dict
    place: dict
    inverse: np.ndarray
    spread: float
    freedom: int

    def difference(self, name):
        contrast = np.zeros(self.inverse.shape[0])
        contrast[self.place[name]], contrast[self.place[CONSTANT]] = 1.0, -1.0
        error = self.spread * math.sqrt(contrast @ self.inverse @ contrast)
        half = stats.t.ppf(0.5 + CONFIDENCE / 2, self.freedom) * error
        return Difference(float(self.values[name] - self.values[CONSTANT]), error, half)


@dataclass
class Difference:
    """A difference in final loss, its standard error, and half its 95 % interval."""

    mean: float
    error: float
    half: float

    @property
    def side(self):
        return 0 if abs(self.mean) <= self.half else int(math.copysign(1, self.mean))


def settings(folder=None):
    """The benchmark, by setting."""
    found = {}
    for run in bl.datasets.batch_schedules(folder=folder):
        key = tuple(run.facts[name] for name in ("block", "task", "optimizer", "rates"))
        runs = found.setdefault(key, Setting(*key, {})).runs
        runs.setdefault(run.facts["schedule"], {})[run.facts["seed"]] = run
    order = list(BLOCKS)
    return sorted(
        found.values(), key=lambda s: order.index(s.block) if s.block in order else len(order)
    )


def first(runs):
    return runs[min(runs)]


@dataclass
class Row:
    """One schedule of a setting: measured, and predicted by a law."""

    setting: Setting
    name: str
    measured: Difference
    predicted: float
    covered: bool | None


def predictions(law_of, found):
    """The rows of every setting; none where a law has no pilot."""
    kinds = defaultdict(list)
    for setting in found:
        kinds[setting.kind].append(setting)
    rows = []
    for group in kinds.values():
        law = law_of()
        runs = [
            run
            for setting in group
            for name in (CONSTANT, *SIZES)
            for run in setting.runs.get(name, {}).values()
        ]
        try:
            law.fit(runs)
        except NoPilotError as error:
            print(f"{group[0].block}: {error.args[0]}", file=sys.stderr)
            continue
        rows += [row for setting in group for row in _of_setting(law, setting)]
    return rows


def _of_setting(law, setting):
    def three(value):
        return tuple(value) if np.ndim(value) else (float(value), math.nan, math.nan)

    own = first(setting.runs[CONSTANT])
    constant = three(law.predict(own.rates, own.batches))[0]
    for name in setting.others:
        run, measured = first(setting.runs[name]), setting.difference(name)
        if hasattr(law, "difference"):
            change, low, high = three(law.difference(run, own))
            truth = measured.mean
        else:
            loss, low, high = three(law.predict(run.rates, run.batches))
            change, truth = loss - constant, setting.mean(name)
        covered = None if math.isnan(low) else low <= truth <= high
        yield Row(setting, name, measured, change, covered)


# Which differences are scored together.
SETS = {
    "named": lambda row: row.name not in RANDOM,
    f"named, within {CLOSE} of constant": lambda row: (
        row.name not in RANDOM and abs(row.measured.mean) < CLOSE
    ),
    "random": lambda row: row.name in RANDOM,
}


def law_table(found, laws):
    """One line per law and set of differences; blocks apart where there are several."""
    lines = []
    blocks = list(dict.fromkeys(setting.block for setting in found))
    for name, law_of in laws.items():
        rows = predictions(law_of, found)
        for title, chosen in SETS.items():
            kept = [row for row in rows if chosen(row)]
            if kept:
                lines.append((name, title, *scores(kept)))
        for block in blocks if len(blocks) > 1 else []:
            kept = [row for row in rows if row.setting.block == block and SETS["named"](row)]
            if kept:
                lines.append((name, f"named, {block}", *scores(kept)))
    header = ("law", "differences", "number", "right sign", "correlation", "its ceiling",
              "rank correlation, by setting", "rms error", "less the seeds' noise",
              "rms of differences", "90 % band covers")  # fmt: skip
    return header, lines


def scores(rows):
    measured, error, predicted = (
        np.array(column, float)
        for column in zip(
            *((row.measured.mean, row.measured.error, row.predicted) for row in rows), strict=True
        )
    )
    clear = np.array([row.measured.side != 0 for row in rows])
    right = (np.sign(predicted) == np.sign(measured))[clear]
    square, noise = np.mean((predicted - measured) ** 2), np.mean(error**2)
    bands = [row.covered for row in rows if row.covered is not None]
    return (
        str(measured.size),
        f"{int(right.sum())} of {right.size}",
        _two(_correlation(predicted, measured)),
        _two(ceiling(measured, error)),
        _two(_ranks(rows)),
        f"{math.sqrt(square):.4f}",
        f"{math.sqrt(max(square - noise, 0.0)):.4f}",
        f"{np.sqrt(np.mean(measured**2)):.4f}",
        f"{np.mean(bands):.0%}" if bands else "-",
    )


def ceiling(measured, error):
    """The correlation that the true differences would have with the measured ones."""
    if measured.size < 3:
        return math.nan
    return math.sqrt(max(1.0 - float(np.mean(error**2) / np.var(measured)), 0.0))


def _ranks(rows):
    """Mean over settings of Spearman's correlation."""
    by_setting = defaultdict(list)
    for row in rows:
        by_setting[id(row.setting)].append((row.predicted, row.measured.mean))
    pairs = [np.array(group).T for group in by_setting.values() if len(group) >= 4]
    found = [_correlation(stats.rankdata(p), stats.rankdata(m)) for p, m in pairs]
    return float(np.mean(found)) if found else math.nan


def _correlation(one, other):
    if one.size < 3 or np.ptp(one) == 0.0 or np.ptp(other) == 0.0:
        return math.nan
    return float(np.corrcoef(one, other)[0, 1])


def _two(value):
    return "-" if math.isnan(value) else f"{value:.2f}"


def planner_table(found):
    """Regret of every planner, over settings with the same rivals."""
    fields = defaultdict(list)
    for setting in found:
        fields[frozenset(planners(setting))].append(setting)
    lines = []
    for names, group in fields.items():
        blocks = ", ".join(dict.fromkeys(setting.block for setting in group))
        title = f"{blocks}: {len(group)} settings"
        rows = [_planner(name, group) for name in names]
        lines += [(title, *row[1:]) for row in sorted(rows)]
    header = ("settings", "planner", "regret", "worst", "difference to constant",
              "better / worse / can't tell")  # fmt: skip
    return header, lines


def planners(setting):
    """Names of the compared schedules, with those that coincide with one."""
    also = (first(setting.runs[name]).facts["also"] for name in setting.compared)
    return [*setting.compared, *(n for joined in also if joined for n in joined.split("; "))]


def _planner(name, group):
    own = [(setting, setting.named(name)) for setting in group]
    regrets = np.array([regret(*pair) for pair in own])
    mean, error = mean_and_error(regrets.mean(axis=0))
    changes = [setting.difference(n) for setting, n in own if n != CONSTANT]
    change = sum(d.mean for d in changes) / len(group)
    change_error = math.sqrt(sum(d.error**2 for d in changes)) / len(group)
    sides = [0 if n == CONSTANT else setting.difference(n).side for setting, n in own]
    counts = " / ".join(str(sides.count(side)) for side in (-1, 1, 0))
    shown = "0" if not changes else f"{change:+.4f} ± {change_error:.4f}"
    worst = regrets.mean(axis=1).max()
    return mean, name, f"{mean:+.4f} ± {error:.4f}", f"{worst:+.4f}", shown, counts


def mean_and_error(values):
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(values.size))


def regret(setting, name):
    """By seed: the loss less that of the schedule which the other seeds find best."""
    table = {other: setting.losses(other) for other in setting.compared}
    out = []
    for seed in sorted(table[name]):
        means = {
            other: np.mean([loss for s, loss in losses.items() if s != seed])
            for other, losses in table.items()
        }
        out.append(table[name][seed] - table[min(means, key=means.get)][seed])
    return out


def difference_table(found):
    """The measured differences of all rivals, a line per setting."""
    names = list(dict.fromkeys(n for s in found for n in planners(s) if n != CONSTANT))
    lines = [
        (s.block, s.rates, f"{s.mean(CONSTANT):.4f}", *(cell(s, name) for name in names))
        for s in found
    ]
    return ("block", "rates", CONSTANT, *names), lines


def cell(setting, name):
    own = setting.named(name)
    if own == CONSTANT:
        return "constant"
    if own not in setting.compared:
        return "-"
    change = setting.difference(own)
    text = f"{change.mean:+.4f} ± {change.half:.4f}"
    return f"**{text}**" if change.side else text


def noise_table(found):
    """How small a difference the set can see."""
    lines = []
    for setting in found:
        effects, seeds = setting.effects, len(setting.runs[CONSTANT])
        error = effects.difference(setting.compared[-1]).error
        levels = np.std(list(setting.losses(CONSTANT).values()), ddof=1)
        own = [_paired_spread(setting, name) for name in setting.compared if name != CONSTANT]
        lines.append((
            setting.block, setting.rates, str(seeds), f"{levels:.4f}",
            f"{math.sqrt(2) * effects.spread:.4f}", f"{min(own):.4f} to {max(own):.4f}",
            f"{error:.4f}", f"{seen(error, effects.freedom):.4f}",
        ))  # fmt: skip
    header = ("block", "rates", "seeds", "a loss, between seeds", "a paired difference",
              "of single schedules", "standard error of its mean", "seen in 8 of 10")  # fmt: skip
    return header, lines


def _paired_spread(setting, name):
    constant = setting.losses(CONSTANT)
    return np.std([loss - constant[seed] for seed, loss in setting.losses(name).items()], ddof=1)


def seen(error, freedom):
    """The true difference whose interval excludes zero with probability ``POWER``."""
    bound = stats.t.ppf(0.5 + CONFIDENCE / 2, freedom)
    shift = optimize.brentq(lambda d: stats.nct.sf(bound, freedom, d) - POWER, 0.0, 20.0)
    return shift * error


def size_table(found):
    """Constant batches of five sizes, in the same number of updates."""
    names = sorted([CONSTANT, *SIZES], key=lambda name: SIZES.get(name, 1.0))
    lines = [
        (s.block, s.rates, *(f"{s.mean(name):.4f}" if name in s.runs else "-" for name in names))
        for s in found
    ]
    return ("block", "rates", *names), lines


def adaptation_table(found):
    """The noise of one sample's gradient midway, where the batch was constant."""
    names = sorted([CONSTANT, *SIZES], key=lambda name: SIZES.get(name, 1.0))
    lines = []
    for setting in found:
        known = [name for name in names if name in setting.runs]
        values = [gradient_noise(setting.runs[name]) for name in known]
        exponent = np.polyfit(np.log([SIZES.get(name, 1.0) for name in known]), np.log(values), 1)[
            0
        ]
        shown = dict(zip(known, values, strict=True))
        cells = (f"{shown[name]:.2f}" if name in shown else "-" for name in names)
        lines.append((setting.block, setting.rates, *cells, f"{exponent:.2f}"))
    return ("block", "rates", *names, "exponent in the batch"), lines


def gradient_noise(runs):
    """Mean over seeds and the middle half of the run."""
    run = first(runs)
    middle = np.abs(run.steps / run.updates - 0.5) < 0.25
    return float(np.mean([run.columns["noise"][middle] for run in runs.values()]))


def memory_table(found):
    """Differences that the same schedules make under two optimizers."""
    pairs = defaultdict(list)
    for one, other in itertools.combinations(found, 2):
        if (one.task, one.rates) == (other.task, other.rates) and one.kind != other.kind:
            pairs[one.block, other.block].append((one, other))
    last = max(RANDOM, key=RANDOM.get)
    lines = []
    for blocks, group in pairs.items():
        shared = [_shared_differences(*pair) for pair in group]
        for (one, other), changes in zip(group, shared, strict=True):
            both = (
                f"{s.difference(last).mean:+.4f}" if last in s.runs else "-" for s in (one, other)
            )
            lines.append((*blocks, one.rates, *_agreement(changes), *both))
        lines.append((*blocks, "all", *_agreement(np.hstack(shared)), "-", "-"))
    header = ("block", "other block", "rates", "schedules", "correlation", f"{last} in the one",
              "in the other")  # fmt: skip
    return header, lines


def _shared_differences(one, other):
    """In both settings, of the rivals with the same batches: (2, n)."""
    names = [
        name
        for name in one.compared
        if name != CONSTANT
        and name in other.compared
        and np.array_equal(first(one.runs[name]).batches, first(other.runs[name]).batches)
    ]
    return np.array([[s.difference(name).mean for name in names] for s in (one, other)])


def _agreement(changes):
    return str(changes.shape[1]), _two(_correlation(*changes))


def convergence_table(found):
    """How far from converged a run of constant batches is, and its noise scale."""
    lines = []
    for setting in found:
        runs = list(setting.runs[CONSTANT].values())
        final = setting.mean(CONSTANT)
        most = max(SIZES, key=SIZES.get)
        larger = f"{setting.mean(most) - final:+.4f}" if most in setting.runs else "-"
        late = int(np.searchsorted(runs[0].steps, 0.9 * runs[0].updates))
        change = final - np.mean([run.losses[late] for run in runs])
        gap = final - np.mean([run.columns["training"][-1] for run in runs])
        middle = int(np.searchsorted(runs[0].steps, runs[0].updates / 2))
        scales = [noise_scale(runs, k) for k in (middle, -1)]
        numbers = f"{final:.4f}", larger, f"{change:+.4f}", f"{gap:+.4f}", *scales
        lines.append((setting.block, setting.rates, *numbers))
    header = ("final loss", "with 4 times the samples", "change in the last tenth",
              "validation less training", "noise scale midway", "at the end")  # fmt: skip
    return ("block", "rates", *header), lines


def noise_scale(runs, k):
    """Ratio of means over seeds at the k-th observation, in samples."""
    noise, gradient = (np.mean([run.columns[n][k] for run in runs]) for n in ("noise", "gradient"))
    return f"{noise / gradient:.0f}" if gradient > 0.0 else "unknown"


def block_table(folder):
    """What there is, and what is missing."""
    root = layout.FOLDER if folder is None else folder
    lines = []
    for name, block in BLOCKS.items():
        path = root / name / layout.FACTS
        if path.is_file():
            facts = json.loads(path.read_text())
            count, hours = str(facts["runs"]), f"{facts['wall_seconds_of_runs'] / 3600:.1f}"
        else:
            count, hours = "not made yet", "-"
        lines.append((f"`{name}`", block.summary, count, hours))
    return ("block", "what", "runs", "hours of a worker"), lines


TABLES = {
    "differences": difference_table,
    "planners": planner_table,
    "noise": noise_table,
    "sizes": size_table,
    "adaptation": adaptation_table,
    "memory": memory_table,
    "convergence": convergence_table,
}


def markdown(header, lines):
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def marks(name):
    """The lines that a table stands between in a page."""
    return f"<!-- table: {name} -->\n", f"\n<!-- end: {name} -->"


def write_into(page, texts):
    """Replace what stands between the marks of every table that the page has."""
    content = page.read_text()
    known = [name for name in texts if marks(name)[0] in content]
    if not known:
        raise SystemExit(f"{page} has no place for a table, such as {marks('noise')[0].strip()}")
    for name in known:
        begin, end = marks(name)
        head, rest = content.split(begin, 1)
        content = head + begin + texts[name] + end + rest.split(end, 1)[1]
    page.write_text(content)


def own_law(text):
    """The law that ``module:name`` names, from this folder or an installed package."""
    sys.path.insert(0, str(Path.cwd()))
    module, _, name = text.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise SystemExit(f"--law must be module:name, got {text!r}: {error}") from None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--law", action="append", default=[], help="module:name of a law")
    parser.add_argument("--folder", type=Path, help="blocks of your own, not the package's")
    parser.add_argument("--tables", type=Path, nargs="*", default=[], help="pages to write into")
    options = parser.parse_args()
    laws = baselines(options.folder) | {text: own_law(text) for text in options.law}
    try:
        found = settings(options.folder)
    except bl.InputError as error:
        raise SystemExit(str(error)) from None
    tables = {name: make(found) for name, make in TABLES.items()}
    tables |= {"laws": law_table(found, laws), "blocks": block_table(options.folder)}
    texts = {name: markdown(*table) for name, table in tables.items()}
    for name, text in texts.items():
        print(f"{name}\n\n{text}\n")
    for page in options.tables:
        write_into(page, texts)


if __name__ == "__main__":
    main()
