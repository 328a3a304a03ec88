"""What the page shows of a setting: the view, the risk along the run, and a drawn schedule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.faces.app.page_setting import PageSetting
from batchlaw.faces.app.replies import Along, Curves, Drawn, Path, Schedule, Stage, View
from batchlaw.faces.app.solution import Solution, best_whole, solve
from batchlaw.risk.result import Risk

# Points per curve, and per curve of the risk along a run.
POINTS, ALONG_POINTS = 800, 200
# Row of the constant schedule.
CONSTANT = 2
# The page adds a note if the score and the risk differ by more than this, relatively,
SCORE_TOLERANCE = 0.1
# and, for a simulated risk, by more than this many standard errors.
SIGNIFICANT_ERRORS = 3.0
# Field of the library's refusal of a risk along the run.
TRAJECTORY = "trajectory"


def view(setting: PageSetting) -> View:
    """Rates, influence, schedules and risks: all but the risk along the run and the collapse."""
    solution = solve(setting)
    case, sizes = solution.case, list(solution.schedules.values())
    risk = solution.risk(sizes)
    effective = solution.effective(sizes)
    scores = solution.scores(effective, float(effective[0]))
    shown = _evenly(setting.steps, POINTS)
    share = case.influence / case.influence.max()
    return View(
        steps=[t + 1 for t in shown],
        rate=_values_at(case.gamma, shown),
        kappa=_values_at(case.influence, shown),
        share=_values_at(share, shown),
        root=_values_at(np.sqrt(share), shown),
        summary=solution.summary,
        noise=solution.noise,
        schedules=[
            Schedule(
                name=name,
                **_scored(solution, risk, row, CONSTANT),
                batches=_values_at(batches, shown),
                samples=float(batches.sum()),
                effective=float(effective[row]),
                score=float(scores[row]),
            )
            for row, (name, batches) in enumerate(solution.schedules.items())
        ],
        stages=[Stage(**row) for row in solution.plan.stage_table()],
        prediction=dict(solution.plan.prediction),
        assumptions=list(solution.plan.assumptions),
        method=risk.method,
        trace=case.problem.trace,
        relative_error=_finite(float(np.max(risk.uncertainty))),
        notes=_notes(solution, risk, scores),
    )


def _scored(solution: Solution, risk: Risk, row: int, constant: int) -> dict[str, Any]:
    """The risk of one schedule, also relative to the constant one."""
    return {
        "against_constant": solution.against(risk, row, constant),
        "risk": solution.parts(risk, row),
    }


def _notes(solution: Solution, risk: Risk, scores: FloatArray) -> list[str]:
    """Caveats of the numbers; without the mean field's error, which the page shows elsewhere."""
    names = list(solution.schedules)
    notes = [note.naming(names) for note in risk.notes if note.kind != "approximation"]
    return [*notes, *_score_note(solution, risk, scores)]


def _score_note(solution: Solution, risk: Risk, scores: FloatArray) -> list[str]:
    """A note if the scores, which are right to first order, disagree with the risks."""
    rows = [row for row in range(len(solution.schedules)) if row != CONSTANT]
    by_risk = {row: solution.ratio(risk, solution.noise, row, CONSTANT) for row in rows}
    by_score = {row: float(scores[CONSTANT] / scores[row]) for row in rows}
    worst = max(rows, key=lambda row: abs(math.log(max(by_risk[row][0], 1e-12) / by_score[row])))
    ratio, error = by_risk[worst]
    difference = abs(ratio - by_score[worst])
    tolerance = max(SCORE_TOLERANCE * by_score[worst], SIGNIFICANT_ERRORS * error)
    if difference <= tolerance:
        return []
    return [
        f"the score is off here: by it the {list(solution.schedules)[worst]} schedule leaves "
        f"{by_score[worst]:.3g} of the constant batch's noise, by its risk {ratio:.3g}"
    ]


def along(setting: PageSetting) -> Along:
    """The risk of each schedule along the run."""
    solution = solve(setting)
    steps = _evenly(setting.steps + 1, ALONG_POINTS)
    if not (solution.case.procedure.traceable and solution.case.solved):
        reason = "this risk is simulated, and known after the last update only"
        return Along(steps=steps, paths=[], reason=reason)
    try:
        curves = _along(solution, list(solution.schedules.values()))
    except InputError as error:
        if error.field != TRAJECTORY:
            raise
        return Along(steps=steps, paths=[], reason=f"the risk along the run {error.predicate()}")
    return Along(
        steps=steps,
        paths=[
            Path(name=name, **curve.model_dump())
            for name, curve in zip(solution.schedules, curves, strict=True)
        ],
    )


def _along(solution: Solution, sizes: list[FloatArray]) -> list[Curves]:
    """Total risk and noise of each schedule at the updates shown."""
    path = solution.case.with_batches(sizes).risk(trajectory=True)
    shown = _evenly(solution.setting.steps + 1, ALONG_POINTS)
    total, noise = (
        np.asarray(getattr(path, part))[:, shown].tolist() for part in ("total", solution.noise)
    )
    return [Curves(total=t, noise=n) for t, n in zip(total, noise, strict=True)]


def score(setting: PageSetting, heights: FloatArray) -> Drawn:
    """Score a drawn schedule, given as heights at evenly spaced steps."""
    solution = solve(setting)
    batches = stretched(solution, heights)
    effective = solution.effective([batches, solution.schedules["greedy"]])
    risk = solution.risk([batches, solution.schedules["constant"]])
    return Drawn(
        **_scored(solution, risk, 0, 1),
        batches=_values_at(batches, _evenly(setting.steps, POINTS)),
        samples=float(batches.sum()),
        effective=float(effective[0]),
        score=float(solution.scores(effective, float(effective[1]))[0]),
        path=_drawn_path(solution, batches),
    )


def _drawn_path(solution: Solution, batches: FloatArray) -> Curves | None:
    try:
        return _along(solution, [batches])[0]
    except InputError as error:
        if error.field != TRAJECTORY:
            raise
        return None


def stretched(solution: Solution, heights: FloatArray) -> FloatArray:
    """Whole batches that follow the drawing, obey the limits and spend the budget.

    ``allocate`` follows the square root of its influence, so it gets the drawing squared.
    """
    positions = np.linspace(0.0, 1.0, solution.setting.steps)
    shape = np.interp(positions, np.linspace(0.0, 1.0, heights.size), heights / heights.max())
    return best_whole(solution.setting, solution.case, shape**2)


def _evenly(steps: int, most: int) -> list[int]:
    """At most ``most`` evenly spaced 0-based steps, including both ends."""
    if steps <= most:
        return list(range(steps))
    return [math.floor(k * (steps - 1) / (most - 1)) for k in range(most)]


def _values_at(values: NDArray[Any], shown: list[int]) -> list[float]:
    numbers: list[float] = values[shown].tolist()
    return numbers


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
