"""Pictures: the only folder that imports matplotlib. No mathematics here."""

from batchlaw.plots.claims import collapse_figure, overview_figure, slopes_figure
from batchlaw.plots.common import save
from batchlaw.plots.concepts import collapse_concept, horizons_concept, influence_concept
from batchlaw.plots.estimates import regret_figure
from batchlaw.plots.paper import paper_figure
from batchlaw.plots.schedules import (
    comparison_figure,
    frontier_figure,
    plan_figure,
    static_batch_figure,
    trajectory_figure,
)
from batchlaw.plots.study import study_losses_figure, study_noise_figure
from batchlaw.plots.sweep import sweep_figure

__all__ = [
    "collapse_concept",
    "collapse_figure",
    "comparison_figure",
    "frontier_figure",
    "horizons_concept",
    "influence_concept",
    "overview_figure",
    "paper_figure",
    "plan_figure",
    "regret_figure",
    "save",
    "slopes_figure",
    "static_batch_figure",
    "study_losses_figure",
    "study_noise_figure",
    "sweep_figure",
    "trajectory_figure",
]
