"""Figures about Adam: what each update's samples are worth, and the batches that follow."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from batchlaw._base.checks import FloatArray
from batchlaw.plots.common import CYCLE, RATE, RC


def sample_worth(found: Mapping[str, Mapping[str, FloatArray]]) -> Figure:
    """What a sample more at each update takes off the excess, by cause; one column per decay.

    Parameters
    ----------
    found
        By name of the decay: "rate" and, by cause, curves with one entry per update.
    """
    return _columns(found, "excess saved by a sample (percent)")


def best_batches(found: Mapping[str, Mapping[str, FloatArray]]) -> Figure:
    """Batch schedules under the rates of several decays; one column per decay.

    Parameters
    ----------
    found
        By name of the decay: "rate" and, by name, schedules with one entry per update.
    """
    return _columns(found, "batch")


def _columns(found: Mapping[str, Mapping[str, FloatArray]], label: str) -> Figure:
    """The rate behind, scaled to the height of the panel, and every other curve."""
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(8.4, 2.9), layout="constrained")
        panels = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
        curves = [v for column in found.values() for k, v in column.items() if k != "rate"]
        top = max(float(curve.max()) for curve in curves)
        for axes, (decay, column) in zip(panels, found.items(), strict=True):
            rate = column["rate"]
            steps = np.arange(1, rate.size + 1)
            axes.fill_between(steps, top * rate / rate.max(), color=RATE, alpha=0.2, linewidth=0.0)
            others = [(name, curve) for name, curve in column.items() if name != "rate"]
            for (name, curve), colour in zip(others, CYCLE, strict=False):
                axes.plot(steps, curve, color=colour, label=name)
            axes.axhline(0.0, color="#999999", linewidth=0.8)
            axes.set(title=decay, xlabel="update", xlim=(1, rate.size))
        panels[0].set(ylabel=label)
        panels[-1].legend()
    return figure
