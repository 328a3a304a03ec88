"""Every number that the paper reports, next to ours."""

from __future__ import annotations

import math
from dataclasses import dataclass

from batchlaw.evidence.paper.comparison import Comparison
from batchlaw.evidence.paper.experiment import Experiment
from batchlaw.evidence.paper.profile import Profile

# Section 4, experiment 3: (procedure, schedule) -> (predicted, measured) ratio to constant.
RATIOS = {
    ("one_pass", "oracle"): (0.688, 0.679),
    ("one_pass", "early_small_late_large"): (1.445, 1.502),
    ("multi_pass", "oracle"): (0.599, 0.656),
    ("multi_pass", "early_small_late_large"): (1.160, 1.181),
}
# Section 4 and appendix L, experiment 4.
PROFILE = {
    "last warmup step": 51,
    "last stable step": 256,
    "smallest oracle batch": 1,
    "largest oracle batch": 23,
    "step of the largest oracle batch": 256,
    "step of the largest influence": 256,
    "constant batch": 8,
}
PAPER_REPETITIONS = 300
# Source of the expectation that a measured ratio is compared with.
EXACT = {"one_pass": "exact", "multi_pass": "mean field"}
# Two measured numbers agree within this many joint standard errors.
LIMIT = 3.0
# With fewer repetitions, the standard error itself is too uncertain to judge by.
ENOUGH = 30


@dataclass(frozen=True)
class Figure:
    """A number of the paper (or an exact value), ours, our standard error, and the verdict.

    ``distance`` is |ours - reference| in joint standard errors, where there are any.
    ``agrees`` is None where too few repetitions were run to judge a measured number.
    """

    name: str
    source: str
    reference: float
    ours: float
    standard_error: float | None
    distance: float | None
    agrees: bool | None


def figures(
    experiment: Experiment, comparisons: list[Comparison], profile: Profile
) -> list[Figure]:
    """The paper's numbers if the setting is the paper's, and the exact ones always."""
    rows = []
    if not experiment.differs_from_paper():
        rows += _predicted(comparisons) + _profile(profile) + _measured(experiment, comparisons)
    return rows + _exact(experiment, comparisons)


def _predicted(comparisons: list[Comparison]) -> list[Figure]:
    """Deterministic, so they must agree to every digit that the paper prints."""
    rows = []
    for c in comparisons:
        if (c.procedure, c.schedule) in RATIOS:
            paper = RATIOS[c.procedure, c.schedule][0]
            agrees = round(c.predicted_ratio, 3) == paper
            name = _name("predicted", c)
            rows.append(Figure(name, "paper", paper, c.predicted_ratio, None, None, agrees))
    return rows


def _profile(profile: Profile) -> list[Figure]:
    ours = {
        "last warmup step": profile.warmup_end,
        "last stable step": profile.stable_end,
        "smallest oracle batch": int(profile.oracle.min()),
        "largest oracle batch": int(profile.oracle.max()),
        "step of the largest oracle batch": int(profile.oracle.argmax()) + 1,
        "step of the largest influence": int(profile.kappa.argmax()) + 1,
        "constant batch": int(profile.constant.max()),
    }
    return [
        Figure(name, "paper", paper, ours[name], None, None, ours[name] == paper)
        for name, paper in PROFILE.items()
    ]


def _measured(experiment: Experiment, comparisons: list[Comparison]) -> list[Figure]:
    """Two Monte Carlo runs: the paper's error is taken as ours, scaled to its 300 repetitions."""
    rows = []
    for c in comparisons:
        if (c.procedure, c.schedule) in RATIOS:
            paper = RATIOS[c.procedure, c.schedule][1]
            joint = c.measured_ratio_se * math.sqrt(1.0 + experiment.reps / PAPER_REPETITIONS)
            rows.append(_distance(experiment, "paper", paper, c, joint))
    return rows


def _exact(experiment: Experiment, comparisons: list[Comparison]) -> list[Figure]:
    return [
        _distance(experiment, EXACT[c.procedure], c.exact_ratio, c, c.measured_ratio_se)
        for c in comparisons
        if c.schedule != "constant"
    ]


def _distance(
    experiment: Experiment, source: str, reference: float, c: Comparison, joint_error: float
) -> Figure:
    gap = abs(c.measured_ratio - reference)
    # Two schedules may round to the same batches: then the ratio is 1 without error.
    distance = gap / joint_error if joint_error > 0.0 else (0.0 if gap < 1e-12 else math.inf)
    return Figure(
        _name("measured", c),
        source,
        reference,
        c.measured_ratio,
        c.measured_ratio_se,
        distance,
        distance <= LIMIT if experiment.reps >= ENOUGH else None,
    )


def _name(kind: str, c: Comparison) -> str:
    return f"{kind} {c.procedure} {c.schedule} / constant"
