"""Laws of training runs with known parameters, without a fit."""

import numpy as np

import batchlaw as bl
from batchlaw.from_data.laws.bands import Misfit
from batchlaw.from_data.laws.curves import Scale
from batchlaw.from_data.laws.least_squares import Fit
from batchlaw.from_data.laws.member import Member
from batchlaw.from_data.laws.training_law import Seen, TrainingLaw

SHAPE = {
    "power": 1.0, "delay": 0.1, "forgetting": 0.8, "memory": 0.02, "growth": 2.0,
    "openness": 0.5, "psi": 0.6, "early noise": 0.5, "alpha": 0.0, "beta": 0.5,
    "omega": 1.0, "theta": 1.0,
}  # fmt: skip


def small_law(
    *,
    rule=None,
    span=400,
    batches=(2, 32),
    peaks=(0.01, 0.01),
    factors=(1.0, 0.5, 0.3),
    error=1e-3,
    spread=1e-3,
    largest_change=1.0,
    flags=("batch_exponents",),
    **shape,
):
    """A law with rows of one update; its errors and those of its parameters are small."""
    rule = bl.adam(weight_decay=0.01) if rule is None else rule
    member = Member(rule, Scale(0.01, 8.0, span, 1), **dict.fromkeys(flags, True))
    values = SHAPE | shape
    coordinates = np.array([p.inner(values[p.name]) for p in member.shape])
    size = coordinates.size + len(factors)
    covariance = spread**2 * np.eye(size)
    # The floor and what is above it are not moved by what moves the batches.
    covariance[-3:, -3:] *= 1e-6
    one = np.ones(1)
    misfit = Misfit(span * one, peaks[1] * one, error * one, error * one, 0.0)
    seen = Seen(6, 5, span, *map(float, batches), largest_change, *peaks)
    fit = Fit(member, coordinates, np.array(factors), 0.0)
    return TrainingLaw(fit, covariance, misfit, seen, {member.name: error}, ())
