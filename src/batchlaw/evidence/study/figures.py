"""Figures of the study: loss differences by schedule, and measured against predicted noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from batchlaw.plots.common import CYCLE, RC

COLUMNS = 3
NOISE_LIMITS = (0.1, 20.0)


def study_losses_figure(panels: Mapping[str, Sequence[tuple[str, float, float]]]) -> Figure:
    """One panel per comparison: (schedule, difference to constant, upper end of its interval)."""
    rows = math.ceil(len(panels) / COLUMNS)
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(10.0, 2.1 * rows + 0.6), layout="constrained")
        grid = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
        for axes, (name, points) in zip(grid, panels.items(), strict=False):
            for k, (_, mean, high) in enumerate(points):
                axes.errorbar(mean, k, xerr=high - mean, fmt="o", color=CYCLE[0], capsize=2)
            axes.axvline(0.0, color="#999999", linewidth=0.8)
            axes.set_yticks(range(len(points)), [schedule for schedule, _, _ in points])
            axes.invert_yaxis()
            axes.xaxis.set_major_locator(MaxNLocator(4))
            axes.set_title(name, fontsize=8)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        figure.supxlabel("validation loss less constant's, each at its best rate (95 %)")
    return figure


def study_noise_figure(points: Sequence[tuple[str, float, float, float]]) -> Figure:
    """Noise ratios as (task, predicted, measured, upper end), on the diagonal where they agree.

    Ratios beyond the axes are drawn at their ends, as triangles.
    """
    low, high = NOISE_LIMITS
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(5.4, 5.0), layout="constrained")
        axes = figure.subplots()
        tasks = list(dict.fromkeys(point[0] for point in points))
        for task in tasks:
            colour = CYCLE[tasks.index(task) % len(CYCLE)]
            of_task = np.array([point[1:] for point in points if point[0] == task])
            predicted, measured, upper = of_task.T
            beyond = (measured < low) | (measured > high)
            reach = np.minimum(upper - measured, 0.9 * measured)[~beyond]
            axes.errorbar(
                predicted[~beyond],
                measured[~beyond],
                yerr=reach,
                fmt="o",
                markersize=4,
                capsize=2,
                color=colour,
                label=task,
            )
            ends = np.clip(measured[beyond], 1.05 * low, high / 1.05)
            axes.plot(predicted[beyond], ends, "^", markersize=5, color=colour)
        axes.plot(NOISE_LIMITS, NOISE_LIMITS, color="#999999", linewidth=0.8)
        axes.set(xscale="log", yscale="log", xlim=NOISE_LIMITS, ylim=NOISE_LIMITS)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.set(xlabel="predicted noise over constant's", ylabel="measured (95 %)")
        if tasks:
            axes.legend()
    return figure
