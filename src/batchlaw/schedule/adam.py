"""Adam, AdamW and RMSProp as an update rule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.words import REAL, TEXT, Word
from batchlaw.schedule.averages import FORMS, readout
from batchlaw.schedule.update_rule import WORD, UpdateRule

# The coordinates in which Adam works; it is not rotation invariant.
SKETCH, SKETCH_DIAGONAL, EIGEN, GENERIC = BASES = (
    "sketch",
    "sketch-diagonal",
    "eigen",
    "generic",
)


@dataclass(frozen=True, eq=False)
class Adam(UpdateRule):
    """Adam with decoupled weight decay; created by ``bl.adam``.

    With the batch gradient G_t, per coordinate and with corrected moments::

        m <- beta1 m + (1 - beta1) G_t        m_hat = m / (1 - beta1^t)
        v <- beta2 v + (1 - beta2) G_t^2      v_hat = v / (1 - beta2^t)
        u <- (1 - gamma_t weight_decay) u - gamma_t m_hat / (sqrt(v_hat) + eps)

    Attributes
    ----------
    beta1
        Decay of the first moment, in [0, 1); 0 is RMSProp.
    beta2
        Decay of the second moment, in [0, 1).
    eps
        Added to the square root of the second moment.
    weight_decay
        lambda of AdamW (decoupled).
    average
        Weights on the iterates u_1..u_T, or "tail:0.5", "ema:0.99"; None for the last iterate.
    basis
        "sketch": the coordinates of a drawn problem's sketch; "sketch-diagonal": the same, solved
        approximately in O(M^2) per step; "eigen": those in which Sigma is diagonal; "generic": one
        scale for all coordinates, the limit of a random basis.
    """

    name: ClassVar[str] = "adam"
    # A batch also changes the scales of later updates, through the second moments.
    has_influence: ClassVar[bool] = False

    beta1: float = field(
        default=0.9,
        metadata={WORD: Word("beta1", REAL, "beta1 of Adam; 0 is RMSProp.", low=0, high=0.9999)},
    )
    beta2: float = field(
        default=0.999,
        metadata={WORD: Word("beta2", REAL, "beta2 of Adam.", low=0, high=0.999999)},
    )
    eps: float = field(
        default=1e-8,
        metadata={WORD: Word("eps", REAL, "eps of Adam, added to the root.", low=0, high=1e6)},
    )
    weight_decay: float = field(
        default=0.0,
        metadata={
            WORD: Word(
                "weight_decay", REAL, "Decoupled weight decay; 0 by default, 0.01 for adamw.", low=0
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
    basis: str = field(
        default=SKETCH,
        metadata={
            WORD: Word("basis", TEXT, f"The coordinates in which Adam works: {', '.join(BASES)}.")
        },
    )

    def __post_init__(self) -> None:
        for name in ("beta1", "beta2"):
            checks.real(name, getattr(self, name), at_least=0.0, below=1.0)
        for name in ("eps", "weight_decay"):
            checks.real(name, getattr(self, name), at_least=0.0)
        checks.choice("basis", self.basis, BASES)
        if isinstance(self.average, str):
            readout(self.average, 1)

    @property
    def plain(self) -> bool:
        return False

    @property
    def in_sketch(self) -> bool:
        """Whether it works in a sketch's own coordinates, which only drawn problems have."""
        return self.basis in (SKETCH, SKETCH_DIAGONAL)

    @property
    def averages(self) -> bool:
        """Whether the result is anything but the last iterate."""
        if isinstance(self.average, str):
            return self.average != "last"
        return self.average is not None

    def readout(self, steps: int) -> FloatArray | None:
        return readout(self.average, steps)

    @property
    def label(self) -> str:
        """ "Adam", "AdamW" or "RMSProp"."""
        if self.beta1 == 0.0:
            return "RMSProp"
        return "AdamW" if self.weight_decay else "Adam"

    def title(self, procedure: str) -> str:
        by = f" by {self.average}" if isinstance(self.average, str) else ""
        averaged = f", averaged{by}" if self.averages else ""
        named = procedure.replace("SGD", self.label).replace(
            "normal GD", f"full-batch {self.label}"
        )
        return f"{named} with betas {self.beta1:g} and {self.beta2:g}{averaged}"

    def assumption(self) -> str:
        result = "an average of its iterates" if self.averages else "its last iterate"
        return (
            f"{self.label} with betas {self.beta1:g} and {self.beta2:g} on a quadratic loss "
            f"and {result}, its second moments near their mean"
        )


def adam(
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    average: ArrayLike | str | None = None,
    basis: str = SKETCH,
) -> UpdateRule:
    """Adam, AdamW or RMSProp as an update rule, for ``rule=`` of every function that takes one.

    Parameters
    ----------
    beta1
        Decay of the first moment, in [0, 1); 0 is RMSProp.
    beta2
        Decay of the second moment, in [0, 1).
    eps
        Added to the square root of the second moment.
    weight_decay
        lambda of AdamW: every update also multiplies the weights by 1 - gamma_t lambda.
    average : (T,) array or str, optional
        Weights on the iterates u_1..u_T (``tail_average``, ``ema``), or "tail:0.5", "ema:0.99";
        the remainder to 1 is on u_0. None means the last iterate.
    basis
        The coordinates in which Adam works: "sketch" (a drawn problem's own), "sketch-diagonal"
        (the same, its mean field in O(M^2) instead of O(M^3) per step, with a further error),
        "eigen" (Sigma is diagonal) or "generic" (one scale for all, the limit of a random basis).
    """
    weights = average if average is None or isinstance(average, str) else np.asarray(average)
    return Adam(
        checks.real("beta1", beta1),
        checks.real("beta2", beta2),
        checks.real("eps", eps),
        checks.real("weight_decay", weight_decay),
        weights,
        basis,
    )
