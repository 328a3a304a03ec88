"""Published laws of loss curves on public curves: fitted to three runs, scored on the others.

    python benchmarks/laws_public.py DATA               # a table, within a minute
    python benchmarks/laws_public.py DATA --law multi   # laws whose name holds a word

DATA holds copies of two public sets, both MIT, which are not part of this project:

- ``multi_power_law/25m`` (``100m``, ``400m``) has the files of ``loss_curve_repo/csv_25`` (and so
  on) of GitHub thu-yao-01-luo/MultiPowerLaw at commit 8da9f190: step, lr, loss of nine schedules.
- ``schedules_124m`` has ``runs.csv``, one line per run with its settings and final loss, and
  ``validation.csv.gz``, the curves (run, step, val_loss), made from ``data/`` of GitHub
  fabian-sp/lr-scheduling at commit 8ace3a32.

The split is that of Luo et al. 2025: fit cosine_24000, constant_24000 and wsdcon_9, predict the
other six. An error is averaged over the points of a curve, then over the six curves.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import batchlaw as bl
from batchlaw._base.checks import FloatArray
from batchlaw.from_data.laws.published import PUBLISHED, PublishedLaw
from batchlaw.from_data.laws.published.multi_power import MultiPowerLaw

Predict = Callable[[bl.Run], FloatArray]

SIZES = ("25m", "100m", "400m")
FITTED = ("cosine_24000", "constant_24000", "wsdcon_9")
HELD_OUT = (
    "constant_72000",
    "cosine_72000",
    "wsd_20000_24000",
    "wsdld_20000_24000",
    "wsdcon_3",
    "wsdcon_18",
)
# What the authors report for their own fit of the multi-power law: mean absolute errors.
PUBLISHED_ERRORS = {"25m": 0.00376, "100m": 0.00435, "400m": 0.00484}
# Parameters that they report, in their code: L0, A, alpha, B, C, beta, gamma.
PUBLISHED_PARAMETERS = {
    "25m": (3.04045406, 0.52468604, 0.50786857, 363.78751622, 2.06560812, 0.58279013, 0.64142257),
    "100m": (2.6514477, 0.60115152, 0.45295811, 437.9464276, 2.13245612, 0.59785199, 0.65523644),
    "400m": (2.37474466, 0.65421216, 0.42878731, 523.42464371, 2.02462735, 0.59350493, 0.63472457),
}
PEAK, WARMUP, LOW = 3e-4, 2160, 3e-5
ADAM = {"beta1": 0.9, "beta2": 0.95, "weight_decay": 0.1}


def load_multi_power(folder: Path | str, size: str) -> dict[str, bl.Run]:
    """Name of the schedule -> its run, of the model of one size: 25m, 100m or 400m.

    The logs start after the warmup and have the rates of some steps only: the others follow from
    the schedule's name, and are checked against the log. The batch, one size for all, counts as 1.
    """
    runs = {}
    for path in sorted((Path(folder) / "multi_power_law" / size).glob("*.csv")):
        step, rate, loss = np.loadtxt(path, delimiter=",", skiprows=1, unpack=True)
        rates = multi_power_rates(path.stem)
        at = step.astype(int)
        if not np.allclose(rates[at - 1], rate, rtol=1e-6):
            raise ValueError(f"{path}: the rates in the log are not those of its schedule")
        facts = {"schedule": path.stem, "size": size}
        runs[path.stem] = bl.Run(
            rates, np.ones_like(rates), at, loss, rule=bl.adam(**ADAM), facts=facts
        )
    if not runs:
        raise FileNotFoundError(f"no curves in {Path(folder) / 'multi_power_law' / size}")
    return runs


def multi_power_rates(name: str) -> FloatArray:
    """Rates of updates 1 to T of one of the nine schedules; the rate logged at step t is the t-th.

    A warmup of 2160 steps, linear from 0, and then by name: ``constant_T``, ``cosine_T`` (to a
    tenth), ``wsd_S_T`` and ``wsdld_S_T`` (an exponential and a linear decay to a tenth from step
    S), ``wsdcon_R`` (from step 8000 to 16000 at the rate R 1e-5).
    """
    kind, *numbers = name.split("_")
    total = 16_000 if kind == "wsdcon" else int(numbers[-1])
    t = np.arange(1, total + 1)
    rates = PEAK * np.minimum(t / WARMUP, 1.0)
    if kind == "cosine":
        along = np.clip((t - WARMUP) / (total - WARMUP), 0.0, 1.0)
        return np.where(t < WARMUP, rates, LOW + 0.5 * (PEAK - LOW) * (1 + np.cos(np.pi * along)))
    if kind == "wsdcon":
        return np.where(t < 8000, rates, 1e-5 * int(numbers[0]))
    if kind in ("wsd", "wsdld"):
        start = int(numbers[0])
        along = np.clip((t - start) / (total - start), 0.0, 1.0)
        decay = PEAK ** (1 - along) * LOW**along if kind == "wsd" else PEAK + (LOW - PEAK) * along
        return np.where(t < start, rates, decay)
    return rates


def load_124m(folder: Path | str) -> list[tuple[bl.Run, dict[str, Any]]]:
    """Every run of the 124M model with its facts, among them ``final_val_loss``.

    The final loss is that of a larger validation set, about 0.035 above the curve's end. Most WSD
    curves hold their decay only, so ``run.steps`` starts late; the rates are those of all updates.
    Rows are sorted by step; where a step repeats, after a restart, the last row counts.
    """
    place = Path(folder) / "schedules_124m"
    curves: dict[int, dict[int, float]] = defaultdict(dict)
    with gzip.open(place / "validation.csv.gz", "rt", newline="") as stream:
        for row in csv.DictReader(stream):
            curves[int(row["run"])][int(row["step"])] = float(row["val_loss"])
    runs = []
    with (place / "runs.csv").open(newline="") as stream:
        for row in csv.DictReader(stream):
            facts = {name: _value(text) for name, text in row.items()}
            curve = curves[facts["run"]]
            steps = np.array(sorted(curve))
            rates = rates_124m(facts)
            run = bl.Run(
                rates,
                np.full(rates.size, float(facts["batch_sequences"])),
                steps,
                [curve[step] for step in steps],
                rule=bl.adam(**ADAM),
                facts=facts,
            )
            runs.append((run, facts))
    return runs


def rates_124m(facts: Mapping[str, Any]) -> FloatArray:
    """Rates of one run of the 124M model, from its line in ``runs.csv``.

    A linear warmup to ``peak``, then a cosine to ``final_rate_share`` of it; or constant until the
    last ``decay_fraction`` of the steps, which fall to zero linearly or as 1 - sqrt.
    """
    total, warmup, peak = facts["steps"], facts["warmup"], facts["peak"]
    t = np.arange(1, total + 1)
    shape = np.minimum(t / warmup, 1.0)
    if facts["decay"] == "cosine":
        low = facts["final_rate_share"]
        along = np.clip((t - warmup) / (total - warmup), 0.0, 1.0)
        shape = np.where(t < warmup, shape, low + 0.5 * (1 - low) * (1 + np.cos(np.pi * along)))
    elif facts["decay"] != "none":
        length = facts["decay_fraction"] * total
        along = np.clip((t - (total - length)) / length, 0.0, 1.0)
        fall = 1 - along if facts["decay"] == "linear" else 1 - np.sqrt(along)
        shape = np.minimum(shape, fall)
    return peak * shape


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def mean_errors(predict: Predict, runs: Mapping[str, bl.Run]) -> dict[str, float]:
    """Mean absolute error of every held-out curve, by schedule."""
    return {
        name: float(np.abs(predict(runs[name]) - runs[name].losses).mean()) for name in HELD_OUT
    }


def multi_power_table(folder: Path | str, laws: Sequence[PublishedLaw]) -> Iterator[str]:
    """Errors of the laws on the split of Luo et al., a row for each law and size."""
    yield "| law | model | error | published | " + " | ".join(HELD_OUT) + " | objective | fit, s |"
    yield "| --- | --- |" + " ---: |" * (len(HELD_OUT) + 4)
    for law in laws:
        for size in SIZES:
            runs = load_multi_power(folder, size)
            began = time.perf_counter()
            fitted = law.fit([runs[name] for name in FITTED])
            notes = [f"{fitted.objective:.6f}", f"{time.perf_counter() - began:.1f}"]
            yield _row(law.name, size, fitted.theta, law, runs, notes)
    for size in SIZES if laws else ():
        theta = PUBLISHED_PARAMETERS[size]
        runs = load_multi_power(folder, size)
        yield _row(
            "multi-power law, their parameters", size, theta, MultiPowerLaw(), runs, ["", ""]
        )


def _row(
    name: str,
    size: str,
    theta: ArrayLike,
    law: PublishedLaw,
    runs: Mapping[str, bl.Run],
    notes: list[str],
) -> str:
    errors = mean_errors(lambda run: law.curve(theta, run.rates, run.batches, run.steps), runs)
    published = f"{PUBLISHED_ERRORS[size]:.5f}" if isinstance(law, MultiPowerLaw) else ""
    numbers = [f"{error:.5f}" for error in (np.mean(list(errors.values())), *errors.values())]
    return "| " + " | ".join([name, size, numbers[0], published, *numbers[1:], *notes]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", help="where the copies of the public sets are")
    parser.add_argument("--law", default="", help="only laws whose name holds this")
    given = parser.parse_args()
    laws = [law for law in PUBLISHED if given.law in law.name]
    for line in multi_power_table(given.folder, laws):
        print(line, flush=True)


if __name__ == "__main__":
    main()
