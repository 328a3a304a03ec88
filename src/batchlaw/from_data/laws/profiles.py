"""Profile intervals: how far a parameter can move while all others follow."""

from __future__ import annotations

import math
from collections.abc import Sequence

from batchlaw.from_data.laws.bands import unit_variance
from batchlaw.from_data.laws.curves import groups
from batchlaw.from_data.laws.least_squares import held, objective
from batchlaw.from_data.laws.training_law import LEVEL, TrainingLaw, quantile
from batchlaw.from_data.run import Run

# Searches on each side of a parameter; the end of an interval is where the last one puts it.
SEARCHES = 5


def law_profiles(
    law: TrainingLaw, runs: Sequence[Run], level: float = LEVEL
) -> dict[str, tuple[float, float]]:
    """Intervals of the shape's parameters by profile likelihood, by name.

    An end is where the best fit with the parameter held there is worse by what the level allows;
    unlike ``TrainingLaw.intervals`` it follows bends of the sum of squares. Ten searches for each
    parameter: about ten seconds for ten runs. A curve counts as three independent errors.

    Parameters
    ----------
    law
        A law of these runs.
    runs
        Those that it was fitted to.
    level
        Probability that each interval claims.
    """
    found = groups(runs, law.member.scale)
    allowed = unit_variance(law.fit, found) * quantile(level) ** 2
    least = objective(law.fit, law.fit, found)
    intervals = {}
    curved = law.intervals(level)
    for j, parameter in enumerate(law.member.shape):
        here = float(law.fit.coordinates[j])
        low, high = curved[parameter.name]

        def end(guess: float, bound: float, j: int = j, here: float = here) -> float:
            # Along a parabola the objective grows with the square of the distance: step by its
            # root, from the end that the curvature gives.
            step = guess - here
            for _ in range(SEARCHES):
                place = min(max(here + step, min(here, bound)), max(here, bound))
                rise = held(law.fit, found, j, place)[1] - least
                if place == bound and rise <= allowed:
                    return bound
                if rise > 0.0 and abs(rise / allowed - 1.0) < 0.02:
                    return place
                factor = math.sqrt(allowed / rise) if rise > 0.0 else 2.0
                step = (place - here) * min(max(factor, 0.4), 2.5)
            return min(max(here + step, min(here, bound)), max(here, bound))

        bottom, top = parameter.inner(parameter.low), parameter.inner(parameter.high)
        nearest = 1e-3  # where the curvature's end is the bound itself, start a little way off
        intervals[parameter.name] = (
            parameter.outer(end(min(parameter.inner(low), here - nearest), bottom)),
            parameter.outer(end(max(parameter.inner(high), here + nearest), top)),
        )
    return intervals
