"""Tables of same_signs.py: means over seeds, the windows added up, and the runs set back.

    python benchmarks/same_signs_report.py

Where rows of runs exist in results/, their means are stored in same_signs.csv first.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np

import batchlaw as bl
from batchlaw.batches.rules import RULES

ROWS = Path("results/same_signs_rows.csv")
STORE = Path(__file__).with_name("same_signs.csv")
CONSTANT, SMALL, WINDOWS = 8, 2, 4
NEARBY = 0.05
# Updates and peak rates of what was trained.
SETTINGS = {
    "transformer": (800, 0.5),
    "least squares": (400, 0.01),
    "logistic": (400, 0.2),
    "mlp": (400, 0.4),
    "logistic, short": (80, 0.2),
    "mlp, short": (80, 0.4),
}
SCHEDULES = ("early-large", "like the rate", "late-large")
MEASURES = ("loss", "change", "slope", "curved", "middle", "distance", "lost", "set back", "fades")
FIELDS = ("part", "model", "run", "step", "seeds")


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def key_of(r):
    return r["part"], r["model"], int(r["seed"]), r["run"], int(r["step"])


def by_seed(rows):
    """{(part, model, run, step): {seed: measures}}, changes against constant of the same seed."""
    losses = {key_of(r): float(r["loss"]) for r in rows}
    out = defaultdict(dict)
    for r in rows:
        part, model, seed, run, step = key_of(r)
        if part == "delay":
            step, values = set_back(losses, r)
        else:
            values = compared(losses, r)
        out[part, model, run, step][seed] = values
    return out


def compared(losses, r):
    """Change against constant; slope there, curvature d'Hd/2, and the middle's loss above b's."""
    part, model, seed, run, step = key_of(r)
    values = {"loss": float(r["loss"])}
    base = losses.get(("windows" if part == "schedules" else part, model, seed, "constant", step))
    if run == "constant" or base is None:
        return values
    values["change"] = values["loss"] - base
    if r["half"]:
        values["distance"] = float(r["distance"])
        values["middle"] = float(r["half"]) - base
    if r["ahead"]:
        ahead, back = float(r["ahead"]), float(r["back"])
        values["slope"] = (ahead - back) / (2.0 * NEARBY)
        values["curved"] = (ahead + back - 2.0 * base) / (2.0 * NEARBY**2)
    return values


def set_back(losses, r):
    """Steps that were lost; or what they cost later, and the perturbed run less that."""
    _, model, seed, run, step = key_of(r)
    end = int(run.split()[1]) + SETTINGS[model][0] // WINDOWS
    if step <= end:
        return end, {"lost": float(end - step)}
    constant = losses["windows", model, seed, "constant", step]
    perturbed = losses["windows", model, seed, run, step]
    loss = float(r["loss"])
    return step, {"loss": loss, "set back": loss - constant, "fades": perturbed - loss}


