r"""What is known of a law of loss curves: its parameters, their covariance, and its errors.

Everything is linear around the parameters theta: a loss moves by s . d theta with s its slopes
(`from_data/laws/bands.py`). With P the covariance, a run of n losses with the (n, k) table S adds
the information

.. math:: M = \frac{m}{n \epsilon^2} S^T S, \qquad P \leftarrow (P^{-1} + M)^{-1},

m = ``INDEPENDENT`` errors of size epsilon along a curve, as in the fit itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.from_data.laws.bands import INDEPENDENT, slopes
from batchlaw.from_data.laws.curves import FIRST, MOST_POINTS, ROWS, Rows, Scale
from batchlaw.from_data.laws.least_squares import BELIEF, Fit
from batchlaw.from_data.laws.member import ALPHA, BETA, TERMS, Member
from batchlaw.from_data.laws.training_law import BEYOND, TrainingLaw
from batchlaw.schedule.adam import Adam
from batchlaw.schedule.update_rule import UpdateRule

# Without a law: mean and spread of the logarithms of the delay and the memory, which cover both
# starts of a search (`SHAPE`).
UNKNOWN = {"delay": (math.log(0.05), 2.1), "memory": (math.log(1.4e-3), 2.6)}
# Without a law: shares of the final loss in the terms at the end of a run at the peak rate. Each
# factor has a standard deviation of its own size, the floor half of it.
SHARES = (0.7, 0.2, 0.1)
FLOOR_SPREAD = 0.5
# Without a law: the standard deviation of a run's losses around it, over the loss.
ERROR = 3e-3


@dataclass(frozen=True)
class Seen:
    """Batches that runs have shown: the smallest, the largest, the largest change within a run."""

    smallest: float
    largest: float
    change: float

    def covers(self, other: Seen) -> tuple[bool, bool, bool]:
        """Whether these include the other's smallest and largest batch, and its change."""
        return (
            self.smallest <= BEYOND * other.smallest,
            other.largest <= BEYOND * self.largest,
            other.change <= BEYOND * self.change,
        )

    @classmethod
    def of(cls, batches: FloatArray | IntArray) -> Seen:
        low, high = float(batches.min()), float(batches.max())
        return cls(low, high, high / low)


@dataclass(frozen=True, eq=False)
class Knowledge:
    """A law, how well its parameters are known, and how far losses are from it.

    Attributes
    ----------
    fit : Fit
    root : (k, k) array
        L with P = L L^T, the covariance of the shape's coordinates and the terms' factors.
    error
        epsilon, the standard deviation of a new run's losses around the law.
    misfit
        Standard deviation of the law's own error in a difference at the target, with the best
        parameters.
    seen : Seen or None
        None: no run has been seen.
    """

    fit: Fit
    root: FloatArray
    error: float
    misfit: float
    seen: Seen | None

    @classmethod
    def of_law(cls, law: TrainingLaw, rates: FloatArray, error: float | None = None) -> Knowledge:
        """From a fitted law, for a target run with these rates.

        A law of runs with one batch size has its batch exponents from theory; here they are
        unknown, with the spread that they have where a fit begins.
        """
        fit, P = law.fit, law.covariance
        if law.seen.largest_batch < 1.2 * law.seen.smallest_batch:
            fit, P = _with_batch_exponents(fit, P)
        level = max(float(np.sqrt(np.mean(law.misfit.fitted**2))), BELIEF * float(fit.factors[0]))
        seen = Seen(law.seen.smallest_batch, law.seen.largest_batch, law.seen.largest_change)
        return cls(
            fit,
            _root(P),
            math.hypot(level, law.misfit.seeds) if error is None else error,
            law.misfit.at(rates.size, float(rates.max())),
            seen,
        )

    @classmethod
    def of_nothing(
        cls,
        rule: UpdateRule,
        rates: FloatArray,
        batch: float,
        loss: float,
        error: float | None = None,
    ) -> Knowledge:
        """Before any run: the widest member, every parameter where and as wide as expected."""
        T = rates.size
        scale = Scale(float(rates.max()), batch, T, max(1, round(T / ROWS)))
        adam = isinstance(rule, Adam)
        member = Member(rule, scale, adam, norm=True, curvature=True, early_noise=True)
        expected = {p.name: (p.inner(p.expected), p.spread) for p in member.shape} | UNKNOWN
        x = np.array([expected[p.name][0] for p in member.shape])
        flat = Rows.of(np.full(T, scale.peak), np.full(T, batch), np.array([T]), scale)
        factors = loss * np.array(SHARES) / member.terms(flat, x)[0]
        spread = np.array([expected[p.name][1] for p in member.shape])
        own = factors * np.array([FLOOR_SPREAD, 1.0, 1.0])
        size = ERROR * loss if error is None else error
        return cls(Fit(member, x, factors, 0.0), np.diag(np.append(spread, own)), size, size, None)

    @property
    def member(self) -> Member:
        return self.fit.member

    def shortest(self) -> int:
        """Updates before which a fit looks at no loss."""
        return math.ceil(FIRST * self.member.scale.span)

    def losses(
        self, rates: FloatArray, batches: FloatArray | IntArray, steps: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Losses after ``steps`` updates, and their slopes times the root: (n,), (n, k)."""
        rows = Rows.of(rates, np.asarray(batches, dtype=np.float64), steps, self.member.scale)
        losses, table = slopes(self.fit, rows)
        return losses, table @ self.root

    def information(self, rates: FloatArray, batches: FloatArray | IntArray) -> FloatArray:
        """L^T M L of a run: (k, k)."""
        first = min(max(self.shortest(), 1), rates.size)
        steps = np.unique(np.linspace(first, rates.size, MOST_POINTS).astype(np.int64))
        _, table = self.losses(rates, batches, steps)
        return np.asarray(INDEPENDENT / (steps.size * self.error**2) * table.T @ table)

    def final(self, rates: FloatArray, batches: FloatArray | IntArray) -> tuple[float, FloatArray]:
        """The loss after the last update, and its slopes times the root: (k,)."""
        losses, table = self.losses(rates, batches, np.array([rates.size]))
        return float(losses[0]), table[0]


def _with_batch_exponents(fit: Fit, P: FloatArray) -> tuple[Fit, FloatArray]:
    """The same law with free exponents of the batch, which stand last in the shape."""
    member = replace(fit.member, batch_exponents=True)
    k = fit.coordinates.size
    known = {ALPHA.name: 0.0, BETA.name: 1.0}
    wider = np.zeros((k + 2 + len(TERMS), k + 2 + len(TERMS)))
    old = np.r_[0:k, k + 2 : k + 2 + len(TERMS)]
    wider[np.ix_(old, old)] = P
    wider[k, k], wider[k + 1, k + 1] = ALPHA.spread**2, BETA.spread**2
    x = np.append(fit.coordinates, [known[p.name] for p in member.shape[k:]])
    return Fit(member, x, fit.factors, fit.cost), wider


def _root(P: FloatArray) -> FloatArray:
    """L with L L^T = P, from the correlations: units differ by many powers of ten."""
    scale = np.sqrt(np.maximum(np.diag(P), 1e-300))
    values, vectors = np.linalg.eigh(P / np.outer(scale, scale))
    return np.asarray(scale[:, None] * vectors * np.sqrt(np.maximum(values, 0.0)))
