"""From a setting to what the page shows of it: the view, the run, and a drawn schedule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchlaw._base.checks import FloatArray
from batchlaw.faces.app.replies import Along, Curves, Drawn, Path, Schedule, Stage, View
from batchlaw.faces.app.request import Setting
from batchlaw.faces.app.solution import Solved, best_whole, solve
from batchlaw.risk.over_datasets import APPROXIMATE
from batchlaw.risk.result import Risk

# Points of a curve, and of the risk along a run.
POINTS, ALONG = 800, 200
# The row of the constant schedule.
CONSTANT = 2
# Shares by which what the summary says may differ from the risk before the page says so.
FIRST_ORDER = 0.1


def view(setting: Setting) -> View:
    """Everything but the run and the collapse: rates, influence, schedules, risks."""
    solved = solve(setting)
    sizes = list(solved.schedules.values())
    risk = solved.risk(sizes)
    effective = solved.effective(sizes)
    scores = solved.scores(effective, float(effective[0]))
    shown = _evenly(setting.steps, POINTS)
    share = solved.kappa / solved.kappa.max()
    return View(
        steps=[t + 1 for t in shown],
        rate=_at(solved.gamma, shown),
        kappa=_at(solved.kappa, shown),
        share=_at(share, shown),
        root=_at(np.sqrt(share), shown),
        summary="rho_eff" if setting.reuse else "B_eff",
        noise=solved.noise,
        schedules=[
            Schedule(
                name=name,
                batches=_at(batches, shown),
                samples=float(batches.sum()),
                effective=float(effective[row]),
                score=float(scores[row]),
                against_constant=solved.ratio(risk, row, CONSTANT),
                risk=solved.parts(risk, row),
            )
            for row, (name, batches) in enumerate(solved.schedules.items())
        ],
        stages=[Stage(**row) for row in solved.plan.stage_table()],
        prediction=dict(solved.plan.prediction),
        assumptions=list(solved.plan.assumptions),
        method=risk.method,
        trace=solved.problem.trace,
        relative_error=_finite(float(np.max(risk.uncertainty))),
        notes=_notes(solved, risk, scores),
    )


def _notes(solved: Solved, risk: Risk, scores: FloatArray) -> list[str]:
    """What a reader should know before using the numbers; that the mean field errs is shown."""
    found = [note for note in risk.notes if note != APPROXIMATE]
    for row, name in enumerate(solved.schedules):
        found = [note.replace(f" of schedule {row} ", f" of the {name} one ") for note in found]
    return [*found, *_misled(solved, risk, scores)]


def _misled(solved: Solved, risk: Risk, scores: FloatArray) -> list[str]:
    """A sentence where the summaries, which are right to first order, are far from the risks."""
    rows = [row for row in range(len(solved.schedules)) if row != CONSTANT]
    exact = {row: solved.ratio(risk, row, CONSTANT) for row in rows}
    summary = {row: float(scores[CONSTANT] / scores[row]) for row in rows}
    worst = max(rows, key=lambda row: abs(math.log(max(exact[row], 1e-12) / summary[row])))
    if abs(exact[worst] / summary[worst] - 1.0) <= FIRST_ORDER:
        return []
    return [
        f"the score is off here: by it the {list(solved.schedules)[worst]} schedule leaves "
        f"{summary[worst]:.3g} of the constant batch's noise, by its risk {exact[worst]:.3g}"
    ]


def along(setting: Setting) -> Along:
    """The risk after the updates so far, of each schedule."""
    solved = solve(setting)
    curves = _along(solved, list(solved.schedules.values()))
    return Along(
        steps=_evenly(setting.steps + 1, ALONG),
        paths=[
            Path(name=name, **curve.model_dump())
            for name, curve in zip(solved.schedules, curves, strict=True)
        ],
    )


def _along(solved: Solved, sizes: list[FloatArray]) -> list[Curves]:
    """Total and noise of each schedule after so many updates."""
    path = solved.setting.solver.expected(solved.problem, solved.gamma, sizes, trajectory=True)
    shown = _evenly(solved.gamma.size + 1, ALONG)
    total, noise = (
        np.asarray(getattr(path, part))[:, shown].tolist() for part in ("total", solved.noise)
    )
    return [Curves(total=t, noise=n) for t, n in zip(total, noise, strict=True)]


def score(setting: Setting, heights: FloatArray) -> Drawn:
    """A drawn schedule against the oracle: heights at evenly spaced steps."""
    solved = solve(setting)
    batches = stretched(setting, heights)
    effective = solved.effective([batches, solved.schedules["oracle"]])
    risk = solved.risk([batches, solved.schedules["constant"]])
    return Drawn(
        batches=_at(batches, _evenly(setting.steps, POINTS)),
        samples=float(batches.sum()),
        effective=float(effective[0]),
        score=float(solved.scores(effective, float(effective[1]))[0]),
        against_constant=solved.ratio(risk, 0, 1),
        risk=solved.parts(risk, 0),
        path=_along(solved, [batches])[0],
    )


def stretched(setting: Setting, heights: FloatArray) -> FloatArray:
    """Whole batches under the limits that come closest to the drawing, and spend the budget.

    Batches follow the square root of the influence that ``allocate`` is given: here the drawing.
    """
    at = np.linspace(0.0, 1.0, setting.steps)
    shape = np.interp(at, np.linspace(0.0, 1.0, heights.size), heights / heights.max())
    return best_whole(setting, shape**2)


def _evenly(steps: int, most: int) -> list[int]:
    """At most so many steps, 0-based, both ends among them: what a picture can show."""
    if steps <= most:
        return list(range(steps))
    return [math.floor(k * (steps - 1) / (most - 1)) for k in range(most)]


def _at(values: NDArray[Any], shown: list[int]) -> list[float]:
    found: list[float] = values[shown].tolist()
    return found


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
