"""What schedules lose if they are estimated from pilot samples."""

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
    """Mean regret against pilot samples, one panel per run; corrected solid, plug-in dashed.

    Parameters
    ----------
    curves
        Results of ``bl.estimate.plug_in_regret`` by title of the run, then by "spectrum|method".
    targets
        Efficiencies to reach, by the number of pilot samples.
    """
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(8.4, 4.0), layout="constrained")
        panels = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
        for axes, (run, lines) in zip(panels, curves.items(), strict=True):
            spectra = list(dict.fromkeys(name.partition("|")[0] for name in lines))
            for name, curve in lines.items():
                spectrum, _, method = name.partition("|")
                plug_in = method == "plug-in"
                axes.errorbar(
                    [row.samples for row in curve],
                    [1.0 - row.mean for row in curve],
                    yerr=[row.error for row in curve],
                    color=CYCLE[spectra.index(spectrum)],
                    linestyle="--" if plug_in else "-",
                    linewidth=1.0 if plug_in else 1.6,
                    capsize=2,
                    label=None if plug_in else spectrum,
                )
            losses = [1.0 - efficiency for efficiency in targets.values()]
            axes.plot(list(targets), losses, "kv", label="asked for at the paper's spectrum")
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
