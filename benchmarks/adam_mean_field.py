"""Adam's mean field against Monte Carlo: errors, stated errors and costs.

    python benchmarks/adam_mean_field.py              # all rounds, against the stored averages
    python benchmarks/adam_mean_field.py --round one  # one, two, three, section 8, eigen, generic
    python benchmarks/adam_mean_field.py --quick      # every third setting
    python benchmarks/adam_mean_field.py --cost       # also the cost against Monte Carlo
    python benchmarks/adam_mean_field.py --measure    # the averages again: 15 minutes

The settings were fixed before any of them was compared: rounds of 18 in the sketch's own
coordinates, drawn from balanced lists. Rounds one and two may be looked at while the theory is
developed, round three is held out. Every setting has four batch schedules with the same samples
(one, if the mean batch is 1). Repetitions are as many as a standard error of 0.5 % needs, if they
fit into ``--seconds`` of one core (25; 6 for round three). Averages are stored in
adam_mean_field.csv, the table in results/.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import batchlaw as bl
from batchlaw.batches.rules import RULES
from batchlaw.design import paired_difference

STORE = Path(__file__).with_suffix(".csv")
TABLE = Path("results/adam_mean_field.csv")
SEED = 16
WANTED_ERROR, PILOT, MOST_SECONDS = 0.005, 60, 25.0
# Repetitions of the cost comparison.
TIMED = 40
# What the comparison asks for: a small error, or one inside the stated error.
SMALL_ERROR = 0.02
SCHEDULES = ("constant", "linear ramp", "late-large", "early-large")
SHAPES = {
    "wsd": bl.wsd,
    "wsd linear": lambda T, peak: bl.wsd(T, peak, stable=0.8, decay="linear"),
    "cosine": lambda T, peak: bl.cosine(T, peak, warmup=0.1),
    "step": lambda T, peak: bl.step(T, peak),
    "constant": lambda T, peak: bl.constant(T, peak),
}


@dataclass(frozen=True)
class Setting:
    """A problem, rates, betas and a mean batch; the problem's seed is its place in the round."""

    round: str
    index: int
    a: float
    b: float
    M: int
    dim: int
    sigma: float
    beta1: float
    beta2: float
    steps: int
    batch: int
    peak: float
    shape: str
    basis: str = "sketch"

    def problem(self):
        return bl.Problem.power_law(self.a, self.b, self.M, self.dim, self.sigma, seed=self.index)

    def rates(self):
        return SHAPES[self.shape](self.steps, self.peak)

    def rule(self):
        return bl.adam(self.beta1, self.beta2, basis=self.basis)

    def batches(self):
        """The schedules by name, each with batch x steps samples."""
        names = SCHEDULES if self.batch > 1 else SCHEDULES[:1]
        budget = self.batch * self.steps
        return {name: RULES[name].schedule(self.rates(), budget).batches for name in names}

    def cells(self):
        """What the tables show of it."""
        hidden = ("round", "index", "dim", "basis")
        return [getattr(self, f.name) for f in fields(self) if f.name not in hidden]


HEADER = ("a", "b", "M", "sigma", "beta1", "beta2", "T", "mean B", "peak", "rates")


def drawn_settings(name, seed, count, basis="sketch"):
    """Settings from lists that are repeated and shuffled, so that every value has its share."""
    rng = np.random.default_rng([SEED, seed])

    def spread(*values):
        repeated = np.resize(np.array(values, dtype=object), count)
        return rng.permutation(repeated)

    columns = zip(
        spread(1.2, 1.5, 2.0, 2.5, 3.0),
        spread(1.3, 1.5, 1.8, 2.2),
        spread(8, 16, 32, 48, 64),
        spread(500, 1000, 2000),
        spread(1.0, 1.0, 0.3),
        spread(0.0, 0.5, 0.9, 0.95),
        spread(0.9, 0.95, 0.99, 0.999),
        spread(200, 400, 600),
        spread(1, 2, 4, 8, 16, 64),
        spread(0.003, 0.01, 0.02, 0.05, 0.1),
        spread(*SHAPES),
        strict=True,
    )
    return [Setting(name, index, *row, basis) for index, row in enumerate(columns, start=1)]


def section_8():
    """The settings of the table that the first mean field was checked with."""
    common = (2.0, 1.5, 32, 2000, 1.0)
    betas = [(0.9, 0.999), (0.9, 0.99), (0.0, 0.999), (0.0, 0.99)]
    return [
        Setting("section 8", 1, *common, *beta, 400, 8, 0.02, shape)
        for beta in betas
        for shape in ("wsd linear", "wsd")
    ]


ROUNDS = {
    "one": drawn_settings("one", 1, 18),
    "two": drawn_settings("two", 2, 18),
    "three": drawn_settings("three", 5, 18),
    "section 8": section_8(),
    "eigen": drawn_settings("eigen", 3, 6, "eigen"),
    "generic": drawn_settings("generic", 4, 6, "generic"),
}

