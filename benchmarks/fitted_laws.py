"""Laws fitted to logs, scored on runs that they have not seen: bl.fit_law and published laws.

    python benchmarks/fitted_laws.py DATA                     # every table, some minutes
    python benchmarks/fitted_laws.py DATA --only split        # one of: split, peak, peaks, batches
    python benchmarks/fitted_laws.py DATA --docs docs/training_laws.md

DATA has the public curves of ``benchmarks/laws_public.py``; "batches" needs no folder. Each test
fits few runs and predicts the rest:

- split: that of the multi-power law (Luo et al. 2025): 3 of 9 schedules at each of three sizes; the
  mean absolute error along the other six curves;
- peak: 124M, peak rate 1e-3: the constant rate for 50k updates, a linear decay over the last 20 %
  of 25k, a cosine to zero at 25k; the last loss of the other 30 runs;
- peaks: 124M, four peak rates over a factor of 20: the runs of 15k and 25k updates and the constant
  ones cut at 25k; the last loss of the 56 runs of 35k and 50k;
- batches: the benchmark of batch schedules: constant batches; final losses of all other runs.

The form of our law is chosen by schedules left out among those that are fitted.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy import stats

import batchlaw as bl
from batchlaw.from_data.laws.published import PUBLISHED
from laws_public import FITTED, HELD_OUT, PUBLISHED_ERRORS, SIZES, load_124m, load_multi_power

LEVEL = 0.9
OURS = "bl.fit_law"
PEAK = 1e-3
CUT = 25_000


def split(folder):
    """One line per law and size: the error along the held-out curves, by curve."""
    rows = []
    for size in SIZES:
        runs = load_multi_power(folder, size)
        fitted = [runs[name] for name in FITTED]
        rows.append((size, "published", "", f"{PUBLISHED_ERRORS[size]:.5f}", *[""] * 8))
        for name, law, seconds in laws(fitted):
            errors = [
                np.abs(law.curve(run.rates, run.batches, run.steps) - run.losses).mean()
                for run in (runs[own] for own in HELD_OUT)
            ]
            shown = [f"{error:.5f}" for error in (np.mean(errors), *errors)]
            covered = coverage(law, [runs[own] for own in HELD_OUT])
            rows.append((size, name, form(law), *shown, covered, f"{seconds:.1f}"))
    header = ("model", "law", "form", "error", *HELD_OUT, f"{LEVEL:.0%} band covers", "fit, s")
    return header, rows


def peak(folder):
    runs = [run for run, facts in load_124m(folder) if facts["peak"] == PEAK]
    fitted = [run for run in runs if _chosen(run.facts)]
    return last_losses(fitted, [run for run in runs if not _chosen(run.facts)])


def _chosen(facts):
    constant = facts["decay"] == "none"
    short = facts["decay"] == "linear" and facts["decay_fraction"] == 0.2
    whole = facts["decay"] == "cosine" and facts["final_rate_share"] == 0
    return constant or (facts["steps"] == CUT and (short or whole))


def peaks(folder):
    fitted, rest = [], []
    for run, facts in load_124m(folder):
        if facts["decay"] == "none":
            fitted.append(cut(run, CUT))
        else:
            (fitted if facts["steps"] <= CUT else rest).append(run)
    return last_losses(fitted, rest)


def cut(run, updates):
    """The first updates of a run, as it would have been logged then."""
    kept = run.steps <= updates
    return bl.Run(
        run.rates[:updates],
        run.batches[:updates],
        run.steps[kept],
        run.losses[kept],
        rule=run.rule,
        facts=run.facts,
    )


def last_losses(fitted, rest):
    """One line per law: errors of the last loss of runs that were not fitted."""
    truth = np.array([run.final_loss for run in rest])
    rows = []
    for name, law, seconds in laws(fitted):
        predicted = np.array([law.curve(run.rates, run.batches, run.steps[-1:])[0] for run in rest])
        error = predicted - truth
        rows.append((
            name, form(law), str(len(fitted)), str(len(rest)),
            f"{np.abs(error).mean():.5f}", f"{np.sqrt(np.mean(error**2)):.5f}",
            f"{np.abs(error).max():.4f}", f"{stats.spearmanr(predicted, truth).statistic:.3f}",
            coverage(law, rest), f"{seconds:.1f}",
        ))  # fmt: skip
    header = ("law", "form", "fitted", "predicted", "mean absolute error", "rms", "largest",
              "rank correlation", f"{LEVEL:.0%} band covers", "fit, s")  # fmt: skip
    return header, rows


def laws(fitted):
    """(name, law, seconds of its fit) of ours and of every published one."""
    began = time.perf_counter()
    law = bl.fit_law(fitted)
    yield OURS, law, time.perf_counter() - began
    for own in PUBLISHED:
        began = time.perf_counter()
        found = own.fit(fitted)
        yield own.name, found, time.perf_counter() - began


def form(law):
    return law.member.name if isinstance(law, bl.TrainingLaw) else ""


def coverage(law, runs):
    """How often a band holds the last loss of a run; published laws have none."""
    if not isinstance(law, bl.TrainingLaw):
        return "-"
    held = [covers(law, run) for run in runs]
    return f"{sum(held)} of {len(held)}"


def covers(law, run):
    found = law.predict(run.rates, run.batches, steps=run.steps[-1:], level=LEVEL)
    _, low, high = found.final
    return bool(low <= run.final_loss <= high)


def batches(_folder):
    """One line per model and optimizer: final losses of all runs whose batch changes."""
    kinds = defaultdict(list)
    for run in bl.datasets.batch_schedules():
        kinds[run.facts["task"], run.facts["optimizer"]].append(run)
    rows = []
    for (task, optimizer), runs in kinds.items():
        fitted = [run for run in runs if np.ptp(run.batches) == 0.0]
        rest = [run for run in runs if np.ptp(run.batches) > 0.0]
        began = time.perf_counter()
        law = bl.fit_law(fitted)
        seconds = time.perf_counter() - began
        error = np.array([
            law.curve(run.rates, run.batches, run.steps[-1:])[0] - run.final_loss for run in rest
        ])  # fmt: skip
        beta, low, high = law.batch_exponent()
        rows.append((
            f"{task}, {optimizer}", form(law), str(len(fitted)), str(len(rest)),
            f"{np.abs(error).mean():.4f}", f"{math.sqrt(np.mean(error**2)):.4f}",
            f"{law.misfit.seeds:.4f}", coverage(law, rest),
            f"{beta:.2f} ({low:.2f} to {high:.2f})", f"{seconds:.0f}",
        ))  # fmt: skip
    header = ("task", "form", "fitted", "predicted", "mean absolute error", "rms",
              "of it between seeds", f"{LEVEL:.0%} band covers", "beta", "fit, s")  # fmt: skip
    return header, rows


TABLES = {"split": split, "peak": peak, "peaks": peaks, "batches": batches}


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def write(path, name, text):
    """Between the marks of a table in a page."""
    begin, end = f"<!-- table: {name} -->\n", f"<!-- end: {name} -->"
    before, opened, rest = path.read_text("utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not (opened and closed):
        raise SystemExit(f"{path} has no marks of a table {name}")
    path.write_text(f"{before}{begin}{text}\n{end}{after}", "utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", help="where the copies of the public sets are")
    parser.add_argument("--only", choices=TABLES, help="one table")
    parser.add_argument("--docs", type=Path, help="a page whose tables are written anew")
    given = parser.parse_args()
    for name in [given.only] if given.only else TABLES:
        text = table(*TABLES[name](given.folder))
        print(f"{name}\n\n{text}\n", flush=True)
        if given.docs:
            write(given.docs, name, text)


if __name__ == "__main__":
    main()
