"""Figures of results, drawn with matplotlib; no mathematics. Public as ``bl.plots``."""

from batchlaw.plots.adam import best_batches, sample_worth
from batchlaw.plots.common import save
from batchlaw.plots.concepts import collapse_concept, horizons_concept, influence_concept
from batchlaw.plots.estimates import regret_figure
from batchlaw.plots.schedules import (
    comparison_figure,
    frontier_figure,
    plan_figure,
    static_batch_figure,
    trajectory_figure,
)
from batchlaw.plots.training import along_runs, schedule_differences
from batchlaw.plots.worth import worth_figure

__all__ = [
    "along_runs",
    "best_batches",
    "collapse_concept",
    "comparison_figure",
    "frontier_figure",
    "horizons_concept",
    "influence_concept",
    "plan_figure",
    "regret_figure",
    "sample_worth",
    "save",
    "schedule_differences",
    "static_batch_figure",
    "trajectory_figure",
    "worth_figure",
]
