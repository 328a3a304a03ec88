"""Estimates from pilot samples: what their schedules lose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from batchlaw.plots.common import CYCLE, RC

if TYPE_CHECKING:
    from batchlaw.from_data import Regret


def regret_figure(
    curves: Mapping[str, Mapping[str, Sequence[Regret]]], targets: Mapping[int, float]
) -> Figure:
    """Mean regret against pilot samples, a panel a run: solid corrected, dashed plug-in.

    ``curves`` is by run, then by "spectrum|method"; ``targets`` are efficiencies to reach.
    """
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(8.4, 4.0), layout="constrained")
        panels = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
        for axes, (run, lines) in zip(panels, curves.items(), strict=True):
            spectra = list(dict.fromkeys(name.partition("|")[0] for name in lines))
            for name, curve in lines.items():
                spectrum, _, method = name.partition("|")
                plain = method == "plug-in"
                axes.errorbar(
                    [row.samples for row in curve],
                    [1.0 - row.mean for row in curve],
                    yerr=[row.error for row in curve],
                    color=CYCLE[spectra.index(spectrum)],
                    linestyle="--" if plain else "-",
                    linewidth=1.0 if plain else 1.6,
                    capsize=2,
                    label=None if plain else spectrum,
                )
            at = list(targets)
            axes.plot(
                at, [1.0 - targets[n] for n in at], "kv", label="asked for at the paper's spectrum"
            )
            axes.set(title=run, xlabel="pilot samples", xscale="log", yscale="log")
            ticks = [row.samples for row in next(iter(lines.values()))]
            axes.set_xticks(ticks, [f"{n}" for n in ticks])
            axes.xaxis.set_minor_formatter(NullFormatter())
        panels[0].set_ylim(1e-6, 0.3)
        panels[0].set_ylabel("1 - efficiency, mean and s.e. over pilots")
        handles = panels[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=3)
        figure.suptitle("Lost by a schedule from a pilot sample (dashed: uncorrected eigenvalues)")
    return figure
