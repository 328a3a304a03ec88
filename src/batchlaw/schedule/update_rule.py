"""Update rules: how gradients become a step, and how iterates become a result.

``SGD`` covers plain SGD, heavy ball and Nesterov as one linear recursion. For one eigendirection
with error e, velocity v and gradient G = mu y + noise,

    y  = e + look v          where the gradient is taken
    v' = keep v + gain G
    e' = e + drag v + push G

A row of ``SGD.coefficients`` is (look, keep, gain, drag, push).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError, Unstable, arg
from batchlaw._base.words import FLAG, REAL, TEXT, Word
from batchlaw.schedule.averages import FORMS, readout

# Metadata key under which a field of an update rule keeps its ``Word``.
WORD = "word"


@dataclass(frozen=True, eq=False)
class UpdateRule(ABC):
    """How gradients become an update. Each solver declares which rules it supports.

    To add a rule, write a subclass whose options are fields with a ``Word`` in their metadata,
    and pass it to ``register_rule``.
    """

    name: ClassVar[str]
    # Whether a batch acts on the final risk through the noise of its own update only, so that each
    # update has an influence.
    has_influence: ClassVar[bool] = True

    @property
    @abstractmethod
    def plain(self) -> bool:
        """Whether it is SGD without momentum, read out at the last iterate."""

    @property
    def changed(self) -> tuple[str, ...]:
        """The options that differ from their defaults."""
        return tuple(
            option.name
            for option in fields(self)
            if not _equals(getattr(self, option.name), option.default)
        )

    @property
    def departure(self) -> str:
        """The argument that makes it differ from plain SGD: an option, or the rule itself."""
        return next(iter(self.changed), "rule")

    @abstractmethod
    def readout(self, steps: int) -> FloatArray | None:
        """Weights on the averaged iterates; None for the last iterate."""

    @abstractmethod
    def title(self, procedure: str) -> str:
        """The title of a procedure run with this rule."""

    @abstractmethod
    def assumption(self) -> str:
        """What a plan for this rule assumes, as a sentence without a full stop."""


@dataclass(frozen=True, eq=False)
class SGD(UpdateRule):
    """SGD with optional momentum and averaging; created by ``bl.sgd``.

    Attributes
    ----------
    momentum
        beta, one number or one per step, each in [0, 1).
    nesterov
        Whether the gradient is taken at e + beta d instead of e (heavy ball).
    pytorch
        Whether the velocity sums plain gradients and is multiplied by the current rate, as in
        torch.optim.SGD. The two forms agree only at a constant rate.
    average
        Weights on the iterates u_1..u_T, or "tail:0.5", "ema:0.99"; None for the last iterate.
    """

    name: ClassVar[str] = "sgd"

    momentum: float | FloatArray = field(
        default=0.0,
        metadata={
            WORD: Word(
                "momentum", REAL, "beta of SGD; 0 by default, 0.9 for momentum.", low=0, high=0.999
            )
        },
    )
    nesterov: bool = field(
        default=False,
        metadata={WORD: Word("nesterov", FLAG, "Nesterov's momentum instead of heavy ball.")},
    )
    pytorch: bool = field(
        default=False,
        metadata={
            WORD: Word(
                "pytorch",
                FLAG,
                "The velocity is multiplied by the current rate, as in torch.optim.SGD.",
            )
        },
    )
    average: FloatArray | str | None = field(
        default=None,
        metadata={
            WORD: Word(
                "average", TEXT, f"What is read out of the iterates: {FORMS}; last by default."
            )
        },
    )

    def __post_init__(self) -> None:
        beta = np.asarray(self.momentum, dtype=np.float64)
        if beta.ndim > 1:
            raise InputError(
                "momentum", "must be one number or one per rate", f"shape {beta.shape}"
            )
        if not ((beta >= 0.0) & (beta < 1.0)).all():
            wrong = next(x for x in np.atleast_1d(beta).tolist() if not 0.0 <= x < 1.0)
            raise InputError("momentum", "must lie in [0, 1)", f"{wrong}")
        for form in ("nesterov", "pytorch"):
            if getattr(self, form) and not beta.any():
                raise InputError(form, f"is a form of {arg('momentum')}, which is zero")
        if isinstance(self.average, str):
            readout(self.average, 1)

    @property
    def plain(self) -> bool:
        return not np.any(self.momentum) and not self.averages

    @property
    def averages(self) -> bool:
        """Whether the result is anything but the last iterate."""
        if isinstance(self.average, str):
            return self.average != "last"
        return self.average is not None

    def momenta(self, steps: int) -> FloatArray:
        """beta of every step."""
        beta = np.atleast_1d(np.asarray(self.momentum, dtype=np.float64))
        if beta.shape not in ((1,), (steps,)):
            raise InputError(
                "momentum",
                f"must be one number or one for each of the {steps} rates",
                f"shape {beta.shape}",
            )
        return np.broadcast_to(beta, (steps,)).copy()

    def coefficients(self, rates: FloatArray) -> FloatArray:
        """(look, keep, gain, drag, push) of every step, as a (T, 5) array.

        Heavy ball moves by d' = beta d - gamma G and Nesterov takes G at e + beta d. With
        ``pytorch`` v' = beta v + G and e' = e - gamma v', or e - gamma (G + beta v') for
        Nesterov, G always at e.
        """
        gamma, beta = rates, self.momenta(rates.size)
        zero = np.zeros_like(gamma)
        if self.pytorch:
            drag, push = (
                (-gamma * beta**2, -gamma * (1.0 + beta))
                if self.nesterov
                else (-gamma * beta, -gamma)
            )
            return np.stack([zero, beta, np.ones_like(gamma), drag, push], axis=1)
        return np.stack([beta if self.nesterov else zero, beta, -gamma, beta, -gamma], axis=1)

    def readout(self, steps: int) -> FloatArray | None:
        return readout(self.average, steps)

    def weights(self, steps: int) -> FloatArray:
        """Weights on the iterates, also if the result is the last iterate."""
        weights = self.readout(steps)
        return np.append(np.zeros(steps - 1), 1.0) if weights is None else weights

    def title(self, procedure: str) -> str:
        if np.any(self.momentum):
            form = "Nesterov" if self.nesterov else "heavy-ball"
            beta = f" {self.momentum:g}" if np.ndim(self.momentum) == 0 else ""
            shape = " in PyTorch's form" if self.pytorch else ""
            procedure += f" with {form} momentum{beta}{shape}"
        by = f" by {self.average}" if isinstance(self.average, str) else ""
        return f"{procedure}, averaged{by}" if self.averages else procedure

    def assumption(self) -> str:
        moving, averaged = bool(np.any(self.momentum)), self.averages
        method = "plain SGD on a quadratic loss"
        if moving:
            form = "Nesterov's" if self.nesterov else "heavy-ball"
            beta = f" {self.momentum:g}" if np.ndim(self.momentum) == 0 else ""
            scaled = ", the velocity times the current rate" if self.pytorch else ""
            method = f"SGD with {form} momentum{beta}{scaled}, on a quadratic loss"
        result = "an average of its iterates" if averaged else "its last iterate"
        absent = [*(["momentum"] if not moving else []), *(["averaging"] if not averaged else [])]
        without = f"{', '.join(absent)} or adaptive steps" if absent else "adaptive steps"
        return f"{method} and {result}, without {without}"


@dataclass(frozen=True)
class Optimizer:
    """A rule under a name, with the options that the name presets; the first one marks it."""

    kind: type[UpdateRule]
    presets: Mapping[str, Any] = field(default_factory=dict)

    @property
    def mark(self) -> str:
        """The option that tells the optimizer from the plain rule; empty for the rule itself."""
        return next(iter(self.presets), "")


RULES: dict[str, type[UpdateRule]] = {}
OPTIMIZERS: dict[str, Optimizer] = {}


def register_rule(kind: type[UpdateRule], **presets: Mapping[str, Any]) -> type[UpdateRule]:
    """Add a rule; every interface then offers its name and options.

    Parameters
    ----------
    kind
        The rule; its name is also that of an optimizer.
    **presets
        Further optimizers: the rule with these options in place of its defaults.
    """
    RULES[kind.name] = kind
    OPTIMIZERS[kind.name] = Optimizer(kind)
    OPTIMIZERS.update({name: Optimizer(kind, options) for name, options in presets.items()})
    return kind


register_rule(SGD, momentum={"momentum": 0.9, "pytorch": True})


def sgd(
    momentum: float | ArrayLike = 0.0,
    nesterov: bool = False,
    pytorch: bool = False,
    average: ArrayLike | str | None = None,
) -> UpdateRule:
    """SGD as an update rule, for ``rule=`` of every function that takes one.

    Parameters
    ----------
    momentum
        beta, one number or one per step, each in [0, 1).
    nesterov
        Nesterov's momentum: the gradient is taken at e + beta d instead of e (heavy ball).
    pytorch
        The velocity sums plain gradients and is multiplied by the current rate, as in
        torch.optim.SGD. The two forms agree only at a constant rate.
    average : (T,) array or str, optional
        Weights on the iterates u_1..u_T (``tail_average``, ``ema``), or "tail:0.5", "ema:0.99";
        the remainder to 1 is on u_0. None means the last iterate.
    """
    beta = np.asarray(momentum, dtype=np.float64)
    weights = average if average is None or isinstance(average, str) else np.asarray(average)
    return SGD(float(beta) if beta.ndim == 0 else beta, nesterov, pytorch, weights)


def rule_of(rule: UpdateRule | None, **shorthand: Any) -> UpdateRule:
    """The rule itself, or ``sgd`` with the shorthand keywords; giving both is refused."""
    defaults = {f.name: f.default for f in fields(SGD) if f.default is not MISSING}
    given = [name for name, value in shorthand.items() if not _equals(value, defaults[name])]
    if rule is None:
        return sgd(**shorthand)
    if given:
        raise InputError(given[0], f"is part of {arg('rule')}: give one or the other")
    if not isinstance(rule, UpdateRule):
        raise InputError("rule", "must be an update rule, such as bl.sgd()", repr(rule)[:60])
    return rule


def _equals(value: Any, default: Any) -> bool:
    return value is default or (np.ndim(value) == 0 and bool(value == default))


PLAIN = SGD()


def linear(rule: UpdateRule | None, solver: str) -> SGD:
    """Check that the rule is a linear recursion, as ``solver`` needs; None means plain SGD."""
    if rule is None:
        return PLAIN
    if not isinstance(rule, SGD):
        raise InputError("rule", f"must be a form of SGD for {solver}", rule.name)
    return rule


def check_stable(rates: ArrayLike, largest_eigenvalue: float, rule: SGD = PLAIN) -> FloatArray:
    """Check that the mean contracts in every direction; ``Unstable`` if not.

    At a fixed rate the condition is gamma mu < 2 (1 + beta) for heavy ball and
    gamma mu < 2 (1 + beta)/(1 + 2 beta) for Nesterov, in either form.
    """
    gamma = checks.vector("rates", rates)
    beta = rule.momenta(gamma.size)
    limit = 2.0 * (1.0 + beta) / (1.0 + 2.0 * beta if rule.nesterov else 1.0)
    over = gamma * largest_eigenvalue / limit
    if over.max() >= 1.0:
        t = int(over.argmax())
        label = "2" if not beta.any() else f"{limit[t]:.6g}"
        raise Unstable(
            "rates",
            f"is unstable: {label} / largest eigenvalue is {limit[t] / largest_eigenvalue:.6g}",
            subject=f"peak rate {gamma[t]:.6g}",
        )
    if not gamma.any():
        raise InputError("rates", "must not all be zero")
    return gamma
