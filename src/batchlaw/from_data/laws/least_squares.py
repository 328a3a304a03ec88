"""Separable least squares: the shape of a law by search, its terms' factors by linear algebra."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.from_data.laws.curves import Group
from batchlaw.from_data.laws.member import TERMS, Member

# Rounds of weights: errors beyond ``OUTLYING`` robust standard deviations count less (Huber).
ROUNDS, OUTLYING, LEAST_SPREAD = 2, 2.0, 1e-4
REFINED, MOST_EVALUATIONS = 2, 60
STEP = 1e-4
# What is expected of a parameter counts like errors of this share of the losses along one run.
BELIEF = 3e-4


@dataclass(frozen=True)
class Fit:
    """A member with its parameters.

    Attributes
    ----------
    member : Member
    coordinates : (k,) array
        Of the shape, as searched.
    factors : (3,) array
        Of ``TERMS``.
    cost : float
        Weighted sum of squared errors.
    """

    member: Member
    coordinates: FloatArray
    factors: FloatArray
    cost: float

    def curve(self, group: Group) -> FloatArray:
        return np.asarray(self.member.terms(group.rows, self.coordinates) @ self.factors)


def fit(member: Member, groups: Sequence[Group], starts: Sequence[FloatArray] | None = None) -> Fit:
    """The best of several searches; of the member's own starts only the most promising are used."""
    weights = [np.full(g.losses.size, g.weight) for g in groups]
    begun = list(starts) if starts is not None else member.starts()
    if starts is None:
        begun = sorted(begun, key=lambda x: _projected(member, groups, weights, x)[1])[:REFINED]
    best = min((_search(member, groups, weights, x) for x in begun), key=lambda f: f.cost)
    for _ in range(ROUNDS - 1):
        weights = _robust(best, groups)
        best = _search(member, groups, weights, best.coordinates)
    return best


def held(found: Fit, groups: Sequence[Group], index: int, coordinate: float) -> tuple[Fit, float]:
    """The best fit with one coordinate held, and its objective, in the weights of ``found``."""
    weights = _robust(found, groups)
    start = found.coordinates.copy()
    start[index] = coordinate
    other = _search(found.member, groups, weights, start, index)
    return other, objective(other, found, groups)


def objective(fit: Fit, weighted_as: Fit, groups: Sequence[Group]) -> float:
    """The sum of squares that is minimised, beliefs included, in the weights of another fit."""
    errors = _projected(fit.member, groups, _robust(weighted_as, groups), fit.coordinates)[2]
    beliefs = _beliefs(fit.member, groups, fit.coordinates)
    return float(errors @ errors + beliefs @ beliefs)


def _robust(found: Fit, groups: Sequence[Group]) -> list[FloatArray]:
    errors = [found.curve(g) - g.losses for g in groups]
    joined = np.concatenate(errors)
    spread = max(1.4826 * float(np.median(np.abs(joined))), LEAST_SPREAD)
    return [
        g.weight * np.minimum(1.0, OUTLYING * spread / np.maximum(np.abs(e), 1e-12))
        for g, e in zip(groups, errors, strict=True)
    ]


def _projected(
    member: Member, groups: Sequence[Group], weights: list[FloatArray], x: FloatArray
) -> tuple[FloatArray, float, FloatArray]:
    """The best factors of these terms, their cost, and the weighted errors."""
    from scipy import optimize

    root = np.sqrt(np.concatenate(weights))
    with np.errstate(all="ignore"):
        table = np.vstack([member.terms(g.rows, x) for g in groups]) * root[:, None]
    losses = np.concatenate([g.losses for g in groups]) * root
    if not np.isfinite(table).all():
        return np.zeros(len(TERMS)), np.inf, np.full(losses.size, 1e3)
    size = np.maximum(np.linalg.norm(table, axis=0), 1e-300)
    # The triangle of a QR decomposition has the same least squares in three rows.
    q, r = np.linalg.qr(table / size)
    factors = optimize.nnls(r, q.T @ losses)[0] / size
    errors = table @ factors - losses
    return factors, float(errors @ errors), errors


def _search(
    member: Member,
    groups: Sequence[Group],
    weights: list[FloatArray],
    start: FloatArray,
    held: int | None = None,
) -> Fit:
    """The nearest minimum; with ``held``, that coordinate stays at the start's."""
    from scipy import optimize

    low = np.array([p.inner(p.low) for p in member.shape])
    high = np.array([p.inner(p.high) for p in member.shape])
    free = np.arange(start.size) != held
    x = np.where(free, np.clip(start, low + 1e-9, high - 1e-9), start)

    def whole(moved: FloatArray) -> FloatArray:
        y = x.copy()
        y[free] = moved
        return y

    def errors(moved: FloatArray) -> FloatArray:
        y = whole(moved)
        return np.append(_projected(member, groups, weights, y)[2], _beliefs(member, groups, y))

    found = optimize.least_squares(
        errors,
        x[free],
        bounds=(low[free], high[free]),
        x_scale="jac",
        diff_step=STEP,
        max_nfev=MOST_EVALUATIONS,
    )
    best = whole(found.x)
    factors, cost, _ = _projected(member, groups, weights, best)
    return Fit(member, best, factors, cost)


def _beliefs(member: Member, groups: Sequence[Group], x: FloatArray) -> FloatArray:
    """What counts like an error for parameters that are not as expected."""
    expected = np.array([p.inner(p.expected) for p in member.shape])
    loss = float(np.mean([g.losses.mean() for g in groups]))
    return np.asarray(BELIEF * loss * (x - expected) / np.array([p.spread for p in member.shape]))