DRAWN = ("one", "two", "three")


def simulated(setting, repetitions):
    return bl.simulate_one_pass(
        setting.problem(),
        setting.rates(),
        setting.batches(),
        repetitions=repetitions,
        seed=SEED,
        rule=setting.rule(),
        threads=1,
    )


def relative_error(risk):
    return np.asarray(risk.standard_error("excess")) / np.asarray(risk.excess)


def measured(setting, most_seconds):
    """The simulated risk, with repetitions for the wanted error or the most seconds."""
    simulated(setting, 3)
    began = time.process_time()
    pilot = simulated(setting, PILOT)
    one = (time.process_time() - began) / PILOT
    wanted = PILOT * (relative_error(pilot).max() / WANTED_ERROR) ** 2 * 1.2
    repetitions = int(np.clip(wanted, 2 * PILOT, max(most_seconds / one, 2 * PILOT)))
    return simulated(setting, repetitions), repetitions


def measure(settings, most_seconds):
    """Write excess, standard error and repetitions of every schedule of every setting."""
    rows = {(row["round"], row["index"], row["schedule"]): row for row in stored()}
    for number, setting in enumerate(settings):
        risk, repetitions = measured(setting, most_seconds)
        place = place_of(setting)
        for k, name in enumerate(risk.schedules):
            rows[setting.round, place, name] = {
                "round": setting.round,
                "index": place,
                "schedule": name,
                "excess": f"{risk.excess[k]:.8g}",
                "error": f"{risk.standard_error('excess')[k]:.3g}",
                "repetitions": str(repetitions),
            }
        write_averages(rows)
        print(
            f"{number + 1}/{len(settings)} {setting.round}, {place}: {repetitions} repetitions, "
            f"error {100 * relative_error(risk).max():.2f} %",
            flush=True,
        )


def write_averages(rows):
    order = {name: k for k, name in enumerate(ROUNDS)}
    with STORE.open("w", newline="") as file:
        table = csv.DictWriter(file, next(iter(rows.values())), lineterminator="\n")
        table.writeheader()
        table.writerows(sorted(rows.values(), key=lambda r: (order[r["round"]], int(r["index"]))))


def place_of(setting):
    return str(ROUNDS[setting.round].index(setting) + 1)


def stored():
    if not STORE.exists():
        return []
    with STORE.open(newline="") as file:
        return list(csv.DictReader(file))


@dataclass(frozen=True)
class Row:
    """One schedule of a setting: simulated excess, relative errors in parts of it."""

    setting: Setting
    schedule: str
    excess: float
    standard_error: float
    mean_field: float
    stated: float

    @property
    def error(self):
        return self.mean_field / self.excess - 1.0

    @property
    def holds(self):
        allowed = max(SMALL_ERROR, self.stated + 2.0 * self.standard_error)
        return abs(self.error) <= allowed


def solver(setting):
    """The mean field of a setting as a function without arguments."""
    inputs = (setting.problem(), setting.rates(), setting.batches())
    return partial(bl.one_pass_risk, *inputs, rule=setting.rule())


def compare(settings):
    averages = {(row["round"], row["index"], row["schedule"]): row for row in stored()}
    for setting in settings:
        risk = solver(setting)()
        stated = np.broadcast_to(risk.uncertainty, np.shape(risk.excess))
        for k, name in enumerate(risk.schedules):
            row = averages[setting.round, place_of(setting), name]
            excess = float(row["excess"])
            yield Row(
                setting,
                name,
                excess,
                float(row["error"]) / excess,
                float(risk.excess[k]),
                float(stated[k]),
            )


def print_table(rows):
    header = (*HEADER, "schedule", "simulated", "+- %", "mean field", "error %", "stated %", "")
    print("| " + " | ".join(header) + " |")
    print("|" + " ---: |" * (len(HEADER) - 1) + " --- | --- |" + " ---: |" * 5 + " --- |")
    for row in rows:
        cells = [*row.setting.cells(), row.schedule, f"{row.excess:.4g}"]
        cells += [f"{100 * row.standard_error:.2f}", f"{row.mean_field:.4g}"]
        cells += [f"{100 * row.error:.2f}", f"{100 * row.stated:.2f}", "" if row.holds else "no"]
        print("| " + " | ".join(map(str, cells)) + " |")


def summary(name, rows):
    """One line of the summary table."""
    stated = np.array([row.stated for row in rows])
    error = np.abs([row.error for row in rows])
    cells = [
        name,
        str(len(rows)),
        f"{100 * np.mean([row.holds for row in rows]):.1f}",
        f"{100 * np.mean(error <= SMALL_ERROR):.1f}",
        f"{100 * np.median(error):.2f}",
        f"{100 * error.max():.2f}",
        f"{100 * np.median(stated):.2f}",
        f"{100 * stated.max():.2f}",
    ]
    return "| " + " | ".join(cells) + " |"


