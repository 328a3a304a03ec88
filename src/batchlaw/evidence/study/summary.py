"""results.csv, summary.md and its figures, from the store alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchlaw._base.files import OutputDirectory
from batchlaw.evidence.study.figures import study_losses_figure, study_noise_figure
from batchlaw.evidence.study.groups import REGRESSION, TASKS, Group, left_out
from batchlaw.evidence.study.plan import StudyPlan
from batchlaw.evidence.study.schedules import CONSTANT, ORACLE, RATE, SCHEDULES, STAGES
from batchlaw.evidence.study.statistics import Compared, Interval, compare, ratios_by_rate, versus
from batchlaw.evidence.sweep.timing import described
from batchlaw.jobs.store import FAILED, REFUSED, Store, Stored
from batchlaw.plots.common import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INTRODUCTION = """\
All schedules of a row take the same number of updates and of samples. Differences are of validation
loss to the constant batch at its best rate, paired by seed (same start, same order of samples),
with 95 % intervals of Student's t over seeds; below zero is better. *Tuned*: each schedule, and
constant too, at the peak rate of the grid that the other seeds find best for it; otherwise all are
at constant's best. `^` marks a tuned rate at an end of the grid. A noise ratio is the noise in the
final training loss over that of the constant batch.
"""
Comparisons = list[tuple[Group, list[Compared]]]


def write(plan: StudyPlan, store: Store, output: OutputDirectory) -> list[Path]:
    """All files, or none of them."""
    rows = list(store.rows())
    comparisons = [(group, compare(group, rows, store)) for group in plan.groups]
    with output.transaction() as files:
        if rows:
            files.csv("results.csv", [record(row) for row in rows])
        figures = _figures(comparisons)
        for name, figure in figures.items():
            save(figure, files.path(name))
        files.path("summary.md").write_text(markdown(plan, comparisons, rows, store, list(figures)))
    return files.written


def record(row: Stored) -> dict[str, Any]:
    """One line of results.csv; the batches stay in the store."""
    names = ("task", "optimizer", "rates", "schedule", "peak", "seed", "steps", "mean_batch")
    kept = {name: row.cell[name] for name in (*names, "repetitions", "data")}
    values = {name: row.result.get(name) for name in ("validation", "training", "noise", "exact")}
    reason = row.result.get("reason", "")
    return {**kept, "status": row.status, **values, "reason": reason, "seconds": row.seconds}


def markdown(
    plan: StudyPlan,
    comparisons: Comparisons,
    rows: Sequence[Stored],
    store: Store,
    figures: list[str],
) -> str:
    lines = [f"# Batch schedules in training ({'quick' if plan.asked['quick'] else 'full'} study)"]
    lines += ["", _facts(plan, rows), "", INTRODUCTION, *verdicts(comparisons)]
    lines += ["", "## Every comparison", "", *overview(comparisons)]
    lines += ["", "## Against batches like the rate", "", *rule_table(comparisons, rows)]
    lines += ["", "## Where the predicted noise ratio fails", "", *failures(comparisons)]
    lines += [
        "",
        "## The oracle's noise ratio at every rate",
        "",
        *rates_table(comparisons, rows, store),
    ]
    for name in figures:
        lines += ["", f"![{name.removesuffix('.png')}]({name})"]
    for group, compared in comparisons:
        lines += ["", f"## {group.name}", "", _sizes(group), "", *group_table(compared)]
    lines += ["", "## Runs that diverged", "", *_without_result(rows, REFUSED)]
    if any(row.status == FAILED for row in rows):
        lines += ["", "## Runs that failed, left out above", "", *_without_result(rows, FAILED)]
    lines += ["", "## What was left out", "", *_left_out(plan)]
    return "\n".join(lines) + "\n"


def _facts(plan: StudyPlan, rows: Sequence[Stored]) -> str:
    diverged = sum(row.status == REFUSED for row in rows)
    spent = described(sum(row.seconds for row in rows))
    versions = ", ".join(f"{name} {value}" for name, value in plan.versions.items())
    return (
        f"{len(rows)} runs and pilots of {plan.cells} planned, {diverged} of them diverged; "
        f"{spent} of one core. {versions} (the text is a hash: it changes with Python's version)."
    )


def _sizes(group: Group) -> str:
    runs = f", {group.repetitions} runs each" if group.repetitions > 1 else ""
    return (
        f"{group.steps} updates, mean batch {group.mean_batch}, {group.seeds} seeds{runs}; "
        f"peaks {', '.join(f'{peak:g}' for peak in group.peaks)}."
    )


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    rule = ["-"] * len(header)
    return [f"| {' | '.join(row)} |" for row in (header, rule, *lines)]


def overview(comparisons: Comparisons) -> list[str]:
    """One line per group: constant's loss, and every other schedule's tuned difference."""
    others = [name for name in SCHEDULES if name != CONSTANT]
    lines = []
    for group, compared in comparisons:
        by_schedule = {result.schedule: result for result in compared}
        if CONSTANT not in by_schedule:
            continue
        cells = [_tuned(by_schedule.get(name)) for name in others]
        lines.append((group.name, f"{by_schedule[CONSTANT].loss:.4f}", *cells))
    return _table(("task, optimizer, rates", "constant", *others), lines)


def verdicts(comparisons: Comparisons) -> list[str]:
    """How often each tuned schedule is better than constant, worse, or neither."""
    others = [name for name in SCHEDULES if name != CONSTANT]
    kinds: dict[tuple[str, str], list[Compared]] = {}
    for group, compared in comparisons:
        if compared:
            kinds.setdefault((_kind(group.task), group.rates), []).extend(compared)
    lines = [
        (*kind, *(_counted(compared, name) for name in others)) for kind, compared in kinds.items()
    ]
    everything = [result for compared in kinds.values() for result in compared]
    total = ("all", "", *(_counted(everything, name) for name in others))
    header = ("task", "rates: better / worse / can't tell", *others)
    return _table(header, [*sorted(lines), total])


def _kind(task: str) -> str:
    if TASKS[task].kind == REGRESSION:
        return "linear regression"
    return "transformer" if task == "transformer" else "models on digits"


def _counted(compared: Sequence[Compared], name: str) -> str:
    differences = [result.tuned_difference for result in compared if result.schedule == name]
    known = [interval.side for interval in differences if math.isfinite(interval.mean)]
    return " / ".join(str(known.count(side)) for side in (-1, 1, 0))


def rule_table(comparisons: Comparisons, rows: Sequence[Stored]) -> list[str]:
    """Whether knowing the influence beats the simplest rule, each tuned."""
    ours = (ORACLE, STAGES, CONSTANT)
    lines = [
        (group.name, *(_difference(versus(group, rows, name, RATE)) for name in ours))
        for group, compared in comparisons
        if compared
    ]
    return _table(("task, optimizer, rates", *(f"{n} less it" for n in ours)), lines)


def failures(comparisons: Comparisons) -> list[str]:
    """Every ratio whose interval excludes the prediction, by more than 0.05."""
    failed = [
        (group, result)
        for group, lines in comparisons
        for result in lines
        if result.prediction_fails
    ]
    tested = sum(
        math.isfinite(result.measured.low) and result.schedule != CONSTANT
        for _, lines in comparisons
        for result in lines
    )
    summary = [
        f"{len(failed)} of {tested} ratios: outside the 95 % interval, and by more than 0.05."
    ]
    if not failed:
        return summary
    lines = [
        (group.name, result.schedule, _span(result.measured), _number(result.predicted))
        for group, result in failed
    ]
    header = ("task, optimizer, rates", "schedule", "measured", "predicted")
    return [*summary, "", *_table(header, lines)]


def rates_table(comparisons: Comparisons, rows: Sequence[Stored], store: Store) -> list[str]:
    """The oracle's ratio at every rate: influence is exact only to leading order in the rate."""
    lines = [
        (group.name, f"{peak:g}", _span(measured), _number(predicted), _number(exact))
        for group, compared in comparisons
        if compared
        for peak, measured, predicted, exact in ratios_by_rate(group, rows, store, ORACLE)
    ]
    header = ("task, optimizer, rates", "peak", "measured", "predicted", "exact")
    return _table(header, lines)


