"""The tables and figures of docs/reuse.md: what reuse does to each term at df/N from 0.1 to 1.

.venv/bin/python benchmarks/reuse_departures.py [--figures docs/figures]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from batchlaw.evidence.claims.check_settings import wide_problem
from batchlaw.evidence.claims.reuse_departures import SHARES
from batchlaw.evidence.claims.reuse_runs import ReuseRuns, reuse_runs
from batchlaw.plots.common import save
from batchlaw.plots.reuse import reuse_epochs, reuse_factors
from batchlaw.theory.reuse_limit import (
    first_order_bias,
    first_order_variance,
    gd_bias_factor,
    gd_variance_factor,
    training_residual,
)

# (a, b) and the sizes of the datasets.
CASES = {
    (1.2, 1.1): (64, 256, 1024),
    (1.2, 2.0): (64, 256, 1024),
    (1.5, 1.5): (64, 256),
    (1.5, 2.2): (64, 256),
    (2.0, 1.5): (32, 128),
    (2.0, 2.6): (32, 128),
    (3.0, 2.5): (32,),
}
LEVELS = (0.05, 0.1, 0.5)
FINE = np.geomspace(0.01, 2.0, 400)


def limits(a: float, b: float, share: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "bias": gd_bias_factor(share, a, b),
        "variance": gd_variance_factor(share, a),
        "fluctuation": training_residual(share, a),
    }


def reached(share: np.ndarray, factor: np.ndarray, level: float) -> str:
    """The first df/N at which |factor - 1| is ``level``, interpolated in log df/N."""
    departure = np.abs(factor - 1.0)
    past = np.flatnonzero(departure >= level)
    if past.size == 0:
        return f"> {share[-1]:.2g}"
    k = int(past[0])
    if k == 0:
        return f"< {share[0]:.2g}"
    x = np.interp(level, departure[k - 1 : k + 1], np.log(share[k - 1 : k + 1]))
    return f"{np.exp(x):.2f}"


def thresholds(runs: dict[tuple[float, float], list[ReuseRuns]]) -> None:
    """df/N at which each term departs by 5, 10 and 50 %: limit (mean field, largest N)."""
    header = " | ".join(
        f"{part} {level:.0%}" for part in ("bias", "variance", "fluctuation") for level in LEVELS
    )
    print(f"| a, b | slope bias | slope variance | {header} |")
    print("| --- |" + " ---: |" * (2 + 3 * len(LEVELS)))
    for (a, b), members in runs.items():
        cells = [f"{first_order_bias(a, b):.3f}", f"{first_order_variance(a):.3f}"]
        for part, limit in limits(a, b, FINE).items():
            factor = getattr(members[-1], f"{part}_factor")
            cells += [
                f"{reached(FINE, limit, level)} ({reached(members[-1].share, factor, level)})"
                for level in LEVELS
            ]
        print(f"| {a:g}, {b:g} | {' | '.join(cells)} |")


def collapse(runs: dict[tuple[float, float], list[ReuseRuns]]) -> None:
    """Largest relative distance from the limit at every N, and the power p of (1 - df/N)^p."""
    print(
        "\n| a, b | N | epochs at df/N = 0.1, 1 | bias | variance | fluctuation "
        "| p at 0.1 | p at 0.75 |"
    )
    print("| --- |" + " ---: |" * 7)
    for (a, b), members in runs.items():
        for run in members:
            off = [
                f"{100 * np.abs(getattr(run, f'{part}_factor') / limit - 1.0).max():.1f} %"
                for part, limit in limits(a, b, run.share).items()
            ]
            powers = np.log(run.fluctuation_factor) / np.log(np.abs(1.0 - run.share))
            p = [f"{powers[0]:.2f}", f"{powers[-2]:.2f}"]
            ends = f"{run.epochs[0]:.0f}, {run.epochs[-1]:.0f}"
            print(f"| {a:g}, {b:g} | {run.samples} | {ends} | {' | '.join(off + p)} |")


def at_one(runs: dict[tuple[float, float], list[ReuseRuns]]) -> None:
    """The factors and terms of the longest run."""
    print(
        "\n| a, b | N | df/N | bias / one pass | variance / one pass | fluctuation / one pass "
        "| residual left |"
    )
    print("| --- |" + " ---: |" * 6)
    for (a, b), members in runs.items():
        run = members[-1]
        left = float(training_residual(run.share[-1], a))
        print(
            f"| {a:g}, {b:g} | {run.samples} | {run.share[-1]:.2f} | {run.bias_factor[-1]:.3f} | "
            f"{run.variance_factor[-1]:.3f} | {run.fluctuation_factor[-1]:.3f} | {left:.3f} |"
        )


def overtaking(run: ReuseRuns) -> None:
    """The epochs after which GD's variance exceeds its bias, with reuse and without."""
    s2 = wide_problem(run.a, run.b).noise_variance
    ratio = s2 * run.variance / run.bias
    found = []
    for values in (ratio, ratio * run.bias_factor / run.variance_factor):
        found.append(np.exp(np.interp(0.0, np.log(values), np.log(run.epochs))))
    print(
        f"\na = {run.a:g}, b = {run.b:g}, N = {run.samples}: GD's variance exceeds its bias after "
        f"{found[0]:.0f} epochs, without reuse after {found[1]:.0f}"
    )


def draw(runs: dict[tuple[float, float], list[ReuseRuns]], directory: Path) -> None:
    shown = {(1.2, 2.0), (1.5, 1.5), (2.0, 2.6), (3.0, 2.5)}
    panels: dict[str, dict] = {part: {} for part in ("bias", "variance", "fluctuation")}
    lines: dict[str, dict] = {part: {} for part in panels}
    share = np.geomspace(0.1, 1.0, 60)
    for (a, b), members in runs.items():
        if (a, b) not in shown:
            continue
        for part, limit in limits(a, b, share).items():
            group = f"a = {a:g}, b = {b:g}" if part == "bias" else f"a = {a:g}"
            lines[part][group] = (share, limit)
            for run in members:
                label = f"{group}: N = {run.samples}"
                panels[part][label] = (run.share, getattr(run, f"{part}_factor"))
    save(reuse_factors(panels, lines), directory / "reuse_factors.png")
    run = runs[1.5, 1.5][-1]
    s2 = wide_problem(run.a, run.b).noise_variance
    terms = {
        "GD bias": (run.bias, run.bias / run.bias_factor),
        "GD variance": (s2 * run.variance, s2 * run.variance / run.variance_factor),
        "fluctuation": (run.fluctuation, run.fluctuation / run.fluctuation_factor),
    }
    save(reuse_epochs(run.epochs, terms), directory / "reuse_epochs.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", type=Path, help="directory for the two figures")
    arguments = parser.parse_args()
    runs = {(a, b): [reuse_runs(a, b, N, SHARES) for N in sizes] for (a, b), sizes in CASES.items()}
    thresholds(runs)
    collapse(runs)
    at_one(runs)
    overtaking(runs[1.5, 1.5][-1])
    if arguments.figures:
        draw(runs, arguments.figures)


if __name__ == "__main__":
    main()