def print_summary(rows):
    names = ("holds %", "within 2 %", "median error %", "largest", "median stated %", "largest")
    print("\n| settings | rows | " + " | ".join(names) + " |")
    print("| --- |" + " ---: |" * 7)
    for name in ROUNDS:
        chosen = [row for row in rows if row.setting.round == name]
        if chosen:
            print(summary(f"round {name}" if name in DRAWN else name, chosen))
    drawn = [row for row in rows if row.setting.round in DRAWN]
    for beta2 in (0.9, 0.95, 0.99, 0.999):
        chosen = [row for row in drawn if row.setting.beta2 == beta2]
        if chosen:
            print(summary(f"beta2 = {beta2:g}", chosen))
    if drawn:
        print(summary("rounds one to three", drawn))
        print(summary("of these, beta2 >= 0.95", [r for r in drawn if r.setting.beta2 >= 0.95]))


def write_table(rows):
    TABLE.parent.mkdir(exist_ok=True)
    with TABLE.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["round", *HEADER, "schedule", "simulated", "se", "mean_field", "stated"])
        for row in rows:
            values = (row.excess, row.standard_error, row.mean_field, row.stated)
            table.writerow([row.setting.round, *row.setting.cells(), row.schedule, *values])


def seconds(run, times=3):
    """The least time of a few runs."""
    run()
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return min(taken)


def print_cost(settings):
    """Mean field of all schedules of a setting, against Monte Carlo with the same error.

    For the level that is the stated error. For the difference of a schedule to the constant batch
    it is the error of that difference that was measured here, at least 0.1 % of the excess.
    """
    print(
        "\n| setting | M | mean field ms | a repetition ms | for the level | times | "
        "error of a difference % | repetitions | times |"
    )
    print("| --- |" + " ---: |" * 8)
    levels, differences = [], []
    for setting in settings:
        rows = list(compare([setting]))
        if len(rows) == 1:
            continue
        ours = seconds(solver(setting))
        theirs = seconds(partial(simulated, setting, TIMED), 1) / TIMED
        risk = simulated(setting, TIMED)
        stated = np.array([row.stated for row in rows])
        level = max(float((TIMED * (relative_error(risk) / stated) ** 2).max()), 3.0)
        simulated_error, reach = difference_error(rows), paired_spread(setting)
        difference = max(float(np.median(reach**2) / simulated_error**2), 3.0)
        levels.append(level * theirs / ours)
        differences.append(difference * theirs / ours)
        print(
            f"| {setting.round} {place_of(setting)} | {setting.M} | {1e3 * ours:.1f} | "
            f"{1e3 * theirs:.2f} | {level:.0f} | {levels[-1]:.1f} | "
            f"{100 * simulated_error:.2f} | {difference:.0f} | {differences[-1]:.1f} |"
        )
    for name, ratios in (("level", levels), ("difference", differences)):
        print(
            f"\nMonte Carlo takes {np.median(ratios):.1f} times as long for the {name} in the "
            f"median of {len(ratios)} settings ({min(ratios):.1f} to {max(ratios):.1f}); at least "
            f"5 times in {sum(ratio >= 5.0 for ratio in ratios)}."
        )


def difference_error(rows):
    """Root mean square error of differences to the constant batch, in parts of its excess."""
    first = rows[0]
    errors = [(row.mean_field - first.mean_field) - (row.excess - first.excess) for row in rows[1:]]
    return max(float(np.sqrt(np.mean(np.square(errors)))) / first.excess, 1e-3)


def paired_spread(setting):
    """Standard deviation of one repetition's difference to the constant batch, likewise."""
    batches = setting.batches()
    names = list(batches)
    risks = [
        bl.simulate_one_pass(
            setting.problem(),
            setting.rates(),
            batches[name],
            repetitions=TIMED,
            seed=SEED,
            rule=setting.rule(),
            threads=1,
        )
        for name in names
    ]
    errors = [paired_difference(risk, risks[0])[1] for risk in risks[1:]]
    return np.array(errors) * np.sqrt(TIMED) / risks[0].excess


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--round", choices=list(ROUNDS), action="append")
    parser.add_argument("--quick", action="store_true", help="every third setting")
    parser.add_argument("--measure", action="store_true", help="measure the averages again")
    parser.add_argument("--cost", action="store_true", help="also compare the cost")
    parser.add_argument(
        "--seconds", type=float, default=MOST_SECONDS, help="most seconds to measure a setting"
    )
    given = parser.parse_args()
    settings = [setting for name in given.round or ROUNDS for setting in ROUNDS[name]]
    if given.quick:
        settings = settings[::3]
    if given.measure:
        measure(settings, given.seconds)
    rows = list(compare(settings))
    print_table(rows)
    print_summary(rows)
    write_table(rows)
    if given.cost:
        print_cost(settings)


if __name__ == "__main__":
    main()
