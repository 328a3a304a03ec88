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
    member: Member, groups: Sequence[Group], weights: list[FloatArray], start: FloatArray
) -> Fit:
    from scipy import optimize

    low = np.array([p.inner(p.low) for p in member.shape])
    high = np.array([p.inner(p.high) for p in member.shape])
    expected = np.array([p.inner(p.expected) for p in member.shape])
    loss = float(np.mean([g.losses.mean() for g in groups]))
    belief = BELIEF * loss / np.array([p.spread for p in member.shape])

    def errors(x: FloatArray) -> FloatArray:
        return np.append(_projected(member, groups, weights, x)[2], belief * (x - expected))

    found = optimize.least_squares(
        errors,
        np.clip(start, low + 1e-9, high - 1e-9),
        bounds=(low, high),
        x_scale="jac",
        diff_step=STEP,
        max_nfev=MOST_EVALUATIONS,
    )
    factors, cost, _ = _projected(member, groups, weights, found.x)
    return Fit(member, found.x, factors, cost)
