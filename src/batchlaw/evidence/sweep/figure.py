"""Figure of a sweep's lines."""

from __future__ import annotations

from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from batchlaw.evidence.sweep.curves import Curves
from batchlaw.plots.common import CYCLE, RC

# Values that span at least this factor get a logarithmic axis. If x is logarithmic, a smaller
# factor is enough for y: a power law is straight only if both are.
LOG_SPAN, LOG_SPAN_OF_Y = 10.0, 2.0
LEGEND_ROWS = 24
MARKERS = "os^Dv<>P"


def sweep_figure(curves: Curves) -> Figure:
    """One line per combination of parameters, coloured by the value of one of them."""
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(6.4, 4.4), layout="constrained")
        axes = figure.subplots()
        colours = _colours(list(dict.fromkeys(line.label for line in curves.lines)))
        markers = _markers(list(dict.fromkeys(line.rest for line in curves.lines)))
        for line in curves.lines:
            axes.errorbar(
                line.x,
                line.y,
                yerr=line.errors or None,
                color=colours[line.label],
                marker=markers.get(line.rest, "o"),
                markersize=3,
                linewidth=1.0 if curves.joined else 0.0,
                elinewidth=0.8,
                capsize=2,
            )
        axes.set(xlabel=curves.x, ylabel=curves.y, title=curves.where)
        if _spans(LOG_SPAN, [value for line in curves.lines for value in line.x]):
            axes.set_xscale("log")
        factor = LOG_SPAN if axes.get_xscale() == "linear" else LOG_SPAN_OF_Y
        if _spans(factor, [value for line in curves.lines for value in line.y]):
            axes.set_yscale("log")
        entries: list[tuple[str, dict[str, Any]]] = []
        if curves.by is not None:
            entries += [(name, {"color": colour}) for name, colour in colours.items()]
        entries += [(name, {"color": "0.4", "marker": mark}) for name, mark in markers.items()]
        if entries:
            # Beside the axes: there is no room for it among many lines.
            figure.legend(
                [Line2D([], [], markersize=4, linewidth=1.0, **look) for _, look in entries],
                [name for name, _ in entries],
                title=curves.by.replace("_", " ") if curves.by else None,
                loc="outside right upper",
                ncols=1 + (len(entries) - 1) // LEGEND_ROWS,
            )
    return figure


def _spans(factor: float, values: list[float]) -> bool:
    return min(values) > 0.0 and max(values) >= factor * min(values)


def _markers(rests: list[str]) -> dict[str, str]:
    """One marker per combination of the other parameters, if there are only a few."""
    return dict(zip(rests, MARKERS, strict=False)) if 1 < len(rests) <= len(MARKERS) else {}


def _colours(labels: list[str]) -> dict[str, Any]:
    """Distinct colours for a few labels, ordered shades for many."""
    if len(labels) <= len(CYCLE):
        return dict(zip(labels, CYCLE, strict=False))
    shade = matplotlib.colormaps["viridis"]
    return {label: shade(k / (len(labels) - 1)) for k, label in enumerate(labels)}
