"""After which updates of a run its loss is measured, and what else."""

from __future__ import annotations

import numpy as np

from batchlaw._base.checks import IntArray

POINTS = 40
# Above 1 the points are denser towards the end: the last gap is POINTS^-DENSITY of the run.
DENSITY = 1.5
# The columns of a run's curve: the losses, and of the gradient on fixed training samples the trace
# of the covariance of one sample's, and the squared norm of its mean.
CURVE = ("update", "validation", "training", "noise", "gradient")


def observed_updates(steps: int) -> IntArray:
    """About ``POINTS`` updates, the denser the later; the last one is always among them."""
    to_come = 1.0 - np.arange(1, POINTS + 1) / POINTS
    updates = np.rint(steps * (1.0 - to_come**DENSITY))
    return np.unique(np.maximum(updates, 1.0)).astype(np.int64)