def added_up(groups, model, name):
    """A schedule's change from the windows of each seed, linear in 1/B.

    Within a window a step counts by its rate squared, as its noise does at once.
    """
    steps, peak = SETTINGS[model]
    rates = bl.wsd(steps, peak)
    batches = RULES[name].schedule(rates, CONSTANT * steps).batches
    weights, excess = (x.reshape(WINDOWS, -1) for x in (rates**2, 1.0 / batches - 1.0 / CONSTANT))
    more = (weights * excess).sum(axis=1) / weights.sum(axis=1)
    shares = more / (1.0 / SMALL - 1.0 / CONSTANT)
    starts = range(0, steps, steps // WINDOWS)
    windows = [groups["windows", model, f"from {start}", steps] for start in starts]
    return {
        seed: {"change": sum(s * w[seed]["change"] for s, w in zip(shares, windows, strict=True))}
        for seed in windows[0]
    }


def summarised(rows):
    """Means and standard errors over seeds, one line per comparison and step."""
    groups = by_seed(rows)
    for model, (steps, _) in SETTINGS.items():
        if ("windows", model, "from 0", steps) in groups:
            for name in SCHEDULES:
                groups["windows added up", model, name, steps] = added_up(groups, model, name)
    for key, seeds in groups.items():
        line = dict(zip(FIELDS, (*key, len(seeds)), strict=True))
        for name in MEASURES:
            values = [v[name] for v in seeds.values() if name in v]
            line[name] = f"{np.mean(values):.5g}" if values else ""
            several = len(values) > 1
            error = np.std(values, ddof=1) / np.sqrt(len(values)) if several else np.nan
            line[f"{name} error"] = f"{error:.2g}" if several else ""
        yield line


def store(lines):
    with STORE.open("w", newline="") as file:
        table = csv.DictWriter(file, lines[0], lineterminator="\n")
        table.writeheader()
        table.writerows(lines)


class Lines:
    """The stored lines by part, model, run and step."""

    def __init__(self, lines):
        self.lines = {(r["part"], r["model"], r["run"], int(r["step"])): r for r in lines}

    def __contains__(self, key):
        return key in self.lines

    def seeds(self, *key):
        return self.lines[key]["seeds"]

    def cell(self, measure, *key):
        r = self.lines.get(key)
        if r is None or not r[measure]:
            return ""
        error = r[f"{measure} error"]
        sign = "" if measure in ("loss", "distance", "lost") else "+"
        digits = {"distance": ".2g", "lost": ".0f"}.get(measure, ".4f")
        number = format(float(r[measure]), sign + digits)
        return f"{number} ± {float(error):{digits}}" if error else number


def show(title, header, rows):
    print(f"\n### {title}\n")
    print("| " + " | ".join(header) + " |")
    print("| --- |" + " ---: |" * (len(header) - 1))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")


def window_table(lines, model):
    steps = SETTINGS[model][0]
    rows = []
    for start in range(0, steps, steps // WINDOWS):
        end = start + steps // WINDOWS
        later = ("windows", model, f"from {start}", steps)
        now = (*later[:3], end)
        between = (*later[:3], end + steps // WINDOWS)
        measured = [
            lines.cell(m, *later) for m in ("change", "slope", "curved", "middle", "distance")
        ]
        earlier = [lines.cell("change", *now), lines.cell("change", *between)]
        rows.append([f"{start} to {end}", *earlier, *measured, lines.cell("distance", *now)])
    header = ["window", "change at its end", "a window later", "at the run's end", "slope"]
    header += ["d'Hd/2", "middle above b", "|d|^2", "|d|^2 at the window's end"]
    last = ("windows", model, "constant", steps)
    about = f"{lines.seeds(*last)} seeds, constant {lines.cell('loss', *last)}"
    show(f"{model}: batch 2 in one window ({about})", header, rows)


def delay_table(lines):
    rows = []
    for model, (steps, _) in SETTINGS.items():
        for start in (0, steps // WINDOWS):
            end, run = start + steps // WINDOWS, f"from {start}"
            if ("delay", model, run, steps) in lines:
                last = ("delay", model, run, steps)
                before = ("windows", model, run)
                cells = [
                    lines.cell("lost", "delay", model, run, end),
                    lines.cell("change", *before, end),
                    lines.cell("change", *before, steps),
                    lines.cell("set back", *last),
                    lines.cell("fades", *last),
                ]
                rows.append([f"{model} ({lines.seeds(*last)})", f"{start} to {end}", *cells])
    header = ["model (seeds)", "window", "steps lost", "change at the window's end"]
    header += ["at the run's end", "set back instead", "change less set back"]
    show("the constant run set back", header, rows)


def schedule_table(lines):
    rows = []
    for model, (steps, _) in SETTINGS.items():
        for name in SCHEDULES:
            measured, summed = ((p, model, name, steps) for p in ("schedules", "windows added up"))
            if summed in lines:
                known = measured in lines
                count = f" ({lines.seeds(*measured)})" if known else ""
                cells = [lines.cell("change", *measured) + count, lines.cell("change", *summed)]
                rows.append([model, name, *cells])
    show(
        "schedules less constant", ["model", "schedule", "measured (seeds)", "windows added"], rows
    )


def tangent_table(lines):
    rows = []
    for kind in ("full", "tangent"):
        for step in (200, 300, 400):
            key = ("tangent", kind, "from 100", step)
            if key in lines:
                base = lines.cell("loss", "tangent", kind, "constant", step)
                names = ("change", "slope", "curved", "middle", "distance")
                cells = [lines.cell(name, *key) for name in names]
                rows.append([f"{kind} ({lines.seeds(*key)})", step, base, *cells])
    header = ["model (seeds)", "step", "constant", "change", "slope", "d'Hd/2"]
    show("batch 2 in steps 100 to 200", [*header, "middle above b", "|d|^2"], rows)


def half_table(lines):
    rows = []
    both = ("early-large, then constant", "constant, then early-large")
    for run, step in (("early-large", 400), ("early-large", 800), *((run, 800) for run in both)):
        key = ("halves", "transformer", run, step)
        if key in lines:
            base = lines.cell("loss", *key[:2], "constant", step)
            rows.append([run, step, base, f"{lines.cell('change', *key)} ({lines.seeds(*key)})"])
    show("halves", ["batches", "step", "constant", "less constant (seeds)"], rows)


def one_step_table(lines):
    rows = []
    for step in (101, 200, 300, 400):
        key = ("one step", "transformer", "from 100", step)
        if key in lines:
            cells = [lines.cell(name, *key) for name in ("change", "slope", "curved", "distance")]
            rows.append([step, *cells])
    if rows:
        header = ["step", "change", "slope", "d'Hd/2", "|d|^2"]
        show(f"other samples in step 100 ({lines.seeds(*key)} seeds)", header, rows)


def main():
    if ROWS.exists():
        store(list(summarised(read(ROWS))))
    lines = Lines(read(STORE))
    for model, (steps, _) in SETTINGS.items():
        if ("windows", model, "constant", steps) in lines:
            window_table(lines, model)
    delay_table(lines)
    schedule_table(lines)
    tangent_table(lines)
    half_table(lines)
    one_step_table(lines)


if __name__ == "__main__":
    main()
