"""Figures for explanations: influence, the collapse of schedule families, the two horizons."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from batchlaw._base.checks import FloatArray
from batchlaw.plots.common import CYCLE, INFLUENCE, RATE, RC, STYLES


def influence_concept(found: Mapping[str, FloatArray]) -> Figure:
    """Three panels over the same steps: learning rate, influence, batch.

    Parameters
    ----------
    found
        Three (T,) arrays, from top to bottom, by the label of their axis.
    """
    colours = (RATE, INFLUENCE, CYCLE[0])
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(6.4, 4.6), layout="constrained")
        panels = figure.subplots(3, 1, sharex=True)
        for axes, (name, values), colour in zip(panels, found.items(), colours, strict=True):
            steps = np.arange(1, values.size + 1)
            axes.fill_between(steps, values, color=colour, alpha=0.25, linewidth=0.0)
            axes.plot(steps, values, color=colour)
            axes.set(ylabel=name, ylim=(0.0, None))
        panels[-1].set(xlabel="update", xlim=(1, steps[-1]))
    return figure


def collapse_concept(found: Mapping[str, tuple[FloatArray, FloatArray]]) -> Figure:
    """Exact variance of schedule families against 1 / effective batch, and the line through them.

    Parameters
    ----------
    found
        By name of the family, as in ``bl.schedule_families``: 1 / B_eff and the variance, arrays
        with one entry per budget.
    """
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(4.8, 3.6), layout="constrained")
        axes = figure.subplots()
        for name, (summary, variance) in found.items():
            colour, marker, label = STYLES[name]
            axes.plot(summary, variance, marker, color=colour, markersize=5, label=label)
        summaries = np.concatenate([summary for summary, _ in found.values()])
        slopes = np.concatenate([variance for _, variance in found.values()]) / summaries
        ends = np.array([summaries.min(), summaries.max()])
        axes.plot(ends, np.exp(np.log(slopes).mean()) * ends, color="#999999", linewidth=0.8)
        axes.set(xscale="log", yscale="log", xlabel="1 / effective batch", ylabel="exact variance")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.legend()
    return figure


def horizons_concept(found: Mapping[str, FloatArray], bias: float, noise: float) -> Figure:
    """Bias and noise over the law's power of each horizon: the right horizon gives a flat line.

    Parameters
    ----------
    found
        Arrays with one entry per run: "steps", "bias", "noise", and the two horizons "learning"
        and "memory".
    bias, noise
        The law's exponents of the two parts.
    """
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(7.2, 3.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        for axes, part, power in ((left, "bias", bias), (right, "noise", noise)):
            for k, (horizon, formula) in enumerate(
                (("learning", r"$\gamma T$"), ("memory", r"$\gamma T/\log T$"))
            ):
                flat = found[part] / found[horizon] ** power
                axes.plot(found["steps"], flat / flat[-1], color=CYCLE[k], label=f"over {formula}")
            axes.axhline(1.0, color="#999999", linewidth=0.8)
            axes.set(xscale="log", xlabel="updates T", title=f"{part} over its power of a horizon")
            axes.legend()
        left.set(ylabel="relative to the longest run")
    return figure
