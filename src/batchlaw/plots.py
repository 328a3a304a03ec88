"""Pictures: the only file that imports matplotlib. No mathematics here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

if TYPE_CHECKING:
    from batchlaw.baselines import Compared
    from batchlaw.joint import Choice
    from batchlaw.paper.comparison import Comparison
    from batchlaw.paper.multi_pass_sweep import MultiPassSweep
    from batchlaw.paper.one_pass_sweep import OnePassSweep
    from batchlaw.paper.profile import Profile
    from batchlaw.paper.sweep import Collapse
    from batchlaw.static_batch import Curve, Saturation

# Colours that the colour-blind can tell apart (Okabe and Ito), and a marker each.
STYLES: dict[str, tuple[str, str, str]] = {
    "oracle": ("#0072B2", "o", "oracle"),
    "constant": ("#000000", "s", "constant"),
    "early_large_late_small": ("#E69F00", "^", "early large, late small"),
    "early_small_late_large": ("#CC79A7", "D", "early small, late large"),
}
RATE, INFLUENCE, ROOT = "#999999", "#D55E00", "#009E73"

RC: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "pdf.fonttype": 42,
}


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


def trajectory_figure(names: Sequence[str], bias: np.ndarray, variance: np.ndarray) -> Figure:
    """Bias and variance after every step, a colour a schedule. ``bias`` is the same for all."""
    colors = [style[0] for style in STYLES.values()] + [INFLUENCE, ROOT]
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(7.5, 4.2), layout="constrained")
        axes = figure.subplots()
        axes.plot(bias[0], color=RATE, linestyle="--", label="bias (all schedules)")
        for row, name in enumerate(names):
            color = STYLES[name][0] if name in STYLES else colors[row % len(colors)]
            # At the start there is none, which a logarithm can't show.
            seen = np.where(variance[row] > 0.0, variance[row], np.nan)
            axes.plot(seen, color=color, label=f"variance, {Path(name).stem}")
        axes.set(
            title="Risk along the run",
            xlabel="updates done",
            ylabel="excess risk",
            yscale="log",
            xlim=(0, bias.shape[1] - 1),
        )
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def plan_figure(rates: np.ndarray, batches: np.ndarray) -> Figure:
    """Rates and batch sizes of a plan along the run."""
    t = np.arange(1, rates.size + 1)
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(7.5, 3.6), layout="constrained")
        axes = figure.subplots()
        axes.plot(t, rates, color=RATE, label="rate (left)")
        axes.set(xlabel="update", ylabel="learning rate", ylim=(0.0, 1.3 * rates.max()))
        right = axes.twinx()
        right.spines["right"].set_visible(True)
        right.step(
            t, batches, where="mid", color=STYLES["oracle"][0], label="planned batch (right)"
        )
        mean = float(batches.mean())
        right.axhline(mean, color="0.5", linestyle=":", label=f"constant batch {mean:.4g} (right)")
        right.set(ylabel="batch size (samples)", ylim=(0.0, 1.3 * batches.max()))
        handles = [axis.get_legend_handles_labels() for axis in (axes, right)]
        lines, names = (first + second for first, second in zip(*handles, strict=True))
        axes.legend(lines, names, ncols=3, loc="upper center")
    return figure


def comparison_figure(rows: Sequence[Compared]) -> Figure:
    """Batches along the run, and the risk above the noise floor, of schedules people use."""
    colors = ["#0072B2", "#000000", "#E69F00", "#CC79A7", INFLUENCE, ROOT]
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(10.0, 3.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        for row, color in zip(rows, colors, strict=True):
            left.plot(np.arange(1, row.batches.size + 1), row.batches, color=color, label=row.name)
        left.set(title="Batches at an equal budget", xlabel="update", ylabel="batch size (samples)")
        left.set_yscale("log")
        left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3)
        y = np.arange(len(rows))[::-1]
        bias = [row.risk.bias for row in rows]
        variance = [row.risk.variance for row in rows]
        right.barh(y, bias, color="0.75", label="bias")
        right.barh(y, variance, left=bias, color=colors, label="variance")
        right.set_yticks(y, [row.name for row in rows])
        right.set(title="Exact excess risk", xlabel="risk above the noise floor")
        right.legend(
            handles=[Rectangle((0, 0), 1, 1, color="0.75"), Rectangle((0, 0), 1, 1, color="0.3")],
            labels=["bias", "variance (coloured)"],
            loc="upper center",
            bbox_to_anchor=(0.5, -0.18),
            ncols=2,
        )
    return figure


def frontier_figure(choices: Sequence[Choice]) -> Figure:
    """Risk against wall-clock of the choices that no other beats."""
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(5.5, 3.6), layout="constrained")
        axes = figure.subplots()
        seconds, risks = [c.seconds for c in choices], [c.total for c in choices]
        axes.plot(seconds, risks, "o-", color=STYLES["oracle"][0], markersize=4)
        for choice in choices[:: max(len(choices) // 6, 1)]:
            axes.annotate(
                f"T = {choice.steps}",
                (choice.seconds, choice.total),
                textcoords="offset points",
                xytext=(6, 6),
                fontsize=7,
            )
        axes.set(
            title="Risk against wall-clock, samples fixed",
            xlabel="seconds (cost model)",
            ylabel="expected risk",
            xscale="log",
        )
    return figure


def static_batch_figure(curves: Sequence[Curve], saturations: Sequence[Saturation]) -> Figure:
    """Excess against a constant batch at fixed N; saturation batch beside the noise scale."""
    colors = ["#56B4E9", "#0072B2", "#000000", INFLUENCE]
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(10.0, 3.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        for k, curve in enumerate(curves):
            color, best = colors[k % len(colors)], curve.best
            left.plot(curve.batches, curve.excess, color=color, label=f"N = {curve.samples:,}")
            left.plot(best.batch, best.parts.excess, "o", color=color, markersize=5)
        left.plot([], [], "o", color="0.5", markersize=5, label="minimum")
        left.set(
            title="Excess risk at a fixed number of samples",
            xlabel="constant batch size B (T = N/B updates)",
            ylabel=r"expected risk $-\,\sigma^2$",
        )
        steps = [row.steps for row in saturations]
        for values, style, color, label in (
            ([row.noise.final for row in saturations], "^-", INFLUENCE, "noise scale, last update"),
            (
                [row.noise.mean for row in saturations],
                "v-",
                "#E69F00",
                "noise scale, rate-weighted",
            ),
            ([row.batch for row in saturations], "o-", "#0072B2", "saturation batch, exact"),
            ([row.batch_by_law for row in saturations], "--", "0.4", "saturation batch, law"),
        ):
            right.plot(steps, values, style, color=color, markersize=4, label=label)
        right.set(
            title="Where a larger batch stops helping",
            xlabel="updates T",
            ylabel="batch size (samples)",
        )
        for axes in (left, right):
            axes.set(xscale="log", yscale="log")
            axes.legend(loc="upper left")
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write PNG or PDF, the same bytes for the same figure."""
    metadata: dict[str, dict[str, Any]] = {
        ".png": {"Software": None},
        ".pdf": {"CreationDate": None, "ModDate": None, "Producer": None, "Creator": None},
    }
    with matplotlib.rc_context(RC):
        figure.savefig(path, dpi=150, metadata=metadata[path.suffix])


def _collapse_panel(axes: Axes, collapse: Collapse, x: np.ndarray, law: str) -> None:
    values, errors = collapse.values(), collapse.standard_errors()
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
    # The law runs from corner to corner; these corners stay free.
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
        # Warmup is short: its name goes to the left of its end.
        at, side = (end - 4, "right") if end - start < t[-1] / 6 else ((start + end) / 2, "center")
        axes.text(at, 1.04, name, ha=side, fontsize=7, color="0.4")
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
