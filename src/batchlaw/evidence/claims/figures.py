"""Figures of the claims: slopes that settle, schedules that collapse, and all verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from batchlaw.evidence.claims.claim import CONFIRMED, CONTRADICTED, OPEN, Check
from batchlaw.plots.common import CYCLE, RC

VERDICT_COLOURS = {CONFIRMED: "#0072B2", OPEN: "#E69F00", CONTRADICTED: "#D55E00"}


def slopes_figure(title: str, checks: Sequence[Check[Any]]) -> Figure:
    """Left: values over the law, flat where it holds. Right: local slope minus the exponent.

    Dashed: the same values against the horizon that the law does not use.
    """
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(9.0, 3.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        figure.suptitle(title)
        for k, (check, colour) in enumerate(zip(checks, _colours(len(checks)), strict=True)):
            curve, law = check.evidence, check.law
            # Where curves coincide, the first stays visible around the others.
            width = 1.0 + 3.0 * (1.0 - k / len(checks))
            x = curve.abscissae[law.against]  # type: ignore[attr-defined]
            y = np.atleast_2d(curve.y).mean(axis=0)  # type: ignore[attr-defined]
            flat = y / x**law.value
            left.plot(x, flat / flat[-1], color=colour, linewidth=width, label=check.case)
            for against, style in ((law.against, "-"), (law.rival, "--")):
                if against is not None:
                    slope = curve.slope(against)  # type: ignore[attr-defined]
                    right.plot(
                        slope.where, slope.local - law.value, style, color=colour, linewidth=width
                    )
        law = checks[0].law
        left.set(xscale="log", xlabel=law.against, ylabel="value / law (1 at the last)")
        tolerance = min(check.law.tolerance for check in checks)
        right.axhspan(-tolerance, tolerance, color="#DDDDDD", zorder=0)
        right.axhline(0.0, color="black", linewidth=0.8)
        right.set(xscale="log", xlabel=law.against, ylabel="local slope minus law")
        if law.rival is not None:
            right.set_xlabel(f"{law.against}; dashed: {law.rival}")
        right.set_title("grey: tolerance", fontsize=8)
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def collapse_figure(title: str, checks: Sequence[Check[Any]]) -> Figure:
    """Each schedule's deviation from proportionality: to the law's summary, and to a wrong one."""
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(9.0, 3.8), layout="constrained")
        figure.suptitle(title)
        wrong = next(iter(checks[0].wrong.values()))
        panels = figure.subplots(1, 2)
        for axes, law in zip(panels, (checks[0].law, wrong), strict=True):
            for check, colour in zip(checks, _colours(len(checks)), strict=True):
                evidence: Any = check.evidence
                deviation = evidence.deviations(law.summary)
                axes.plot(
                    evidence.summaries[law.summary],
                    100.0 * deviation,
                    ".",
                    color=colour,
                    label=check.case,
                )
            axes.axhspan(-100.0 * law.tolerance, 100.0 * law.tolerance, color="#DDDDDD", zorder=0)
            axes.set(xscale="log", xlabel=law.summary, ylabel="deviation (%)")
        panels[0].set_title("the law (grey: tolerance)", fontsize=9)
        panels[1].set_title("a wrong law", fontsize=9)
        handles = panels[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=2)
    return figure


def overview_figure(labels: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Figure:
    """Measured minus predicted, in units of the tolerance.

    A row is (index of its label, x, slack, verdict).
    """
    with matplotlib.rc_context(RC):
        lines = [fill(label, 58, break_on_hyphens=False) for label in labels]
        height = 1.2 + 0.17 * sum(text.count("\n") + 1.5 for text in lines)
        figure = Figure(figsize=(9.5, height), layout="constrained")
        axes = figure.subplots()
        for verdict, colour in VERDICT_COLOURS.items():
            chosen = [row for row in rows if row[3] == verdict]
            if chosen:
                index, x, slack, _ = zip(*chosen, strict=True)
                axes.errorbar(
                    np.clip(x, -4.0, 4.0),
                    -np.array(index, dtype=float),
                    xerr=np.minimum(slack, 4.0),
                    fmt="o",
                    markersize=4,
                    linewidth=0.8,
                    color=colour,
                    alpha=0.7,
                    label=verdict,
                )
        axes.axvspan(-1.0, 1.0, color="#DDDDDD", zorder=0)
        axes.set_yticks(-np.arange(len(lines)), lines, fontsize=8)
        axes.set(xlim=(-4.2, 4.2), ylim=(-len(lines), 1), xlabel="(measured - predicted)/tolerance")
        figure.legend(loc="outside upper center", ncols=3)
    return figure


def _colours(count: int) -> list[str]:
    return [CYCLE[k % len(CYCLE)] for k in range(count)]
