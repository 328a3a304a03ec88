"""Tables of same_signs.py: means over seeds, the windows added up, and SGD's prediction.

    python benchmarks/same_signs_report.py

Where rows of runs exist in results/, their means are stored again in same_signs.csv first.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np

import batchlaw as bl
from batchlaw.batches.rules import RULES
from batchlaw.model.model_spectrum import ModelSpectrum
from batchlaw.torch_support.small_models import SPECTRUM_WINDOWS

ROWS = Path("results/same_signs_rows.csv")
STORE = Path(__file__).with_name("same_signs.csv")
SPECTRA = Path(__file__).with_name("same_signs_spectra.csv")
CONSTANT, SMALL, WINDOWS = 8, 2, 4
# Peak rates and updates of what was trained; the parameters of the transformer.
SETTINGS = {
    "transformer": (800, 0.5),
    "least squares": (400, 0.01),
    "logistic": (400, 0.2),
    "mlp": (400, 0.4),
    "logistic, short": (80, 0.2),
    "mlp, short": (80, 0.4),
}
SCHEDULES = ("early-large", "like the rate", "late-large")
DIMENSION = 69_024
STABLE_SHARE = 0.95
NEARBY = 0.05
MEASURES = ("loss", "change", "slope", "spread", "curved", "middle", "distance")
FIELDS = ("part", "model", "run", "step", "seeds")


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def parts_of_change(base, other, half, ahead, back):
    """Change, its slope at the constant run, the rest, and what a quadratic makes of the rest."""
    slope = (ahead - back) / (2.0 * NEARBY)
    curved = (ahead + back - 2.0 * base) / (2.0 * NEARBY**2)
    middle = half - (base + other) / 2.0
    change = other - base
    parts = {"slope": slope, "spread": change - slope, "curved": curved, "middle": middle}
    return {"change": change, **parts}


def by_seed(rows):
    """{(part, model, run, step): {seed: measures}}, changes against constant of the same seed."""
    losses = {_key(r): float(r["loss"]) for r in rows if r["run"] == "constant"}
    out = defaultdict(dict)
    for r in rows:
        part, model, seed, run, step = _key(r)
        values = {"loss": float(r["loss"])}
        of = "windows" if part == "schedules" else part
        base = losses.get((of, model, seed, "constant", step))
        if run != "constant" and base is not None:
            values["change"] = values["loss"] - base
            if r["half"]:
                values["distance"] = float(r["distance"])
                values["middle"] = float(r["half"]) - (base + values["loss"]) / 2.0
            if r["ahead"]:
                losses_near = (float(r[name]) for name in ("half", "ahead", "back"))
                values |= parts_of_change(base, values["loss"], *losses_near)
        out[part, model, run, step][seed] = values
    return out


def _key(r):
    return r["part"], r["model"], int(r["seed"]), r["run"], int(r["step"])


def added_up(groups, model, name):
    """A schedule's change from the windows of each seed, linear in 1/B: {seed: measures}."""
    steps, peak = SETTINGS[model]
    rates, window = bl.wsd(steps, peak), steps // WINDOWS
    batches = bl.allocate(RULES[name](rates) ** 2, CONSTANT * steps)
    more = (1.0 / batches - 1.0 / CONSTANT).reshape(WINDOWS, window).mean(axis=1)
    shares = more / (1.0 / SMALL - 1.0 / CONSTANT)
    windows = [groups["windows", model, f"from {k * window}", steps] for k in range(WINDOWS)]
    return {
        seed: {
            m: float(sum(s * w[seed][m] for s, w in zip(shares, windows, strict=True)))
            for m in ("change", "slope", "spread")
        }
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
            known = len(values) > 1
            line[name] = f"{np.mean(values):.5g}" if known else ""
            error = np.std(values, ddof=1) / np.sqrt(len(values)) if known else 0.0
            line[f"{name}_error"] = f"{error:.2g}" if known else ""
        yield line


def store(lines):
    with STORE.open("w", newline="") as file:
        table = csv.DictWriter(file, lines[0], lineterminator="\n")
        table.writeheader()
        table.writerows(lines)


def spectra():
    """{step: nodes} along seed 0 of the constant run, each with the same groups of ranks."""
    out = {}
    rows = [r for r in read(SPECTRA) if (r["run"], r["seed"]) == ("constant", "0")]
    for step in sorted({int(r["step"]) for r in rows}):
        here = [r for r in rows if int(r["step"]) == step]
        leading = [r for r in here if r["rank"] != "trace"]
        (traces,) = (r for r in here if r["rank"] == "trace")
        spectrum = ModelSpectrum(
            "gauss-newton",
            np.array([float(r["eigenvalue"]) for r in leading]),
            float(traces["eigenvalue"]),
            0.0,
            DIMENSION,
            SPECTRUM_WINDOWS // 2,
            np.array([float(r["noise"]) for r in leading]),
            float(traces["noise"]),
        )
        out[step] = spectrum.nodes()
    return out


def along(points, steps, field):
    """(T, nodes) array of a field of the nodes, interpolated in its logarithm between points."""
    known = np.array(sorted(points))
    values = np.log([np.maximum(getattr(points[s], field), 1e-12) for s in known])
    middle = np.arange(steps) + 0.5
    return np.exp(np.stack([np.interp(middle, known, column) for column in values.T], axis=1))


def predicted_windows(points, end, fixed=None):
    """SGD's rise of the loss at ``end`` by each window before it, from curvature and noise.

    sum_t (1/B' - 1/B) gamma_t^2 / 2 sum_j n_j mu_j(end) c_j(t) prod_{s>t} (1 - gamma_s mu_j(s))^2,
    directions followed by rank, at most just stable. ``fixed`` takes the spectrum of one step for
    all, as a pilot's would be.
    """
    steps, peak = SETTINGS["transformer"]
    rates = bl.wsd(steps, peak)
    points = points if fixed is None else {fixed: points[fixed]}
    mu, noise = (along(points, steps, field) for field in ("eigenvalues", "noise"))
    last = points[max(points)].eigenvalues if fixed else mu[end - 1]
    multiplicity = points[max(points)].multiplicity
    mu = np.minimum(mu, STABLE_SHARE * 2.0 / peak)
    kept = np.log(np.abs(1.0 - rates[:end, None] * mu[:end]) + 1e-12)
    after = np.vstack([np.cumsum(kept[::-1], axis=0)[::-1][1:], np.zeros(mu.shape[1])])
    rises = rates[:end, None] ** 2 * noise[:end] * np.exp(2.0 * after) @ (multiplicity * last)
    extra = 0.5 * (1.0 / SMALL - 1.0 / CONSTANT)
    return extra * rises.reshape(-1, steps // WINDOWS).sum(axis=1)


def cell(line, name):
    return f"{float(line[name]):+.4f} ± {float(line[name + '_error']):.4f}" if line[name] else ""


def show(title, header, rows):
    print(f"\n### {title}\n")
    print("| " + " | ".join(header) + " |")
    print("|" + " ---: |" * len(header))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")


def window_table(lines, model, points):
    steps = SETTINGS[model][0]
    found = {(r["run"], int(r["step"])): r for r in lines if _is(r, "windows", model)}
    seeds = found["constant", steps]["seeds"]
    whole = predicted_windows(points, steps) if points and model == "transformer" else None
    pilot = None if whole is None else predicted_windows(points, steps, fixed=max(points))
    rows = []
    for k in range(WINDOWS):
        start, end = k * steps // WINDOWS, (k + 1) * steps // WINDOWS
        at_once, last = found[f"from {start}", end], found[f"from {start}", steps]
        predicted = []
        if whole is not None:
            now = predicted_windows(points, end)[-1]
            predicted = [f"{now:.4f}", f"{whole[k]:.4f}", f"{pilot[k]:.4f}"]
        rows.append(
            [f"{start} to {end}", *(cell(at_once, m) for m in ("change", "slope"))]
            + [cell(last, m) for m in ("change", "slope", "spread")]
            + [f"{float(at_once['distance']):.3g}", f"{float(last['distance']):.3g}"]
            + predicted
        )
    header = ["window", "change at its end", "slope there", "change at the run's end", "slope"]
    header += ["spread", "distance^2 at its end", "at the run's end"]
    header += (
        [] if whole is None else ["SGD: at its end", "SGD: at the run's end", "with a pilot's"]
    )
    loss = found["constant", steps]["loss"]
    show(f"{model}: batch 2 in one window, {seeds} seeds, constant {loss}", header, rows)


def schedule_table(lines, model, points):
    steps, peak = SETTINGS[model]
    rates = bl.wsd(steps, peak)
    whole = predicted_windows(points, steps) if points and model == "transformer" else None
    rows = []
    for name in SCHEDULES:
        measured = _one(lines, "schedules", model, name, steps)
        summed = _one(lines, "windows added up", model, name, steps)
        if measured is None or summed is None:
            continue
        theory = ""
        if whole is not None:
            batches = bl.allocate(RULES[name](rates) ** 2, CONSTANT * steps)
            more = (1.0 / batches - 1.0 / CONSTANT).reshape(WINDOWS, -1).mean(axis=1)
            theory = f"{float(more @ whole) / (1.0 / SMALL - 1.0 / CONSTANT):+.4f}"
        parts = [cell(summed, m) for m in ("change", "slope", "spread")]
        rows.append([name, f"{cell(measured, 'change')} ({measured['seeds']})", *parts, theory])
    header = ["schedule", "measured (seeds)", "windows added up", "their slopes", "their spreads"]
    show(f"{model}: schedules, less constant", [*header, "SGD along the run"], rows)


def tangent_table(lines):
    rows = []
    for kind in ("full", "tangent"):
        for name in ("early-large",):
            for step in (400, 800):
                r = _one(lines, "tangent", kind, name, step)
                base = _one(lines, "tangent", kind, "constant", step)
                if r and base:
                    rows.append([kind, name, step, f"{float(base['loss']):.4f}", cell(r, "change")])
    if rows:
        seeds = next(r["seeds"] for r in lines if r["part"] == "tangent")
        header = ["model", "schedule", "step", "constant", "less constant"]
        show(f"the full model and its linearisation at step 100, {seeds} seeds", header, rows)


def path_table(lines):
    """Differences of the schedules along the run."""
    rows = []
    for name in SCHEDULES:
        steps = range(200, 801, 200)
        found = [_one(lines, "schedules", "transformer", name, s) for s in steps]
        if all(found):
            rows.append([name, *(cell(r, "change") for r in found)])
    show(
        "transformer: schedules less constant along the run",
        ["schedule", *range(200, 801, 200)],
        rows,
    )


def response_table(lines):
    """What a window still costs at every later boundary."""
    rows = []
    for start in range(0, 800, 200):
        ends = range(200, 801, 200)
        found = [_one(lines, "windows", "transformer", f"from {start}", s) for s in ends]
        rows.append([start, *("" if r is None else cell(r, "change") for r in found)])
    show("transformer: the change by a window along the run", ["from", *range(200, 801, 200)], rows)


def spectrum_table():
    rows = []
    for r in read(SPECTRA):
        if r["rank"] == "1":
            key = (r["run"], r["seed"], r["step"])
            (t,) = (t for t in read(SPECTRA) if _place(t) == key and t["rank"] == "trace")
            rows.append([*key, r["eigenvalue"], t["eigenvalue"], t["noise"]])
    header = ["run", "seed", "step", "largest eigenvalue", "trace", "noise trace"]
    show("Gauss-Newton curvature", header, rows)


def _place(r):
    return r["run"], r["seed"], r["step"]


def _is(r, part, model):
    return (r["part"], r["model"]) == (part, model)


def _one(lines, part, model, run, step):
    place = (run, str(step))
    found = [r for r in lines if _is(r, part, model) and (r["run"], r["step"]) == place]
    return found[0] if found else None


def main():
    if ROWS.exists():
        store(list(summarised(read(ROWS))))
    lines = read(STORE)
    points = spectra() if SPECTRA.exists() else {}
    for model in SETTINGS:
        if _one(lines, "windows", model, "constant", SETTINGS[model][0]):
            window_table(lines, model, points)
            schedule_table(lines, model, points)
    path_table(lines)
    response_table(lines)
    tangent_table(lines)
    if points:
        spectrum_table()


if __name__ == "__main__":
    main()
