"""Figures of schedules and their risks: trajectories, plans, comparisons, constant batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from batchlaw.plots.common import INFLUENCE, RATE, RC, ROOT, STYLES

if TYPE_CHECKING:
    from batchlaw.design.comparison import Compared
    from batchlaw.design.constant_batch import Curve, Saturation
    from batchlaw.design.run_length import RunChoice


def trajectory_figure(names: Sequence[str], curves: Mapping[str, np.ndarray], noise: str) -> Figure:
    """Parts of the risk after every step: those that all schedules share, and the noise of each.

    Parameters
    ----------
    names
        Schedules, one per row of the curves: families, or files.
    curves
        (S, T + 1) arrays by part of the risk.
    noise
        The part that depends on the schedule: "variance" or "fluctuation".
    """
    steps = curves["bias"].shape[1] - 1
    colors = [style[0] for style in STYLES.values()] + [INFLUENCE, ROOT]
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(7.5, 4.2), layout="constrained")
        axes = figure.subplots()
        axes.plot(curves["bias"][0], color=RATE, linestyle="--", label="bias (all schedules)")
        if noise == "fluctuation":
            variance = _positive(curves["variance"][0])
            axes.plot(variance, color=RATE, linestyle=":", label="variance (all schedules)")
        for row, name in enumerate(names):
            color = STYLES[name][0] if name in STYLES else colors[row % len(colors)]
            values = _positive(curves[noise][row])
            axes.plot(values, color=color, label=f"{noise}, {Path(name).stem}")
        axes.set(
            title="Risk along the run",
            xlabel="updates done",
            ylabel="parts of the excess",
            yscale="log",
            xlim=(0, steps),
        )
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _positive(values: np.ndarray) -> np.ndarray:
    """NaN for zeros, which a logarithmic axis cannot show: there is no noise at the start."""
    return np.where(values > 0.0, values, np.nan)


def plan_figure(rates: np.ndarray, batches: np.ndarray) -> Figure:
    """Rates and batch sizes of a plan along the run."""
    t = np.arange(1, rates.size + 1)
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(7.5, 3.6), layout="constrained")
        axes = figure.subplots()
        axes.plot(t, rates, color=RATE, label="rate (left)")
        axes.set(xlabel="update", ylabel="learning rate", ylim=(0.0, 1.3 * rates.max()))
        right = axes.twinx()
        right.spines["right"].set_visible(True)
        right.step(
            t, batches, where="mid", color=STYLES["oracle"][0], label="planned batch (right)"
        )
        mean = float(batches.mean())
        right.axhline(mean, color="0.5", linestyle=":", label=f"constant batch {mean:.4g} (right)")
        right.set(ylabel="batch size (samples)", ylim=(0.0, 1.3 * batches.max()))
        handles = [axis.get_legend_handles_labels() for axis in (axes, right)]
        lines, names = (first + second for first, second in zip(*handles, strict=True))
        axes.legend(lines, names, ncols=3, loc="upper center")
    return figure


def comparison_figure(rows: Sequence[Compared]) -> Figure:
    """Batches along the run, and the excess, of schedules in common use.

    Parameters
    ----------
    rows
        Results of ``bl.design.compare``.
    """
    colors = ["#0072B2", "#000000", "#E69F00", "#CC79A7", INFLUENCE, ROOT]
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(10.0, 3.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        for row, color in zip(rows, colors, strict=True):
            left.plot(np.arange(1, row.batches.size + 1), row.batches, color=color, label=row.name)
        left.set(title="Batches at an equal budget", xlabel="update", ylabel="batch size (samples)")
        left.set_yscale("log")
        left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3)
        y = np.arange(len(rows))[::-1]
        bias = [row.risk.bias for row in rows]
        variance = [row.risk.variance for row in rows]
        right.barh(y, bias, color="0.75", label="bias")
        right.barh(y, variance, left=bias, color=colors, label="variance")
        right.set_yticks(y, [row.name for row in rows])
        right.set(title="Exact excess", xlabel="bias + variance")
        right.legend(
            handles=[Rectangle((0, 0), 1, 1, color="0.75"), Rectangle((0, 0), 1, 1, color="0.3")],
            labels=["bias", "variance (coloured)"],
            loc="upper center",
            bbox_to_anchor=(0.5, -0.18),
            ncols=2,
        )
    return figure


def frontier_figure(choices: Sequence[RunChoice]) -> Figure:
    """Risk against wall-clock time along the frontier.

    Parameters
    ----------
    choices
        Result of ``bl.design.frontier``.
    """
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(5.5, 3.6), layout="constrained")
        axes = figure.subplots()
        seconds, risks = [c.seconds for c in choices], [c.total for c in choices]
        axes.plot(seconds, risks, "o-", color=STYLES["oracle"][0], markersize=4)
        for choice in choices[:: max(len(choices) // 6, 1)]:
            axes.annotate(
                f"T = {choice.steps}",
                (choice.seconds, choice.total),
                textcoords="offset points",
                xytext=(6, 6),
                fontsize=7,
            )
        axes.set(
            title="Risk against wall-clock, samples fixed",
            xlabel="seconds (cost model)",
            ylabel="expected risk",
            xscale="log",
        )
    return figure


def static_batch_figure(curves: Sequence[Curve], saturations: Sequence[Saturation]) -> Figure:
    """Risk against a constant batch at fixed N; saturation batch and noise scale against T.

    Parameters
    ----------
    curves
        Results of ``bl.design.reducible_curve``, one per N.
    saturations
        Results of ``bl.design.saturation``, one per number of updates.
    """
    colors = ["#56B4E9", "#0072B2", "#000000", INFLUENCE]
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(10.0, 3.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        for k, curve in enumerate(curves):
            color, best = colors[k % len(colors)], curve.best
            left.plot(curve.batches, curve.reducible, color=color, label=f"N = {curve.samples:,}")
            left.plot(best.batch, best.parts.reducible, "o", color=color, markersize=5)
        left.plot([], [], "o", color="0.5", markersize=5, label="minimum")
        left.set(
            title="Reducible risk at a fixed number of samples",
            xlabel="constant batch size B (T = N/B updates)",
            ylabel=r"expected risk $-\,\sigma^2$",
        )
        steps = [row.steps for row in saturations]
        for values, style, color, label in (
            ([row.noise.final for row in saturations], "^-", INFLUENCE, "noise scale, last update"),
            (
                [row.noise.mean for row in saturations],
                "v-",
                "#E69F00",
                "noise scale, rate-weighted",
            ),
            ([row.batch for row in saturations], "o-", "#0072B2", "saturation batch, exact"),
            ([row.batch_by_law for row in saturations], "--", "0.4", "saturation batch, law"),
        ):
            right.plot(steps, values, style, color=color, markersize=4, label=label)
        right.set(
            title="Where a larger batch stops helping",
            xlabel="updates T",
            ylabel="batch size (samples)",
        )
        for axes in (left, right):
            axes.set(xscale="log", yscale="log")
            axes.legend(loc="upper left")
    return figure
