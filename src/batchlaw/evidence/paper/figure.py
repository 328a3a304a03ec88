"""The paper's figure."""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from batchlaw.evidence.paper.comparison import Comparison
from batchlaw.evidence.paper.multi_pass_sweep import MultiPassSweep
from batchlaw.evidence.paper.one_pass_sweep import OnePassSweep
from batchlaw.evidence.paper.profile import Profile
from batchlaw.evidence.paper.sweep import Collapse
from batchlaw.plots.common import INFLUENCE, RATE, RC, ROOT, STYLES


def paper_figure(
    one_pass: OnePassSweep,
    multi_pass: MultiPassSweep,
    comparisons: list[Comparison],
    profile: Profile,
) -> Figure:
    """The paper's figure 1: two collapses, the ratios, the WSD profile."""
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(10.0, 7.6), layout="constrained")
        (a, b), (c, d) = figure.subplots(2, 2)
        _collapse_panel(a, one_pass, 1.0 / one_pass.predictor, "c / B_eff")
        a.set(
            title="(a) One pass, measured ± 1 s.e.",
            xlabel=r"effective batch size $B_\mathrm{eff}$ (samples)",
            ylabel="centred variance (risk units)",
        )
        _collapse_panel(b, multi_pass, multi_pass.predictor, "c rho_eff")
        b.set(
            title="(b) Multi-pass, measured ± 1 s.e.",
            xlabel=r"effective fluctuation factor $\rho_\mathrm{eff}$",
            ylabel="fluctuation around GD (risk units)",
        )
        _ratio_panel(c, comparisons)
        _profile_panel(d, profile)
    return figure


def _collapse_panel(axes: Axes, collapse: Collapse, x: np.ndarray, law: str) -> None:
    values, errors = collapse.measured, collapse.standard_errors()
    multiple, error = collapse.multiple()
    order = np.argsort(x)
    name = {"c / B_eff": r"$c\,/B_\mathrm{eff}$", "c rho_eff": r"$c\,\rho_\mathrm{eff}$"}[law]
    axes.plot(
        x[order],
        multiple * collapse.predictor[order],
        ":",
        color="0.4",
        label=f"fit {name}, c = {multiple:.3g} ± {error:.1g}",
    )
    cells = collapse.sweep.cells()
    for schedule, (color, marker, label) in STYLES.items():
        rows = [row for row, _, name in cells if name == schedule]
        axes.errorbar(
            x[rows],
            values[rows],
            errors[rows],
            fmt=marker,
            color=color,
            markersize=4,
            markerfacecolor="none",
            elinewidth=0.8,
            label=label,
        )
    axes.set(xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    # The law runs from corner to corner; the legend goes into a free one.
    axes.legend(loc="upper right" if law == "c / B_eff" else "upper left")
    axes.margins(y=0.12)


def _ratio_panel(axes: Axes, comparisons: list[Comparison]) -> None:
    procedures = list(dict.fromkeys(row.procedure for row in comparisons))
    position = 0.0
    ticks, labels, centres = [], [], []
    for procedure in procedures:
        rows = [row for row in comparisons if row.procedure == procedure]
        x = position + np.arange(len(rows))
        first = position == 0.0
        axes.bar(
            x,
            [row.measured_ratio for row in rows],
            width=0.62,
            yerr=[row.measured_ratio_se for row in rows],
            color=[STYLES[row.schedule][0] for row in rows],
            alpha=0.55,
            error_kw={"elinewidth": 1.0, "capsize": 3, "ecolor": "0.35"},
            label="measured, ± 1 s.e." if first else None,
        )
        for k, row in zip(x, rows, strict=True):
            axes.plot(
                [k - 0.4, k + 0.4],
                [row.predicted_ratio] * 2,
                color=ROOT,
                linewidth=1.8,
                label="predicted" if k == 0 else None,
            )
            axes.plot(
                k,
                row.exact_ratio,
                "x",
                color=INFLUENCE,
                markeredgewidth=1.6,
                zorder=5,
                label="expected" if k == 0 else None,
            )
        ticks += list(x)
        labels += [STYLES[row.schedule][2].replace(", ", ",\n").replace(" ", "\n") for row in rows]
        centres.append((float(x.mean()), procedure.replace("_", "-")))
        position += len(rows) + 0.7
    axes.set_xticks(ticks, labels, fontsize=7)
    top = 1.32 * max(row.measured_ratio + row.measured_ratio_se for row in comparisons)
    axes.set(
        title="(c) Error relative to the constant schedule",
        ylabel="ratio to constant",
        ylim=(0.0, top),
    )
    for centre, name in centres:
        axes.text(centre, 0.87 * top, name, ha="center", weight="bold")
    axes.axhline(1.0, color="0.7", linewidth=0.7, zorder=0)
    legend = axes.legend(loc="upper center", ncols=3, columnspacing=1.2, handlelength=1.4)
    for handle in legend.legend_handles:
        if isinstance(handle, Rectangle):
            handle.set_facecolor("0.6")


def _profile_panel(axes: Axes, profile: Profile) -> None:
    t = np.arange(1, profile.rates.size + 1)
    for values, color, label in (
        (profile.rates, RATE, r"rate $\gamma_t$"),
        (profile.kappa, INFLUENCE, r"influence $\kappa_t$"),
        (np.sqrt(profile.kappa), ROOT, r"$\sqrt{\kappa_t}$"),
    ):
        axes.plot(t, values / values.max(), color=color, label=label)
    for edge in (profile.warmup_end, profile.stable_end):
        axes.plot([edge, edge], [0.0, 1.1], color="0.8", linewidth=0.8, linestyle="--", zorder=0)
    for start, end, name in (
        (0, profile.warmup_end, "warmup"),
        (profile.warmup_end, profile.stable_end, "stable"),
        (profile.stable_end, t[-1], "decay"),
    ):
        # Warmup is short, so its label is right-aligned at its end.
        x, alignment = (
            (end - 4, "right") if end - start < t[-1] / 6 else ((start + end) / 2, "center")
        )
        axes.text(x, 1.04, name, ha=alignment, fontsize=7, color="0.4")
    axes.set(
        title="(d) WSD influence and the oracle's batches",
        xlabel="update t",
        ylabel="share of the maximum",
        xlim=(-0.09 * t[-1], 1.02 * t[-1]),
        ylim=(0.0, 1.45),
    )
    axes.set_yticks(np.linspace(0.0, 1.0, 6))
    right = axes.twinx()
    right.spines["right"].set_visible(True)
    for batches, schedule in ((profile.oracle, "oracle"), (profile.constant, "constant")):
        color, _, label = STYLES[schedule]
        right.step(
            t, batches, where="mid", color=color, linewidth=0.9, label=f"{label} batch (right axis)"
        )
    right.set(ylabel="batch size (samples)", ylim=(0.0, 1.45 * profile.oracle.max()))
    handles = [axis.get_legend_handles_labels() for axis in (axes, right)]
    lines, names = (first + second for first, second in zip(*handles, strict=True))
    axes.legend(lines, names, ncols=2, loc="upper right", columnspacing=1.2)
