"""Figures of data reuse: terms over those of one pass, and terms against epochs."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib
from matplotlib.figure import Figure

from batchlaw._base.checks import FloatArray
from batchlaw.plots.common import CYCLE, RC

MARKERS = ("o", "s", "^", "D", "v")


def reuse_factors(
    panels: Mapping[str, Mapping[str, tuple[FloatArray, FloatArray]]],
    limits: Mapping[str, Mapping[str, tuple[FloatArray, FloatArray]]],
) -> Figure:
    """One panel per term: measured factors as points and limits as lines, against df/N.

    Parameters
    ----------
    panels
        Term -> "group: size" -> (df/N, factor). A group has one colour, its sizes one marker each.
    limits
        Term -> group -> (df/N, factor).
    """
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(9.6, 3.6), layout="constrained")
        axes_row = figure.subplots(1, len(panels))
        for axes, (term, curves) in zip(axes_row, panels.items(), strict=True):
            colours = dict(zip(limits[term], CYCLE, strict=False))
            for group, (share, factor) in limits[term].items():
                axes.plot(share, factor, color=colours[group], linewidth=1.0)
            sizes: dict[str, int] = {}
            for label, (share, factor) in curves.items():
                group = label.partition(":")[0]
                marker = MARKERS[sizes.get(group, 0) % len(MARKERS)]
                sizes[group] = sizes.get(group, 0) + 1
                axes.plot(
                    share,
                    factor,
                    marker,
                    color=colours[group],
                    markersize=3.5,
                    mfc="none",
                    label=label,
                )
            axes.axhline(1.0, color="#999999", linewidth=0.8, linestyle=":")
            axes.set(xscale="log", xlabel="df/N", title=f"{term} / one pass")
            axes.legend(fontsize=6)
    return figure


def reuse_epochs(epochs: FloatArray, terms: Mapping[str, tuple[FloatArray, FloatArray]]) -> Figure:
    """Each term against epochs: with reuse (points), and with fresh samples (dashed).

    Parameters
    ----------
    terms
        Name -> (with reuse, without), arrays like ``epochs``.
    """
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(5.0, 3.6), layout="constrained")
        axes = figure.subplots()
        for (name, (reused, fresh)), colour in zip(terms.items(), CYCLE, strict=False):
            axes.plot(epochs, reused, "o-", color=colour, markersize=4, label=name)
            axes.plot(epochs, fresh, "--", color=colour, linewidth=1.0)
        axes.set(xscale="log", yscale="log", xlabel="epochs", ylabel="part of the excess risk")
        axes.set_title("dashed: the same updates without reuse", fontsize=8)
        axes.legend()
    return figure
