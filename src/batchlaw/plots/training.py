"""Figures of training runs under batch schedules."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib
from matplotlib.figure import Figure

from batchlaw._base.checks import FloatArray
from batchlaw.plots.common import CYCLE, RC

# (updates, middle, half width of an interval) along a run; no interval where it is None.
Band = tuple[FloatArray, FloatArray, FloatArray | None]


def along_runs(
    panels: Mapping[str, Mapping[str, Band]],
    label: str,
    *,
    axis: str = "update",
    logarithmic: bool = False,
) -> Figure:
    """Curves along training, with bands where they are known; one column per panel.

    Parameters
    ----------
    panels
        By title: by name, updates, values and half the width of their interval.
    label
        What is shown.
    axis
        What it is shown over.
    logarithmic
        Whether its axis is.
    """
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(8.4, 2.9), layout="constrained")
        columns = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axes, (title, curves) in zip(columns, panels.items(), strict=True):
            for (name, (updates, middle, half)), colour in zip(curves.items(), CYCLE, strict=False):
                axes.plot(updates, middle, color=colour, label=name)
                if half is not None:
                    ends = middle - half, middle + half
                    axes.fill_between(updates, *ends, color=colour, alpha=0.2, linewidth=0.0)
            if not logarithmic:
                axes.axhline(0.0, color="#999999", linewidth=0.8)
            axes.set(title=title, xlabel=axis, yscale="log" if logarithmic else "linear")
            axes.locator_params(axis="x", nbins=4)
        columns[0].set(ylabel=label)
        columns[0].legend()
    return figure


def schedule_differences(panels: Mapping[str, Mapping[str, tuple[float, float]]]) -> Figure:
    """Final losses less the constant batch's, with their intervals; one column per panel.

    Parameters
    ----------
    panels
        By title: by schedule, the difference and half the width of its interval.
    """
    names = list(dict.fromkeys(name for shown in panels.values() for name in shown))
    with matplotlib.rc_context(RC):
        size = (2.2 + 2.1 * len(panels), 0.8 + 0.27 * len(names))
        figure = Figure(figsize=size, layout="constrained")
        columns = figure.subplots(1, len(panels), sharey=True, sharex=True, squeeze=False)[0]
        for axes, (title, shown) in zip(columns, panels.items(), strict=True):
            for row, name in enumerate(names):
                if name in shown:
                    middle, half = shown[name]
                    better, worse = CYCLE[0], CYCLE[1]
                    colour = better if middle < -half else worse if middle > half else "#777777"
                    axes.errorbar(middle, row, xerr=half, fmt="o", color=colour, markersize=4)
            axes.axvline(0.0, color="#999999", linewidth=0.8)
            axes.set(title=title, yticks=range(len(names)), yticklabels=names)
        columns[0].invert_yaxis()
        figure.supxlabel("validation loss less the constant batch's", fontsize="medium")
    return figure