def group_table(compared: Sequence[Compared]) -> list[str]:
    """One group in full."""
    if not compared:
        return ["No runs yet."]
    header = (
        "schedule",
        f"loss at {compared[0].peak:g}",
        "difference",
        "tuned peak",
        "tuned loss",
        "tuned difference",
        "noise ratio",
        "predicted",
        "exact",
        "diverged",
    )
    lines = [
        (
            result.schedule,
            f"{result.loss:.4f}",
            _difference(result.difference),
            f"{result.tuned_peak:g}{'^' if result.at_edge else ''}",
            f"{result.tuned_loss:.4f}",
            _difference(result.tuned_difference),
            _span(result.measured),
            _number(result.predicted),
            _number(result.exact),
            str(result.diverged),
        )
        for result in compared
    ]
    return _table(header, lines)


def _without_result(rows: Sequence[Stored], status: str) -> list[str]:
    """Number of such runs per setting, with the first reason."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.status == status:
            cell = row.cell
            name = f"{cell['task']}, {cell['optimizer']}, {cell['rates']}, peak {cell['peak']:g}"
            reasons.setdefault(f"{name}, {cell['schedule']}", []).append(row.result["reason"])
    lines = [f"- {name}: {len(texts)} ({texts[0]})" for name, texts in sorted(reasons.items())]
    return lines or ["None."]


def _left_out(plan: StudyPlan) -> list[str]:
    hours = plan.asked["hours"]
    lines = [f"- {name}: did not fit in {hours:g} hours" for name in plan.dropped]
    return lines + [f"- not run: {line}" for line in left_out(plan.groups)]


def _tuned(result: Compared | None) -> str:
    if result is None:
        return "-"
    return _difference(result.tuned_difference) + ("^" if result.at_edge else "")


def _difference(interval: Interval) -> str:
    if not math.isfinite(interval.mean):
        return "-"
    return f"{interval.mean:+.4f} ± {interval.high - interval.mean:.4f}"


def _span(interval: Interval) -> str:
    if not math.isfinite(interval.mean):
        return "-"
    return f"{interval.mean:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def _number(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "-"


def _figures(comparisons: Comparisons) -> dict[str, Figure]:
    """File name -> figure: losses of every task, and all noise ratios."""
    tasks = dict.fromkeys(group.task for group, lines in comparisons if lines)
    figures = {f"losses_{task}.png": _losses(comparisons, task) for task in tasks}
    return figures | {"noise.png": _noise(comparisons)} if figures else {}


def _losses(comparisons: Comparisons, task: str) -> Figure:
    panels = {
        group.name: [
            (result.schedule, result.tuned_difference.mean, result.tuned_difference.high)
            for result in lines
            if result.schedule != CONSTANT and math.isfinite(result.tuned_difference.mean)
        ]
        for group, lines in comparisons
        if lines and group.task == task
    }
    return study_losses_figure(panels)


def _noise(comparisons: Comparisons) -> Figure:
    points = [
        (group.task, result.predicted, result.measured.mean, result.measured.high)
        for group, lines in comparisons
        for result in lines
        if result.schedule != CONSTANT
        and math.isfinite(result.measured.mean)
        and math.isfinite(result.predicted)
    ]
    return study_noise_figure(points)
