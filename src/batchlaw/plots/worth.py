"""The map of what a batch schedule is worth."""

from __future__ import annotations

import math
from typing import Literal

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FormatStrFormatter

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.design.schedule_worth import WorthMap
from batchlaw.plots.common import CYCLE, RC

COLUMNS = 3
# Falls of the excess, with the style and width of their contours.
GAINS: dict[float, tuple[Literal["dashed", "solid"], float]] = {
    0.01: ("dashed", 1.3),
    0.1: ("solid", 2.0),
}
# Points between two of the map, for contours; and the smallest fall told from none.
FINER, SMALLEST_FALL = 8, 1e-3


def worth_figure(found: WorthMap) -> Figure:
    """Where the optimal schedule lowers the excess by 1 % and by 10 %, one panel per spectrum.

    Parameters
    ----------
    found
        Result of ``bl.design.worth_map``, with at least two run lengths and two batches.
    """
    columns = min(COLUMNS, len(found.exponents))
    rows = math.ceil(len(found.exponents) / columns)
    colors = [CYCLE[k % len(CYCLE)] for k in range(len(found.sigmas))]
    with matplotlib.rc_context(RC):
        figure = Figure(
            figsize=(1.2 + 3.1 * columns, 1.2 + 2.7 * rows), layout="constrained", facecolor="white"
        )
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for axes in grid.flat[len(found.exponents) :]:
            axes.set_visible(False)
        for k, (a, b) in enumerate(found.exponents):
            axes = grid.flat[k]
            axes.set(xscale="log", yscale="log", title=f"a = {a:g}, b = {b:g}")
            axes.grid(visible=True, color="0.92")
            axes.set_yscale("log", base=2)
            axes.yaxis.set_major_formatter(FormatStrFormatter("%d"))
            axes.set_xlim(found.horizons[0], found.horizons[-1])
            axes.set_ylim(found.batches[0], found.batches[-1])
            for s, color in enumerate(colors):
                x, y, falls = _finer(found.horizons, found.batches, -found.excess[k, s])
                for gain, (style, width) in GAINS.items():
                    axes.contour(
                        x,
                        y,
                        falls.T,
                        levels=[gain],
                        colors=[color],
                        linestyles=[style],
                        linewidths=[width],
                    )
        figure.supxlabel("steps × rate")
        figure.supylabel("mean batch (samples)")
        handles = [
            *(
                Line2D([], [], color=color, label=rf"label noise $\sigma$ = {sigma:g}")
                for sigma, color in zip(found.sigmas, colors, strict=True)
            ),
            *(
                Line2D(
                    [],
                    [],
                    color="0.3",
                    linestyle=style,
                    linewidth=width,
                    label=f"excess falls by {100 * gain:g} %",
                )
                for gain, (style, width) in GAINS.items()
            ),
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return figure


def _finer(
    horizons: FloatArray, batches: IntArray, falls: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """More points between those of the map, linear in logarithms, as the laws are powers."""
    from scipy.interpolate import RegularGridInterpolator

    knots = np.log(horizons), np.log(batches)
    fine = [
        np.interp(np.arange(0, k.size - 1 + 1e-9, 1 / FINER), np.arange(k.size), k) for k in knots
    ]
    between = RegularGridInterpolator(knots, np.log(np.maximum(falls, SMALLEST_FALL)))
    values = between(tuple(np.meshgrid(*fine, indexing="ij")))
    return np.exp(fine[0]), np.exp(fine[1]), np.exp(values)
