"""What the page shows of a setting: the view, the risk along the run, and a drawn schedule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.design.sensitivity import sensitivity
from batchlaw.faces.app.page_setting import PageSetting
from batchlaw.faces.app.replies import (
    Along,
    Curves,
    Drawn,
    Influence,
    Path,
    Schedule,
    Searched,
    Sensitivity,
    Stage,
    View,
)
from batchlaw.faces.app.solution import Solution, best_whole, search, solve
from batchlaw.faces.app.verdict import no_verdict, verdict
from batchlaw.risk.result import Risk

# Points per curve, and per curve of the risk along a run.
POINTS, ALONG_POINTS = 800, 200
# The page adds a note if the score and the risk differ by more than this, relatively,
SCORE_TOLERANCE = 0.1
# and, for a simulated risk, by more than this many standard errors.
SIGNIFICANT_ERRORS = 3.0
# Kind of the notes on how a risk is approximated.
APPROXIMATION = "approximation"
# Field of the library's refusal of a risk along the run.
TRAJECTORY = "trajectory"


def view(setting: PageSetting) -> View:
    """Rates, influence, schedules and risks: all but the risk along the run and the collapse."""
    return _view(solve(setting))


def searched(setting: PageSetting) -> Searched:
    """The view and the run with everything that a search finds."""
    solution = search(setting)
    return Searched(view=_view(solution), along=_along(solution))


def _view(solution: Solution) -> View:
    case, plan = solution.case, solution.plan
    sizes = list(solution.schedules.values())
    risk = solution.risk(sizes)
    with_influence = case.rule.has_influence
    summaries = _summaries(solution, sizes)
    shown = _evenly(solution.setting.steps, POINTS)
    notes = [note.naming(list(solution.schedules)) for note in risk.notes]
    approximations = [note for note in notes if note.kind == APPROXIMATION]
    return View(
        verdict=verdict(plan),
        verdict_reason=no_verdict(solution),
        search=solution.search,
        certificate=solution.certificate,
        steps=[t + 1 for t in shown],
        rate=_values_at(case.gamma, shown),
        influence=_influence(solution, shown) if with_influence else None,
        sensitivity=None if with_influence else _sensitivity(solution, shown),
        summary=solution.summary if with_influence else None,
        noise=solution.noise,
        schedules=[
            Schedule(
                name=name,
                **_scored(solution, risk, row, solution.constant),
                **summaries[row],
                batches=_values_at(batches, shown),
                samples=float(batches.sum()),
            )
            for row, (name, batches) in enumerate(solution.schedules.items())
        ],
        stages=[Stage(**row) for row in plan.stage_table()] if plan else [],
        prediction=dict(plan.prediction) if plan else {},
        assumptions=list(plan.assumptions) if plan else [],
        method=risk.method,
        trace=case.problem.trace,
        relative_error=_finite(float(np.max(risk.uncertainty))),
        # Of an exact solver on nodes the page shows the error alone.
        approximations=[] if with_influence else [str(note) for note in approximations],
        notes=[
            *(note for note in notes if note.kind != APPROXIMATION),
            *(_score_note(solution, risk, summaries) if with_influence else []),
        ],
    )


def _influence(solution: Solution, shown: list[int]) -> Influence:
    kappa = solution.case.influence
    share = kappa / kappa.max()
    return Influence(
        kappa=_values_at(kappa, shown),
        share=_values_at(share, shown),
        root=_values_at(np.sqrt(share), shown),
    )


def _sensitivity(solution: Solution, shown: list[int]) -> Sensitivity:
    case, constant = solution.case, solution.schedules["constant"]
    found = sensitivity(case.problem, case.gamma, constant, rule=case.rule).in_log(constant)
    return Sensitivity(
        scales=_values_at(found.deterministic, shown), noise=_values_at(found.noise, shown)
    )


def _summaries(solution: Solution, sizes: list[FloatArray]) -> list[dict[str, Any]]:
    """B_eff or rho_eff of every schedule, and its score against greedy; nothing with Adam."""
    if not solution.case.rule.has_influence:
        return [{"effective": None, "score": None}] * len(sizes)
    effective = solution.effective([*sizes, solution.schedules["greedy"]])
    scores = solution.scores(effective, float(effective[-1]))
    pairs = zip(effective[:-1].tolist(), scores[:-1].tolist(), strict=True)
    return [{"effective": summary, "score": share} for summary, share in pairs]


def _scored(solution: Solution, risk: Risk, row: int, constant: int) -> dict[str, Any]:
    """The risk of one schedule, also relative to the constant one."""
    return {
        "against_constant": solution.against(risk, row, constant),
        "risk": solution.parts(risk, row),
    }


def _score_note(solution: Solution, risk: Risk, summaries: list[dict[str, Any]]) -> list[str]:
    """A note if the scores, which are right to first order, disagree with the risks."""
    scores, constant = [each["score"] for each in summaries], solution.constant
    rows = [row for row in range(len(scores)) if row != constant]
    by_risk = {row: solution.ratio(risk, solution.noise, row, constant) for row in rows}
    by_score = {row: scores[constant] / scores[row] for row in rows}
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
    return _along(solve(setting))


def _along(solution: Solution) -> Along:
    steps = _evenly(solution.setting.steps + 1, ALONG_POINTS)
    if not (solution.case.procedure.traceable and solution.case.solved):
        reason = "this risk is simulated, and known after the last update only"
        return Along(steps=steps, paths=[], reason=reason)
    try:
        curves = _curves(solution, list(solution.schedules.values()))
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
        note=_stated(curves),
    )


def _curves(solution: Solution, sizes: list[FloatArray]) -> list[Curves]:
    """Total risk and noise of each schedule at the updates shown, with Adam's stated error."""
    path = solution.case.with_batches(sizes).risk(trajectory=True)
    shown = _evenly(solution.setting.steps + 1, ALONG_POINTS)
    parts = ["total", solution.noise]
    if not solution.case.rule.has_influence:
        parts.append("uncertainty")
    values = [np.asarray(getattr(path, part))[:, shown].tolist() for part in parts]
    return [
        Curves(**dict(zip(("total", "noise", "uncertainty"), row, strict=False)))
        for row in zip(*values, strict=True)
    ]


def _stated(curves: list[Curves]) -> str:
    errors = [error for curve in curves for error in curve.uncertainty or ()]
    if not errors:
        return ""
    bound = f"at most {max(errors):.1%} along the run"
    return f"an approximation: the stated error of the excess is {bound}"


def score(setting: PageSetting, heights: FloatArray) -> Drawn:
    """Judge a drawn schedule, given as heights at evenly spaced steps."""
    solution = solve(setting)
    batches = stretched(solution, heights)
    risk = solution.risk([batches, solution.schedules["constant"]])
    return Drawn(
        **_scored(solution, risk, 0, 1),
        **_summaries(solution, [batches])[0],
        batches=_values_at(batches, _evenly(setting.steps, POINTS)),
        samples=float(batches.sum()),
        path=_drawn_path(solution, batches),
    )


def _drawn_path(solution: Solution, batches: FloatArray) -> Curves | None:
    try:
        return _curves(solution, [batches])[0]
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
