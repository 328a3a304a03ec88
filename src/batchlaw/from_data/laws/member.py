r"""The family of laws: from SGD's clock to Adam's effective rate, weight norm and curvature.

After n updates

.. math::

    L_n = L_\infty + A\,(1 + \tau_n/\tau_0)^{-p}
        + C \sum_{s \le n} w_s\,\bigl(1 + (x_n - x_s)/r_0\bigr)^{-q}

with a clock of progress tau, a clock of forgetting x, and noise w that an update injects. With the
states of `_base/kernels/law_states.py`, e the effective rate, h the curvature, 1/B the batch:

    d tau = e h^(1 + psi)        d x = e h        w = e^2 h^2 / B (1 + (k - 1) (1 + tau/tau_0)^-p)

``Member.terms`` has it as a level e h / B that is approached in the clock x, with a memory of
exponent f = q - 1. SGD's law in the paper is e = g, h = 1, k = 1: tau = x = sum g, w = g^2/B,
p = (b-1)/a, q = 2 - 1/a. Every member adds something to another:

- *Adam*: e = g / sqrt(v), v the average of h/B with the memory of beta2;
- *norm*: e is divided by the norm of the weights, which grows with every update and shrinks by
  weight decay: normalised layers see the rate over the norm;
- *curvature*: h follows, within a lag, what the temperature e/B allows (sharp directions are left
  where noise is large), and both clocks slow down with it;
- *early noise*: k is free: the noise is larger or smaller while much is left to be learned;
- *rate exponents*: dx = e^theta h, w = e^(theta + omega) h^2 / B;
- *batch exponents*: in place of Adam and curvature, d tau = e B^alpha, and 1 / B^beta in w.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw._base.kernels.law_states import remaining, states
from batchlaw.from_data.laws.curves import Rows, Scale
from batchlaw.schedule.adam import Adam
from batchlaw.schedule.update_rule import UpdateRule

# Updates within which the curvature follows the batch. Constant batches hardly identify it; chosen
# on the benchmark of batch schedules, whose runs have 3000 updates.
LAG = 500.0
TERMS = ("floor", "progress", "hill")


@dataclass(frozen=True)
class Parameter:
    """A parameter of the shape: what it means, where its search starts and ends.

    ``expected`` and ``spread`` are what is known of it before a run is seen, the spread in the
    coordinate of the search: runs that do not identify it leave it there. No spread: nothing.
    """

    name: str
    meaning: str
    starts: tuple[float, ...]
    low: float
    high: float
    log: bool = True
    expected: float = 1.0
    spread: float = math.inf

    def inner(self, value: float) -> float:
        """In the coordinate of the search."""
        return math.log(value) if self.log else value

    def outer(self, coordinate: float) -> float:
        return math.exp(coordinate) if self.log else coordinate


# Starts of the first four belong together: one for long runs of large models, one for short runs.
SHAPE = (
    Parameter("power", "p, exponent of the progress", (0.6, 1.8), 0.05, 4.0, True, 0.6, 1.0),
    Parameter("delay", "tau_0, in clocks of the longest run", (0.006, 0.4), 1e-4, 30.0),
    Parameter("forgetting", "f, exponent of the memory", (0.5, 1.8), 0.02, 8.0, True, 0.5, 1.5),
    Parameter("memory", "r_0, in clocks of the longest run", (1e-4, 0.02), 1e-6, 10.0),
)
GROWTH = Parameter(
    "growth", "of the squared weight norm in a run", (60.0, 1.0), 1e-4, 1e5, True, 10.0, 2.0
)
OPENNESS = Parameter("openness", "temperature of half curvature", (0.5,), 1e-4, 1e3, True, 0.5, 2.0)
PSI = Parameter("psi", "progress beyond the curvature", (0.6,), -1.0, 2.5, False, 0.6, 1.0)
EARLY_NOISE = Parameter(
    "early noise", "noise at the start over that at the end", (1.0,), 0.05, 50.0, True, 1.0, 2.0
)
ALPHA = Parameter("alpha", "exponent of the batch in progress", (0.3,), -0.5, 2.0, False, 0.3, 1.0)
BETA = Parameter("beta", "exponent of 1/batch in the noise", (0.5,), -0.5, 2.5, False, 0.5, 1.0)
OMEGA = Parameter(
    "omega", "exponent of the rate in the noise that is left", (1.0,), 0.1, 3.0, False, 1.0, 0.3
)
THETA = Parameter(
    "theta", "exponent of the rate in the memory's clock", (1.0,), 0.0, 2.0, False, 1.0, 0.5
)


@dataclass(frozen=True)
class Member:
    """One law of the family, for one optimizer and scale."""

    rule: UpdateRule
    scale: Scale
    second_moment: bool = False
    norm: bool = False
    curvature: bool = False
    early_noise: bool = False
    rate_exponents: bool = False
    batch_exponents: bool = False

    @cached_property
    def name(self) -> str:
        parts = ["Adam's clock" if self.second_moment else "SGD's clock"]
        for flag in ("norm", "curvature", "early_noise", "rate_exponents", "batch_exponents"):
            if getattr(self, flag):
                parts.append(flag.replace("_", " "))
        return ", ".join(parts)

    @cached_property
    def shape(self) -> tuple[Parameter, ...]:
        return (
            *SHAPE,
            *((GROWTH,) if self.norm else ()),
            *((OPENNESS, PSI) if self.curvature else ()),
            *((EARLY_NOISE,) if self.early_noise else ()),
            *((OMEGA, THETA) if self.rate_exponents else ()),
            *((ALPHA, BETA) if self.batch_exponents else ()),
        )

    def starts(self) -> list[FloatArray]:
        """Where a search begins, in its coordinates."""
        linked = [[p.inner(p.starts[k]) for p in SHAPE] for k in (0, 1)]
        others = [[p.inner(value) for value in p.starts] for p in self.shape[len(SHAPE) :]]
        return [
            np.array([*first, *rest]) for first in linked for rest in itertools.product(*others)
        ]

    def values(self, coordinates: FloatArray) -> dict[str, float]:
        return {p.name: p.outer(float(x)) for p, x in zip(self.shape, coordinates, strict=True)}

    def states(self, rows: Rows, value: dict[str, float]) -> tuple[FloatArray, FloatArray]:
        """Effective rate and curvature of every row."""
        scale = self.scale
        beta2 = self.rule.beta2 if isinstance(self.rule, Adam) else 0.0
        decay = getattr(self.rule, "weight_decay", 0.0)
        e, h = states(
            rows.rates,
            rows.noise,
            float(scale.steps),
            beta2**scale.steps if self.second_moment else -1.0,
            value["growth"] / scale.span if self.norm else 0.0,
            decay * scale.peak if self.norm else 0.0,
            value["openness"] if self.curvature else -1.0,
            LAG / scale.steps,
        )
        return e, h

    def terms(self, rows: Rows, coordinates: FloatArray) -> FloatArray:
        """Columns of one, progress and hill at every loss; their factors are ``TERMS``."""
        value = self.values(coordinates)
        e, h = self.states(rows, value)
        share = self.scale.steps / self.scale.span
        progress = e * h ** (1.0 + value.get("psi", 0.0)) * share
        forgotten = e * h
        left = e * h * rows.noise
        if self.rate_exponents:
            forgotten = np.maximum(e, 1e-9) ** value["theta"] * h
            left = e ** value["omega"] * h * rows.noise
        if self.batch_exponents:
            progress = progress * rows.noise ** -value["alpha"]
            left = left * rows.noise ** (value["beta"] - 1.0)
        tau, clock = _sums(progress), _sums(forgotten * share)
        power, delay = value["power"], value["delay"]
        if self.early_noise:
            todo = (1.0 + tau[:-1] / delay) ** -power
            left = left * (1.0 + (value["early noise"] - 1.0) * todo)
        hill = remaining(
            rows.read(clock), rows.whole, clock, left, value["memory"], value["forgetting"]
        )
        return np.column_stack([np.ones(hill.size), (1.0 + rows.read(tau) / delay) ** -power, hill])


def _sums(values: FloatArray) -> FloatArray:
    return np.append(0.0, np.cumsum(values))


def members(rule: UpdateRule, scale: Scale, several_batches: bool) -> list[Member]:
    """The laws that runs with one or with several batch sizes can tell apart, simplest first."""
    adam = isinstance(rule, Adam)
    own = Member(rule, scale, second_moment=adam)
    found = [Member(rule, scale)]
    if several_batches:
        found += [
            Member(rule, scale, batch_exponents=True),
            Member(rule, scale, norm=True, batch_exponents=True, rate_exponents=True),
            *([own] if adam else []),
            Member(rule, scale, adam, norm=True),
            Member(rule, scale, adam, curvature=True),
            Member(rule, scale, adam, norm=True, curvature=True),
            Member(rule, scale, adam, norm=True, curvature=True, early_noise=True),
        ]
    else:
        found += [
            Member(rule, scale, norm=True),
            Member(rule, scale, norm=True, early_noise=True),
            Member(rule, scale, norm=True, rate_exponents=True),
            Member(rule, scale, norm=True, early_noise=True, rate_exponents=True),
        ]
    return found
